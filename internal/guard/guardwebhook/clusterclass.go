package guardwebhook

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/version"
)

// clusterClassValidatePath is where Cluster API's ValidatingWebhookConfiguration sends ClusterClasses.
const clusterClassValidatePath = "/validate-cluster-x-k8s-io-v1beta2-clusterclass"

// ClusterClass validates ClusterClasses in place of Cluster API's own webhook. What that one says holds; ours adds that a list of versions
// may not lead back, nor to another major, and that no Cluster loses the way to its target. Versions are compared as versions.
//
// It is safe for concurrent use.
type ClusterClass struct {
	// Client reads ClusterClasses, Clusters by index.ClusterClassRefPath, control planes of any kind and CustomResourceDefinitions'
	// metadata. A cache will do, and is what Cluster API uses.
	Client client.Reader
}

var _ admission.Validator[*clusterv1.ClusterClass] = &ClusterClass{}

// SetupWithManager serves all that Cluster API's webhook for ClusterClasses serves, at its paths: our validation and its conversion.
// Cluster API's webhook must not be set up beside it.
func (w *ClusterClass) SetupWithManager(mgr ctrl.Manager) error {
	// A path that is taken is passed over by the set up that follows.
	mgr.GetWebhookServer().Register(clusterClassValidatePath, admission.WithValidator[*clusterv1.ClusterClass](mgr.GetScheme(), w))
	return w.rest().SetupWebhookWithManager(mgr)
}

func (w *ClusterClass) rest() *upstream.ClusterClass { return &upstream.ClusterClass{Client: w.Client} }

// ValidateCreate validates a new ClusterClass.
func (w *ClusterClass) ValidateCreate(ctx context.Context, class *clusterv1.ClusterClass) (admission.Warnings, error) {
	problems := validateList(class.Spec.KubernetesVersions)
	warnings, err := w.rest().ValidateCreate(ctx, withoutJudged(class, problems))
	return warnings, withClassProblems(err, class, problems)
}

// ValidateUpdate validates a changed ClusterClass. A list that has not changed is not judged by our rules for lists: a class that Cluster API
// has let in must stay open to all other changes.
func (w *ClusterClass) ValidateUpdate(ctx context.Context, before, after *clusterv1.ClusterClass) (admission.Warnings, error) {
	problems, err := w.validateVersions(ctx, before, after)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	warnings, err := w.rest().ValidateUpdate(ctx, before, withoutJudged(after, problems))
	return warnings, withClassProblems(err, after, problems)
}

// ValidateDelete validates the deletion of a ClusterClass.
func (w *ClusterClass) ValidateDelete(ctx context.Context, class *clusterv1.ClusterClass) (admission.Warnings, error) {
	return w.rest().ValidateDelete(ctx, class)
}

func withClassProblems(said error, class *clusterv1.ClusterClass, problems field.ErrorList) error {
	return withProblems(said, clusterv1.GroupVersion.WithKind("ClusterClass").GroupKind(), class.Name, problems)
}

// withoutJudged returns what Cluster API's webhook is shown: the class without its list of versions where we have refused that
// already, and otherwise with it in the form in which Clusters have their versions, because it compares the two as text.
func withoutJudged(class *clusterv1.ClusterClass, problems field.ErrorList) *clusterv1.ClusterClass {
	shown := *class
	shown.Spec.KubernetesVersions = nil
	if len(problems) > 0 {
		return &shown
	}
	for _, value := range class.Spec.KubernetesVersions {
		if v, err := version.Parse(value); err == nil {
			value = v.String()
		}
		shown.Spec.KubernetesVersions = append(shown.Spec.KubernetesVersions, value)
	}
	return &shown
}

func kubernetesVersionsPath() *field.Path { return field.NewPath("spec", "kubernetesVersions") }

func validateList(items []string) field.ErrorList {
	var problems field.ErrorList
	versions := make([]version.Version, 0, len(items))
	for i, item := range items {
		v, err := version.Parse(item)
		if err != nil {
			problems = append(problems, field.Invalid(kubernetesVersionsPath().Index(i), item, err.Error()))
		}
		versions = append(versions, v)
	}
	for _, refusal := range chain.CheckList(versions) {
		problems = append(problems, field.Invalid(kubernetesVersionsPath().Index(refusal.Index), items[refusal.Index], refusal.Problem))
	}
	return problems
}

// validateVersions applies our rules to a changed class.
func (w *ClusterClass) validateVersions(ctx context.Context, before, after *clusterv1.ClusterClass) (field.ErrorList, error) {
	older, _ := readOffer(before)
	newer, _ := readOffer(after)
	changed := !slices.Equal(before.Spec.KubernetesVersions, after.Spec.KubernetesVersions)
	var problems field.ErrorList
	if changed {
		problems = validateList(after.Spec.KubernetesVersions)
	}
	if len(problems) > 0 || len(newer.Versions) < len(after.Spec.KubernetesVersions) {
		// Which versions a list holds is not known before all of it can be read.
		return problems, nil
	}
	uses, err := w.readUses(ctx, before, changed || older.Extension != newer.Extension)
	if err != nil {
		return nil, err
	}
	for _, problem := range chain.CheckUses(older, newer, uses) {
		problems = append(problems, field.Forbidden(kubernetesVersionsPath(), problem))
	}
	return problems, nil
}

// readUses reads what Clusters need of a class's versions. Control planes are read only where ways may be lost; a Cluster that is being
// created has none, one that is being deleted needs none.
func (w *ClusterClass) readUses(ctx context.Context, class *clusterv1.ClusterClass, ways bool) ([]chain.Use, error) {
	var clusters clusterv1.ClusterList
	if err := w.Client.List(ctx, &clusters, client.MatchingFields{index.ClusterClassRefPath: index.ClusterClassRef(class)}); err != nil {
		return nil, fmt.Errorf("listing the Clusters of ClusterClass %s: %w", client.ObjectKeyFromObject(class), err)
	}
	uses := make([]chain.Use, 0, len(clusters.Items))
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		use := chain.Use{Cluster: client.ObjectKeyFromObject(cluster).String()}
		if v, err := version.Parse(cluster.Spec.Topology.Version); err == nil {
			use.Target = v
		}
		if ways && cluster.DeletionTimestamp.IsZero() && cluster.Spec.ControlPlaneRef.IsDefined() {
			var err error
			if use.ControlPlane, err = w.readControlPlaneVersion(ctx, cluster); err != nil {
				return nil, err
			}
		}
		uses = append(uses, use)
	}
	return uses, nil
}

// readControlPlaneVersion reads the version that a control plane has or is on its way to; zero where there is none.
func (w *ClusterClass) readControlPlaneVersion(ctx context.Context, cluster *clusterv1.Cluster) (version.Version, error) {
	object, err := readControlPlane(ctx, w.Client, cluster)
	if apierrors.IsNotFound(err) {
		return version.Version{}, nil
	}
	if err != nil {
		return version.Version{}, err
	}
	return capi.VersionAt(object, "spec", "version"), nil
}
