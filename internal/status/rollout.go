package status

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/text"
)

// Rollout is how far the rollout of a MachineDeployment is, as windlass manager counts it for the
// limits of its UpdatePolicy.
type Rollout struct {
	// Replicas is how many machines there should be. Begun are at the new template or on the way to
	// it, and Updated those of them that are available and have soaked. InFlight are being updated,
	// created or deleted.
	Replicas int32 `json:"replicas"`
	Begun    int32 `json:"begun"`
	Updated  int32 `json:"updated"`
	InFlight int32 `json:"inFlight"`
	// Failed are machines whose update failed finally, Overdue those beyond machineDeadlineSeconds, by
	// name. Late says that the rollout is beyond groupDeadlineSeconds.
	Failed  text.List[string] `json:"failed"`
	Overdue text.List[string] `json:"overdue"`
	Late    bool              `json:"late"`
	// Canary says that the first machines are not all done. Batch is the batch that is under way, from
	// 1, of Batches; both are 0 without batches, and Batch is 0 during the canary.
	Canary  bool  `json:"canary"`
	Batch   int32 `json:"batch"`
	Batches int32 `json:"batches"`
}

// computeRollout returns how far the rollout of a MachineDeployment is; nil if none is under way,
// or if that is unknown.
func computeRollout(f Facts, of *groupFacts, now time.Time) *Rollout {
	md, isDeployment := of.owner.(*clusterv1.MachineDeployment)
	if !isDeployment || of.Policy.Limits == nil {
		return nil
	}
	limits := pool.Limits(of.selected)
	g := pool.Group{
		MachineDeployment: md, Machines: of.members, Now: now, TemplatesExist: true,
		InPlaceUpdates: true, Keep: pool.Keeps(of.selected, md),
		UpdateOnDelete: of.selected.UpdateOnDelete, Limits: &limits,
	}
	for _, set := range f.Rollouts.MachineSets {
		if metav1.IsControlledBy(set, md) {
			g.MachineSets = append(g.MachineSets, set)
		}
	}
	if len(g.MachineSets) == 0 {
		return nil
	}
	p, err := pool.ProgressOf(g)
	// A MachineDeployment that breaks the rules has no rollout: its conditions say so.
	if err != nil || p.Touched >= p.Replicas && !conditions.IsTrue(md, clusterv1.RollingOutCondition) {
		return nil
	}
	stage := limits.Stage(p)
	return &Rollout{
		Replicas: p.Replicas, Begun: min(p.Touched, p.Replicas), Updated: p.Done, InFlight: p.InFlight,
		Failed: p.Failed, Overdue: p.Overdue, Late: p.Late,
		Canary: stage.Canary, Batch: stage.Batch, Batches: limits.CountBatches(p.Replicas),
	}
}

// Describe says in a few words how far a rollout is.
func (r Rollout) Describe() string {
	parts := []string{fmt.Sprintf("%d of %d updated", r.Updated, r.Replicas)}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(int(r.InFlight), "in flight")
	add(len(r.Failed), "failed")
	add(len(r.Overdue), "overdue")
	switch {
	case r.Late:
		parts = append(parts, "late")
	case r.Canary:
		parts = append(parts, "canary")
	case r.Batch > 0:
		parts = append(parts, fmt.Sprintf("batch %d of %d", r.Batch, r.Batches))
	}
	return strings.Join(parts, ", ")
}
