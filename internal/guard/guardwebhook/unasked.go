package guardwebhook

import (
	"context"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/record"
)

// explain completes the message of a refusal. It costs a list of MachineSets, and only in the middle of a rollout; where that fails,
// the message stays as it is. Of control planes Cluster API keeps no answers.
func (g *Guard) explain(ctx context.Context, request guard.Request, found *group, m machine, verdict guard.Verdict) guard.Verdict {
	if verdict.Allowed || !found.mayBeUnasked {
		return verdict
	}
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineSetList"))
	cluster := client.MatchingLabels{clusterv1.ClusterNameLabel: m.cluster}
	if err := g.options.Live.List(ctx, sets, client.InNamespace(m.namespace), cluster); err != nil {
		log.FromContext(ctx).Error(err, "Finding out whether a hook was asked about a rollout", "owner", found.facts.Name)
		return verdict
	}
	own := slices.DeleteFunc(sets.Items, func(s metav1.PartialObjectMetadata) bool {
		owner := metav1.GetControllerOfNoCopy(&s)
		return owner == nil || owner.UID != found.reference.UID
	})
	leaving := ""
	if request.Operation == guard.Delete && m.controller != nil {
		leaving = m.controller.Name
	}
	if !isUnasked(own, leaving) {
		return verdict
	}
	return guard.ExplainUnasked(verdict, request.Policy)
}

// mayBeUnasked says that a MachineDeployment's machines are being rolled out, and that no hook refused: that would show.
func mayBeUnasked(md *clusterv1.MachineDeployment) bool {
	return meta.IsStatusConditionTrue(md.Status.Conditions, clusterv1.MachineDeploymentRollingOutCondition) &&
		!meta.IsStatusConditionTrue(md.Status.Conditions, v1alpha1.UpdateBlockedCondition)
}

// isUnasked says that none of a MachineDeployment's MachineSets holds a decision for the newest; where leaving is the name of one,
// that this one is not the newest and holds none.
func isUnasked(sets []metav1.PartialObjectMetadata, leaving string) bool {
	newest, highest := "", int64(0)
	for i := range sets {
		// What is no number is no revision.
		if revision, err := strconv.ParseInt(sets[i].Annotations[clusterv1.RevisionAnnotation], 10, 64); err == nil && revision > highest {
			newest, highest = sets[i].Name, revision
		}
	}
	if newest == "" || leaving == newest {
		return false
	}
	return !slices.ContainsFunc(sets, func(s metav1.PartialObjectMetadata) bool {
		decided := slices.ContainsFunc(record.DecisionsOf(s.Annotations), func(d record.Decision) bool {
			return d.Target == newest
		})
		return (leaving == "" || s.Name == leaving) && decided
	})
}
