//go:build linux

package real_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/programs"
)

// TestDemo runs "windlass-lab demo --real", and reads its report.
func TestDemo(t *testing.T) {
	output := runLab(t, "demo", "--real")
	expect(t, output,
		"The observed operations are the planned ones.",
		"5 machines kept the UIDs of their Machine and their Node; the others were replaced, as planned.",
		"All are at the target: Kubernetes v1.36.3 with etcd ",
		"Each of the 3 members of etcd, asked alone, returns all ",
	)
	if n := len(regexp.MustCompile(`(?m)the same$`).FindAllString(output, -1)); n != 5 {
		t.Errorf("%d machines are the same, want 5", n)
	}
	if n := len(
		regexp.MustCompile(`(?m)^\S+ +v1\.36\.3 +v1\.36\.3 +3\.`).FindAllString(output, -1),
	); n != 3 {
		t.Errorf("%d control plane machines report the target, want 3", n)
	}
	// Unavailable in total, and the longest outage, of writes and of reads.
	if !availability.MatchString(output) {
		t.Errorf("the output does not have a match of %s", availability)
	}
}

// availability matches the table of how the client of a cluster fared.
var availability = regexp.MustCompile(`(?m)^ +SUCCEEDED +FAILED +OUTAGES +UNAVAILABLE +LONGEST +SLOWEST ANSWER
writes( +[1-9]\d*)( +\d+){2}( +\d+\.\d s){3}
reads( +[1-9]\d*)( +\d+){2}( +\d+\.\d s){3}$`)

// TestRehearse has "windlass-lab rehearse --real" upgrade a user's cluster on hosts.
func TestRehearse(t *testing.T) {
	output := runLab(t, "rehearse", "--real", "-f", "testdata/user", "--to", "v1.36.3")
	expect(t, output,
		"Note: infrastructure is on this machine: HostCluster and HostMachine stand for AcmeCluster and AcmeMachine",
		"Note: the manifests do not hold AcmeMachineTemplate worker, which ClusterClass standard names",
		"Note: preKubeadmCommands of a kubeadm config is left out: ",
		"Note: the argument cloud-provider is left out: ",
		"Note: patch zone is left out where it is about infrastructure",
		"The observed operations are the planned ones.",
		"All machines were replaced, as planned.",
		"All are at the target: Kubernetes v1.36.3 with etcd ",
		"The only member of etcd returns all ",
	)
}

// guide is the page of the lab, of which TestUpReal runs sections.
const guide = repository + "/docs/how-to/use-the-lab.md"

// TestUpReal has "windlass-lab up --real" create a cluster, and follows the guide: it logs in to a
// host, asks the updater there what it would do, and cuts the power of a host.
func TestUpReal(t *testing.T) {
	lab := newLab(t)
	output := lab.run(t, "up", "--real")
	kubeconfig := filepath.Join(lab.state, "workload", "kubeconfig")
	expect(t, output, "The cluster is up.", "kubectl --kubeconfig "+kubeconfig+" get nodes")
	expect(t, lab.run(t, "up", "--real"), "The cluster is running already",
		"kubectl --kubeconfig "+kubeconfig+" get nodes")
	checkCommands(t, output)
	const kubectl = `windlass-lab --state-dir "$state" kubectl -- -n real `
	const ofControlPlane = `hostmachines -l cluster.x-k8s.io/control-plane ` +
		`-o 'jsonpath={.items[0].%s}'`
	first := func(field string) string {
		return lab.bash(t, kubectl+"get "+fmt.Sprintf(ofControlPlane, field))
	}
	replacer := strings.NewReplacer(
		"ADDRESS", first("status.addresses[0].address"), "NAME", first("metadata.name"),
	)
	// Nobody types at the shell of the host.
	login := strings.Replace(readSection(t, "### Log in to a host"),
		"root@ADDRESS", "root@ADDRESS kubelet --version", 1)
	expect(t, lab.bash(t, replacer.Replace(login)),
		"Kubernetes v1.35.4", "kubeadm-upgrade", "v1.36.3")
	const await = kubectl + "wait hostmachine NAME --for=condition=Ready --timeout=120s"
	lab.bash(t, replacer.Replace(readSection(t, "### Break a host")+await))
	lab.run(t, "down")
	lab.checkGone(t)
}

// checkCommands runs commands that "windlass-lab up --real" prints, in the same folder. The upgrade
// is a dry run.
func checkCommands(t *testing.T, output string) {
	t.Helper()
	run := func(pattern, more string) string {
		command := regexp.MustCompile(`(?m)^  (.*` + pattern + `.*?)( -w)?$`).FindStringSubmatch(output)
		if command == nil {
			t.Fatalf("no command that is printed matches %q", pattern)
		}
		script := command[1] + more
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", script)
		export := regexp.MustCompile(`(?m)^  export (KUBECONFIG=.*)$`).FindStringSubmatch(output)
		if export == nil {
			t.Fatal("no command that is printed exports KUBECONFIG")
		}
		cmd.Env = append(os.Environ(), export[1])
		var stderr strings.Builder
		cmd.Stderr = &stderr
		result, err := cmd.Output()
		if err != nil {
			t.Errorf("%s\n%v\n%s%s", script, err, result, &stderr)
		}
		return string(result)
	}
	const version = " --dry-run=server -o 'jsonpath={.spec.topology.version}'"
	if patched := run(" patch cluster ", version); patched != "v1.36.3" {
		t.Errorf("the patch that is printed sets the version %q, want v1.36.3", patched)
	}
	if seen := run(" status real ", ""); !strings.Contains(seen, "v1.35.4") {
		t.Errorf("the status of the cluster has no v1.35.4:\n%s", seen)
	}
	if seen := run("windlass-lab .*status", ""); !strings.Contains(seen, "Phase:       Running") {
		t.Errorf("the management cluster does not run:\n%s", seen)
	}
}

// readSection returns the commands in a section of the guide.
func readSection(t *testing.T, heading string) string {
	t.Helper()
	page, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), heading+"\n")
	section, _, _ = strings.Cut(section, "\n##")
	var commands strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		commands.WriteString(block[1])
	}
	if !found || commands.Len() == 0 {
		t.Fatalf("%s has no commands in %q", guide, heading)
	}
	return commands.String()
}

// runLab runs windlass-lab, which must succeed and leave nothing running, and returns what it
// prints.
func runLab(t *testing.T, verb string, args ...string) string {
	t.Helper()
	lab := newLab(t)
	output := lab.run(t, append([]string{verb}, args...)...)
	lab.checkGone(t)
	return output
}

// lab is windlass-lab with a state directory, in the folder in which its user works.
type lab struct {
	programs.Paths
	folder, state string
}

// newLab builds windlass-lab. What runs is stopped when the test ends.
func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" || os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("set WINDLASS_E2E=1 and WINDLASS_LONG=1 to upgrade a real cluster by windlass-lab")
	}
	hosts.Require(t)
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(programs.FolderVariable) == "" {
		// windlass-lab looks for it in its own folder.
		runtime := filepath.Join(filepath.Dir(paths.Lab), programs.Runtime)
		if err := programs.Compile(
			t.Context(), "../../..", runtime, "./cmd/"+programs.Runtime,
		); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	l := &lab{Paths: paths, folder: folder, state: filepath.Join(folder, ".windlass", "lab")}
	t.Cleanup(func() {
		// Something runs only if a command was killed, or the test failed.
		down := l.command(context.WithoutCancel(t.Context()), "down")
		if output, err := down.CombinedOutput(); err != nil {
			t.Errorf("windlass-lab down: %v\n%s", err, output)
		}
	})
	return l
}

func (l *lab) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, l.Lab, append(args,
		"--windlass", l.Windlass, "--source", repository, "--state-dir", l.state)...)
}

// run runs windlass-lab, which must succeed, and returns what it prints.
func (l *lab) run(t *testing.T, args ...string) string {
	t.Helper()
	output, err := l.command(t.Context(), args...).CombinedOutput()
	t.Logf("windlass-lab %s\n%s", strings.Join(args, " "), output)
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

// bash runs commands as a user does in a clone of the repository, and returns what they print. Each
// must succeed. The folder is no clone, so commands that name no state directory fail.
func (l *lab) bash(t *testing.T, commands string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", `set -o pipefail
state=.windlass/lab
windlass-lab() { "$LAB" "$@"; }
windlass() { "$WINDLASS" "$@"; }
`+commands)
	cmd.Dir, cmd.Env = l.folder, append(os.Environ(), "LAB="+l.Lab, "WINDLASS="+l.Windlass)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", commands, err, output)
	}
	return string(output)
}

// checkGone checks that there are no files of a cluster.
func (l *lab) checkGone(t *testing.T) {
	t.Helper()
	if left, err := filepath.Glob(l.state + "/*"); err != nil || len(left) > 0 {
		t.Errorf("the state directory still has %q: %v", left, err)
	}
}

func expect(t *testing.T, output string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(output, want) {
			t.Errorf("the output does not have %q", want)
		}
	}
}
