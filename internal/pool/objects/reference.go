package objects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/contract"
)

// A Copy says what is made from a template, see [Clone].
type Copy struct {
	// Ref refers to the template, in Namespace.
	Ref       clusterv1.ContractVersionedObjectReference
	Namespace string
	// Name is that of the new object.
	Name, Cluster       string
	Labels, Annotations map[string]string
	// Owner is the only owner of the new object. It may be nil.
	Owner *metav1.OwnerReference
}

// Clone returns the object that a template describes, in the API version of the template that keeps
// the newest contract. It reads the template and writes nothing. The error is a NotFound of the
// template if that does not exist.
func Clone(ctx context.Context, c client.Reader, in Copy) (*unstructured.Unstructured, error) {
	ref, template, err := FetchTemplate(ctx, c, in.Ref, in.Namespace)
	if err != nil {
		return nil, err
	}
	out, err := external.GenerateTemplate(&external.GenerateTemplateInput{
		Template: template, TemplateRef: ref, Namespace: in.Namespace, Name: in.Name,
		ClusterName: in.Cluster, OwnerRef: in.Owner, Labels: in.Labels, Annotations: in.Annotations,
	})
	if err != nil {
		return nil, fmt.Errorf("cloning %s %s/%s: %w", in.Ref.Kind, in.Namespace, in.Ref.Name, err)
	}
	return out, nil
}

// FetchTemplate reads a template that a pool refers to, in the API version that keeps the newest
// contract, and returns it with a reference in that version. The error is a NotFound of the
// template if that does not exist.
func FetchTemplate(
	ctx context.Context, c client.Reader, ref clusterv1.ContractVersionedObjectReference,
	namespace string,
) (*corev1.ObjectReference, *unstructured.Unstructured, error) {
	version, err := contract.FetchAPIVersion(ctx, c, ref.GroupKind())
	if err != nil {
		// The caller looks for a NotFound of the template, not of its definition.
		//nolint:errorlint // see above
		return nil, nil, fmt.Errorf("finding the API version of %s: %v", ref.GroupKind(), err)
	}
	full := &corev1.ObjectReference{
		APIVersion: version, Kind: ref.Kind, Namespace: namespace, Name: ref.Name,
	}
	template, err := external.Get(ctx, c, full)
	if err != nil {
		return nil, nil, fmt.Errorf("getting a template: %w", err)
	}
	return full, template, nil
}

// EnsureClusterOwner makes a Cluster an owner of a template, so that both are moved and deleted
// together. It sends no request where the Cluster is one already.
func EnsureClusterOwner(
	ctx context.Context, c client.Client, cluster *clusterv1.Cluster,
	template *unstructured.Unstructured,
) error {
	owner := ClusterOwner(cluster)
	if util.HasExactOwnerRef(template.GetOwnerReferences(), owner) {
		return nil
	}
	owned := template.DeepCopy()
	owned.SetOwnerReferences(util.EnsureOwnerRef(owned.GetOwnerReferences(), owner))
	if err := c.Patch(ctx, owned, client.MergeFrom(template)); err != nil {
		return fmt.Errorf("making Cluster %s an owner of %s %s: %w", cluster.Name,
			template.GetKind(), client.ObjectKeyFromObject(template), err)
	}
	return nil
}

// ClusterOwner returns the reference to a Cluster as an owner.
func ClusterOwner(cluster *clusterv1.Cluster) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster",
		Name: cluster.Name, UID: cluster.UID,
	}
}

// Selects reports whether the selector of a MachineSet matches labels. An empty or broken selector
// matches nothing.
func Selects(set *clusterv1.MachineSet, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(of))
}

// Adopt makes owner the controller of an object that has none. Afterwards orphan is the object as
// the API server returned it; after an error it is unchanged.
func Adopt(
	ctx context.Context, c client.Client, owner metav1.OwnerReference, orphan client.Object,
) error {
	before, err := copyOf(orphan)
	if err != nil {
		return err
	}
	orphan.SetOwnerReferences(util.EnsureOwnerRef(orphan.GetOwnerReferences(), owner))
	if err := c.Patch(ctx, orphan, client.MergeFrom(before)); err != nil {
		orphan.SetOwnerReferences(before.GetOwnerReferences())
		return err
	}
	return nil
}
