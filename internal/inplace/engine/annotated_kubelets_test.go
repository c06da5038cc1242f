package engine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

const toRevision = "revision=7"

// newRevisionGroup makes a group that is to be brought to a revision that another controller has
// brought all its machines to. Cluster API shows the old kubelet of machine lagging.
func newRevisionGroup(t *testing.T, lagging string) *upgradeWorld {
	t.Helper()
	w := newUpgradeWorld(t)
	w.addGroup(deploymentKind, "md", "w-0", "w-1", "w-2")
	for _, name := range []string{"w-0", "w-1", "w-2"} {
		w.nodes.Set(inCluster, name, porttest.ReadyNode(wanted, w.now))
		w.annotate(w.machine(name), map[string]any{keys.Release: toRevision, keys.Status: "done"})
	}
	w.sync()
	m := w.machine(lagging)
	m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: from}
	if err := w.client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.askGroup(deploymentKind, "md", toRevision)
	return w
}

// reconcileGroup reconciles the group often enough for it to come to rest.
func (w *upgradeWorld) reconcileGroup() Result {
	w.Helper()
	for range 20 {
		result, err := w.engine.UpgradeGroup(w.quiet(), deploymentKind, keyNamed("md"))
		if err != nil {
			w.Fatal(err)
		}
		if !result.Now {
			return result
		}
	}
	w.Fatalf("the group does not come to rest: %v", w.said("md"))
	return Result{}
}

// TestKubeletIsNotGuessed holds that a group waits, and shows why, while a node cannot be asked, and that
// it ends when the node can be: what Cluster API shows meanwhile may be old.
func TestKubeletIsNotGuessed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hide, show func(*upgradeWorld)
		want       string
	}{
		"no network": {
			func(w *upgradeWorld) { w.nodes.SetUnreachable(inCluster, "no route to host") },
			func(w *upgradeWorld) { w.nodes.SetUnreachable(inCluster, "") },
			"waiting for the version of Machine w-0: reaching Cluster ns/c: no route to host",
		},
		"no node": {
			func(w *upgradeWorld) { w.nodes.Remove(inCluster, "w-1") },
			func(w *upgradeWorld) { w.nodes.Set(inCluster, "w-1", porttest.ReadyNode(wanted, w.now)) },
			"waiting for the version of Machine w-1: its node does not exist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRevisionGroup(t, "w-1")
			tt.hide(w)
			if result := w.reconcileGroup(); result.After == 0 {
				t.Errorf("the group is not looked at again: %+v", result)
			}
			c := conditionOf(capi.Conditions(w.group(deploymentKind, "md")))
			if c == nil || c.Reason != string(request.ReasonMachinesHeld) || !strings.Contains(c.Message, tt.want) {
				t.Errorf("the condition is %+v", c)
			}
			tt.show(w)
			w.reconcileGroup()
			if got := w.groupMarks(deploymentKind, "md"); got != (request.Marks{Status: request.Done, Release: toRevision}) {
				t.Errorf("the group has %+v: %v", got, w.events.notes["md"])
			}
		})
	}
}

// TestOddMachineStopsOnce holds that a group stops at a machine that runs another version than the
// others, once, also when Cluster API shows that version later; and that a retry reads all nodes again.
func TestOddMachineStopsOnce(t *testing.T) {
	t.Parallel()
	w := newRevisionGroup(t, "w-0")
	w.nodes.Edit(inCluster, "w-1", func(n *inplace.Node) { n.Kubelet = inplaceVersion(from) })
	w.reconcileGroup()
	failed := func(when string) {
		t.Helper()
		if got := w.groupMarks(deploymentKind, "md").Status; got != request.Failed || !strings.Contains(w.events.notes["md"], "Machine w-1 runs "+from) {
			t.Fatalf("%s: the group is %s: %v", when, got, w.events.notes["md"])
		}
	}
	failed("at first")
	w.nodes.Edit(inCluster, "w-1", func(n *inplace.Node) { n.Kubelet = inplaceVersion(wanted) })
	w.sync()
	w.reconcileGroup()
	failed("with other versions in status.nodeInfo")
	w.annotate(w.group(deploymentKind, "md"), map[string]any{v1alpha1.UpdateRetryAnnotation: ""})
	w.reconcileGroup()
	if got := w.groupMarks(deploymentKind, "md"); got != (request.Marks{Status: request.Done, Release: toRevision}) {
		t.Errorf("after a retry the group has %+v: %v", got, w.events.notes["md"])
	}
}

// TestEmptyKubeletNote holds that a note without a version, as earlier releases left one, counts as none.
func TestEmptyKubeletNote(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{}
	for note, want := range map[string]string{
		toRevision + " ": "", toRevision + " " + wanted: wanted, toRevision: "", "revision=70 " + wanted: "", "": "",
		toRevision + " " + wanted + " unchanged": wanted, toRevision + " unchanged": "",
	} {
		m.Annotations = map[string]string{v1alpha1.InPlaceUpgradeKubeletAnnotation: note}
		read, noted := readKubeletNote(m, toRevision)
		if noted != (want != "") {
			t.Errorf("%q: %+v, %t", note, read, noted)
		}
		if !noted {
			continue
		}
		if unchanged := strings.HasSuffix(note, " unchanged"); read.kubelet.String() != want || read.unchanged != unchanged {
			t.Errorf("%q: %+v", note, read)
		}
		if again := *read.patch(toRevision)[v1alpha1.InPlaceUpgradeKubeletAnnotation]; again != note {
			t.Errorf("%q is written as %q", note, again)
		}
	}
}
