//go:build linux

package linuxhost_test

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
)

// moment is when a host loses its power.
type moment string

const (
	// before a step is started, during it, when what it writes is written half, and after it, before anybody has seen its end.
	before moment = "before"
	during moment = "during"
	after  moment = "after"
)

func long() bool { return os.Getenv("WINDLASS_LONG") == "1" }

// TestPowerCutAtEveryStep cuts the power at each step in turn, in one upgrade: in the middle of what it writes, and after it, which is before the next one;
// the long form also before each, when it is known to be next. The host ends as one that was never cut off.
func TestPowerCutAtEveryStep(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	for _, d := range []linuxhost.Distribution{linuxhost.Kubeadm, linuxhost.RKE2, linuxhost.K3s} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, d, true)
			for _, step := range w.steps(t) {
				if long() {
					w.cut(t, step, before)
				}
				w.cut(t, step, during)
				w.cut(t, step, after)
			}
			w.mustFinish(t)
			w.mustBeWhole(t)
		})
	}
}

// TestPowerCutOnce cuts the power once in an upgrade, at each step and moment: whatever one cut hides from another shows here. It takes minutes.
func TestPowerCutOnce(t *testing.T) {
	t.Parallel()
	if !long() {
		t.Skip("long; set WINDLASS_LONG=1")
	}
	testhosts.Require(t)
	for _, server := range []bool{true, false} {
		for _, step := range newWorld(t, linuxhost.Kubeadm, server).steps(t) {
			for _, m := range []moment{before, during, after} {
				role := map[bool]string{true: "control plane", false: "worker"}[server]
				t.Run(role+"/"+string(step)+"/"+string(m), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, linuxhost.Kubeadm, server)
					w.cut(t, step, m)
					w.mustFinish(t)
					w.mustBeWhole(t)
				})
			}
		}
	}
}

// steps are the names of the steps that are jobs on the host.
func (w *world) steps(t *testing.T) []linuxhost.Name {
	t.Helper()
	report, err := linuxhost.Look(t.Context(), w.upgrade)
	if err != nil || report.Refused != nil {
		t.Fatal(err, report.Refused)
	}
	var names []linuxhost.Name
	for _, s := range report.Steps {
		if _, ok := s.Step.Action.(linuxhost.Run); ok && !s.Done {
			names = append(names, s.Step.Name)
		}
	}
	return names
}

// cut takes the upgrade to a moment of a step, and cuts the power. The host is booted again.
func (w *world) cut(t *testing.T, step linuxhost.Name, m moment) {
	t.Helper()
	switch m {
	case before:
		w.upTo(t, step)
	case during:
		w.upTo(t, step)
		w.host.Write(syncHang, nil)
		w.host.Remove(hanging)
		w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == step })
		w.awaitFile(t, hanging)
	case after:
		// The job ends by itself; nobody looks at it before the power is cut.
		w.upTo(t, step)
		w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == step })
		w.awaitFile(t, linuxhost.StateFolder+"/job/exit")
	}
	w.host.PowerCut()
	w.host.Remove(syncHang)
	if m == during {
		w.tear(t)
	}
	w.host.Boot()
	w.reach(t, w.address)
	w.host.MustRun("mkfifo /run/nobody-writes 2>/dev/null; true")
}

// upTo takes the upgrade to where a step is next, and not started. It goes on only where nothing runs on the host: what is next cannot change then.
func (w *world) upTo(t *testing.T, step linuxhost.Name) {
	t.Helper()
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for begun := time.Now(); time.Since(begun) < 5*time.Minute; <-pace.C {
		report, err := linuxhost.Look(t.Context(), w.upgrade)
		if err != nil || report.Refused != nil {
			t.Fatal(err, report.Refused)
		}
		if report.Facts.Job.State == linuxhost.JobRunning {
			continue
		}
		at := slices.IndexFunc(report.Steps, func(s linuxhost.StepState) bool { return !s.Done })
		if at >= 0 && report.Steps[at].Step.Name == step {
			return
		}
		if p, err := linuxhost.Advance(t.Context(), w.upgrade); err != nil || p.Failure != nil || p.Done {
			t.Fatalf("before step %s: %v, %+v", step, err, p)
		}
	}
	t.Fatalf("step %s is never next", step)
}

// tear halves what was being written when the power went: what was not synced need not be on the disk.
func (w *world) tear(t *testing.T) {
	t.Helper()
	w.host.Boot()
	w.host.MustRun(`for f in $(find /usr/bin /usr/local/bin /etc/kubernetes /etc/rancher /var/lib/kubelet /var/lib/windlass -name '*.new' -o -name '*.part' -o -name '*.windlass-new' 2>/dev/null); do
  [ -f "$f" ] && truncate -s "$(($(stat -c %s "$f") / 2))" "$f"
done; rm -f /nothing`)
	w.host.PowerCut()
}

// mustBeWhole compares the host with one that was upgraded without a cut.
func (w *world) mustBeWhole(t *testing.T) {
	t.Helper()
	g := w.upgrade.Goal
	for name, digest := range w.digests {
		if found := strings.Fields(w.host.MustRun("sha256sum " + g.Distribution.Folder() + "/" + name))[0]; found != digest {
			t.Errorf("%s has the digest %s, want %s", name, found, digest)
		}
	}
	if node := w.node.Look(t.Context()); !node.Ready || node.Kubelet != g.Version || node.Unschedulable {
		t.Errorf("the node is %+v", node)
	}
	if w.node.drains < 2 {
		t.Error("the node was not drained")
	}
	if left := w.host.MustRun(`find /usr/bin /usr/local/bin /etc/kubernetes /etc/rancher /var/lib/kubelet /var/lib/windlass -name '*.new' -o -name '*.part' -o -name '*.windlass-new'`); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
	if g.Distribution == linuxhost.Kubeadm {
		w.mustBeKubeadms(t)
	} else {
		w.mustHaveDropIn(t)
	}
	if w.server {
		w.mustHaveSnapshot(t)
	}
}

// operationFolder is the part of a path that names an operation.
var operationFolder = regexp.MustCompile(`/op/[^/]+/`)

// ownPatches is the folder from which kubeadm takes patches.
func (w *world) ownPatches() string {
	return linuxhost.StateFolder + "/op/" + w.upgrade.Goal.Operation() + "/patches"
}

func (w *world) mustBeKubeadms(t *testing.T) {
	t.Helper()
	read := func(path string) string {
		content, err := w.host.Read(path)
		if err != nil {
			t.Error(err)
		}
		return string(content)
	}
	const option = " --patches /var/lib/windlass/op/OPERATION/patches"
	verb := "upgrade node" + option
	if server := read("/etc/kubernetes/kubelet.conf"); strings.Contains(server, "server: https://10.0.0.1:6443\n") {
		verb = "upgrade apply v1.36.3 --yes" + option
		if manifest := read("/etc/kubernetes/manifests/kube-apiserver.yaml"); !strings.Contains(manifest, "kube-apiserver:v1.36.3") {
			t.Errorf("the API server's manifest is\n%s", manifest)
		}
	}
	log := operationFolder.ReplaceAllString(read("/var/log/stand-in-kubeadm.log"), "/op/OPERATION/")
	if !strings.Contains(log, "v1.36.3 done "+verb+"\n") {
		t.Errorf("kubeadm did not end %q:\n%s", verb, log)
	}
	for line := range strings.Lines(log) {
		if !strings.HasSuffix(line, verb+"\n") {
			t.Errorf("kubeadm ran another verb: %s", line)
		}
	}
	if flags := read("/var/lib/kubelet/kubeadm-flags.env"); flags != "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.1 --max-pods=50\"\n" {
		t.Errorf("the kubelet's arguments are %q", flags)
	}
	if arguments := w.host.MustRun("tr '\\0' ' ' </proc/$(systemctl show --property MainPID --value kubelet)/cmdline"); !strings.Contains(arguments, "--max-pods=50") {
		t.Errorf("the kubelet runs with %q", arguments)
	}
	if patch := w.host.MustRun("stat -c '%a %U' /etc/kubernetes/patches/*; cat /etc/kubernetes/patches/*"); patch != "600 root\nmaxPods: 50\n" {
		t.Errorf("the patch is %q", patch)
	}
	patches := w.host.MustRun("cd " + w.ownPatches() + " && find . ! -type d && cat *")
	if patches != "./kubeletconfiguration.yaml\nmaxPods: 50\n" {
		t.Errorf("kubeadm got the patches %q", patches)
	}
	for _, command := range []string{"before\n", "after\n"} {
		if commands := read("/var/log/commands"); !strings.Contains(commands, command) {
			t.Errorf("the commands that ran: %q", commands)
		}
	}
}

// mustHaveSnapshot looks at what the snapshot holds. The first one that was whole is the one from before the first change.
func (w *world) mustHaveSnapshot(t *testing.T) {
	t.Helper()
	path := "/op/" + w.upgrade.Goal.Operation() + "/etcd-snapshot"
	record := strings.Fields(w.host.MustRun("cat " + linuxhost.StateFolder + path))
	if len(record) != 3 {
		t.Fatalf("the record of the snapshot is %q", record)
	}
	if found := strings.Fields(w.host.MustRun("sha256sum " + record[2]))[0]; found != record[0] {
		t.Errorf("the snapshot has the digest %s, %s is on record", found, record[0])
	}
	if w.upgrade.Goal.Distribution == linuxhost.Kubeadm {
		if content := w.host.MustRun("cat " + record[2]); !strings.HasPrefix(content, "BEGIN") || !strings.HasSuffix(content, "END\n") {
			t.Errorf("the snapshot is not whole: %d bytes", len(content))
		}
	}
}

// cutShortKubeadm is a kubeadm that moves the container runtime's endpoint as the real one does, and can be held in between.
const cutShortKubeadm = `#!/bin/bash
[ "$1" = version ] && { echo v1.36.3; exit 0; }
flags=/var/lib/kubelet/kubeadm-flags.env instance=/var/lib/kubelet/instance-config.yaml
[ -f $instance ] && exit 0
endpoint=$(sed -n 's/.*--container-runtime-endpoint=\([^ "]*\).*/\1/p' $flags)
sed -i 's/--container-runtime-endpoint=[^ "]* *//' $flags
if [ -e /etc/stand-in/hold ]; then echo 'kubeadm is held'; touch ` + hanging + `; while :; do read -r -t 1 _ <>/run/nobody-writes; done; fi
echo "containerRuntimeEndpoint: \"$endpoint\"" >$instance
`

// cutShort has a kubeadm cut short where it is held, and then lets the upgrade end.
func (w *world) cutShort(t *testing.T, kubeadm string) {
	t.Helper()
	w.cutKubeadm(t, kubeadm)
	w.mustFinish(t)
}

// cutKubeadm cuts the power where a kubeadm is held, and boots the host.
func (w *world) cutKubeadm(t *testing.T, kubeadm string) {
	t.Helper()
	w.replace(t, "kubeadm", []byte(kubeadm))
	w.host.Write("/etc/stand-in/hold", nil)
	w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == linuxhost.KubeadmUpgrade })
	w.awaitFile(t, hanging)
	// The output of a job shows while the job runs.
	w.until(t, false, func(p linuxhost.Progress) bool {
		return strings.Contains(p.Job.Output, "kubeadm is held")
	})
	w.host.PowerCut()
	w.host.Remove("/etc/stand-in/hold")
	w.host.Boot()
	w.reach(t, w.address)
}

// TestKubeadmCutShortKeepsTheRuntime: kubeadm that loses power between two files would leave a kubelet without its container runtime.
func TestKubeadmCutShortKeepsTheRuntime(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, false)
	w.host.Write("/var/lib/kubelet/kubeadm-flags.env", []byte("KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/crio/crio.sock --v=2\"\n"))
	w.cutShort(t, cutShortKubeadm)
	if instance := w.host.MustRun("cat /var/lib/kubelet/instance-config.yaml"); !strings.Contains(instance, "crio.sock") {
		t.Errorf("the kubelet's instance configuration is %q", instance)
	}
	if flags := w.host.MustRun("cat /var/lib/kubelet/kubeadm-flags.env"); flags != "KUBELET_KUBEADM_ARGS=\"--v=2 --max-pods=50\"\n" {
		t.Errorf("the kubelet's arguments are %q", flags)
	}
}

// movingKubeadm is a kubeadm that moves the API server's manifest away, as the real one does, and can be held before it puts the new one there.
const movingKubeadm = `#!/bin/bash
[ "$1" = version ] && { echo v1.36.3; exit 0; }
echo "$*" >>/var/log/moving-kubeadm
manifest=/etc/kubernetes/manifests/kube-apiserver.yaml backup=/etc/kubernetes/tmp/kubeadm-backup-manifests-$(date +%s)
[ -e $manifest ] || exit 0
mkdir -p $backup && mv $manifest $backup/
if [ -e /etc/stand-in/hold ]; then echo 'kubeadm is held'; touch ` + hanging + `; while :; do read -r -t 1 _ <>/run/nobody-writes; done; fi
sed 's/kube-apiserver:v.*/kube-apiserver:v1.36.3/' $backup/kube-apiserver.yaml >$manifest
`

// TestKubeadmCutShortKeepsTheControlPlane: without its API server's manifest, kubeadm would take the machine for a worker, and be done with it.
func TestKubeadmCutShortKeepsTheControlPlane(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.host.Write("/etc/kubernetes/pki/apiserver.crt", []byte("a certificate\n"))
	w.cutShort(t, movingKubeadm)
	if manifest := w.host.MustRun("cat /etc/kubernetes/manifests/kube-apiserver.yaml"); !strings.Contains(manifest, "kube-apiserver:v1.36.3") {
		t.Errorf("the API server's manifest is\n%s", manifest)
	}
	if log := w.host.MustRun("cat /var/log/moving-kubeadm"); strings.Count(log, "upgrade apply v1.36.3") != 2 || strings.Contains(log, "node") {
		t.Errorf("kubeadm ran\n%s", log)
	}
	if conf := w.host.MustRun("cat /etc/kubernetes/kubelet.conf"); !strings.Contains(conf, "https://10.0.0.1:6443") {
		t.Errorf("the kubelet talks to\n%s", conf)
	}
}

// renewingKubeadm is a kubeadm that renews a certificate and writes a manifest, as the real one does,
// and can be held when neither is on the disk.
const renewingKubeadm = `#!/bin/bash
[ "$1" = version ] && { echo v1.36.3; exit 0; }
key=/etc/kubernetes/pki/apiserver.key manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
grep -q 'first key' $key && grep -q kube-apiserver $manifest || exit 1
backup=/etc/kubernetes/tmp/kubeadm-backup-manifests-$(date +%s)
mkdir -p $backup && mv $manifest $backup/
if [ -e /etc/stand-in/hold ]; then
  : >$key; : >$manifest
  echo 'kubeadm is held'; touch ` + hanging + `; while :; do read -r -t 1 _ <>/run/nobody-writes; done
fi
echo 'second key' >$key
sed 's/kube-apiserver:v.*/kube-apiserver:v1.36.3/' $backup/kube-apiserver.yaml >$manifest
`

// newWorldWithKey is a control plane host whose API server has a certificate and its key.
func newWorldWithKey(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.host.Write("/etc/kubernetes/pki/apiserver.crt", []byte("a certificate\n"))
	w.host.Write("/etc/kubernetes/pki/apiserver.key", []byte("first key\n"))
	return w
}

func (w *world) checkRenewed(t *testing.T) {
	t.Helper()
	if key := w.host.MustRun("cat /etc/kubernetes/pki/apiserver.key"); key != "second key\n" {
		t.Errorf("the key of the API server is %q", key)
	}
}

// TestKubeadmCutShortKeepsCertificates: the API server would not start without its key.
func TestKubeadmCutShortKeepsCertificates(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorldWithKey(t)
	w.cutShort(t, renewingKubeadm)
	w.checkRenewed(t)
	const left = "find /var/lib/windlass/keep /etc/kubernetes -name '*kubeadm*' -o -name '*-new'"
	if found := w.host.MustRun(left + " | grep -v /kubeadm-backup-; true"); found != "" {
		t.Errorf("left behind:\n%s", found)
	}
}

// TestOtherPatchAfterPowerCut has kubeadm cut short, and another patch release asked for. Whatever
// was torn comes back, and the snapshot from before counts.
func TestOtherPatchAfterPowerCut(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorldWithKey(t)
	w.cutKubeadm(t, renewingKubeadm)
	programs := standIn(t, "v1.36.4")
	programs["kubeadm"] = []byte(strings.ReplaceAll(renewingKubeadm, "v1.36.3", "v1.36.4"))
	w.offer(t, "v1.36.4", programs)
	w.upgrade.Attempt = "second"
	w.mustFinish(t)
	w.checkRenewed(t)
	if node := w.node.Look(t.Context()); !node.Ready || node.Kubelet.String() != "v1.36.4" {
		t.Errorf("the node is %+v", node)
	}
	w.mustHaveSnapshot(t)
	w.mustHaveSavedEtcd(t, 1)
	if kept := w.host.MustRun("ls " + linuxhost.StateFolder + "/keep"); kept != "" {
		t.Errorf("after the upgrade, this is kept: %s", kept)
	}
}

// TestGoalChangesMidway: what is wanted changes after the node was drained. The node is schedulable in the end, as it was in the beginning, and the first
// control plane machine stays the first.
func TestGoalChangesMidway(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.failsInKubeadm(t)
	if !w.node.cordoned {
		t.Fatal("the node is not cordoned")
	}
	w.host.Write("/etc/stand-in/cluster-version", []byte("v1.36.3"))
	w.upgrade.Attempt, w.upgrade.Goal.After = "second", []string{"nohup sleep 1000 & echo after >>/var/log/commands"}
	w.mustFinish(t)
	w.mustBeWhole(t)
}

// TestStaticPodsRestart has the static pods of before the restart at first, then no API server, and
// then the pods of the restarted kubelet, behind a megabyte of other pods. The upgrade waits for
// them, though the node is Ready.
func TestStaticPodsRestart(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	const old, down = "/etc/stand-in/pods.old", "/etc/stand-in/api.down"
	w.host.Write(old, nil)
	w.host.Write("/etc/stand-in/pods.more", bytes.Repeat([]byte(
		`{"metadata":{"name":"agent","namespace":"kube-system","uid":"1","labels":{"a":"b"}}},`), 12_000))
	waits := func(message string) {
		t.Helper()
		p := w.until(t, false, func(p linuxhost.Progress) bool {
			return p.Step == linuxhost.ControlPlaneReady && p.Message == message
		})
		if p.Failure != nil || p.Done {
			t.Fatalf("it does not wait because %s: %+v", message, p)
		}
	}
	waits("the static pod etcd-host is not Ready since the kubelet was restarted")
	w.host.Write(down, nil)
	waits("the API server of the host does not answer: the connection to the server was refused")
	w.host.Remove(old)
	w.host.Remove(down)
	w.mustFinish(t)
	w.mustBeWhole(t)
	if began := w.host.MustRun("grep -c ' begin ' /var/log/stand-in-kubeadm.log"); began != "1\n" {
		t.Errorf("kubeadm began %s times", began)
	}
}

// TestOtherDigestsMidway has the manifest of digests change after kubeadm has run, and again when all
// is done. Binaries are compared with it and replaced; etcd is not saved again, and kubeadm does not
// run again.
func TestOtherDigestsMidway(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.upTo(t, "install-kubelet")
	for attempt, name := range []string{"kubelet", "kubeadm"} {
		content, err := w.host.Read("/opt/binaries/v1.36.3/linux/amd64/" + name)
		if err != nil {
			t.Fatal(err)
		}
		w.replace(t, name, rebuilt(content))
		w.upgrade.Attempt = strconv.Itoa(attempt)
		w.mustFinish(t)
		w.mustBeWhole(t)
	}
	for log, begun := range map[string]string{
		"/var/log/etcdctl": "snapshot save", "/var/log/stand-in-kubeadm.log": " begin upgrade apply ",
	} {
		if lines := w.host.MustRun("cat " + log); strings.Count(lines, begun) != 1 {
			t.Errorf("%s has\n%s", log, lines)
		}
	}
}

// TestLaterControlPlaneMachine: once the cluster's configuration has the version, a control plane machine upgrades only itself. Its address is one of IPv6.
func TestLaterControlPlaneMachine(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.host.Write("/etc/stand-in/cluster-version", []byte("v1.36.3"))
	w.host.MustRun("sed -i s/10.0.0.1/fd00::1/ /etc/kubernetes/manifests/kube-apiserver.yaml")
	w.mustFinish(t)
	if conf := w.host.MustRun("cat /etc/kubernetes/kubelet.conf"); !strings.Contains(conf, "https://[fd00::1]:6443") {
		t.Errorf("the kubelet talks to\n%s", conf)
	}
	if log := w.host.MustRun("cat /var/log/stand-in-kubeadm.log"); !strings.Contains(log, "done upgrade node") || strings.Contains(log, "apply") {
		t.Errorf("kubeadm ran\n%s", log)
	}
}
