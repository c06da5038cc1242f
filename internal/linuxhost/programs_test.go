package linuxhost

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// counted has bash count what a script starts: programs that it looks for are stand-ins that log
// their names, and each shell that runs a command traces its process.
const counted = `ROOT=%
command_not_found_handle() { echo "$1" >>"$ROOT/programs"; return 127; }
PATH=$ROOT/counted
exec 19>>"$ROOT/shells"
PS4='+$BASHPID '
BASH_XTRACEFD=19
set -x
`

// count returns how often a script started programs, by their names, and how many shells ran.
func (s *sandbox) count(t *testing.T, script string) (programs map[string]int, shells int) {
	t.Helper()
	for _, name := range []string{
		"awk", "base64", "cat", "containerd", "crictl", "curl", "cut", "date", "df", "dirname", "du",
		"etcdctl", "find", "flock", "grep", "head", "mktemp", "rm", "sed", "sha256sum", "sort", "stat",
		"systemctl", "tail", "tr", "uname", "wc", "xargs",
	} {
		runs := s.root + "/stand-in/" + name
		if _, err := os.Stat(runs); err != nil {
			if runs, err = exec.LookPath(name); err != nil {
				runs = "false"
			}
		}
		log := "#!/bin/bash\necho " + name + " >>" + s.root + "/programs\n"
		s.write(t, "/counted/"+name, log+"PATH="+os.Getenv("PATH")+" exec "+runs+" \"$@\"\n")
	}
	s.write(t, "/programs", "")
	s.write(t, "/shells", "")
	if printed, code := s.run(t, strings.Replace(counted, "%", s.root, 1)+script); code != 0 {
		t.Fatal(printed)
	}
	programs = map[string]int{}
	for name := range strings.FieldsSeq(s.read("/programs")) {
		programs[name]++
	}
	seen := map[string]bool{}
	for line := range strings.Lines(s.read("/shells")) {
		if traced := strings.TrimLeft(line, "+"); traced != line {
			pid, _, _ := strings.Cut(traced, " ")
			seen[pid] = true
		}
	}
	return programs, len(seen)
}

// TestProgramsOfALook counts what a look at a host starts: thousands of hosts are looked at every few
// seconds. Who adds a program or a subshell here has a reason to.
func TestProgramsOfALook(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	g := s.goal(t, "v1.36.3")
	s.write(t, "/etc/kubernetes/kubelet.conf", "    server: https://x:6443\n"+
		"    certificate-authority: "+s.root+"/ca\n    client-certificate: "+s.root+"/own\n")
	s.write(t, "/var/lib/etcd/member/snap/db", "x")
	s.write(t, "/var/lib/containerd/x", "x")
	s.write(t, StateFolder+"/job/id", "another first 1 x\n")
	for name, test := range map[string]struct {
		script   func() string
		programs map[string]int
		shells   int
	}{
		"facts": {func() string { return FactsScript(g) }, map[string]int{
			"base64": 2, "cat": 1, "containerd": 1, "crictl": 1, "curl": 1, "df": 1, "du": 1, "etcdctl": 1,
			"flock": 1, "grep": 1, "mktemp": 2, "rm": 2, "stat": 3, "systemctl": 2, "tail": 1, "tr": 1,
			"uname": 1,
		}, 23},
		"checks": {func() string {
			steps, _, refused := s.look(t, g, "1")
			if refused != nil {
				t.Fatal(refused)
			}
			return ChecksScript(steps)
		}, map[string]int{"head": 1, "sha256sum": 1, "stat": 4, "systemctl": 2}, 26},
		"identity": {func() string { return IdentityScript(g) }, map[string]int{"sed": 2}, 3},
	} {
		programs, shells := s.count(t, test.script())
		if diff := cmp.Diff(test.programs, programs); diff != "" || shells != test.shells {
			t.Errorf("%s: %d shells, want %d; programs (-want +got):\n%s", name, shells, test.shells, diff)
		}
	}
}
