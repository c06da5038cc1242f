package pool_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

func TestScale(t *testing.T) {
	t.Parallel()
	const receive = clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation
	move := setMark(clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, "new")
	a, b, moved := msMachine("a"), msMachine("b", inDeletion(time.Hour)), msMachine("moved", movePending, updateMarked)
	for name, test := range map[string]struct {
		facts pool.SetFacts
		want  pool.Scaling
	}{
		"as desired":  {factsOf(msSet(2), a, b), pool.Scaling{Action: pool.Keep, Reason: pool.ReasonUpToDate}},
		"none at all": {factsOf(msSet(0)), pool.Scaling{Action: pool.Keep, Reason: pool.ReasonUpToDate}},
		"missing": {
			factsOf(msSet(5), a, b), pool.Scaling{Action: pool.Create, Count: 3, Reason: pool.ReasonMissing},
		},
		"missing, and creation is disabled": {
			factsOf(msSet(5, setMark(clusterv1.DisableMachineCreateAnnotation, "true")), a),
			pool.Scaling{Action: pool.Keep, Reason: pool.ReasonCreationDisabled},
		},
		"missing, and creation is not disabled": {
			factsOf(msSet(5, setMark(clusterv1.DisableMachineCreateAnnotation, "false")), a),
			pool.Scaling{Action: pool.Create, Count: 4, Reason: pool.ReasonMissing},
		},
		"missing, but some moved here": {
			factsOf(msSet(3, setMark(receive, "old")), a, moved),
			pool.Scaling{Action: pool.Create, Count: 1, Reason: pool.ReasonMissing},
		},
		"surplus": {factsOf(msSet(0), a, b), pool.Scaling{Action: pool.Delete, Count: 2, Reason: pool.ReasonSurplus}},
		"surplus to be moved": {
			factsOf(msSet(1, move), a, b),
			pool.Scaling{Action: pool.Update, Count: 1, Target: "new", Reason: pool.Reason(pool.ReasonMove)},
		},
		"surplus of a parked MachineSet": {
			factsOf(msSet(1, setMark(clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, msSet(1).Name)), a, b),
			pool.Scaling{Action: pool.Keep, Reason: pool.ReasonParked},
		},
		"surplus that moved here": {
			factsOf(msSet(1, setMark(receive, "old")), a, moved),
			pool.Scaling{Action: pool.Keep, Reason: pool.ReasonMovesPending},
		},
		"more moved here than the surplus": {
			factsOf(msSet(2, setMark(receive, "old")), a, moved, msMachine("moved-2", movePending)),
			pool.Scaling{Action: pool.Keep, Reason: pool.ReasonMovesPending},
		},
		"surplus besides what moved here": {
			factsOf(msSet(1, setMark(receive, "old")), a, b, moved),
			pool.Scaling{Action: pool.Delete, Count: 1, Reason: pool.ReasonSurplus},
		},
		"surplus that moved here and is counted": {
			factsOf(msSet(1, setMark(receive, "old"), setMark(clusterv1.AcknowledgedMoveAnnotation, "x,moved")), a, moved),
			pool.Scaling{Action: pool.Delete, Count: 1, Reason: pool.ReasonSurplus},
		},
		"moved here, but no longer accepted": {
			factsOf(msSet(1, setMark(receive, "")), a, moved),
			pool.Scaling{Action: pool.Delete, Count: 1, Reason: pool.ReasonSurplus},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.facts.Scale()
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("the scaling differs (-want +got):\n%s", diff)
			}
		})
	}
	set := msSet(0)
	set.Spec.Replicas = nil
	if _, err := factsOf(set).Scale(); err == nil {
		t.Error("a MachineSet without replicas was scaled")
	}
}

// TestScaleProperties: scaling never goes past spec.replicas, in either direction, and Machines that
// the MachineDeployment has not counted are no reason to delete others.
func TestScaleProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := factsOf(setOf(t), machinesOf(t)...)
		got, err := f.Scale()
		if err != nil {
			t.Fatal(err)
		}
		pending := 0
		for _, m := range f.Machines {
			if pool.Receives(f.MachineSet) && pool.IsMovePending(m) {
				pending++
			}
		}
		have, want := len(f.Machines), int(*f.MachineSet.Spec.Replicas)
		switch got.Action {
		case pool.Create:
			if have+got.Count != want {
				t.Errorf("%d Machines and %d new ones, want %d", have, got.Count, want)
			}
		case pool.Delete, pool.Update:
			if have-pending-got.Count != want || got.Count <= 0 {
				t.Errorf("%d of %d Machines go, %d are not counted, want %d", got.Count, have, pending, want)
			}
		case pool.Keep:
			if got.Count != 0 {
				t.Errorf("count %d", got.Count)
			}
		case pool.Wait:
			fallthrough
		default:
			t.Errorf("action %s", got.Action)
		}
	})
}

func TestMayBeginUpdate(t *testing.T) {
	t.Parallel()
	receive := setMark(clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation, "old")
	counted := setMark(clusterv1.AcknowledgedMoveAnnotation, "x,m,y")
	for name, test := range map[string]struct {
		set  []setOption
		m    []machineOption
		want bool
	}{
		"not marked":                {},
		"marked":                    {m: []machineOption{updateMarked}, want: true},
		"begun":                     {m: []machineOption{updateMarked, hookPending}},
		"ending":                    {m: []machineOption{hookPending}},
		"not counted":               {[]setOption{receive}, []machineOption{updateMarked, movePending}, false},
		"counted":                   {[]setOption{receive, counted}, []machineOption{updateMarked, movePending}, true},
		"nobody counts":             {nil, []machineOption{updateMarked, movePending}, true},
		"counted in an earlier run": {[]setOption{receive}, []machineOption{updateMarked}, true},
		"other hook pending": {nil, []machineOption{
			updateMarked, machineMark("runtime.cluster.x-k8s.io/pending-hooks", "Other"),
		}, true},
	} {
		if got := pool.MayBeginUpdate(msSet(1, test.set...), msMachine("m", test.m...)); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestDepartures(t *testing.T) {
	t.Parallel()
	machines := []*clusterv1.Machine{
		msMachine("going", inDeletion(time.Hour)), msMachine("moving", updateMarked),
		msMachine("nodeless", withoutNode), msMachine("remediate", toRemediate),
		msMachine("remediate-nodeless", toRemediate, withoutNode),
		msMachine("unhealthy", checkFailed), msMachine("well"), msMachine("well-2"),
	}
	for name, test := range map[string]struct {
		count  int
		policy policy.Policy
		kept   bool
		want   []string
	}{
		"none":                    {},
		"one in deletion counts":  {count: 1},
		"remediation by deletion": {count: 2, want: []string{"remediate delete Remediation"}},
		"some": {count: 5, want: []string{
			"remediate delete Remediation", "remediate-nodeless delete Remediation",
			"unhealthy update Move", "well update Move",
		}},
		"all that can go": {count: 100, want: []string{
			"remediate delete Remediation", "remediate-nodeless delete Remediation",
			"unhealthy update Move", "well update Move", "well-2 update Move",
		}},
		"an update may repair": {count: 4, policy: policy.Policy{HandOver: true}, want: []string{
			"remediate update Move", "remediate-nodeless delete Remediation", "unhealthy update Move",
		}},
		"kept": {count: 9, policy: policy.Policy{HandOver: true}, kept: true, want: []string{
			"remediate update Move", "unhealthy update Move", "well update Move", "well-2 update Move",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := factsOf(msSet(0), machines...)
			f.Policy = test.policy
			if test.kept {
				f.Deployment = &clusterv1.MachineDeployment{}
			}
			departures, err := f.Departures(test.count)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range departures {
				got = append(got, d.Machine.Name+" "+string(d.Action)+" "+string(d.Reason))
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("the departures differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDepartureProperties: no more Machines leave than asked, those in deletion count, and no Machine
// is moved that is being updated or has nothing to update.
func TestDepartureProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := factsOf(setOf(t), machinesOf(t)...)
		f.Policy.HandOver = rapid.Bool().Draw(t, "repair")
		count := rapid.IntRange(-1, 9).Draw(t, "count")
		departures, err := f.Departures(count)
		if err != nil {
			t.Fatal(err)
		}
		going := 0
		for _, m := range f.Machines {
			if !m.DeletionTimestamp.IsZero() {
				going++
			}
		}
		if len(departures) > max(count-going, 0) {
			t.Errorf("%d Machines leave and %d are in deletion, want %d", len(departures), going, count)
		}
		for _, d := range departures {
			switch m := d.Machine; {
			case !m.DeletionTimestamp.IsZero():
				t.Errorf("%s is in deletion already", m.Name)
			case d.Action == pool.Update && (pool.IsUpdating(m) || !m.Status.NodeRef.IsDefined()):
				t.Errorf("%s moves", m.Name)
			case d.Action == pool.Delete && !pool.NeedsRemediation(m):
				t.Errorf("%s is deleted", m.Name)
			}
		}
	})
}

// TestDeletions: deletions are the head of the deletion order, whatever the count.
func TestDeletions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := factsOf(setOf(t), machinesOf(t)...)
		count := rapid.IntRange(-1, 9).Draw(t, "count")
		order, err := f.DeletionOrder()
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Deletions(count)
		if err != nil {
			t.Fatal(err)
		}
		if want := min(max(count, 0), len(order)); len(got) != want {
			t.Fatalf("%d Machines, want %d", len(got), want)
		}
		if diff := gocmp.Diff(order[:len(got)], got); diff != "" {
			t.Errorf("not the head of the order (-order +got):\n%s", diff)
		}
	})
}

func TestReceivesFrom(t *testing.T) {
	t.Parallel()
	set := msSet(1, setMark(clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation, "one,two"))
	for source, want := range map[string]bool{"one": true, "two": true, "on": false, "one,two": false} {
		if got := pool.ReceivesFrom(set, source); got != want {
			t.Errorf("from %s: got %t", source, got)
		}
	}
	if pool.ReceivesFrom(msSet(1), "one") {
		t.Error("a MachineSet without the annotation receives Machines")
	}
}
