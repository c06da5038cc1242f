package seeds_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const (
	// slowTemplate differs from a pool's template in slowPath alone.
	slowTemplate = "worker-slow"
	slowPath     = "/spec/backend/inMemory/vm/provisioning/startupDuration"
	// stall and work are how a simulated updater behaves.
	stall = `{"updater": {"mode": "Stall"}}`
	work  = `{"updater": {"mode": "Normal"}}`
)

// policyScenarios show what UpdatePolicies make of a change.
func (p *plane) policyScenarios() []poolScenario {
	return []poolScenario{
		{
			rig.Pool{Name: "fallback", Replicas: 1, MaxUnavailable: 1, Policy: v1alpha1.UpdatePolicySpec{Fallback: v1alpha1.FallbackRollingUpdate}},
			p.testFallback,
		},
		{
			rig.Pool{Name: "ignored", Replicas: 1, MaxUnavailable: 1, Policy: v1alpha1.UpdatePolicySpec{
				IgnorePaths: []v1alpha1.IgnorePath{{Object: v1alpha1.IgnoreInfrastructure, Path: slowPath}},
			}},
			p.testIgnored,
		},
		{rig.Pool{Name: "scaled", Replicas: 2, MaxUnavailable: 1}, p.testScaled},
	}
}

// change sends a pool to a version and a template.
func (p *plane) change(ctx context.Context, t *testing.T, pool, version, template string) {
	t.Helper()
	rig.Patch(ctx, t, p.Client, rig.MachineDeployment(pool), map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"version": version, "infrastructureRef": map[string]any{"name": template},
	}}}})
}

// uids are those of a pool's Machines, sorted.
func (p *plane) uids(ctx context.Context, t *testing.T, pool string) []types.UID {
	t.Helper()
	var uids []types.UID
	for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
		uids = append(uids, m.UID)
	}
	slices.Sort(uids)
	return uids
}

// testFallback sees that a change that is covered keeps the machine, and that one that is not covered replaces it, because the
// policy permits that.
func (p *plane) testFallback(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool)})
	uid := p.OnlyMachine(ctx, t, pool).UID
	p.Send(ctx, t, pool, nextVersion)
	p.AwaitPool(ctx, t, pool, nextVersion, 1)
	if m := p.OnlyMachine(ctx, t, pool); m.UID != uid {
		t.Fatal("an updater covers the change, but the Machine was replaced")
	}
	const last = "v1.31.2"
	p.change(ctx, t, pool, last, slowTemplate)
	p.AwaitMachine(ctx, t, pool, "waiting until the Machine is replaced", func(m *clusterv1.Machine) string {
		if m.UID == uid {
			return "it is the same"
		}
		return rig.NotAt(m, last)
	})
	object := &clusterv1.MachineDeployment{}
	p.Cached(ctx, t, rig.PoolsCluster, pool, object)
	if c := rig.Blocked(object.Status.Conditions); c != nil {
		t.Errorf("the MachineDeployment says that it is blocked: %+v", c)
	}
}

// testIgnored sees that a field that the policy ignores counts as covered, and that the Machine records it as dirty.
func (p *plane) testIgnored(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool)})
	uid := p.OnlyMachine(ctx, t, pool).UID
	p.change(ctx, t, pool, nextVersion, slowTemplate)
	p.AwaitPool(ctx, t, pool, nextVersion, 1)
	m := p.OnlyMachine(ctx, t, pool)
	if m.UID != uid {
		t.Fatal("the Machine was replaced")
	}
	if dirty := m.Annotations[v1alpha1.DirtyFieldsAnnotation]; !strings.Contains(dirty, slowPath) {
		t.Errorf("the Machine records the dirty fields %q, want %s", dirty, slowPath)
	}
}

// testScaled scales a pool up and down during an update, as a cluster autoscaler does: it writes the subresource scale, and
// marks the Machine that is to go.
func (p *plane) testScaled(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	u := p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool)})
	u.Behave(ctx, t, stall)
	before := p.uids(ctx, t, pool)
	p.Send(ctx, t, pool, nextVersion)
	var updating types.UID
	p.History.Await(ctx, t, "waiting for an update to begin", func() string {
		for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
			if progress := rig.ProgressOf(&m); progress != nil && progress.Phase == inplace.Updating {
				updating = m.UID
				return ""
			}
		}
		return "no Machine is being updated"
	})

	p.scale(ctx, t, pool, 3)
	var added *clusterv1.Machine
	p.History.Await(ctx, t, "waiting for a third machine", func() string {
		for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
			if !slices.Contains(before, m.UID) {
				added = &m
				return rig.NotAt(added, nextVersion)
			}
		}
		return "there is none"
	})
	// Cluster API takes machines of the older MachineSet first, whatever is marked.
	rig.AnnotateObject(ctx, t, p.Client, added, map[string]any{clusterv1.DeleteMachineAnnotation: "2026-01-01T00:00:00Z"})
	p.scale(ctx, t, pool, 2)
	p.History.Await(ctx, t, "waiting until one of three machines is gone", func() string {
		if uids := p.uids(ctx, t, pool); len(uids) != 2 {
			return fmt.Sprintf("the Machines are %v", uids)
		}
		return ""
	})

	u.Behave(ctx, t, work)
	p.AwaitPool(ctx, t, pool, nextVersion, 2)
	if uids := p.uids(ctx, t, pool); !slices.Contains(uids, updating) {
		t.Errorf("the Machine %s, which was being updated, is not among %v", updating, uids)
	}
	machines := p.Census(rig.PoolsCluster, func(m *clusterv1.Machine) bool { return m.Labels["pool"] == pool })
	if len(machines.All) != 3 || len(machines.Deleted) != 1 {
		t.Errorf("scaling added and removed one machine; the Machines are %+v", machines)
	}
}

func (p *plane) scale(ctx context.Context, t *testing.T, pool string, replicas int32) {
	t.Helper()
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := p.Client.SubResource("scale").Update(ctx, rig.MachineDeployment(pool), client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
}

// testControlPlane sees that a change of the control plane that no updater covers changes nothing and is reported, and that its
// machines stay when their version changes.
func (p *plane) testControlPlane(ctx context.Context, t *testing.T) {
	t.Helper()
	const name, next, replicas = "control-plane", "v1.31.100", 3
	owner := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: rig.PoolsCluster, Name: rig.PoolsCluster}}
	change := func(spec map[string]any) {
		t.Helper()
		rig.Patch(ctx, t, p.Client, owner.DeepCopy(), map[string]any{"spec": spec})
	}
	// Cluster API updates no smaller control plane in place.
	change(map[string]any{"replicas": replicas, "rollout": map[string]any{"strategy": map[string]any{
		"type": controlplanev1.RollingUpdateStrategyType, "rollingUpdate": map[string]any{"maxSurge": 0},
	}}})
	p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: name, Selector: rig.Labelled(clusterv1.MachineControlPlaneLabel, "")})
	p.awaitControlPlane(ctx, t, rig.PoolsControlPlane, replicas)
	p.CreatePolicy(ctx, t, rig.PoolsCluster, name, v1alpha1.UpdatePolicySpec{
		Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone,
		Targets: []v1alpha1.UpdateTarget{{ClusterName: rig.PoolsCluster, ControlPlane: true}},
	})
	before := p.Census(rig.PoolsCluster, isControlPlane)

	files := func(files ...any) { change(map[string]any{"kubeadmConfigSpec": map[string]any{"files": files}}) }
	await := func(what string, check func(*metav1.Condition) bool) {
		t.Helper()
		p.History.Await(ctx, t, what, func() string {
			p.Cached(ctx, t, rig.PoolsCluster, rig.PoolsCluster, owner)
			if c := rig.Blocked(owner.Status.Conditions); !check(c) {
				return fmt.Sprintf("its condition is %+v", c)
			}
			return ""
		})
	}
	files(map[string]any{"path": "/etc/example", "content": "an example"})
	await("waiting until the control plane says why it is not updated", func(c *metav1.Condition) bool {
		return c != nil && c.Reason == v1alpha1.NotCoveredReason && strings.Contains(c.Message, "/spec/files")
	})
	files()
	await("waiting until the control plane is not blocked any more", func(c *metav1.Condition) bool { return c == nil })
	change(map[string]any{"version": next})
	p.awaitControlPlane(ctx, t, next, replicas)
	rig.CheckCensus(t, before, p.Census(rig.PoolsCluster, isControlPlane))
}

func isControlPlane(m *clusterv1.Machine) bool {
	return m.Labels[clusterv1.MachineDeploymentNameLabel] == ""
}

func (p *plane) awaitControlPlane(ctx context.Context, t *testing.T, version string, replicas int) {
	t.Helper()
	p.History.Await(ctx, t, "waiting for the control plane at "+version, func() string {
		machines := p.MachinesOf(ctx, t, rig.PoolsCluster, "")
		if len(machines) != replicas {
			return fmt.Sprintf("it has %d machines of %d", len(machines), replicas)
		}
		for i := range machines {
			if missing := rig.NotAt(&machines[i], version); missing != "" {
				return missing
			}
		}
		return ""
	})
}
