//go:build linux

package linuxhost_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/pkg/version"
)

// unit is the service that runs the node of a world without a control plane.
func (w *world) unit() string {
	if d := w.upgrade.Goal.Distribution; d != linuxhost.Kubeadm {
		return string(d) + "-agent"
	}
	return "kubelet"
}

// program is what the service runs.
func (w *world) program() string {
	if d := w.upgrade.Goal.Distribution; d != linuxhost.Kubeadm {
		return string(d)
	}
	return "kubelet"
}

// breakNew has the program of the goal's version end whenever it is started, and repair undoes it.
func (w *world) breakNew() {
	w.host.Write(w.fault(), []byte("unknown flag: --pod-infra-container-image, token=abcdef.0123456789abcdef\n"))
}

func (w *world) fault() string {
	return "/etc/stand-in/" + w.program() + "-" + w.upgrade.Goal.Version.String() + ".fail"
}

// configuration prints what the node is started with.
func (w *world) configuration() string {
	return w.host.MustRun("sha256sum " + w.upgrade.Goal.Distribution.Folder() + "/" + w.program() +
		"; cat /var/lib/kubelet/*.yaml /var/lib/kubelet/*.env 2>/dev/null" +
		"; find /etc/rancher -type f 2>/dev/null | sort | xargs -r head -v; true")
}

// TestNodeGetsBackWhatItRanWith: a node whose new program does not start runs again with the old one
// and its configuration, and the failure names the program's error. Once that is corrected, the next
// attempt does all that was undone.
func TestNodeGetsBackWhatItRanWith(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	for name, test := range map[string]struct {
		d      linuxhost.Distribution
		server bool
	}{
		"a worker of kubeadm":        {linuxhost.Kubeadm, false},
		"a control plane of kubeadm": {linuxhost.Kubeadm, true},
		"an agent of RKE2":           {linuxhost.RKE2, false},
		"an agent of K3s":            {linuxhost.K3s, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.d, test.server)
			before := w.configuration()
			w.breakNew()
			p := w.until(t, false, nil)
			for _, want := range []string{
				"ServiceNotStarted: step put-back: " + w.unit() + " does not stay up with " + versions[test.d][1],
				"unknown flag: --pod-infra-container-image", versions[test.d][0], "were put back, and the service runs",
			} {
				if p.Failure == nil || !strings.Contains(p.Failure.String(), want) {
					t.Fatalf("%v, want %q\n%s", p.Failure, want, p.Job.Output)
				}
			}
			if strings.Contains(p.Failure.String(), "0123456789abcdef") {
				t.Errorf("a token is in %s", p.Failure)
			}
			if after := w.configuration(); after != before {
				t.Errorf("the node is started with\n%s\nwant\n%s", after, before)
			}
			if node := w.node.Look(t.Context()); !node.Ready || node.Kubelet.String() != versions[test.d][0] {
				t.Errorf("the node is %+v", node)
			}
			// The attempt has ended: it does not begin again by itself.
			if again := w.until(t, false, nil); again.Failure == nil || again.Failure.Reason != linuxhost.ServiceNotStarted {
				t.Errorf("asked again, the attempt says %+v", again)
			}
			w.host.Remove(w.fault())
			w.upgrade.Attempt = "second"
			w.mustFinish(t)
			w.mustBeWhole(t)
			if left := w.host.MustRun("ls -A " + linuxhost.StateFolder + "/keep"); left != "" {
				t.Errorf("after the upgrade, this is kept: %s", left)
			}
		})
	}
}

// registeredNode reports a version whatever runs on the host.
type registeredNode struct {
	*standInNode
	node inplace.Node
}

func (n *registeredNode) Look(context.Context) inplace.Node { return n.node }

// TestRegisteredNodeIsNotPutBack: what runs is never replaced with something older once the node has
// registered with it, or while nobody knows whether it has.
func TestRegisteredNodeIsNotPutBack(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, false)
	registered := &registeredNode{w.node, inplace.Node{Exists: true, Ready: true, Unschedulable: true, Kubelet: version.MustParse("v1.35.4")}}
	w.upgrade.Node = registered
	w.breakNew()
	w.upTo(t, linuxhost.Restart)
	registered.node = inplace.Node{Unknown: "no answer"}
	p := w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == linuxhost.PutBack })
	if p.Begin != nil || !strings.HasSuffix(p.Message, "but the Node cannot be looked up: no answer") {
		t.Fatalf("%+v, want it to wait", p)
	}
	registered.node = inplace.Node{Exists: true, Kubelet: version.MustParse("v1.36.3"), Unschedulable: true}
	p = w.until(t, false, nil)
	const want = "Nothing was put back, because the Node does not report v1.35.4 but v1.36.3"
	if p.Failure == nil || p.Failure.Reason != linuxhost.ServiceNotStarted || !strings.Contains(p.Failure.Message, want) {
		t.Fatalf("%+v, want %s", p, want)
	}
	if kubelet := w.host.MustRun("sha256sum /usr/bin/kubelet"); strings.Fields(kubelet)[0] != w.digests["kubelet"] {
		t.Error("the kubelet was replaced with an older one")
	}
	if active := w.host.MustRun("systemctl show --property UnitFileState --property SubState kubelet"); strings.Contains(active, "dead") {
		t.Errorf("the kubelet is left stopped: %s", active)
	}
	w.host.Remove(w.fault())
	w.upgrade.Node, w.upgrade.Attempt = w.node, "second"
	w.mustFinish(t)
}

// TestHostEndsItsWait: while the Node cannot be looked up, the kubelet stays stopped for a limited time.
// Then the host starts the new one by itself, and the attempt ends.
func TestHostEndsItsWait(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, false)
	silent := &registeredNode{w.node, inplace.Node{Exists: true, Ready: true, Unschedulable: true, Kubelet: version.MustParse("v1.35.4")}}
	w.upgrade.Node = silent
	w.breakNew()
	w.upTo(t, linuxhost.Restart)
	silent.node = inplace.Node{Unknown: "no answer"}
	w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == linuxhost.PutBack })
	const state = "systemctl show --property SubState --value kubelet"
	if sub := w.host.MustRun(state); strings.TrimSpace(sub) != "dead" && strings.TrimSpace(sub) != "failed" {
		t.Fatalf("the kubelet is %s", sub)
	}
	w.host.Remove(w.fault())
	// Nobody waits for so long here.
	w.host.MustRun("kill $(pgrep -fx 'sleep 180')")
	p := w.until(t, false, nil)
	if p.Failure == nil || p.Failure.Reason != linuxhost.ServiceNotStarted || p.Failure.Step != linuxhost.Restart {
		t.Errorf("%+v, want the failure of the restart", p)
	}
	if sub := w.host.MustRun(state); strings.TrimSpace(sub) != "running" {
		t.Errorf("the kubelet is %s", sub)
	}
	if kubelet := w.host.MustRun("sha256sum /usr/bin/kubelet"); strings.Fields(kubelet)[0] != w.digests["kubelet"] {
		t.Error("the kubelet was replaced with an older one")
	}
	w.upgrade.Node, w.upgrade.Attempt = w.node, "second"
	w.mustFinish(t)
}

// TestPutBackOutlivesAPowerCut: what began to come back is back after a power cut, also if nobody
// wants the upgrade any longer.
func TestPutBackOutlivesAPowerCut(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	for name, moment := range map[string]string{
		"in the middle":       "*/.windlass-new",
		"after the last file": linuxhost.Kubeadm.Folder(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, linuxhost.Kubeadm, false)
			before := w.configuration()
			w.breakNew()
			w.upTo(t, linuxhost.Restart)
			w.host.Write(syncHang, []byte(moment))
			w.host.Remove(hanging)
			w.until(t, false, func(p linuxhost.Progress) bool {
				return p.Step == linuxhost.PutBack && p.Begin != nil
			})
			w.awaitFile(t, hanging)
			w.host.PowerCut()
			w.host.Remove(syncHang)
			w.host.Boot()
			w.reach(t, w.address)
			w.host.MustRun("mkfifo /run/nobody-writes 2>/dev/null; true")
			w.mustBePutBack(t)
			if after := w.configuration(); after != before {
				t.Errorf("the node is started with\n%s\nwant\n%s", after, before)
			}
		})
	}
}

// mustBePutBack follows a host that nobody upgrades, until its put-back has ended well.
func (w *world) mustBePutBack(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for {
		p, err := linuxhost.Follow(ctx, w.upgrade)
		if err != nil {
			t.Fatal(err)
		}
		if p.Failure != nil {
			if !strings.Contains(p.Failure.Message, "were put back, and the service runs") {
				t.Errorf("it ends with %s", p.Failure)
			}
			return
		}
		<-pace.C
	}
}
