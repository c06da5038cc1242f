//go:build linux

package linuxhost_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestBadHosts: each fault ends with a reason that names it, and with a host that is as it was, or says how far it came.
func TestBadHosts(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	for name, test := range map[string]struct {
		spoil func(t *testing.T, w *world)
		want  string
		// begun says that the fault shows only when the host was changed already.
		begun bool
	}{
		"full disk": {func(_ *testing.T, w *world) { w.host.FillDisk() }, "DiskFull: step install-kubeadm: ", false},
		"wrong digest": {func(_ *testing.T, w *world) {
			w.host.MustRun("echo x >>/opt/binaries/v1.36.3/linux/amd64/kubelet")
		}, "WrongDigest: step fetch-kubelet: kubelet has the SHA-256 ", false},
		"right digest, another version": {func(t *testing.T, w *world) {
			t.Helper()
			w.replace(t, "kubelet", standIn(t, "v1.35.9")["kubelet"])
		}, "WrongVersion: step install-kubelet: kubelet says it is Kubernetes v1.35.9, not v1.36.3", true},
		"not for this machine": {func(t *testing.T, w *world) {
			t.Helper()
			w.replace(t, "kubeadm", []byte("no program\n"))
		}, "WrongVersion: step install-kubeadm: kubeadm does not run on this host: ", false},
		"no such binary": {func(_ *testing.T, w *world) { w.host.MustRun("rm /opt/binaries/v1.36.3/linux/amd64/kubelet") },
			"DownloadFailed: step fetch-kubelet: the host has no file /opt/binaries/v1.36.3/linux/amd64/kubelet", false},
		"read-only /usr": {func(_ *testing.T, w *world) { w.host.ReadOnly("/usr") },
			"FolderReadOnly: step install-kubeadm: no file can be made in /usr/bin: Read-only file system. Nothing was changed", false},
		"etcd that cannot be saved": {func(_ *testing.T, w *world) {
			w.host.Write("/usr/bin/etcdctl", []byte("#!/bin/sh\ncase \"$*\" in *\" health\") exit ;; esac\necho no leader >&2\nexit 1\n"))
		},
			"SnapshotFailed: step etcd-snapshot: etcdctl snapshot save failed", false},
		"kubeadm fails": {func(_ *testing.T, w *world) {
			w.host.Write("/etc/stand-in/kubeadm.fail", []byte("the control plane is unhealthy, token: abcdef.0123456789abcdef\n"))
		},
			"StepFailed: step kubeadm-upgrade: exit code 1: error execution phase: the control plane is unhealthy, token: [bootstrap token]", true},
		"a kubelet that does not stay up": {func(_ *testing.T, w *world) { w.host.Write("/etc/stand-in/kubelet.fail", []byte("no cgroups\n")) },
			"ServiceNotStarted: step put-back: kubelet does not stay up with v1.36.3 and its configuration: error execution phase: no cgroups. " +
				"Kubernetes v1.35.4 and its configuration were put back, and the service does not stay up: error execution phase: no cgroups", true},
		"a kubelet that is never Ready": {func(_ *testing.T, w *world) {
			w.node.notReady, w.upgrade.Goal.ReadyWithin = "container runtime network not ready", time.Second
		}, "NodeNotReady: step node-ready: ", true},
		"static pods that do not come back": {func(_ *testing.T, w *world) {
			w.host.Write("/etc/stand-in/pods.old", nil)
			w.upgrade.Goal.ReadyWithin = time.Second
		}, "ControlPlaneNotReady: step control-plane-ready: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, linuxhost.Kubeadm, true)
			test.spoil(t, w)
			p := w.until(t, false, nil)
			if p.Failure == nil || !strings.HasPrefix(p.Failure.String(), test.want) {
				t.Fatalf("%v, want %s\n%s", p.Failure, test.want, p.Job.Output)
			}
			if again := w.until(t, false, nil); again.Failure == nil || again.Failure.Reason != p.Failure.Reason {
				t.Errorf("asked again, the attempt says %+v", again)
			}
			if begun := w.upgraded(t); begun != test.begun {
				t.Errorf("the host was changed: %v, want %v", begun, test.begun)
			}
			if !test.begun && w.node.Look(t.Context()).Kubelet != version.MustParse("v1.35.4") {
				t.Error("the node runs something else than before")
			}
		})
	}
}

// TestHostWithoutEtcdClient: etcd cannot be saved, so nothing is brought to the host. Once it can,
// the same attempt continues.
func TestHostWithoutEtcdClient(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.host.MustRun("mkdir -p /opt/etcd /var/lib/etcd && mv /usr/bin/etcdctl /opt/etcd/")
	const want = "ToolMissing: step etcd-snapshot: the host has neither etcdctl nor crictl"
	p := w.until(t, false, nil)
	if p.Failure == nil || !strings.HasPrefix(p.Failure.String(), want) || p.Job.State != linuxhost.NoJob {
		t.Fatalf("%+v, want %s, and no job", p, want)
	}
	w.host.Write("/usr/local/bin/crictl", []byte(`#!/bin/bash
case "$1" in ps) echo member; exit ;; images|inspecti) exit ;; esac
[ "$1 $2" = "exec member" ] && exec "/opt/etcd/${@:3}"
`))
	w.mustFinish(t)
	w.mustBeWhole(t)
}

// TestHostWithDeadMember: nothing is brought to a host while a member of etcd is not healthy, and its
// node is not drained. Once all are, the same attempt continues. Each attempt looks again, until
// kubeadm has begun, and so does the next change at the same version.
func TestHostWithDeadMember(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	if p := w.refusesDeadMember(t); p.Job.State != linuxhost.NoJob {
		t.Fatalf("%+v, want no job", p)
	}
	w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == "fetch-kubelet" })
	w.upgrade.Attempt = "second"
	w.refusesDeadMember(t)
	if w.node.drains != 0 {
		t.Error("the node was drained")
	}
	w.mustFinish(t)
	w.mustBeWhole(t)
	w.upgrade.Attempt, w.upgrade.Goal.KubeletArgs = "third", nil
	w.refusesDeadMember(t)
}

// refusesDeadMember has a member of etcd die, and come back when the upgrade was refused.
func (w *world) refusesDeadMember(t *testing.T) linuxhost.Progress {
	t.Helper()
	w.host.MustRun("mv /usr/bin/etcdctl /usr/bin/etcdctl-of-a-member")
	w.host.Write("/usr/bin/etcdctl", []byte("#!/bin/sh\necho '{\"level\":\"warn\"}' >&2\necho https://10.0.0.9:2379 is unhealthy: refused >&2; echo Error: unhealthy cluster >&2\nexit 1\n"))
	const want = "EtcdUnhealthy: step kubeadm-upgrade: not all members of etcd are healthy: https://10.0.0.9:2379 is unhealthy: refused"
	p := w.until(t, false, nil)
	if p.Failure == nil || !strings.HasPrefix(p.Failure.String(), want) {
		t.Fatalf("%+v, want %s", p, want)
	}
	w.host.MustRun("mv /usr/bin/etcdctl-of-a-member /usr/bin/etcdctl")
	return p
}

// replace puts another program in the place of a binary that the host is to have, and pins it.
func (w *world) replace(t *testing.T, name string, content []byte) {
	t.Helper()
	w.host.Write("/opt/binaries/v1.36.3/linux/amd64/"+name, content)
	var manifest strings.Builder
	for binary := range w.digests {
		sum := strings.Fields(w.host.MustRun("sha256sum /opt/binaries/v1.36.3/linux/amd64/" + binary))[0]
		w.digests[binary] = sum
		fmt.Fprintf(&manifest, "%s  v1.36.3/linux/amd64/%s\n", sum, binary)
	}
	digests, err := linuxhost.ParseManifest(manifest.String())
	if err != nil {
		t.Fatal(err)
	}
	w.upgrade.Goal.Digests = digests
}

// offer makes another version the goal, and puts its programs on the host.
func (w *world) offer(t *testing.T, v string, programs map[string][]byte) {
	t.Helper()
	var manifest strings.Builder
	for name, content := range programs {
		file := linuxhost.BinaryName(version.MustParse(v), "amd64", name)
		w.host.Write("/opt/binaries/"+file, content)
		fmt.Fprintf(&manifest, "%x  %s\n", sha256.Sum256(content), file)
	}
	digests, err := linuxhost.ParseManifest(manifest.String())
	if err != nil {
		t.Fatal(err)
	}
	w.upgrade.Goal.Version, w.upgrade.Goal.Digests = version.MustParse(v), digests
}

// rebuilt returns a stand-in that behaves as another one, and has another digest.
func rebuilt(program []byte) []byte {
	return slices.Concat(program, program[bytes.LastIndex(program, []byte(`{"Name":`)):])
}

// upgraded tells whether anything of Kubernetes on the host was changed.
func (w *world) upgraded(t *testing.T) bool {
	t.Helper()
	return strings.Fields(w.host.MustRun("sha256sum /usr/bin/kubeadm"))[0] == w.digests["kubeadm"]
}

// TestFailedStepIsTriedAgain: what failed is done by the next attempt, and what was done is not done again.
func TestFailedStepIsTriedAgain(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.failsInKubeadm(t)
	w.upgrade.Attempt = "second"
	w.mustFinish(t)
	w.mustBeWhole(t)
	w.mustHaveSavedEtcd(t, 1)
}

// failsInKubeadm has the upgrade fail in kubeadm, which the next attempt finds as it should be.
func (w *world) failsInKubeadm(t *testing.T) {
	t.Helper()
	w.host.Write("/etc/stand-in/kubeadm.fail", []byte("not now\n"))
	if p := w.until(t, false, nil); p.Failure == nil || p.Failure.Step != linuxhost.KubeadmUpgrade {
		t.Fatalf("%+v", p)
	}
	w.host.Remove("/etc/stand-in/kubeadm.fail")
}

// mustHaveSavedEtcd looks at how often etcd was saved on the host since it was made.
func (w *world) mustHaveSavedEtcd(t *testing.T, times int) {
	t.Helper()
	if saved := w.host.MustRun("grep -c . /var/log/etcdctl"); saved != fmt.Sprintln(times) {
		t.Errorf("etcd was saved %s times, want %d", saved, times)
	}
}

// TestTwoGoals: an upgrade to something else waits while one is at work, also between two of its steps, and says for what; that of the same goal goes on
// with it.
func TestTwoGoals(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, false)
	w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == "fetch-kubelet" })
	w.awaitFile(t, linuxhost.StateFolder+"/job/exit")
	other := w.upgrade
	other.Attempt, other.Goal.KubeletArgs = "other", nil
	p, err := linuxhost.Advance(t.Context(), other)
	if err != nil || p.Failure != nil || !strings.Contains(p.Message, "another upgrade of this host is at work, to v1.36.3: its step fetch-kube") {
		t.Fatalf("%v, %+v", err, p)
	}
	w.upgrade.Attempt = "second"
	w.mustFinish(t)
	w.mustBeWhole(t)
	w.upgrade.Goal, w.upgrade.Attempt = other.Goal, "third"
	w.mustFinish(t)
}

// TestLogins: who is not let in, or does not become root, is told so, and nothing happens on the host.
func TestLogins(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, false)
	advance := func(host port.Host) error {
		u := w.upgrade
		u.Host = host
		_, err := linuxhost.Advance(t.Context(), u)
		return err
	}
	if err := advance(w.dial(t, testhosts.Ops, w.host.Address())); err != nil {
		t.Errorf("with sudo: %v", err)
	}
	if err := advance(w.dial(t, testhosts.NoSudo, w.host.Address())); port.ReasonOfHost(err) != port.HostNotRoot {
		t.Errorf("without sudo: %v", err)
	}
	pinned := w.dial(t, "root", w.host.Address())
	w.host.ChangeHostKey()
	err := advance(pinned)
	if port.ReasonOfHost(err) != port.HostNotTrusted {
		t.Errorf("with another key: %v", err)
	}
	if failed, ok := errors.AsType[*port.HostError](err); !ok || !failed.Lasts() {
		t.Errorf("a changed key would be tried again: %v", err)
	}
}

// TestDroppingConnection: a connection that breaks every two seconds takes longer, and ends as any other: binaries are sent in parts, and steps
// run without it.
//
// It does not run beside other tests: a machine that is busy enough takes two seconds for one question.
func TestDroppingConnection(t *testing.T) {
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.upgrade.Goal.Source = linuxhost.Source{Bundle: true}
	w.upgrade.Bundle = folderBundle{"v1.36.3/linux/amd64/": standIn(t, "v1.36.3")}
	w.host.Write("/etc/stand-in/kubeadm.slow", []byte("3s"))
	w.reach(t, w.host.DropConnectionsEvery(2*time.Second))
	if p := w.until(t, true, nil); p.Failure != nil {
		t.Fatalf("%s\n%s", p.Failure, p.Job.Output)
	}
	w.mustBeWhole(t)
	if began := w.host.MustRun("grep -c ' begin upgrade' /var/log/stand-in-kubeadm.log"); began != "1\n" {
		t.Errorf("kubeadm began %s times", began)
	}
}

// folderBundle is a bundle in memory: programs below a prefix.
type folderBundle map[string]map[string][]byte

func (b folderBundle) Open(name string) (io.ReaderAt, int64, error) {
	for prefix, programs := range b {
		if content, ok := programs[strings.TrimPrefix(name, prefix)]; ok {
			return bytes.NewReader(content), int64(len(content)), nil
		}
	}
	return nil, 0, fmt.Errorf("the bundle has no %s", name)
}
