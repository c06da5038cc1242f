package linuxhost

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

// heldSystemctl is a service that ends whenever it is started, unless the file good exists. It logs
// what changes it, and counts the starts.
const heldSystemctl = `cd "${0%/*}"
case "$*" in
  *InvocationID*) grep -c start log.all 2>/dev/null ;;
  *NRestarts*--value*) echo 0 ;;
  *NRestarts*) [ -e good ] && printf "NRestarts=0\nMainPID=$RUNNING\nSubState=running\n" ||
    { [ -e starts ] && echo NRestarts=0 || echo SubState=auto-restart; } ;;
  *SubState*) cat state 2>/dev/null || echo auto-restart ;;
  *MainPID*) echo $RUNNING ;;
  is-active*) [ -e good ] ;;
  stop*) echo dead >state; echo "$*" >>log ;;
  start* | restart*) rm -f state; echo "$*" | tee -a log >>log.all ;;
esac
`

const (
	keptNode   = StateFolder + "/keep/node"
	notStarted = StateFolder + "/keep/not-started"
	putBackHas = StateFolder + "/keep/put-back"
	newKubelet = "#!/bin/bash\necho Kubernetes v1.36.3\n"
	oldKubelet = "#!/bin/bash\necho Kubernetes v1.35.4\n"
)

// newHeldHost makes a host whose new kubelet does not stay up. What it ran with before is kept.
// systemd-run records what it is to run.
func newHeldHost(t *testing.T) *folderHost {
	t.Helper()
	h := newFolderHost(t, map[string]string{
		"/etc/default/kubelet":               "new\n",
		keptNode + "/program":                oldKubelet,
		keptNode + "/digest":                 string(digestOf([]byte(oldKubelet))) + "\n",
		keptNode + "/version":                "Kubernetes v1.35.4\n",
		keptNode + "/files/placeholder/kept": "",
	}, map[string]string{
		"systemctl": heldSystemctl, "journalctl": "echo failed: --bad=1\n",
		"sleep":       `echo "sleep $*" >>"${0%/*}/log"` + "\n",
		"systemd-run": `cd "${0%/*}"; [ ! -e refuses ] || exit 1; printf %s "${!#}" >later` + "\n",
		// Bash runs the test's scripts: a kubelet that is it would be the running one.
		"kubelet": strings.TrimPrefix(newKubelet, "#!/bin/bash\n"),
	})
	old := h.root + "/etc/default/kubelet"
	h.write(t, keptNode+"/files"+old, "old\n", 0o600)
	return h
}

// log returns what has changed the service, and forgets it.
func (h *folderHost) log(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(h.root, "bin", "log")
	content, err := os.ReadFile(file)
	if err == nil {
		err = os.Remove(file)
	}
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

// putBack is the script of a step that puts back what the kubelet ran with.
func (h *folderHost) putBack(step Name) string {
	return putBack(h.goal, Facts{Service: "kubelet"}, step, "").Script
}

// exists reports whether the host has a file.
func (h *folderHost) exists(path string) bool {
	_, err := os.Stat(h.root + path)
	return err == nil
}

// restart runs the step that restarts the kubelet, which does not stay up.
func (h *folderHost) restart(t *testing.T) {
	t.Helper()
	action, _ := restartStep(h.goal, Facts{Service: "kubelet"}, commandLimit).Action.(Run)
	if printed, exit := h.run(t, action.Script); exit == 0 || !strings.Contains(printed, "--bad=1") {
		t.Fatalf("exit code %d: %s", exit, printed)
	}
}

// later runs what systemd-run was to run.
func (h *folderHost) later(t *testing.T) {
	t.Helper()
	if printed, exit := h.run(t, "bash '"+h.root+"/bin/later'\n"); exit != 0 {
		t.Fatalf("exit code %d: %s", exit, printed)
	}
}

// TestHostStartsAHeldService: a service that did not stay up is stopped for a limited time. If nobody
// decides about it within that time, the host itself starts it, and nothing is put back any more.
func TestHostStartsAHeldService(t *testing.T) {
	t.Parallel()
	h := newHeldHost(t)
	h.restart(t)
	// It is started twice, with a while between.
	want := []string{"restart kubelet", "sleep 10", "restart kubelet", "stop kubelet"}
	if diff := cmp.Diff(want, h.log(t)); diff != "" || !h.readFacts(t).NotStarted {
		t.Fatalf("held: %t (-want +got):\n%s", h.readFacts(t).NotStarted, diff)
	}
	h.later(t)
	if diff := cmp.Diff([]string{"sleep 180", "start --no-block kubelet"}, h.log(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if h.readFacts(t).NotStarted || h.exists(notStarted) {
		t.Error("the service is still taken for stopped")
	}
	// A decision from before that comes too late.
	printed, exit := h.run(t, h.putBack(PutBack))
	const late = "Nothing was put back, because kubelet was started since its Node was looked up"
	if exit == 0 || !strings.Contains(printed, late) {
		t.Errorf("%d, %s, want %s", exit, printed, late)
	}
	if content := h.read(t, "/etc/default/kubelet"); content != "new\n" {
		t.Errorf("the file has %q", content)
	}
}

func (h *folderHost) read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(h.root + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestHostKeepsAServiceRunning: a host that cannot see to a later start does not stop the service.
func TestHostKeepsAServiceRunning(t *testing.T) {
	t.Parallel()
	h := newHeldHost(t)
	h.write(t, "/bin/refuses", "", 0o600)
	h.restart(t)
	if log := h.log(t); slices.Contains(log, "stop kubelet") || h.readFacts(t).NotStarted {
		t.Errorf("%q", log)
	}
}

// TestHeldForAnyGoal: a service that was stopped is known, whatever the goal is by then, until the
// host starts it. A put-back that has begun is continued in any case.
func TestHeldForAnyGoal(t *testing.T) {
	t.Parallel()
	h := newHeldHost(t)
	h.restart(t)
	h.goal.KubeletArgs = []Arg{{Name: "max-pods", Value: "50"}}
	if err := os.RemoveAll(h.root + StateFolder + "/op"); err != nil { // As the start of a job does.
		t.Fatal(err)
	}
	if !h.readFacts(t).NotStarted {
		t.Error("with another goal, the kubelet is not taken for stopped")
	}
	// A boot starts it. It is stopped again, so that its Node can be looked up while it is stopped.
	h.write(t, "/bin/state", "running\n", 0o600)
	h.log(t)
	if printed, exit := h.run(t, h.putBack(PutBack)); exit != 0 || !h.readFacts(t).NotStarted {
		t.Fatalf("%d, %s", exit, printed)
	}
	if diff := cmp.Diff([]string{"stop kubelet"}, h.log(t)); diff != "" {
		t.Errorf("after a boot (-want +got):\n%s", diff)
	}
	h.write(t, putBackHas, h.read(t, notStarted), 0o600)
	if !h.readFacts(t).NotStarted {
		t.Error("half a put-back is not continued")
	}
	h.write(t, "/bin/good", "", 0o600)
	printed, exit := h.run(t, h.putBack(PutBackAgain))
	const want = "kubelet does not stay up with v1.36.3 and its configuration: failed: --bad=1. " +
		"Kubernetes v1.35.4 and its configuration were put back, and the service "
	if exit == 0 || !strings.Contains(printed, want) || h.read(t, "/etc/default/kubelet") != "old\n" {
		t.Errorf("%d, %s, want %s", exit, printed, want)
	}
	if h.readFacts(t).NotStarted || h.read(t, "/bin/kubelet") != oldKubelet {
		t.Error("the put-back is not whole")
	}
	h.log(t)
	h.later(t)
	if diff := cmp.Diff([]string{"sleep 180"}, h.log(t)); diff != "" {
		t.Errorf("after the put-back (-want +got):\n%s", diff)
	}
}

// TestPutBackLeavesNothingStopped: a copy that is damaged, and a put-back that fails, leave the
// service started.
func TestPutBackLeavesNothingStopped(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*folderHost){
		"a damaged copy": func(h *folderHost) { h.write(t, keptNode+"/program", "x", 0o600) },
		"a file that cannot be replaced": func(h *folderHost) {
			h.write(t, "/bin/cp", "#!/bin/bash\nexit 1\n", 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeldHost(t)
			h.restart(t)
			breaks(h)
			if printed, exit := h.run(t, h.putBack(PutBack)); exit == 0 {
				t.Fatal(printed)
			}
			if log := h.log(t); !strings.Contains(log[len(log)-1], "start") {
				t.Errorf("the last is %q", log)
			}
		})
	}
}

// TestPutBackLeavesFilesOfOthers: of the files that were not there before, those come away that the
// upgrade has created.
func TestPutBackLeavesFilesOfOthers(t *testing.T) {
	t.Parallel()
	h := newHeldHost(t)
	const own, others = "/etc/systemd/system/kubelet.service.d/10-goal.conf",
		"/etc/systemd/system/kubelet.service.d/20-managed.conf"
	created := "bash -s <<'END'\n" + h.goal.script("lib-job") + script("lib-kept").text() +
		"note_created /etc/systemd/system/kubelet.service.d/10-goal.conf\nEND\n"
	for range 2 {
		if printed, exit := h.run(t, created); exit != 0 {
			t.Fatal(printed)
		}
	}
	if list := h.read(t, keptNode+"/created"); list != h.root+own+"\n" {
		t.Errorf("created: %q", list)
	}
	h.write(t, own, "x", 0o600)
	h.write(t, others, "x", 0o600)
	h.restart(t)
	if printed, exit := h.run(t, h.putBack(PutBack)); exit == 0 {
		t.Fatal(printed)
	}
	if h.exists(own) || !h.exists(others) {
		t.Errorf("the upgrade's own file is there: %t, that of others: %t", h.exists(own), h.exists(others))
	}
}

// TestKeptNodeOutlivesAnotherGoal: what a node ran with before an upgrade that broke it stays kept
// when another goal follows, until the service is seen to run with what is there.
func TestKeptNodeOutlivesAnotherGoal(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, map[string]string{"/etc/default/kubelet": "--max-pods=110\n"}, map[string]string{
		"systemctl": "echo 7\n", "kubelet": "echo Kubernetes v1.36.3\n",
		"ps": `cat "${0%/*}/age"` + "\n",
	})
	keep := func(arg string) string {
		t.Helper()
		h.goal.KubeletArgs = []Arg{{Name: "max-pods", Value: arg}}
		if printed, exit := h.run(t, h.goal.script("lib-job")+script("lib-kept").text()+"keep_node\n"); exit != 0 {
			t.Fatal(printed)
		}
		return h.read(t, keptNode+"/files"+h.root+"/etc/default/kubelet")
	}
	const before, broken = "--max-pods=110\n", "--max-pods=abc\n"
	if got := keep("abc"); got != before {
		t.Fatalf("kept: %q", got)
	}
	h.write(t, "/etc/default/kubelet", broken, 0o600)
	for _, test := range []struct{ name, age, want string }{
		{"no kubelet runs", "", before},
		{"it runs for a moment", "5", before},
		{"it runs since before the change", "100000", before},
	} {
		h.write(t, "/bin/age", test.age+"\n", 0o600)
		if got := keep("xyz"); got != test.want {
			t.Errorf("%s: kept: %q, want %q", test.name, got, test.want)
		}
	}
	// The clock goes on, so that the change is older than the process.
	h.write(t, "/bin/date", "#!/bin/bash\nexec /bin/date -d '2 hours' \"$@\"\n", 0o700)
	h.write(t, "/bin/age", "3600\n", 0o600)
	if got := keep("xyz"); got != broken {
		t.Errorf("with a kubelet that runs with it, %q is kept", got)
	}
}

// TestPutBackComesBeforeTheGoal: a host that is stopped gets back what it ran with, also if it cannot
// be upgraded to the goal; and nothing older comes back by a goal of the older version.
func TestPutBackComesBeforeTheGoal(t *testing.T) {
	t.Parallel()
	old, installed := version.MustParse("v1.35.4"), version.MustParse("v1.36.3")
	g := Goal{Distribution: Kubeadm, Version: old}
	seen := Seen{
		Facts: Facts{Installed: installed, Kept: old, NotStarted: true, Service: "kubelet"},
		Node:  &inplace.Node{Exists: true, Kubelet: installed},
	}
	restores := func() bool {
		run, ok := Decide(g, nil, seen).Begin.(Run)
		return ok && strings.Contains(run.Script, "RESTORE='yes'")
	}
	if restores() {
		t.Error("an older kubelet replaces one that has registered")
	}
	seen.Node.Kubelet = old
	if !restores() {
		t.Error("nothing is put back")
	}
}
