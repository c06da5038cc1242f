package seeds_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// testHandOverGroup hands a whole group over to the example, which writes the objects of its Machines
// itself, the infrastructure machines too. One Machine stays, until the policy is changed.
func (p *plane) testHandOverGroup(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	want := p.startExample(ctx, t, pool, "--any-change")
	before := p.uids(ctx, t, pool)
	p.change(ctx, t, pool, nextVersion, slowTemplate)
	p.History.Await(ctx, t, "waiting until two Machines of "+pool+" have arrived", func() string {
		return p.notArrived(ctx, t, pool, want[:2])
	})
	if kept := p.machine(ctx, t, pool, want[2]); kept.Spec.Version != rig.FirstVersion {
		t.Errorf("Machine %s, which is to stay, has the version %s", kept.Name, kept.Spec.Version)
	}
	policy := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: rig.PoolsCluster, Name: pool}}
	rig.Patch(ctx, t, p.Client, policy, map[string]any{"spec": map[string]any{"partition": 0}})
	p.AwaitPool(ctx, t, pool, nextVersion, len(want))
	p.History.Await(ctx, t, "waiting until all Machines of "+pool+" have arrived", func() string {
		return p.notArrived(ctx, t, pool, want)
	})
	if uids := p.uids(ctx, t, pool); !slices.Equal(uids, before) {
		t.Errorf("the Machines are %v, want %v", uids, before)
	}
	p.checkWrittenFirst(t, pool, want)
}

func (p *plane) machine(ctx context.Context, t *testing.T, pool, name string) *clusterv1.Machine {
	t.Helper()
	machines := p.MachinesOf(ctx, t, rig.PoolsCluster, pool)
	i := slices.IndexFunc(machines, func(m clusterv1.Machine) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("there is no Machine %s", name)
	}
	return &machines[i]
}

// notArrived says which of these Machines are not Machines of the new MachineSet, with its label; empty if
// all are.
func (p *plane) notArrived(ctx context.Context, t *testing.T, pool string, names []string) string {
	t.Helper()
	sets := &clusterv1.MachineSetList{}
	if err := p.Client.List(ctx, sets, client.InNamespace(rig.PoolsCluster), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: pool}); err != nil {
		return err.Error()
	}
	i := slices.IndexFunc(sets.Items, func(s clusterv1.MachineSet) bool { return s.Spec.Template.Spec.Version == nextVersion })
	if i < 0 {
		return "there is no MachineSet of the new template"
	}
	for _, name := range names {
		m := p.machine(ctx, t, pool, name)
		switch missing := rig.NotAt(m, nextVersion); {
		case missing != "":
			return missing
		case !metav1.IsControlledBy(m, &sets.Items[i]) || m.Labels[clusterv1.MachineDeploymentUniqueLabel] != sets.Items[i].Labels[clusterv1.MachineDeploymentUniqueLabel]:
			return fmt.Sprintf("Machine %s is of %v, with the labels %v", name, m.OwnerReferences, m.Labels)
		}
	}
	return ""
}

// checkWrittenFirst checks that each Machine got its new spec while it was one of the old MachineSet, in the
// order of the inventory, and that Windlass updated none.
func (p *plane) checkWrittenFirst(t *testing.T, pool string, want []string) {
	t.Helper()
	var written []string
	first := map[string]string{}
	for _, f := range p.History.Facts(func(f history.Fact) bool { return rig.MachineOf(f) != nil && f.Group == pool }) {
		m := rig.MachineOf(f)
		owner := metav1.GetControllerOf(m)
		if owner == nil {
			continue
		}
		if first[m.Name] == "" {
			first[m.Name] = owner.Name
		}
		if rig.ProgressOf(m) != nil {
			t.Errorf("Windlass updates Machine %s itself: %v", m.Name, m.Annotations)
		}
		if m.Spec.Version == nextVersion && !slices.Contains(written, m.Name) {
			written = append(written, m.Name)
			if _, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]; marked || owner.Name != first[m.Name] {
				t.Errorf("Machine %s had its new version in MachineSet %s, with %v", m.Name, owner.Name, m.Annotations)
			}
		}
	}
	if !slices.Equal(written, want) {
		t.Errorf("the Machines were written in the order %v, want that of the inventory, %v", written, want)
	}
}

// testHandOverGroupDeclined has the example decline a change beyond the version. Nothing changes, and the
// MachineDeployment has the reason.
func (p *plane) testHandOverGroupDeclined(ctx context.Context, t *testing.T, pool string) {
	t.Helper()
	p.startExample(ctx, t, pool)
	before := p.OnlyMachine(ctx, t, pool)
	p.change(ctx, t, pool, nextVersion, slowTemplate)
	object := &clusterv1.MachineDeployment{}
	p.History.Await(ctx, t, "waiting until "+pool+" says why it is blocked", func() string {
		p.Cached(ctx, t, rig.PoolsCluster, pool, object)
		if c := rig.Blocked(object.Status.Conditions); c == nil || !strings.Contains(c.Message, "only the version can be changed") {
			return fmt.Sprintf("its condition is %+v", c)
		}
		return ""
	})
	if m := p.OnlyMachine(ctx, t, pool); m.UID != before.UID || m.Spec.Version != rig.FirstVersion {
		t.Errorf("the Machine is %s at %s", m.UID, m.Spec.Version)
	}
}
