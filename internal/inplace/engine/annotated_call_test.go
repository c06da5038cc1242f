package engine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestCallHasItsTime holds that an updater is not asked to do something in a reconcile in which a drain, or the question what updaters cover, may have taken most
// of the time, and that it is in the next one.
func TestCallHasItsTime(t *testing.T) {
	t.Parallel()
	for _, drain := range []string{"true", "false"} {
		w := newUpgradeWorld(t)
		kubelet, _ := w.register()
		w.add(newMachine("a", ""))
		w.nodes.SetDrain(inCluster, "a", 1)
		w.annotate(w.machine("a"), map[string]any{v1alpha1.InPlaceUpgradeDrainAnnotation: drain})
		w.ask("a", toVersion)
		for range 4 {
			drains, asked := w.nodes.Calls()[porttest.DrainMethod], kubelet.asked
			result, err := w.reconcile("a")
			if err != nil {
				t.Fatal(err)
			}
			busy := w.nodes.Calls()[porttest.DrainMethod] > drains || kubelet.asked > asked
			if called := len(kubelet.requests) > 0; called == busy {
				t.Errorf("drain %s: called %t, drained or asked %t", drain, called, busy)
			}
			if result.Now || result.After <= 0 {
				t.Errorf("drain %s: the next one is due %+v", drain, result)
			}
			if len(kubelet.requests) > 0 {
				break
			}
		}
		if len(kubelet.requests) != 1 {
			t.Errorf("drain %s: %d requests", drain, len(kubelet.requests))
		}
	}
}

// TestCancelledBeforeTheCall holds that a Machine keeps its release where the annotation is removed
// before an updater was asked.
func TestCancelledBeforeTheCall(t *testing.T) {
	t.Parallel()
	for _, drain := range []string{"true", "false"} {
		w := newUpgradeWorld(t)
		kubelet, _ := w.register()
		w.add(newMachine("a", ""))
		w.annotate(w.machine("a"), map[string]any{
			v1alpha1.InPlaceUpgradeDrainAnnotation: drain, keys.Release: toChannel, keys.Status: "done",
		})
		w.ask("a", toVersion)
		w.until("it is to be updated", func() bool {
			u, _ := readRecord[request.Upgrade](w.machine("a").Annotations)
			return u != nil && u.Progress.Phase == inplace.Updating
		})
		w.annotate(w.machine("a"), map[string]any{keys.To: nil})
		w.until("it rests", func() bool { return !has(w.machine("a"), v1alpha1.InPlaceUpgradeAnnotation) })
		node := w.nodes.Node(t.Context(), inCluster, "a")
		if got := w.marks("a"); got != (request.Marks{Release: toChannel}) || node.Unschedulable {
			t.Errorf("drain %s: left are %+v; the node is %+v", drain, got, node)
		}
		if len(kubelet.requests) > 0 {
			t.Errorf("drain %s: the updater was asked %d times", drain, len(kubelet.requests))
		}
	}
}

// TestAskedOnce asks updaters once what they cover, though it is decided again under the lock of the control plane.
func TestAskedOnce(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	kubelet, _ := w.register()
	w.add(newMachine("cp", "kcp"))
	w.ask("cp", toVersion)
	if _, err := w.reconcile("cp"); err != nil {
		t.Fatal(err)
	}
	if got := w.marks("cp").Status; kubelet.asked != 1 || w.lockHolder() != heldBy("cp") || got != request.InProgress {
		t.Errorf("asked %d times; the lock is %q, the status %q", kubelet.asked, w.lockHolder(), got)
	}
}

// TestFault10_NodeThatCannotBeAsked holds that an upgrade begins whose node cannot be asked: it may be what fixes the node. What the machine ran when it was
// last known counts then. Where that is what is asked for, nobody knows whether anything is to be done.
func TestFault10_NodeThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	gone := func(w *upgradeWorld) { w.nodes.Remove(inCluster, "a") }
	away := func(w *upgradeWorld) { w.nodes.SetUnreachable(inCluster, "connection refused") }
	for name, tt := range map[string]struct {
		breaks     func(*upgradeWorld)
		last, spec string
		begins     bool
	}{
		"not there":                          {breaks: gone, last: from, spec: wanted, begins: true},
		"not reached":                        {breaks: away, last: from, spec: wanted, begins: true},
		"never known":                        {breaks: gone, spec: from, begins: true},
		"known as what is asked for":         {breaks: away, last: wanted, spec: from},
		"never known, made as what is asked": {breaks: gone, spec: wanted},
		"nothing is known":                   {breaks: gone, spec: "latest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t)
			kubelet, _ := w.register()
			m := newMachine("a", "")
			m.Annotations[v1alpha1.InPlaceUpgradeDrainAnnotation], m.Annotations[keys.To], m.Spec.Version = "false", toVersion, tt.spec
			w.add(m)
			tt.breaks(w)
			w.edit("a", func(m *clusterv1.Machine) { m.Status.NodeInfo = nil })
			if tt.last != "" {
				w.edit("a", func(m *clusterv1.Machine) { m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: tt.last} })
			}
			for range 4 {
				if _, err := w.reconcile("a"); err != nil {
					t.Fatal(err)
				}
			}
			if begun := len(kubelet.requests) > 0; begun != tt.begins {
				t.Errorf("begun %t, want %t; the condition is %+v", begun, tt.begins, conditionOf(w.machine("a").Status.Conditions))
			}
			if c := conditionOf(w.machine("a").Status.Conditions); !tt.begins && (c == nil || c.Reason != string(inplace.ReasonUpdaterUnknown)) {
				t.Errorf("the condition is %+v", c)
			}
		})
	}
}

// TestFollow tells an updater that nothing may begin any longer, and does not ask one at all that need not know what it is asked about.
func TestFollow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		updater         string
		follow, unheard bool
		// asked says that the updater is asked, and want what the annotation then says.
		asked bool
		want  string
	}{
		"wanted":                {updater: "kubelet", asked: true},
		"followed":              {updater: "kubelet", follow: true, asked: true, want: "true"},
		"not heard of":          {updater: "kubelet", follow: true, unheard: true},
		"not heard of, wanted":  {updater: "kubelet", unheard: true, asked: true},
		"of k8sd":               {updater: "k8sd", follow: true, asked: true, want: "true"},
		"of k8sd, not heard of": {updater: "k8sd", follow: true, unheard: true, asked: true, want: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUpgradeWorld(t)
			w.register()
			m := newMachine("a", "")
			m.Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation] = "false"
			w.add(m)
			r, err := w.engine.readMachine(t.Context(), keyNamed("a"))
			if err != nil {
				t.Fatal(err)
			}
			r.facts.Marks.To, r.facts.Upgrade = toChannel, &request.Upgrade{Option: toChannel}
			call, follow := inplace.Call{Step: inplace.Step{Updater: tt.updater}, Operation: "o"}, (*request.Follow)(nil)
			if tt.follow {
				follow = &request.Follow{Call: call, Unheard: tt.unheard}
			}
			a, err := r.call(t.Context(), call, follow)
			if err != nil {
				t.Fatal(err)
			}
			requests := w.updaters[tt.updater].requests
			if asked := len(requests) == 1; asked != tt.asked {
				t.Fatalf("asked %t: %+v", asked, a)
			}
			if !tt.asked {
				if a.Outcome != inplace.Unknown || !strings.Contains(a.Message, "unknown whether its change still runs") || a.NotBegun {
					t.Errorf("the answer is %+v", a)
				}
				return
			}
			if got := requests[0].Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation]; got != tt.want {
				t.Errorf("the annotation says %q, want %q", got, tt.want)
			}
			if got := w.machine("a").Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation]; got != "false" {
				t.Errorf("that of the Machine itself says %q", got)
			}
		})
	}
}

// edit changes the status of a machine.
func (w *upgradeWorld) edit(name string, change func(*clusterv1.Machine)) {
	w.Helper()
	m := w.machine(name)
	change(m)
	if err := w.client.Status().Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}
