package guardwebhook

import (
	"context"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/core/webhooks/admission"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// clusterValidatePath is where Cluster API's ValidatingWebhookConfiguration sends Clusters.
const clusterValidatePath = "/validate-cluster-x-k8s-io-v1beta2-cluster"

// Cluster validates Clusters in place of Cluster API's own webhook. What that one says holds for everything but the version of
// the topology: there our rules hold, which allow a new target in the middle of an upgrade where a legal way leads to it.
//
// It calls no extension and reads no workload cluster. It is safe for concurrent use.
type Cluster struct {
	// Client reads Clusters' objects, of any kind, and CustomResourceDefinitions' metadata. A cache will do, and is what Cluster API uses.
	Client client.Reader
	// Policies returns the UpdatePolicies of a namespace; nil where there are none.
	Policies func(ctx context.Context, namespace string) (policy.Set, error)
}

var _ admission.Validator[*clusterv1.Cluster] = &Cluster{}

// SetupWithManager serves all that Cluster API's webhook for Clusters serves, at its paths: our validation, its defaulting and its
// conversion. Cluster API's webhook must not be set up beside it; cache is what that one would be given.
func (w *Cluster) SetupWithManager(mgr ctrl.Manager, cache upstream.ClusterCacheReader) error {
	// A path that is taken is passed over by the set up that follows.
	mgr.GetWebhookServer().Register(clusterValidatePath, admission.WithValidator[*clusterv1.Cluster](mgr.GetScheme(), w))
	return (&upstream.Cluster{Client: w.Client, ClusterCacheReader: cache}).SetupWebhookWithManager(mgr)
}

// ValidateCreate validates a new Cluster.
func (w *Cluster) ValidateCreate(ctx context.Context, cluster *clusterv1.Cluster) (admission.Warnings, error) {
	class := &classReader{Reader: w.Client, key: cluster.GetClassKey()}
	warnings, err := (&upstream.Cluster{Client: class}).ValidateCreate(ctx, cluster)
	if class.found == nil {
		return warnings, err
	}
	_, problems := w.validateVersion(ctx, class.found, nil, cluster)
	return warnings, withVersionProblems(err, cluster, problems)
}

// ValidateUpdate validates a changed Cluster.
func (w *Cluster) ValidateUpdate(ctx context.Context, before, after *clusterv1.Cluster) (admission.Warnings, error) {
	class := &classReader{Reader: w.Client, key: after.GetClassKey()}
	warnings, err := validateRest(ctx, &upstream.Cluster{Client: class}, before, after)
	if class.found == nil {
		return warnings, err
	}
	warning, problems := w.validateVersion(ctx, class.found, before, after)
	if warning != "" {
		warnings = append(warnings, warning)
	}
	return warnings, withVersionProblems(err, after, problems)
}

// ValidateDelete validates the deletion of a Cluster.
func (w *Cluster) ValidateDelete(ctx context.Context, cluster *clusterv1.Cluster) (admission.Warnings, error) {
	return (&upstream.Cluster{Client: w.Client}).ValidateDelete(ctx, cluster)
}

// validateRest has Cluster API validate all but a change of the version. The annotation that a person would use for that switches off
// its rules for such a change, and nothing else. It also makes it warn and log that they are off, which is not so here.
func validateRest(ctx context.Context, rest *upstream.Cluster, before, after *clusterv1.Cluster) (admission.Warnings, error) {
	if !isTargetChanged(before, after) || isUnsafe(after) {
		return rest.ValidateUpdate(ctx, before, after)
	}
	after = after.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation] = ""
	warnings, err := rest.ValidateUpdate(ctrl.LoggerInto(ctx, logr.Discard()), before, after)
	return slices.DeleteFunc(warnings, func(warning string) bool {
		return strings.Contains(warning, clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation)
	}), err
}

// validateVersion applies our rules. before is nil for a new Cluster. The annotation that switches off Cluster API's rules for a
// change of the version switches off ours; that the version is in the class's list is none of those.
func (w *Cluster) validateVersion(ctx context.Context, class *clusterv1.ClusterClass, before, after *clusterv1.Cluster) (warning string, problems field.ErrorList) {
	path, value := field.NewPath("spec", "topology", "version"), after.Spec.Topology.Version
	target, err := version.Parse(value)
	if err != nil {
		return "", field.ErrorList{field.Invalid(path, value, err.Error())}
	}
	changed := isTargetChanged(before, after) && !isUnsafe(after)
	offer, err := readOffer(class)
	if err != nil && (changed || !slices.Contains(offer.Versions, target)) {
		return "", field.ErrorList{field.Invalid(path, value, err.Error())}
	}
	if !changed {
		return "", refuse(path, value, offer.CheckVersion(target))
	}
	objects, err := w.readObjects(ctx, before)
	if err != nil {
		return "", field.ErrorList{field.InternalError(path, err)}
	}
	// Groups that are new in this very request will be made at the control plane's version.
	objects.Cluster = after
	change, err := w.readChange(ctx, objects, before, target)
	if err != nil {
		return "", field.ErrorList{field.InternalError(path, err)}
	}
	if refusal := offer.CheckTarget(change); refusal != nil {
		return "", refuse(path, value, refusal)
	}
	stands, err := w.isStuck(ctx, objects, target)
	switch {
	case err != nil:
		return "", field.ErrorList{field.InternalError(path, err)}
	case stands != "":
		return "", field.ErrorList{field.Invalid(path, value, stands)}
	}
	return offer.Warning(change), nil
}

func refuse(path *field.Path, value string, refusal *chain.Refusal) field.ErrorList {
	if refusal == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, refusal.Message())}
}

// isTargetChanged reports whether a Cluster that had a managed topology has another version now.
func isTargetChanged(before, after *clusterv1.Cluster) bool {
	if before == nil || !before.Spec.Topology.IsDefined() || before.GetClassKey().Name == "" || !after.Spec.Topology.IsDefined() {
		return false
	}
	from, err := version.Parse(before.Spec.Topology.Version)
	if err != nil {
		return before.Spec.Topology.Version != after.Spec.Topology.Version
	}
	to, err := version.Parse(after.Spec.Topology.Version)
	return err != nil || from != to
}

func isUnsafe(cluster *clusterv1.Cluster) bool {
	return has(cluster.Annotations, clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation)
}
