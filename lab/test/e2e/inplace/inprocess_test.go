package inplace_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// TestInProcess has stock Cluster API mark Machines. Then the extension and its registration go, and Windlass' manager
// takes the place of stock Cluster API: it completes the updates.
func TestInProcess(t *testing.T) {
	ctx, p := start(t)
	const pool, to = "orphans", "v1.31.1"
	p.CreatePools(ctx, t, rig.PoolsCluster, []rig.Pool{{Name: pool, Replicas: 2, MaxUnavailable: 2, Policy: v1alpha1.UpdatePolicySpec{MaxInFlight: 2}}})
	u := p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool)})
	p.AwaitPool(ctx, t, pool, rig.FirstVersion, 2)
	before := p.Census(rig.PoolsCluster, nil)
	u.Behave(ctx, t, `{"updater": {"mode": "Stall"}}`)
	p.Send(ctx, t, pool, to)
	p.awaitMessages(ctx, t, pool, "the updater is at work", func(c *metav1.Condition) bool {
		return c != nil && c.Reason == clusterv1.MachineInPlaceUpdatingReason && strings.Contains(c.Message, pool)
	})
	messages := p.updatingMessages(ctx, t, pool)

	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: setup.ExtensionName}}
	if err := p.Client.Delete(ctx, config); err != nil {
		t.Fatal(err)
	}
	if _, err := p.StopChild(ctx, setup.ExtensionName); err != nil {
		t.Fatal(err)
	}
	// Nobody is registered: stock Cluster API fails until the manager takes its place.
	p.awaitMessages(ctx, t, pool, "stock Cluster API finds no extension", func(c *metav1.Condition) bool {
		return c != nil && c.Reason == clusterv1.MachineInPlaceUpdateFailedReason
	})
	p.Switch(ctx, t, setup.EngineWindlass)
	p.awaitMessages(ctx, t, pool, "the manager continues", func(c *metav1.Condition) bool {
		return c != nil && c.Reason == clusterv1.MachineInPlaceUpdatingReason && slices.Contains(messages, c.Message)
	})
	u.Behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
	p.AwaitPool(ctx, t, pool, to, 2)
	rig.CheckCensus(t, before, p.Census(rig.PoolsCluster, nil))
	for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
		if rig.ProgressOf(&m) != nil || rig.Blocked(m.Status.Conditions) != nil {
			t.Errorf("Machine %s keeps marks of its update: %v", client.ObjectKeyFromObject(&m), m.Annotations)
		}
		if last := rig.Annotation[inplace.Summary](&m, v1alpha1.LastUpdateAnnotation); last == nil || last.To.String() != to {
			t.Errorf("Machine %s has the summary %+v", client.ObjectKeyFromObject(&m), last)
		}
	}
}

// awaitMessages waits until the condition Updating of every Machine of a pool is accepted.
func (p *plane) awaitMessages(
	ctx context.Context, t *testing.T, pool, what string, accept func(*metav1.Condition) bool,
) {
	t.Helper()
	p.History.Await(ctx, t, "waiting until "+what, func() string {
		for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
			if c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpdatingCondition); !accept(c) {
				return fmt.Sprintf("the condition of Machine %s is %+v", m.Name, c)
			}
		}
		return ""
	})
}

func (p *plane) updatingMessages(ctx context.Context, t *testing.T, pool string) (messages []string) {
	t.Helper()
	for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
		messages = append(messages, meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpdatingCondition).Message)
	}
	return messages
}
