//nolint:staticcheck // SA1019: clients of API v1beta1 read what is deprecated here
package pool_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

type deploymentFacts = pool.DeploymentFacts

// deploymentOf returns the facts of a MachineDeployment with two replicas, of which one may be
// unavailable, and one MachineSet with these Machines.
func deploymentOf(machines ...*clusterv1.Machine) deploymentFacts {
	set := msSet(2)
	set.Status.Replicas = new(int32(len(machines)))
	return deploymentFacts{
		MachineDeployment: newWorld(2, 0, 1).md, MachineSets: []*clusterv1.MachineSet{set, nil},
		SetsRead: true, Machines: machines, Now: msNow,
	}
}

// availableOf is the condition Available with a counter.
func availableOf(counter *int32) func(deploymentFacts) metav1.Condition {
	return func(f deploymentFacts) metav1.Condition { return f.Available(counter) }
}

func deploymentDeleted(f *deploymentFacts) {
	f.MachineDeployment.DeletionTimestamp = new(metav1.NewTime(msNow))
}

func replicasUnset(f *deploymentFacts) { f.MachineDeployment.Spec.Replicas = nil }

func setsUnread(f *deploymentFacts) { f.SetsRead = false }

func templatesMissing(f *deploymentFacts) {
	f.MachineDeployment.Spec.Template.Spec.Bootstrap.ConfigRef.Kind = "BootstrapTemplate"
	f.MachineDeployment.Spec.Template.Spec.InfrastructureRef.Kind = "InfrastructureTemplate"
	f.BootstrapTemplateMissing, f.InfrastructureTemplateMissing = true, true
}

func badBudget(f *deploymentFacts) {
	f.MachineDeployment.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("x"))
}

// conditionCase is a condition of a MachineDeployment and what it must be.
type conditionCase struct {
	machines  []*clusterv1.Machine
	change    func(*deploymentFacts)
	condition func(deploymentFacts) metav1.Condition

	status          metav1.ConditionStatus
	reason, message string
}

func (c conditionCase) check(t *testing.T) {
	t.Helper()
	f := deploymentOf(c.machines...)
	if c.change != nil {
		c.change(&f)
	}
	got := c.condition(f)
	want := metav1.Condition{Type: got.Type, Status: c.status, Reason: c.reason, Message: c.message}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the condition differs (-want +got):\n%s", diff)
	}
}

func TestDeploymentAvailable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]conditionCase{
		"enough": {condition: availableOf(new(int32(1))), status: "True", reason: "Available"},
		"too few": {
			condition: availableOf(new(int32(0))), status: "False", reason: "NotAvailable",
			message: "0 available replicas, at least 1 required " +
				"(spec.strategy.rollout.maxUnavailable is 1, spec.replicas is 2)",
		},
		"too few, and deleted": {
			change: deploymentDeleted, condition: availableOf(new(int32(0))), status: "False",
			reason: "NotAvailable", message: "Deletion in progress",
		},
		"maxUnavailable is no number": {
			change: badBudget, condition: availableOf(new(int32(1))), status: "False",
			reason: "NotAvailable",
			message: "1 available replicas, at least 2 required " +
				"(spec.strategy.rollout.maxUnavailable is x, spec.replicas is 2)",
		},
		"no replicas": {
			change: replicasUnset, condition: availableOf(new(int32(1))), status: "Unknown",
			reason: "WaitingForReplicasSet", message: "Waiting for spec.replicas set",
		},
		"no counter": {
			condition: availableOf(nil), status: "Unknown", reason: "WaitingForAvailableReplicasSet",
			message: "Waiting for status.availableReplicas set",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t)
		})
	}
}

func TestDeploymentScaling(t *testing.T) {
	t.Parallel()
	one, three := []*clusterv1.Machine{msMachine("a")}, []*clusterv1.Machine{
		msMachine("a"), msMachine("b"), msMachine("c", inDeletion(time.Hour)),
	}
	for name, test := range map[string]conditionCase{
		"up": {
			machines: one, condition: deploymentFacts.ScalingUp, status: "True", reason: "ScalingUp",
			message: "Scaling up from 1 to 2 replicas",
		},
		"up is blocked": {
			machines: one, change: templatesMissing, condition: deploymentFacts.ScalingUp,
			status: "True", reason: "ScalingUp", message: "Scaling up from 1 to 2 replicas is blocked " +
				"because BootstrapTemplate and InfrastructureTemplate do not exist",
		},
		"up would be blocked": {
			machines: three, change: templatesMissing, condition: deploymentFacts.ScalingUp,
			status: "False", reason: "NotScalingUp", message: "Scaling up would be blocked " +
				"because BootstrapTemplate and InfrastructureTemplate do not exist",
		},
		"not up": {
			machines: three[:2], condition: deploymentFacts.ScalingUp, status: "False",
			reason: "NotScalingUp",
		},
		"not up while deleted": {
			machines:  one,
			change:    func(f *deploymentFacts) { deploymentDeleted(f); templatesMissing(f) },
			condition: deploymentFacts.ScalingUp, status: "False", reason: "NotScalingUp",
		},
		"up without replicas": {
			change: replicasUnset, condition: deploymentFacts.ScalingUp, status: "Unknown",
			reason: "WaitingForReplicasSet", message: "Waiting for spec.replicas set",
		},
		"down": {
			machines: three, condition: deploymentFacts.ScalingDown, status: "True", reason: "ScalingDown",
			message: "Scaling down from 3 to 2 replicas\n* Machine c is in deletion since more than 15m",
		},
		"not down": {
			machines: three[:2], condition: deploymentFacts.ScalingDown, status: "False",
			reason: "NotScalingDown",
		},
		"down without replicas": {
			change: replicasUnset, condition: deploymentFacts.ScalingDown, status: "Unknown",
			reason: "WaitingForReplicasSet", message: "Waiting for spec.replicas set",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t)
		})
	}
}

func TestDeploymentRollingOut(t *testing.T) {
	t.Parallel()
	silentlyOutdated := reports(clusterv1.MachineUpToDateCondition, "False", "NotUpToDate", "")
	resized := reports(clusterv1.MachineUpToDateCondition, "False", "NotUpToDate",
		"* A is not up-to-date\n* Version v1, v2 required")
	for name, test := range map[string]conditionCase{
		"nothing": {
			machines:  []*clusterv1.Machine{msMachine("a", upToDate), msMachine("b")},
			condition: deploymentFacts.RollingOut, status: "False", reason: "NotRollingOut",
		},
		"some": {
			machines: []*clusterv1.Machine{
				msMachine("a", outdated), msMachine("b", resized), msMachine("c", upToDate),
			},
			condition: deploymentFacts.RollingOut, status: "True", reason: "RollingOut",
			message: "Rolling out 2 not up-to-date replicas\n" +
				"* Version v1, v2 required\n* A is not up-to-date",
		},
		"without a message": {
			machines:  []*clusterv1.Machine{msMachine("a", silentlyOutdated)},
			condition: deploymentFacts.RollingOut, status: "True", reason: "RollingOut",
			message: "Rolling out 1 not up-to-date replicas",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t)
		})
	}
}

func TestDeploymentMachines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]conditionCase{
		"ready": {
			machines:  []*clusterv1.Machine{msMachine("a", ready)},
			condition: deploymentFacts.MachinesReady, status: "True", reason: "Ready",
		},
		"not ready": {
			machines:  []*clusterv1.Machine{msMachine("a", notReady)},
			condition: deploymentFacts.MachinesReady, status: "False", reason: "NotReady",
			message: "* Machine a: Node is down",
		},
		"none is ready": {
			condition: deploymentFacts.MachinesReady, status: "True", reason: "NoReplicas",
		},
		"outdated": {
			machines:  []*clusterv1.Machine{msMachine("a", outdated)},
			condition: deploymentFacts.MachinesUpToDate, status: "False", reason: "NotUpToDate",
			message: "* Machine a:\n  * Version v1, v2 required",
		},
		"too young to be up to date": {
			machines:  []*clusterv1.Machine{msMachine("a", old(10*time.Second))},
			condition: deploymentFacts.MachinesUpToDate, status: "True", reason: "NoReplicas",
		},
		"unhealthy, but nobody asks": {
			machines:  []*clusterv1.Machine{msMachine("a", checkFailed), msMachine("b")},
			condition: deploymentFacts.Remediating, status: "False", reason: "NotRemediating",
			message: "Machine a is not healthy (not to be remediated by MachineDeployment/MachineSet)",
		},
		"remediating": {
			machines:  []*clusterv1.Machine{msMachine("a", toRemediate), msMachine("b", checkFailed)},
			condition: deploymentFacts.Remediating, status: "True", reason: "Remediating",
			message: "* Machine a: Waiting for remediation",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t)
		})
	}
}

func TestDeploymentDeleting(t *testing.T) {
	t.Parallel()
	late := func(name string) *clusterv1.Machine { return msMachine(name, inDeletion(time.Hour)) }
	for name, test := range map[string]conditionCase{
		"no": {condition: deploymentFacts.Deleting, status: "False", reason: "NotDeleting"},
		"one Machine": {
			machines: []*clusterv1.Machine{late("a")}, change: deploymentDeleted,
			condition: deploymentFacts.Deleting, status: "True", reason: "Deleting",
			message: "Deleting 1 Machine\n* Machine a is in deletion since more than 15m",
		},
		"some Machines": {
			machines: []*clusterv1.Machine{late("a"), late("b")}, change: deploymentDeleted,
			condition: deploymentFacts.Deleting, status: "True", reason: "Deleting",
			message: "Deleting 2 Machines\n* Machines a, b are in deletion since more than 15m",
		},
		"MachineSets": {
			change: func(f *deploymentFacts) {
				deploymentDeleted(f)
				f.MachineSets = f.MachineSets[:1]
			},
			condition: deploymentFacts.Deleting, status: "True", reason: "Deleting",
			message: "Deleting 1 MachineSets",
		},
		"nothing is left": {
			change: func(f *deploymentFacts) {
				deploymentDeleted(f)
				f.MachineSets = nil
			},
			condition: deploymentFacts.Deleting, status: "True", reason: "Deleting",
			message: "Deletion completed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t)
		})
	}
}

// TestDeploymentUnread: what depends on MachineSets is unknown if they could not be read.
func TestDeploymentUnread(t *testing.T) {
	t.Parallel()
	for _, condition := range []func(deploymentFacts) metav1.Condition{
		availableOf(new(int32(2))), deploymentFacts.ScalingUp, deploymentFacts.ScalingDown,
		deploymentFacts.Deleting,
	} {
		conditionCase{
			change: setsUnread, condition: condition, status: "Unknown", reason: "InternalError",
			message: "Please check controller logs for errors",
		}.check(t)
	}
}

func TestDeploymentPhase(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		machines int32
		change   func(*deploymentFacts)
		want     clusterv1.MachineDeploymentPhase
	}{
		"up":       {1, nil, clusterv1.MachineDeploymentPhaseScalingUp},
		"equal":    {2, nil, clusterv1.MachineDeploymentPhaseRunning},
		"down":     {3, nil, clusterv1.MachineDeploymentPhaseScalingDown},
		"deleted":  {2, deploymentDeleted, clusterv1.MachineDeploymentPhaseScalingDown},
		"unset":    {2, replicasUnset, clusterv1.MachineDeploymentPhaseUnknown},
		"not read": {2, setsUnread, clusterv1.MachineDeploymentPhaseUnknown},
	} {
		f := deploymentOf()
		f.MachineSets[0].Status.Replicas = &test.machines
		if test.change != nil {
			test.change(&f)
		}
		if got := f.Phase(); got != test.want {
			t.Errorf("%s: the phase is %s, want %s", name, got, test.want)
		}
	}
}

// TestDeploymentStatus: counters are sums of what MachineSets report; counters that none reports
// stay unset, and if MachineSets were not read the old ones stay.
func TestDeploymentStatus(t *testing.T) {
	t.Parallel()
	f := deploymentOf(msMachine("a"))
	other := msSet(1)
	other.Status.Replicas, other.Status.ReadyReplicas = new(int32(2)), new(int32(1))
	other.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.30.0", Replicas: 2}}
	f.MachineSets = append(f.MachineSets, other)
	status, err := f.Status()
	if err != nil {
		t.Fatal(err)
	}
	want := pool.DeploymentCounters{
		Replicas: new(int32(3)), Ready: new(int32(1)),
		Versions: []clusterv1.StatusVersion{{Version: "v1.30.0", Replicas: 2}},
	}
	if diff := gocmp.Diff(want, status.Counters); diff != "" {
		t.Errorf("the counters differ (-want +got):\n%s", diff)
	}
	want.Into(&f.MachineDeployment.Status)
	f.MachineSets, f.SetsRead = nil, false
	again, err := f.Status()
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, again.Counters); diff != "" {
		t.Errorf("counters without MachineSets differ from the old ones (-want +got):\n%s", diff)
	}
	f.MachineDeployment.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{
		{Key: "a", Operator: "Like"},
	}
	if _, err := f.Status(); err == nil {
		t.Error("a selector that is not valid has no error")
	}
}

// TestLegacy: counters and conditions for clients of API v1beta1.
func TestLegacy(t *testing.T) {
	t.Parallel()
	reporting := func(ready, available int32) *clusterv1.MachineSet {
		set := msSet(2)
		set.Status.Replicas = new(int32(2))
		set.Status.Deprecated = &clusterv1.MachineSetDeprecatedStatus{
			V1Beta1: &clusterv1.MachineSetV1Beta1DeprecatedStatus{
				ReadyReplicas: ready, AvailableReplicas: available,
			},
		}
		return set
	}
	empty := msSet(1)
	empty.Status.Deprecated = &clusterv1.MachineSetDeprecatedStatus{}
	newest := reporting(2, 1)
	sets := []*clusterv1.MachineSet{newest, nil, msSet(1), empty, reporting(1, 1)}
	want := pool.LegacyCounters{Updated: 2, Ready: 3, Available: 2, Unavailable: 4}
	got := pool.CountLegacy(sets, newest)
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if none := pool.CountLegacy(sets, nil); none.Updated != 0 {
		t.Errorf("without a new MachineSet, %d Machines are updated", none.Updated)
	}

	md := newWorld(2, 0, 1).md
	v1beta1 := &clusterv1.MachineDeploymentV1Beta1DeprecatedStatus{
		Conditions: clusterv1.Conditions{{Type: "Other"}},
	}
	for _, before := range []*clusterv1.MachineDeploymentDeprecatedStatus{
		nil, {}, {V1Beta1: v1beta1},
	} {
		md.Status.Deprecated = before
		got.Into(&md.Status)
		after := md.Status.Deprecated.V1Beta1
		if after.UpdatedReplicas != 2 || after.ReadyReplicas != 3 ||
			after.AvailableReplicas != 2 || after.UnavailableReplicas != 4 {
			t.Errorf("the status has %+v", after)
		}
	}
	if len(md.Status.Deprecated.V1Beta1.Conditions) != 1 {
		t.Error("writing counters removed conditions")
	}
}

// TestLegacyConditions: Available compares the old counter with what must be available, and Ready
// repeats that of the new MachineSet.
func TestLegacyConditions(t *testing.T) {
	t.Parallel()
	const group = clusterv1.MachineDeploymentAvailableV1Beta1Condition
	readySet := msSet(1)
	readySet.SetV1Beta1Conditions(clusterv1.Conditions{
		{Type: "Other", Status: corev1.ConditionFalse},
		{Type: clusterv1.ReadyV1Beta1Condition, Status: corev1.ConditionTrue},
	})
	fallback := clusterv1.Condition{
		Type: clusterv1.MachineSetReadyV1Beta1Condition, Status: corev1.ConditionFalse,
		Severity: clusterv1.ConditionSeverityInfo,
		Reason:   clusterv1.WaitingForMachineSetFallbackV1Beta1Reason,
	}
	notFound := fallback
	notFound.Message = "MachineSet not found"
	tooFew := clusterv1.Condition{
		Type: group, Status: corev1.ConditionFalse, Severity: clusterv1.ConditionSeverityWarning,
		Reason:  clusterv1.WaitingForAvailableMachinesV1Beta1Reason,
		Message: "Minimum availability requires 1 replicas, current 0 available",
	}
	for name, test := range map[string]struct {
		deprecated *clusterv1.MachineDeploymentDeprecatedStatus
		newest     *clusterv1.MachineSet
		want       []clusterv1.Condition
	}{
		"no status": {nil, nil, []clusterv1.Condition{tooFew, notFound}},
		"no counter": {
			&clusterv1.MachineDeploymentDeprecatedStatus{}, msSet(1),
			[]clusterv1.Condition{tooFew, fallback},
		},
		"enough": {
			&clusterv1.MachineDeploymentDeprecatedStatus{
				V1Beta1: &clusterv1.MachineDeploymentV1Beta1DeprecatedStatus{AvailableReplicas: 1},
			},
			readySet,
			[]clusterv1.Condition{
				{Type: group, Status: corev1.ConditionTrue},
				{Type: clusterv1.MachineSetReadyV1Beta1Condition, Status: corev1.ConditionTrue},
			},
		},
	} {
		md := newWorld(2, 0, 1).md
		md.Status.Deprecated = test.deprecated
		if diff := gocmp.Diff(test.want, pool.LegacyConditions(md, test.newest)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
