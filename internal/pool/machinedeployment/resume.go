package machinedeployment

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// decideOrResume plans, and records it if the rollout continues after a hold. A retry that a person
// asks for counts for the plan.
func (r *run) decideOrResume(ctx context.Context) (pool.Plan, error) {
	if pool.RetriesLate(r.md) {
		if err := r.resume(ctx); err != nil {
			return pool.Plan{}, err
		}
	}
	plan, err := r.decide(ctx)
	if err == nil && r.group().Resumes(plan, r.blockedBy(plan)) {
		err = r.resume(ctx)
	}
	return plan, err
}

// resume records that the rollout continues after a hold: the deadline of the group counts from
// zero. It answers a person who asks for that.
func (r *run) resume(ctx context.Context) error {
	after := r.read.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, v1alpha1.RolloutResumedAnnotation,
		r.Now().UTC().Format(time.RFC3339))
	if pool.RetriesLate(r.read) {
		delete(after.Annotations, v1alpha1.UpdateRetryAnnotation)
	}
	// The extension may have removed the condition meanwhile, so the write requires no
	// resourceVersion. If the status is another one, the write of the status is a conflict.
	if err := objects.Merge(ctx, r.Client, r.read, after); err != nil {
		return fmt.Errorf("recording that the rollout of MachineDeployment %s continues: %w",
			r.name(), err)
	}
	if equality.Semantic.DeepEqual(after.Status, r.read.Status) {
		r.md.ResourceVersion, r.read.ResourceVersion = after.ResourceVersion, after.ResourceVersion
	}
	r.md.Annotations, r.read.Annotations = maps.Clone(after.Annotations), after.Annotations
	r.await(deploymentType, after.ResourceVersion)
	return nil
}

// forgetRollout removes what counts during a rollout only. A retry that nothing has answered would
// lift the deadline of the next rollout. The engine answers one for an upgrade by annotation.
func (r *run) forgetRollout() {
	annotations := r.md.Annotations
	delete(annotations, v1alpha1.RolloutResumedAnnotation)
	_, failed := annotations[v1alpha1.FailedCanariesAnnotation]
	_, upgrades := annotations[v1alpha1.InPlaceUpgradeAnnotation]
	if l := pool.LimitsOf(r.policy, r.md); l != nil && l.GroupDeadline > 0 && !failed && !upgrades {
		delete(annotations, v1alpha1.UpdateRetryAnnotation)
	}
}
