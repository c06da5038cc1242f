package pool_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// msDeployment returns a MachineDeployment with 5 replicas of the revision 2.
func msDeployment(maxInFlight *intstr.IntOrString) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{}
	md.Name, md.Namespace = "workers", "ns"
	md.Annotations = map[string]string{clusterv1.RevisionAnnotation: "2"}
	md.Spec.Replicas = new(int32(5))
	md.Spec.Remediation.MaxInFlight = maxInFlight
	return md
}

func ofVersion(md *clusterv1.MachineDeployment, version string) *clusterv1.MachineDeployment {
	md.Spec.Template.Spec.Version = version
	return md
}

func runsKubelet(version string) machineOption {
	return func(m *clusterv1.Machine) { m.Status.NodeInfo = kubelet(version) }
}

func TestRemediate(t *testing.T) {
	t.Parallel()
	const (
		busy = "Waiting because there are already too many remediations in progress " +
			"(spec.strategy.remediation.maxInFlight is "
		outdated = "Machine won't be remediated because it is pending removal due to rollout"
	)
	current := setMark(clusterv1.RevisionAnnotation, "2")
	earlier := setMark(clusterv1.RevisionAnnotation, "1")
	blocked := func(set *clusterv1.MachineSet) {
		earlier(set)
		setMark(v1alpha1.NoUpdateAnnotation, string(pool.ReasonNotCovered))(set)
	}
	three := []*clusterv1.Machine{
		msMachine("a", toRemediate, old(3*time.Hour)), msMachine("b", toRemediate, old(2*time.Hour)),
		msMachine("c", toRemediate, old(time.Hour)), msMachine("well"),
	}
	going := msMachine("going", toRemediate, inDeletion(time.Minute))
	gone := msMachine("gone", checkFailed, ownerDeletes, inDeletion(time.Minute))
	updating := msMachine("updating", toRemediate, updateMarked)
	since := func(kind string, age time.Duration) machineOption {
		return func(m *clusterv1.Machine) {
			conditions.Get(m, kind).LastTransitionTime = metav1.NewTime(msNow.Add(-age))
		}
	}
	// hung returns a Machine that is being updated and unhealthy for so long.
	hung := func(name string, updated, unhealthy time.Duration,
		options ...machineOption) *clusterv1.Machine {
		return msMachine(name, append([]machineOption{
			toRemediate, updateMarked, reports(clusterv1.MachineUpdatingCondition, metav1.ConditionTrue, "R",
				""),
			since(clusterv1.MachineUpdatingCondition, updated),
			since(clusterv1.MachineHealthCheckSucceededCondition, unhealthy),
		}, options...)...)
	}
	// updated returns a Machine whose update ended, and that was found unhealthy, so long ago.
	updated := func(name string, ended, unhealthy time.Duration,
		options ...machineOption) *clusterv1.Machine {
		at := msNow.Add(-ended).Format(time.RFC3339)
		return msMachine(name, append([]machineOption{
			toRemediate, machineMark(v1alpha1.LastUpdateAnnotation, `{"ended":"`+at+`"}`),
			since(clusterv1.MachineHealthCheckSucceededCondition, unhealthy),
		}, options...)...)
	}
	const held = "Waiting because the Machine is being updated in place (at most 1h30m0s)"
	hold := policy.Policy{HandOver: true}
	for name, test := range map[string]struct {
		set        setOption
		deployment *clusterv1.MachineDeployment
		policy     policy.Policy
		machines   []*clusterv1.Machine
		recovered  []string
		deleted    []string
		deferred   map[string]string
		after      time.Duration
	}{
		"nothing to do": {set: current, machines: []*clusterv1.Machine{msMachine("well"), msMachine("check", checkFailed)}},
		"no MachineDeployment": {
			set: current, machines: three, deleted: []string{"c", "b", "a"},
		},
		"no limit":            {set: current, deployment: msDeployment(nil), machines: three, deleted: []string{"c", "b", "a"}},
		"in deletion already": {set: current, deployment: msDeployment(nil), machines: []*clusterv1.Machine{going}},
		"old revision": {
			set: earlier, deployment: msDeployment(nil), machines: three,
			deferred: map[string]string{"a": outdated, "b": outdated, "c": outdated},
		},
		"limit": {
			set: current, deployment: msDeployment(new(intstr.FromInt32(2))), machines: three,
			deleted: []string{"c", "b"}, deferred: map[string]string{"a": busy + "2)"},
		},
		"percentage, rounded up": {
			set: current, deployment: msDeployment(new(intstr.FromString("21%"))), machines: three,
			deleted: []string{"c", "b"}, deferred: map[string]string{"a": busy + "21%)"},
		},
		"limit, and one in flight": {
			set: current, deployment: msDeployment(new(intstr.FromInt32(2))), machines: append(three, gone, going),
			deleted: []string{"c"}, deferred: map[string]string{"a": busy + "2)", "b": busy + "2)"},
		},
		"limit reached": {
			set: current, deployment: msDeployment(new(intstr.FromInt32(1))), machines: append(three, gone),
			deferred: map[string]string{"a": busy + "1)", "b": busy + "1)", "c": busy + "1)"},
		},
		"person asks": {
			set: current, deployment: msDeployment(new(intstr.FromInt32(1))), machines: append([]*clusterv1.Machine{
				msMachine("asked", toRemediate, old(9*time.Hour), machineMark(clusterv1.RemediateMachineAnnotation, "")),
			}, three[0]),
			deleted: []string{"asked"}, deferred: map[string]string{"a": busy + "1)"},
		},
		"healthy again": {
			set: current, machines: []*clusterv1.Machine{
				msMachine("recovered", checkPassed, ownerAsked), msMachine("legacy", legacyRecovered),
				msMachine("recovered-going", checkPassed, ownerAsked, inDeletion(time.Minute)),
			}, recovered: []string{"legacy", "recovered"},
		},
		"updating": {
			set: current, machines: []*clusterv1.Machine{updating}, deleted: []string{"updating"},
		},
		"updating, and held": {
			set: current, deployment: msDeployment(new(intstr.FromInt32(1))), policy: policy.Policy{HandOver: true},
			machines: []*clusterv1.Machine{updating, three[0]}, deleted: []string{"a"},
			deferred: map[string]string{"updating": held}, after: 90 * time.Minute,
		},
		"updating, and outdated": {
			set: earlier, deployment: msDeployment(nil), policy: hold,
			machines: []*clusterv1.Machine{updating},
			deferred: map[string]string{"updating": held}, after: 90 * time.Minute,
		},
		"held no longer": {
			set: current, deployment: msDeployment(new(intstr.FromInt32(1))), policy: hold,
			machines: []*clusterv1.Machine{
				hung("a", 2*time.Hour, 2*time.Hour), hung("b", time.Hour, 2*time.Hour), hung("c", 2*time.Hour,
					80*time.Minute),
			},
			deleted: []string{"a"}, deferred: map[string]string{"b": held,
				"c": held}, after: 10 * time.Minute,
		},
		"held anew after a pause of the Cluster": {
			set: current, deployment: msDeployment(nil), policy: hold,
			machines: []*clusterv1.Machine{
				hung("a", 2*time.Hour, 2*time.Hour,
					reports(clusterv1.PausedCondition, metav1.ConditionFalse, "R", ""),
					since(clusterv1.PausedCondition, 20*time.Minute)),
				hung("b", 2*time.Hour, 2*time.Hour,
					reports(clusterv1.PausedCondition, metav1.ConditionTrue, "R", ""),
					since(clusterv1.PausedCondition, 2*time.Hour)),
			},
			deferred: map[string]string{"a": held, "b": held}, after: 70 * time.Minute,
		},
		"held no longer, and outdated": {
			set: earlier, deployment: msDeployment(nil), policy: hold,
			machines: []*clusterv1.Machine{hung("a", 2*time.Hour, 2*time.Hour)}, deleted: []string{"a"},
		},
		"held as long as the policy asks": {
			set: current, deployment: msDeployment(nil), policy: policy.Policy{HandOver: true, Soak: 3 * time.Hour},
			machines: []*clusterv1.Machine{hung("a", 2*time.Hour, 2*time.Hour)}, after: time.Hour,
			deferred: map[string]string{"a": "Waiting because the Machine is being updated in place (at most 3h0m0s)"},
		},
		"updated since, and the verdict is older": {
			set: current, deployment: msDeployment(nil), policy: hold,
			machines: []*clusterv1.Machine{
				updated("a", 10*time.Second, time.Minute), updated("b", 40*time.Second, time.Minute),
				updated("c", 10*time.Second, 5*time.Second),
				updated("d", 10*time.Second, time.Minute, machineMark(clusterv1.RemediateMachineAnnotation, "")),
			},
			deleted: []string{"d", "b", "c"}, after: 20 * time.Second,
			deferred: map[string]string{"a": "Waiting because the update in place has just ended, " +
				"for a MachineHealthCheck to look again (at most 30s)"},
		},
		"updated since, without a policy that holds": {
			set: current, deployment: msDeployment(nil), deleted: []string{"a"},
			machines: []*clusterv1.Machine{updated("a", 10*time.Second, time.Minute)},
		},
		"held, and a person asks": {
			set: current, deployment: msDeployment(nil), policy: hold, deleted: []string{"a"}, machines: []*clusterv1.Machine{
				hung("a", time.Minute, time.Minute, machineMark(clusterv1.RemediateMachineAnnotation, "")),
			},
		},
		"held, outdated, and without a Node": {
			set: earlier, deployment: msDeployment(nil), policy: hold, deleted: []string{"no node"},
			machines: []*clusterv1.Machine{msMachine("no node", toRemediate, withoutNode), three[0]},
			deferred: map[string]string{"a": outdated},
		},
		"outdated, and no update leads to the template": {
			set: blocked, deployment: msDeployment(nil), policy: hold,
			machines: append(three, updating), deleted: []string{"c", "b", "a"},
			deferred: map[string]string{"updating": held}, after: 90 * time.Minute,
		},
		"outdated, no update leads to the template, and the group may be replaced": {
			set: blocked, deployment: msDeployment(nil), machines: three,
			deferred: map[string]string{"a": outdated, "b": outdated, "c": outdated},
		},
		"outdated, no update leads to the template, limit": {
			set: blocked, deployment: msDeployment(new(intstr.FromInt32(1))), policy: hold, machines: three,
			deleted: []string{"c"}, deferred: map[string]string{"a": busy + "1)", "b": busy + "1)"},
			after: 15 * time.Second,
		},
		"outdated, and the kubelet is ahead": {
			set: earlier, deployment: ofVersion(msDeployment(nil), "v1.30.0"), policy: hold, deleted: []string{"ahead"},
			machines: []*clusterv1.Machine{
				msMachine("ahead", toRemediate, runsKubelet("v1.31.0")), msMachine("behind", toRemediate, runsKubelet("v1.29.0")),
			},
			deferred: map[string]string{"behind": outdated},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := factsOf(msSet(5, test.set), test.machines...)
			f.Deployment, f.Policy = test.deployment, test.policy
			got, err := f.Remediate()
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(test.recovered, names(got.Recovered)); diff != "" {
				t.Errorf("recovered (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(test.deleted, names(got.Delete)); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			if got.After != test.after {
				t.Errorf("looks again after %s, want %s", got.After, test.after)
			}
			deferred := map[string]string{}
			for _, d := range got.Deferred {
				deferred[d.Machine.Name] = d.Message
				c := metav1.Condition{
					Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
					Reason: d.Reason, Message: d.Message,
				}
				marked := &clusterv1.Machine{}
				conditions.Set(marked, c)
				isHeld := strings.HasPrefix(d.Message, "Waiting because the Machine is being updated")
				if got := pool.IsRemediationHeld(marked); got != isHeld {
					t.Errorf("%s: the update may begin: %t, want %t", d.Machine.Name, got, isHeld)
				}
				wantReason := clusterv1.MachineSetMachineRemediationDeferredReason
				if d.Message == outdated {
					wantReason = clusterv1.MachineSetMachineCannotBeRemediatedReason
				}
				if d.Reason != wantReason {
					t.Errorf("%s: reason %s, want %s", d.Machine.Name, d.Reason, wantReason)
				}
			}
			if diff := gocmp.Diff(test.deferred, deferred); diff != "" && len(test.deferred)+len(deferred) > 0 {
				t.Errorf("deferred (-want +got):\n%s", diff)
			}
		})
	}
}

// legacyRecovered has conditions of API v1beta1 only.
//
//nolint:staticcheck // SA1019: Machines of API v1beta1 are what it tests
func legacyRecovered(m *clusterv1.Machine) {
	m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{
		Conditions: clusterv1.Conditions{
			{Type: clusterv1.MachineHealthCheckSucceededV1Beta1Condition, Status: corev1.ConditionTrue},
			{Type: clusterv1.MachineOwnerRemediatedV1Beta1Condition, Status: corev1.ConditionFalse},
		},
	}}
}

func TestRemediateWithBadLimit(t *testing.T) {
	t.Parallel()
	f := factsOf(msSet(1, setMark(clusterv1.RevisionAnnotation, "2")), msMachine("a", toRemediate))
	f.Deployment = msDeployment(new(intstr.FromString("many")))
	if _, err := f.Remediate(); err == nil {
		t.Error("no error")
	}
	f.Machines = nil
	if _, err := f.Remediate(); err != nil {
		t.Errorf("the limit was read with nothing to remediate: %v", err)
	}
}

// TestRemediateProperties: each Machine that needs remediation is deleted or deferred, no other one
// is, and those deleted and in flight never exceed the limit.
func TestRemediateProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := factsOf(setOf(t), machinesOf(t)...)
		limit := rapid.Int32Range(0, 6).Draw(t, "limit")
		f.Deployment = msDeployment(new(intstr.FromInt32(limit)))
		f.Policy.HandOver = rapid.Bool().Draw(t, "hold")
		setMark(clusterv1.RevisionAnnotation, rapid.SampledFrom([]string{"1", "2"}).Draw(t, "revision"))(f.MachineSet)
		for _, m := range f.Machines {
			if !m.DeletionTimestamp.IsZero() && len(m.Status.Conditions) == 0 && rapid.Bool().Draw(t, "in flight") {
				checkFailed(m)
				ownerDeletes(m)
			}
		}
		got, err := f.Remediate()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, m := range got.Delete {
			seen[m.Name]++
		}
		for _, d := range got.Deferred {
			seen[d.Machine.Name]++
		}
		inFlight := len(got.Delete)
		for _, m := range f.Machines {
			want := 0
			if pool.NeedsRemediation(m) && m.DeletionTimestamp.IsZero() {
				want = 1
			}
			if seen[m.Name] != want {
				t.Errorf("%s is in the plan %d times, want %d", m.Name, seen[m.Name], want)
			}
			if !m.DeletionTimestamp.IsZero() && len(m.Status.Conditions) > 0 &&
				m.Status.Conditions[len(m.Status.Conditions)-1].Reason ==
					clusterv1.MachineSetMachineRemediationMachineDeletingReason {
				inFlight++
			}
		}
		if len(got.Delete) > 0 && inFlight > int(limit) {
			t.Errorf("%d remediations in flight, want at most %d", inFlight, limit)
		}
	})
}

// TestRemediationOfGroup: the MachineSets of a kept group share spec.remediation.maxInFlight, although
// each decides alone, and whatever they have decided already.
func TestRemediationOfGroup(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int32Range(0, 3).Draw(t, "limit")
		md := msDeployment(new(intstr.FromInt32(limit)))
		sets := map[string]*clusterv1.MachineSet{}
		for name, revision := range map[string]string{"a": "1", "b": "2", "c": "1"} {
			sets[name] = msSet(5, setMark(clusterv1.RevisionAnnotation, revision))
			sets[name].Name = name
		}
		refused := reports(clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse,
			clusterv1.MachineSetMachineCannotBeRemediatedReason, "")
		var group []*clusterv1.Machine
		for i := range rapid.IntRange(0, 8).Draw(t, "machines") {
			m := msMachine(fmt.Sprintf("m%d", i))
			switch rapid.IntRange(0, 5).Draw(t, "state") {
			case 1:
				toRemediate(m)
				withoutNode(m)
			case 2:
				checkFailed(m)
				ownerDeletes(m)
				inDeletion(time.Minute)(m)
			case 3:
				checkFailed(m)
				ownerDeletes(m)
				withoutNode(m)
			case 4:
				toRemediate(m)
				updateMarked(m)
			case 5:
				checkFailed(m)
				refused(m)
			}
			owner := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner")
			m.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: owner, Controller: new(true),
			}}
			if refused := conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition) ==
				clusterv1.MachineSetMachineCannotBeRemediatedReason; refused && owner == "b" {
				m.OwnerReferences[0].Name = "a" // The MachineSet of the template refuses none.
			}
			group = append(group, m)
		}
		isDecided := func(m *clusterv1.Machine) bool {
			return conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition) ==
				clusterv1.MachineSetMachineRemediationMachineDeletingReason
		}
		inFlight, candidates, deleted, decided, fresh := 0, 0, 0, 0, 0
		for name, set := range sets {
			f := factsOf(set)
			f.Deployment, f.Group, f.Policy.HandOver = md, group, true
			for _, m := range group {
				if m.OwnerReferences[0].Name == name {
					f.Machines = append(f.Machines, m)
				}
			}
			got, err := f.Remediate()
			if err != nil {
				t.Fatal(err)
			}
			deleted += len(got.Delete)
			candidates += len(got.Delete)
			for _, d := range got.Deferred {
				if strings.HasPrefix(d.Message, "Waiting because there are already") {
					candidates++
				}
			}
			for _, m := range f.Machines {
				switch {
				case !m.DeletionTimestamp.IsZero():
					inFlight++
				case isDecided(m):
					decided++
				}
			}
			for _, m := range got.Delete {
				if !isDecided(m) {
					fresh++
				}
			}
		}
		if fresh > 0 && fresh+decided+inFlight > int(limit) {
			t.Errorf("%d are remediated in addition to %d and %d that are decided, and maxInFlight is %d",
				fresh, inFlight, decided, limit)
		}
		if deleted > 0 && deleted+inFlight > int(limit) {
			t.Errorf("%d are remediated in addition to %d, and maxInFlight is %d", deleted, inFlight, limit)
		}
		if deleted == 0 && candidates > 0 && inFlight < int(limit) {
			t.Errorf("none of %d Machines is remediated, %d are in flight, and maxInFlight is %d",
				candidates, inFlight, limit)
		}
	})
}
