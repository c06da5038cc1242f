package pool_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

// Options for what Machines report.
var (
	ready     = reports(clusterv1.MachineReadyCondition, metav1.ConditionTrue, "Ready", "")
	notReady  = reports(clusterv1.MachineReadyCondition, metav1.ConditionFalse, "NotReady", "Node is down")
	available = reports(clusterv1.MachineAvailableCondition, metav1.ConditionTrue, "Available", "")
	upToDate  = reports(clusterv1.MachineUpToDateCondition, metav1.ConditionTrue, "UpToDate", "")
	outdated  = reports(clusterv1.MachineUpToDateCondition, metav1.ConditionFalse, "NotUpToDate", "* Version v1, v2 required")
)

func version(spec, kubelet string) machineOption {
	return func(m *clusterv1.Machine) {
		m.Spec.Version = spec
		if kubelet != "" {
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
		}
	}
}

func deletedSet(set *clusterv1.MachineSet) { set.DeletionTimestamp = new(metav1.NewTime(msNow)) }

func withTemplates(set *clusterv1.MachineSet) {
	set.Spec.Template.Spec.Bootstrap.ConfigRef.Kind = "BootstrapTemplate"
	set.Spec.Template.Spec.InfrastructureRef.Kind = "InfrastructureTemplate"
}

func noReplicas(set *clusterv1.MachineSet) { set.Spec.Replicas = nil }

// drains is a Machine whose drain takes long, for a reason.
func drains(message string) machineOption {
	return func(m *clusterv1.Machine) {
		inDeletion(16 * time.Minute)(m)
		reports(clusterv1.MachineDeletingCondition, metav1.ConditionTrue, clusterv1.MachineDeletingDrainingNodeReason, message)(m)
		m.Status.Deletion = &clusterv1.MachineDeletionStatus{
			NodeDrainStartTime: metav1.NewTime(msNow.Add(-6 * time.Minute)),
		}
	}
}

func TestSetCounters(t *testing.T) {
	t.Parallel()
	got := factsOf(msSet(9),
		msMachine("a", ready, available, upToDate, version("v1.30.0", "v1.31.0")),
		msMachine("b", ready, available, version("v1.30.0", "")),
		msMachine("c", ready, version("v1.30.0", "")),
		msMachine("d", notReady, outdated, version("latest", "")),
		msMachine("updating", ready, available, upToDate, updateMarked, version("v1.9.0", "")),
		msMachine("hooked", ready, available, upToDate, hookPending),
		msMachine("build-9", old(3*time.Hour), version("v1.32.0+9", "")),
		msMachine("build-10", old(4*time.Hour), version("v1.32.0+10", "")),
		msMachine("build-word", old(2*time.Hour), version("v1.33.0+word", "")),
		msMachine("build-older", old(3*time.Hour), version("v1.33.0+words", "")),
	).Counters()
	want := pool.SetCounters{
		Replicas: new(int32(10)), Ready: new(int32(3)), Available: new(int32(2)), UpToDate: new(int32(1)),
		Versions: []clusterv1.StatusVersion{
			{Version: "v1.9.0", Replicas: 1}, {Version: "v1.30.0", Replicas: 2}, {Version: "v1.31.0", Replicas: 1},
			{Version: "v1.32.0+9", Replicas: 1}, {Version: "v1.32.0+10", Replicas: 1},
			{Version: "v1.33.0+words", Replicas: 1}, {Version: "v1.33.0+word", Replicas: 1},
			{Version: "latest", Replicas: 1},
		},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the counters differ (-want +got):\n%s", diff)
	}
	var status clusterv1.MachineSetStatus
	got.Into(&status)
	f := factsOf(msSet(9))
	f.MachineSet.Status, f.MachinesRead = status, false
	if diff := gocmp.Diff(want, f.Counters()); diff != "" {
		t.Errorf("counters of Machines that were not read differ from the old ones (-want +got):\n%s", diff)
	}
}

func TestSetConditions(t *testing.T) {
	t.Parallel()
	type facts = pool.SetFacts
	for name, test := range map[string]struct {
		set       []setOption
		machines  []*clusterv1.Machine
		change    func(*facts)
		condition func(facts) metav1.Condition
		status    metav1.ConditionStatus
		reason    string
		message   string
	}{
		"scaling up": {
			condition: facts.ScalingUp, status: "True", reason: "ScalingUp",
			message: "Scaling up from 0 to 2 replicas",
		},
		"scaling up is blocked": {
			set: []setOption{withTemplates}, condition: facts.ScalingUp, status: "True", reason: "ScalingUp",
			change: func(f *facts) {
				f.Blocked = []string{"one check", "another check"}
				f.BootstrapTemplateMissing, f.InfrastructureTemplateMissing = true, true
			},
			message: "Scaling up from 0 to 2 replicas is blocked because:\n* one check\n* another check\n" +
				"* BootstrapTemplate and InfrastructureTemplate do not exist",
		},
		"scaling up would be blocked": {
			set: []setOption{withTemplates}, machines: []*clusterv1.Machine{msMachine("a"), msMachine("b")},
			change:    func(f *facts) { f.InfrastructureTemplateMissing = true },
			condition: facts.ScalingUp, status: "False", reason: "NotScalingUp",
			message: "Scaling up would be blocked because InfrastructureTemplate does not exist",
		},
		"not scaling up while deleted": {
			set: []setOption{withTemplates, deletedSet}, change: func(f *facts) { f.BootstrapTemplateMissing = true },
			condition: facts.ScalingUp, status: "False", reason: "NotScalingUp",
		},
		"scaling up without replicas": {
			set: []setOption{noReplicas}, condition: facts.ScalingUp, status: "Unknown", reason: "WaitingForReplicasSet",
			message: "Waiting for spec.replicas set",
		},
		"scaling down": {
			machines:  []*clusterv1.Machine{msMachine("a"), msMachine("b"), msMachine("c", inDeletion(time.Hour))},
			condition: facts.ScalingDown, status: "True", reason: "ScalingDown",
			message: "Scaling down from 3 to 2 replicas\n* Machine c is in deletion since more than 15m",
		},
		"not scaling down, some moved here": {
			machines:  []*clusterv1.Machine{msMachine("a"), msMachine("b"), msMachine("c", movePending)},
			condition: facts.ScalingDown, status: "False", reason: "NotScalingDown",
		},
		"scaling down while deleted": {
			set: []setOption{deletedSet}, machines: []*clusterv1.Machine{msMachine("a")},
			condition: facts.ScalingDown, status: "True", reason: "ScalingDown",
			message: "Scaling down from 1 to 0 replicas",
		},
		"scaling down without replicas": {
			set: []setOption{noReplicas}, condition: facts.ScalingDown, status: "Unknown",
			reason: "WaitingForReplicasSet", message: "Waiting for spec.replicas set",
		},
		"ready": {
			machines: []*clusterv1.Machine{msMachine("a", ready)}, condition: facts.MachinesReady,
			status: "True", reason: "Ready",
		},
		"not ready": {
			machines: []*clusterv1.Machine{msMachine("a", ready), msMachine("b", notReady)}, condition: facts.MachinesReady,
			status: "False", reason: "NotReady", message: "* Machine b: Node is down",
		},
		"readiness is unknown": {
			machines: []*clusterv1.Machine{msMachine("a")}, condition: facts.MachinesReady,
			status: "Unknown", reason: "ReadyUnknown", message: "* Machine a: Condition Ready not yet reported",
		},
		"no Machines": {condition: facts.MachinesReady, status: "True", reason: "NoReplicas"},
		"up to date": {
			machines: []*clusterv1.Machine{msMachine("a", upToDate)}, condition: facts.MachinesUpToDate,
			status: "True", reason: "UpToDate",
		},
		"outdated": {
			machines: []*clusterv1.Machine{msMachine("a", outdated)}, condition: facts.MachinesUpToDate,
			status: "False", reason: "NotUpToDate", message: "* Machine a:\n  * Version v1, v2 required",
		},
		"too young to be up to date": {
			machines:  []*clusterv1.Machine{msMachine("a", old(10*time.Second))},
			condition: facts.MachinesUpToDate, status: "True", reason: "NoReplicas",
		},
		"old enough to be up to date": {
			machines:  []*clusterv1.Machine{msMachine("a", old(11*time.Second))},
			condition: facts.MachinesUpToDate, status: "Unknown", reason: "UpToDateUnknown",
			message: "* Machine a: Condition UpToDate not yet reported",
		},
		"nothing to remediate": {
			machines: []*clusterv1.Machine{msMachine("a")}, condition: facts.Remediating,
			status: "False", reason: "NotRemediating",
		},
		"unhealthy, but nobody asks": {
			machines: []*clusterv1.Machine{
				msMachine("d", checkFailed), msMachine("b", checkFailed), msMachine("a", checkFailed), msMachine("c", checkFailed),
			},
			condition: facts.Remediating, status: "False", reason: "NotRemediating",
			message: "Machines a, b, c, ... (1 more) are not healthy (not to be remediated by MachineSet)",
		},
		"remediating": {
			machines:  []*clusterv1.Machine{msMachine("a", toRemediate), msMachine("b", checkFailed)},
			condition: facts.Remediating, status: "True", reason: "Remediating",
			message: "* Machine a: Waiting for remediation",
		},
		"not deleting": {condition: facts.Deleting, status: "False", reason: "NotDeleting"},
		"deleted":      {set: []setOption{deletedSet}, condition: facts.Deleting, status: "True", reason: "Deleting", message: "Deletion completed"},
		"deleting one": {
			set: []setOption{deletedSet}, machines: []*clusterv1.Machine{msMachine("a", inDeletion(15*time.Minute))},
			condition: facts.Deleting, status: "True", reason: "Deleting", message: "Deleting 1 Machine",
		},
		"deleting some": {
			set: []setOption{deletedSet}, machines: []*clusterv1.Machine{
				msMachine("b", drains("failed to evict Pod x")), msMachine("a", drains("waiting for completion: y")),
			},
			condition: facts.Deleting, status: "True", reason: "Deleting",
			message: "Deleting 2 Machines\n* Machines a, b are in deletion since more than 15m, delay likely due to " +
				"Pod eviction errors, Pods not completed yet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := factsOf(msSet(2, test.set...), test.machines...)
			if test.change != nil {
				test.change(&f)
			}
			got := test.condition(f)
			want := metav1.Condition{Type: got.Type, Status: test.status, Reason: test.reason, Message: test.message}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("the condition differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSetStatus: all conditions are there, each once, and unknown if Machines were not read; facts do
// not change.
func TestSetStatus(t *testing.T) {
	t.Parallel()
	types := []string{
		clusterv1.MachineSetScalingUpCondition, clusterv1.MachineSetScalingDownCondition,
		clusterv1.MachineSetMachinesReadyCondition, clusterv1.MachineSetMachinesUpToDateCondition,
		clusterv1.MachineSetRemediatingCondition, clusterv1.MachineSetDeletingCondition,
	}
	rapid.Check(t, func(t *rapid.T) {
		f := factsOf(setOf(t), machinesOf(t)...)
		f.MachinesRead = rapid.Bool().Draw(t, "read")
		before := deepCopies(f.Machines)
		status, err := f.Status()
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(before, f.Machines); diff != "" {
			t.Fatalf("Machines were changed (-before +after):\n%s", diff)
		}
		var got []string
		for _, c := range status.Conditions {
			got = append(got, c.Type)
			if !f.MachinesRead && (c.Status != metav1.ConditionUnknown || c.Reason != "InternalError") {
				t.Errorf("%s is %s with the reason %s", c.Type, c.Status, c.Reason)
			}
			if c.Reason == "" {
				t.Errorf("%s has no reason", c.Type)
			}
		}
		if diff := gocmp.Diff(types, got); diff != "" {
			t.Errorf("the types differ (-want +got):\n%s", diff)
		}
		f.Machines = rapid.Permutation(f.Machines).Draw(t, "permutation")
		again, err := f.Status()
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(status, again); diff != "" {
			t.Errorf("the status depends on the order of Machines:\n%s", diff)
		}
	})
}

func TestSetStatusWithBadSelector(t *testing.T) {
	t.Parallel()
	f := factsOf(msSet(1, func(set *clusterv1.MachineSet) {
		set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
	}))
	if _, err := f.Status(); err == nil {
		t.Error("no error")
	}
	f.MachineSet.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	status, err := f.Status()
	if err != nil || status.Selector != "a=b" {
		t.Errorf("got the selector %q and %v", status.Selector, err)
	}
}
