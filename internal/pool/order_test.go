package pool_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

const (
	rack   = "example.com/rack"
	ingest = "example.com/ingest"
)

func labeled(name, zone string, set labels.Set) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}
	m.Spec.FailureDomain = zone
	m.Status.NodeRef.Name = name
	return m
}

func TestDeletionOrderByPlace(t *testing.T) {
	t.Parallel()
	machines := []*clusterv1.Machine{
		labeled("a", "", labels.Set{rack: "2"}),
		labeled("b", "", labels.Set{rack: "1", ingest: ""}),
		labeled("c", "", labels.Set{rack: "1"}),
		labeled("d", "zone-1", nil),
		labeled("e", "zone-2", labels.Set{corev1.LabelTopologyZone: "zone-0"}),
		labeled("f", "", labels.Set{rack: "3"}),
	}
	machines[5].Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: ""}
	old, present := &clusterv1.MachineSet{}, &clusterv1.MachineSet{}
	md := &clusterv1.MachineDeployment{}
	old.Spec.Template.Spec.Version = "v1.30.0"
	last := labels.Set{ingest: ""}.AsSelector()
	for name, tt := range map[string]struct {
		set   *clusterv1.MachineSet
		order policy.Order
		want  string
	}{
		"no order": {set: old, want: "fabcde"},
		"by rack":  {set: old, order: policy.Order{Labels: []string{rack}}, want: "fdebca"},
		"the last": {set: old, order: policy.Order{Last: last}, want: "facdeb"},
		"both":     {set: old, order: policy.Order{Labels: []string{rack}, Last: last}, want: "fdecab"},
		"by zone": {set: old, order: policy.Order{Labels: []string{corev1.LabelTopologyZone}},
			want: "fabced"},
		"scaling down": {set: present, order: policy.Order{Labels: []string{rack}}, want: "fabcde"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := pool.SetFacts{MachineSet: tt.set, Deployment: md, Machines: machines}
			f.Policy.Order = tt.order
			order, err := f.DeletionOrder()
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, c := range order {
				got += c.Machine.Name
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the order is wrong (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneRackAtATime: in any order of events, in place and by replacement, with and without kept
// Machines, no Machine of a rack begins before all of the rack before it are done, and the rollout
// ends. In a group that is not kept, Machines that are leaving when the template changes once more
// do not come back.
func TestOneRackAtATime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(2, 6).Draw(t, "replicas")
		w := newWorld(replicas, rapid.Int32Range(0, 2).Draw(t, "surge"),
			rapid.Int32Range(0, min(3, replicas)).Draw(t, "unavailable"))
		w.keep = rapid.Bool().Draw(t, "keep")
		w.limits = &pool.Limits{Order: policy.Order{
			Labels: []string{rack}, OneAtATime: true, Last: labels.Set{ingest: "yes"}.AsSelector(),
		}}
		w.settle(t)
		places := map[string]string{}
		for _, name := range w.names() {
			r := rapid.IntRange(1, 3).Draw(t, "rack of "+name)
			set := map[string]string{rack: fmt.Sprint(r)}
			places[name] = fmt.Sprint(r)
			if rapid.IntRange(0, 3).Draw(t, "last of "+name) == 0 {
				set[ingest], places[name] = "yes", fmt.Sprint(3+r)
			}
			w.machines[name].Labels = set
			if rapid.IntRange(0, 3).Draw(t, "joined "+name) == 0 {
				w.machines[name].Status.NodeRef = clusterv1.MachineNodeReference{}
				w.set(w.machines[name], false)
			}
		}
		w.md.Spec.Template.Spec.Version = "v1.31.0"
		w.covered["v1.31.0"] = pool.AnswerYes
		if !w.keep && rapid.Bool().Draw(t, "replace") {
			w.covered["v1.31.0"] = pool.AnswerNo
		}
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			w.random(t)
			w.checkRacks(t, places)
		}
		if rapid.Bool().Draw(t, "second change") {
			w.covered["v1.32.0"] = w.covered["v1.31.0"]
			w.md.Spec.Template.Spec.Version = "v1.32.0"
			maps.DeleteFunc(places, func(name, _ string) bool { return w.machines[name] == nil })
			for range rapid.IntRange(0, 120).Draw(t, "more steps") {
				w.random(t)
				if w.keep {
					w.checkRacks(t, places)
				}
			}
		}
		w.settle(t)
		if n := w.upToDate(); n != int(replicas) || len(w.machines) != int(replicas) {
			t.Fatalf("%d of %d Machines are up to date:\n%s", n, len(w.machines), w)
		}
	})
}

// checkRacks: a Machine that is touched has no Machine of an earlier place that waits or is being
// updated.
func (w *world) checkRacks(t failer, places map[string]string) {
	t.Helper()
	wanted := w.md.Spec.Template.Spec.Version
	for name, place := range places {
		m := w.machines[name]
		touched := m == nil || w.owner(m).Spec.Template.Spec.Version == wanted
		for other, before := range places {
			o := w.machines[other]
			done := o == nil || o.Spec.Version == wanted && !pool.IsUpdating(o)
			if touched && before < place && !done {
				t.Fatalf("%s of place %s is touched before %s of place %s is done:\n%s",
					name, place, other, before, w)
			}
		}
	}
}

// TestRackWaitsForMachinesThatDoNotExist: after the old Machines of a rack are gone, those of the
// next rack wait until new ones are created and available.
func TestRackWaitsForMachinesThatDoNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(4, 0, 4)
	w.limits = &pool.Limits{Order: policy.Order{Labels: []string{rack}, OneAtATime: true}}
	w.settle(t)
	names := w.names()
	for i, name := range names {
		w.machines[name].Labels = map[string]string{rack: fmt.Sprint(i / 2)}
	}
	w.md.Spec.Template.Spec.Version = "v1.31.0"
	w.covered["v1.31.0"] = pool.AnswerNo
	w.reconcile(t)
	old := w.owner(w.machines[names[0]])
	for range names[:2] {
		w.scale(old, nil)
	}
	w.reconcile(t)
	w.reconcile(t)
	if old = w.owner(w.machines[names[3]]); *old.Spec.Replicas != 2 {
		t.Errorf("the old MachineSet keeps %d Machines, want 2:\n%s", *old.Spec.Replicas, w)
	}
	w.settle(t)
	if n := w.upToDate(); n != 4 {
		t.Errorf("%d Machines are up to date, want 4:\n%s", n, w)
	}
}

// changedOnDelete returns a group with the strategy OnDelete whose template has changed, and the
// names of its Machines. A policy may ask for updates in place.
func changedOnDelete(t failer, asks bool) (w *world, machines []string) {
	t.Helper()
	w = newWorld(4, 0, 0)
	w.settle(t)
	machines = w.names()
	w.md.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{
		Type: clusterv1.OnDeleteMachineDeploymentStrategyType,
	}
	w.keep, w.onDelete, w.limits = asks, asks, &pool.Limits{MaxInFlight: 2}
	w.md.Spec.Template.Spec.Version = "v1.31.0"
	return w, machines
}

// TestUpdateOnDelete: with the strategy OnDelete a policy has Machines updated in place. Without it
// they wait for a person.
func TestUpdateOnDelete(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{false, true} {
		w, before := changedOnDelete(t, asks)
		w.covered["v1.31.0"] = pool.AnswerYes
		w.settle(t)
		want := 0
		if asks {
			want = 4
		}
		if n := w.upToDate(); n != want {
			t.Errorf("asks=%t: %d Machines are updated, want %d:\n%s", asks, n, want, w)
		}
		if diff := cmp.Diff(before, w.names()); diff != "" {
			t.Errorf("asks=%t: Machines were created or deleted (-before +after):\n%s", asks, diff)
		}
	}
}

// TestUpdateOnDeleteEnds: if the policy goes at any time while it has Machines of a group with the
// strategy OnDelete updated in place, none is created or deleted.
func TestUpdateOnDeleteEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, before := changedOnDelete(t, true)
		w.covered["v1.31.0"], w.covered["v1.32.0"] = pool.AnswerYes, pool.AnswerYes
		for range rapid.IntRange(0, 40).Draw(t, "steps before") {
			w.random(t)
		}
		// Nobody can tell which of several policies counts, or there is none.
		w.keep = rapid.Bool().Draw(t, "the policy is ambiguous")
		w.onDelete, w.limits = false, nil
		if rapid.Bool().Draw(t, "and the template changes") {
			w.md.Spec.Template.Spec.Version = rapid.SampledFrom([]string{"v1.30.0", "v1.32.0"}).Draw(t, "to")
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps after") {
			w.random(t)
		}
		w.settle(t)
		if diff := cmp.Diff(before, w.names()); diff != "" {
			t.Fatalf("Machines were created or deleted (-before +after):\n%s\n%s", diff, w)
		}
	})
}
