package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
)

// SuffixLength is how many random characters end the name of a new MachineSet.
const SuffixLength = 5

// maxNameLength is the most characters of a MachineSet's name, because labels repeat it.
const maxNameLength = 63

// conversionAnnotation keeps fields of other API versions. Copying it would make the conversion
// webhook and the controller change the object in turn.
const conversionAnnotation = "cluster.x-k8s.io/conversion-data"

// NewSetName returns the name of a new MachineSet: base, cut so that the name has at most 63
// characters, and suffix.
func NewSetName(base, suffix string) string {
	return base[:min(len(base), maxNameLength-SuffixLength)] + suffix
}

// NewSet returns a MachineSet for the current template of md, with no replicas. suffix must be new
// for each MachineSet: it tells MachineSets of equal templates apart, as rollout.after makes them.
func NewSet(
	md *clusterv1.MachineDeployment,
	suffix string,
	created metav1.Time,
) (*clusterv1.MachineSet, error) {
	hash, err := templateHash(&md.Spec.Template)
	if err != nil {
		return nil, err
	}
	set := &clusterv1.MachineSet{}
	set.Name = NewSetName(md.Name+"-", suffix)
	set.CreationTimestamp = created
	set.Spec.Replicas = new(int32)
	set.Spec.Template.Spec = *md.Spec.Template.Spec.DeepCopy()
	propagate(set, md, fmt.Sprintf("%d-%s", hash, suffix))
	return set, nil
}

// DesiredSet returns what an existing MachineSet of md should be: its identity, replicas, template
// and status are kept, and what md propagates to existing MachineSets and Machines is taken from
// md. Everything else, such as marks of a move or revisions, is left out: the caller adds what is
// to stay.
func DesiredSet(
	md *clusterv1.MachineDeployment,
	current *clusterv1.MachineSet,
) (*clusterv1.MachineSet, error) {
	unique, ok := current.Labels[clusterv1.MachineDeploymentUniqueLabel]
	if !ok {
		return nil, fmt.Errorf(
			"MachineSet %s lacks the label %s. Fix: set it to the value that its Machines have",
			objectName(current.Namespace, current.Name), clusterv1.MachineDeploymentUniqueLabel)
	}
	if current.Spec.Replicas == nil {
		return nil, noReplicas(current)
	}
	set := &clusterv1.MachineSet{}
	set.Name, set.UID = current.Name, current.UID
	set.Finalizers = append([]string(nil), current.Finalizers...)
	set.CreationTimestamp = current.CreationTimestamp
	set.Spec.Replicas = new(*current.Spec.Replicas)
	set.Spec.Template.Spec = *current.Spec.Template.Spec.DeepCopy()
	set.Status = *current.Status.DeepCopy()
	propagate(set, md, unique)
	return set, nil
}

func noReplicas(set *clusterv1.MachineSet) error {
	return fmt.Errorf(
		"spec.replicas of MachineSet %s is not set. Fix: set it",
		objectName(set.Namespace, set.Name),
	)
}

// propagate sets on a MachineSet what comes from its MachineDeployment without a rollout.
func propagate(set *clusterv1.MachineSet, md *clusterv1.MachineDeployment, unique string) {
	from := md.DeepCopy()
	template := &from.Spec.Template

	set.Namespace = from.Namespace
	owner := metav1.NewControllerRef(md, capi.MachineDeploymentKind)
	set.OwnerReferences = []metav1.OwnerReference{*owner}
	set.Labels = with(template.Labels, clusterv1.MachineDeploymentUniqueLabel, unique)
	set.Labels[clusterv1.MachineDeploymentNameLabel] = from.Name
	set.Annotations = propagatedAnnotations(from)

	set.Spec.ClusterName = from.Spec.ClusterName
	set.Spec.Selector = from.Spec.Selector
	set.Spec.Selector.MatchLabels =
		with(from.Spec.Selector.MatchLabels, clusterv1.MachineDeploymentUniqueLabel, unique)
	set.Spec.Deletion.Order = from.Spec.Deletion.Order
	set.Spec.MachineNaming = from.Spec.MachineNaming

	set.Spec.Template.Labels = with(template.Labels, clusterv1.MachineDeploymentUniqueLabel, unique)
	set.Spec.Template.Annotations = clone(template.Annotations)
	spec, deletion := &set.Spec.Template.Spec, template.Spec.Deletion
	spec.MinReadySeconds = template.Spec.MinReadySeconds
	spec.ReadinessGates = template.Spec.ReadinessGates
	spec.Deletion.NodeDrainTimeoutSeconds = deletion.NodeDrainTimeoutSeconds
	spec.Deletion.NodeDeletionTimeoutSeconds = deletion.NodeDeletionTimeoutSeconds
	spec.Deletion.NodeVolumeDetachTimeoutSeconds = deletion.NodeVolumeDetachTimeoutSeconds
	spec.Taints = template.Spec.Taints
}

// propagatedAnnotations are those of md that its MachineSets have too, marks excepted, and the
// sizes from which a paused rollout computes proportions.
func propagatedAnnotations(md *clusterv1.MachineDeployment) map[string]string {
	annotations := WithoutMarks(md.Annotations)
	for _, own := range []string{
		corev1.LastAppliedConfigAnnotation, conversionAnnotation,
		clusterv1.RevisionAnnotation, revisionHistoryAnnotation,
	} {
		delete(annotations, own)
	}
	replicas := deref(md.Spec.Replicas)
	annotations[clusterv1.DesiredReplicasAnnotation] = strconv.Itoa(int(replicas))
	annotations[clusterv1.MaxReplicasAnnotation] = strconv.Itoa(int(replicas + surgeOf(md)))
	return annotations
}

// surgeOf returns maxSurge in Machines, or 0 if it cannot be read.
func surgeOf(md *clusterv1.MachineDeployment) int32 {
	b, err := BudgetOf(md)
	if err != nil {
		return 0
	}
	return b.Surge
}

// templateHash returns a number for what makes Machines of a template differ. It is only part of a
// label's value, to make it unique: nobody compares hashes.
func templateHash(template *clusterv1.MachineTemplateSpec) (uint32, error) {
	text, err := json.Marshal(template.Spec)
	if err != nil {
		return 0, errors.Join(errors.New("computing the hash of a Machine template"), err)
	}
	h := fnv.New32a()
	_, _ = h.Write(text) // never returns an error
	return h.Sum32(), nil
}

// clone copies a map. The copy is never nil.
func clone(m map[string]string) map[string]string {
	c := make(map[string]string, len(m)+1)
	maps.Copy(c, m)
	return c
}

// with copies a map and sets one key in the copy.
func with(m map[string]string, key, value string) map[string]string {
	c := clone(m)
	c[key] = value
	return c
}
