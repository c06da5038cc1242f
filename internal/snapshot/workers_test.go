package snapshot_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// workersWorld is a MachineDeployment of three old Machines whose rollout began at heldAt, a MachineHealthCheck that
// selects them, and a new Machine "new" that this has marked.
type workersWorld struct {
	o   snapshot.Objects
	a   snapshot.Around
	md  *clusterv1.MachineDeployment
	new *clusterv1.Machine
	now time.Time
}

func worker(name, v string, conditions ...metav1.Condition) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{clusterv1.MachineDeploymentNameLabel: "md-0", "pool": "a"},
	}}
	m.Spec.Version, m.Status.Conditions = v, conditions
	return m
}

func healthCheck(name string, seconds int32, pool string) *clusterv1.MachineHealthCheck {
	h := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name}}
	h.Spec.ClusterName, h.Spec.Selector.MatchLabels = "c", map[string]string{"pool": pool}
	h.Spec.Checks.NodeStartupTimeoutSeconds = &seconds
	return h
}

func newWorkersWorld() *workersWorld {
	ready := condition(clusterv1.MachineReadyCondition, metav1.ConditionTrue, heldAt.Add(-time.Hour))
	w := &workersWorld{md: &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md-0"}}}
	w.now = heldAt.Add(33 * time.Hour)
	w.md.Spec.Replicas = new(int32(3))
	w.md.Spec.Template.Labels = map[string]string{"pool": "a"}
	w.md.Spec.Template.Spec.Version = "v1.35.9"
	w.md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "AnyTemplate", Name: "t"}
	w.md.Status.UpToDateReplicas = new(int32(0))
	w.md.Status.Conditions = []metav1.Condition{condition(clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue, heldAt)}
	w.new = worker("new", "v1.35.9",
		condition(clusterv1.MachineReadyCondition, metav1.ConditionFalse, w.now),
		condition(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse, w.now))
	w.new.CreationTimestamp = metav1.NewTime(w.now.Add(-608 * time.Second))
	w.a.HealthChecks = []*clusterv1.MachineHealthCheck{healthCheck("cp", 60, "b"), healthCheck("mhc", 600, "a")}
	w.o = snapshot.Objects{
		Cluster:            &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}},
		ControlPlane:       controlPlane("KubeadmControlPlane", "v1.35.9", "v1.35.9", 3),
		MachineDeployments: []*clusterv1.MachineDeployment{w.md},
		Machines: []*clusterv1.Machine{
			worker("a", "v1.34.11", ready), worker("b", "v1.34.11", ready), worker("c", "v1.34.11", ready), w.new,
		},
	}
	return w
}

// without replaces the new Machine's condition of its health by another one.
func (w *workersWorld) without(kind string, status metav1.ConditionStatus, since time.Time, message string) {
	c := condition(kind, status, since)
	c.Message = message
	w.new.Status.Conditions[1] = c
}

func (w *workersWorld) noNew() { w.o.Machines = w.o.Machines[:3] }

func (w *workersWorld) noInfrastructure(age time.Duration) {
	w.without(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, w.now.Add(-age),
		"no server of type\x1b[31m \"cpx21\"\nin fsn1.")
	w.a.HealthChecks = nil
}

// TestWorkerStandstill: why the rollout of a MachineDeployment makes no progress, the way out, and what
// is no fault.
func TestWorkerStandstill(t *testing.T) {
	t.Parallel()
	const (
		none  = "no new Machine has become Ready since 2026-11-26T09:00:00Z, none is on its way, and no old one goes: a (v1.34.11), b (v1.34.11), c (v1.34.11)"
		since = "no new Machine has become Ready since 2026-11-26T09:00:00Z: "
		cut   = "MachineHealthCheck mhc has Machines deleted that have no Node after 10m0s (nodeStartupTimeoutSeconds 600)"
		raise = "raise nodeStartupTimeoutSeconds of MachineHealthCheck mhc above the time that a machine needs until its Node is there (for example to 2400)"
		lacks = "Machine new has no infrastructure since 2026-11-27T08:00:00Z: no server of type\uFFFD[31m \"cpx21\" in fsn1"
	)
	for name, tt := range map[string]struct {
		edit func(*workersWorld)
		// want is what the message begins with, without what all begin with; nothing is found if it is empty.
		want, fix string
	}{
		"marked": {nil, since + cut + "; Machine new is marked 10m8s after its creation", raise},
		"marked, and being deleted": {func(w *workersWorld) {
			w.new.DeletionTimestamp = new(metav1.NewTime(w.now))
		}, since + cut, raise},
		"marked by an unknown check": {func(w *workersWorld) { w.a.HealthChecks = nil },
			since + "a MachineHealthCheck marks Machines", "raise nodeStartupTimeoutSeconds of the MachineHealthCheck"},
		"of a topology": {func(w *workersWorld) {
			w.a.HealthChecks[1].Labels = map[string]string{clusterv1.ClusterTopologyOwnedLabel: ""}
		}, since + cut, "raise nodeStartupTimeoutSeconds in healthCheck of the group, in spec.topology"},
		"the shortest timeout": {func(w *workersWorld) {
			w.a.HealthChecks = append(w.a.HealthChecks, healthCheck("patient", 2400, "a"), healthCheck("off", 0, "a"))
		}, since + cut, raise},
		"marked with a Node": {func(w *workersWorld) {
			w.new.Status.NodeRef.Name = "n"
		}, since[:len(since)-2] + ", and a MachineHealthCheck marks Machine new", "see why its Node is unhealthy"},
		"marked, for 20 minutes":      {func(w *workersWorld) { w.now = heldAt.Add(20 * time.Minute) }, "", ""},
		"marked, for 31 minutes":      {func(w *workersWorld) { w.now = heldAt.Add(31 * time.Minute) }, since + cut, raise},
		"the check's time for one":    {func(w *workersWorld) { w.a.HealthChecks[1] = healthCheck("mhc", 100000, "a") }, "", ""},
		"another has become Ready":    {func(w *workersWorld) { w.joined(10 * time.Minute) }, "", ""},
		"another became Ready before": {func(w *workersWorld) { w.joined(3 * time.Hour) }, "no new Machine has become Ready since 2026-11-27T15:00:00Z", raise},

		"between two Machines of a check": {func(w *workersWorld) {
			w.noNew()
		}, none + "; " + cut, raise},
		"a young Machine after others": {func(w *workersWorld) {
			w.without(clusterv1.MachineNodeReadyCondition, metav1.ConditionUnknown, w.now.Add(-time.Minute), "waits")
		}, since + cut + "; Machine new is not Ready yet", raise},
		"a young Machine for 2 hours": {func(w *workersWorld) {
			w.now = heldAt.Add(2 * time.Hour)
			w.without(clusterv1.MachineNodeReadyCondition, metav1.ConditionUnknown, w.now.Add(-time.Minute), "waits")
		}, "", ""},
		"a young Machine, no check": {func(w *workersWorld) {
			w.a.HealthChecks = nil
			w.without(clusterv1.MachineNodeReadyCondition, metav1.ConditionUnknown, w.now.Add(-time.Minute), "waits")
		}, "", ""},

		"no infrastructure":               {func(w *workersWorld) { w.noInfrastructure(10 * time.Hour) }, lacks, "make a corrected copy of AnyTemplate t"},
		"no infrastructure, for a moment": {func(w *workersWorld) { w.noInfrastructure(2 * time.Minute) }, "", ""},
		"no infrastructure, in a topology": {func(w *workersWorld) {
			w.noInfrastructure(10 * time.Hour)
			w.md.Labels = map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: "egress"}
			w.o.Cluster.Spec.Topology.ClassRef.Name = "class"
			w.o.Cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "egress"}}
			w.o.Cluster.Spec.Topology.Workers.MachineDeployments[0].Variables.Overrides = []clusterv1.ClusterVariable{{Name: "serverType"}}
		}, lacks, "variables.overrides (serverType) of MachineDeployment egress in spec.topology.workers of Cluster c"},
		"no infrastructure, and marked": {func(w *workersWorld) {
			health, checks := w.new.Status.Conditions[1], w.a.HealthChecks
			w.noInfrastructure(2 * time.Minute)
			w.new.Status.Conditions, w.a.HealthChecks = append(w.new.Status.Conditions, health), checks
		}, "Machine new has no infrastructure since 2026-11-27T17:58:00Z", raise},

		"no Node": {func(w *workersWorld) {
			w.a.HealthChecks = nil
			w.without(clusterv1.MachineNodeReadyCondition, metav1.ConditionUnknown, w.now.Add(-2*time.Hour), "waits")
		}, "Machine new has no Node since 2026-11-27T16:00:00Z: waits", "why it does not join"},

		"no Machine": {func(w *workersWorld) {
			w.noNew()
			w.a.HealthChecks = nil
		}, none, "kubectl -n ns describe machineset -l cluster.x-k8s.io/deployment-name=md-0"},
		"no Machine, by the number of replicas": {func(w *workersWorld) {
			w.noNew()
			w.md.Status.Conditions[0] = condition(clusterv1.MachineDeploymentMachinesUpToDateCondition, metav1.ConditionFalse, heldAt)
		}, none, ""},
		"an old one is being deleted": {func(w *workersWorld) {
			w.noNew()
			w.o.Machines[0].DeletionTimestamp = new(metav1.NewTime(heldAt))
		}, "", ""},
		"the control plane is on its way": {func(w *workersWorld) {
			w.noNew()
			w.o.ControlPlane = controlPlane("KubeadmControlPlane", "v1.35.9", "v1.34.11", 3)
		}, "", ""},
		"a policy may ask for that": {func(w *workersWorld) {
			w.noNew()
			w.a.Policies = []v1alpha1.UpdatePolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}}
			w.a.Policies[0].Spec.Targets = []v1alpha1.UpdateTarget{{MachineDeployments: []v1alpha1.MachineDeploymentName{"md-0"}}}
		}, "", ""},

		"all are as asked": {func(w *workersWorld) {
			w.md.Status.Conditions[0].Status = metav1.ConditionFalse
		}, "", ""},
		"no condition": {func(w *workersWorld) { w.md.Status.Conditions = nil }, "", ""},
		"paused":       {func(w *workersWorld) { w.md.Spec.Paused = new(true) }, "", ""},
		"OnDelete": {func(w *workersWorld) {
			w.md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
		}, "", ""},
		"being deleted": {func(w *workersWorld) { w.md.DeletionTimestamp = new(metav1.NewTime(heldAt)) }, "", ""},
	} {
		w := newWorkersWorld()
		if tt.edit != nil {
			tt.edit(w)
		}
		found := snapshot.Standstills(w.o, w.a, w.now)
		if len(found) > 1 || len(found) == 1 != (tt.want != "") {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		if len(found) == 1 && (!strings.HasPrefix(found[0].Message, "its rollout makes no progress: "+tt.want) ||
			!strings.Contains(found[0].Fix, tt.fix) || found[0].Subject != "MachineDeployment md-0") {
			t.Errorf("%s: %+v, want %q, fix %q", name, found[0], tt.want, tt.fix)
		}
	}
}

// joined makes one of the Machines a new one that became Ready before a time.
func (w *workersWorld) joined(before time.Duration) {
	w.o.Machines[0] = worker("a", "v1.35.9",
		condition(clusterv1.MachineReadyCondition, metav1.ConditionTrue, w.now.Add(-before)))
}
