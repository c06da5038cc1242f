package pool

import (
	"errors"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// MarkNewest adds to the desired new MachineSet its revision, and lets it create Machines. It
// returns the revision, and a note if an old MachineSet becomes the new one. current is the new
// MachineSet as stored; nil if it is created.
func MarkNewest(
	desired, current *clusterv1.MachineSet, old []*clusterv1.MachineSet,
) (revision string, notes []Note, err error) {
	revision, annotations, err := Revisions(current, old)
	if err != nil {
		return "", nil, err
	}
	if current != nil && current.Annotations[clusterv1.RevisionAnnotation] != revision {
		notes = []Note{{Reason: ReasonCurrent}}
	}
	annotate(desired, annotations)
	annotate(desired, map[string]string{clusterv1.DisableMachineCreateAnnotation: "false"})
	return revision, notes, nil
}

// MustCreate reports whether the new MachineSet must be created. While a MachineDeployment is
// paused none is created. It returns an error if the templates are needed and do not exist.
func MustCreate(a Assignment, paused, templatesExist bool) (bool, error) {
	switch {
	case a.New != nil || paused:
		return false, nil
	case !templatesExist:
		return false, errors.New("a MachineSet cannot be created, because the bootstrap or " +
			"infrastructure template does not exist. Fix: create it, or change spec.template")
	}
	return true, nil
}

// DesiredOldSet is DesiredSet for a MachineSet that is not the new one. It keeps its revision, and
// does not create Machines if the strategy is OnDelete.
func DesiredOldSet(
	md *clusterv1.MachineDeployment,
	current *clusterv1.MachineSet,
) (*clusterv1.MachineSet, error) {
	desired, err := DesiredSet(md, current)
	if err != nil {
		return nil, err
	}
	MarkOld(desired, md, current)
	return desired, nil
}

// MarkOld adds to a desired old MachineSet the revision of current, and whether it creates
// Machines.
func MarkOld(
	desired *clusterv1.MachineSet,
	md *clusterv1.MachineDeployment,
	current *clusterv1.MachineSet,
) {
	annotate(desired, keptRevisions(current))
	disable := "false"
	if IsOnDelete(md) {
		disable = "true"
	}
	annotate(desired, map[string]string{clusterv1.DisableMachineCreateAnnotation: disable})
}

// PendingMoves returns the Machines of set that moved there and wait until the MachineDeployment
// counts them, sorted.
func PendingMoves(set *clusterv1.MachineSet, machines []*clusterv1.Machine) []string {
	var names []string
	for _, m := range machines {
		if IsMovePending(m) && Owns(set, m) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// mark sets an annotation to names, separated by commas. No names, no annotation.
func mark(set *clusterv1.MachineSet, key string, names []string) {
	if len(names) > 0 {
		annotate(set, map[string]string{key: strings.Join(names, ",")})
	}
}

// WithoutMarks returns a copy of annotations without the marks by which controllers move Machines
// and update them in place. People set annotations on a MachineDeployment and on templates, and
// those reach MachineSets and Machines. A mark among them would start moves and updates that no
// plan has decided, beyond all limits.
func WithoutMarks(annotations map[string]string) map[string]string {
	kept := clone(annotations)
	maps.DeleteFunc(kept, func(key, _ string) bool { return slices.Contains(ownMarks, key) })
	return kept
}

// ownMarks are the annotations by which controllers move Machines and update them in place, and the
// records of updates.
var ownMarks = []string{
	clusterv1.MachineSetMoveMachinesToMachineSetAnnotation,
	clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation,
	clusterv1.AcknowledgedMoveAnnotation, clusterv1.PendingAcknowledgeMoveAnnotation,
	clusterv1.UpdateInProgressAnnotation, runtimev1.PendingHooksAnnotation,
	v1alpha1.MovedFromAnnotation, v1alpha1.ReturnMachinesAnnotation, v1alpha1.HandedOverAnnotation,
	v1alpha1.NoUpdateAnnotation, v1alpha1.FailedCanariesAnnotation,
	v1alpha1.RolloutResumedAnnotation,
	v1alpha1.UpdatePlanAnnotation, v1alpha1.UpdateProgressAnnotation,
	v1alpha1.UpdateDecisionsAnnotation, v1alpha1.LastUpdateAnnotation,
	v1alpha1.DirtyFieldsAnnotation, v1alpha1.UpdateOwedAnnotation,
	v1alpha1.RemediationPausedAnnotation,
}

func annotate(set *clusterv1.MachineSet, annotations map[string]string) {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	maps.Copy(set.Annotations, annotations)
}

// AcknowledgedMoves returns the Machines whose move to set an earlier plan has counted. set may be
// nil.
func AcknowledgedMoves(set *clusterv1.MachineSet) []string {
	if set == nil || set.Annotations[clusterv1.AcknowledgedMoveAnnotation] == "" {
		return nil
	}
	return strings.Split(set.Annotations[clusterv1.AcknowledgedMoveAnnotation], ",")
}

// WithCounted returns desired with all moves that current has counted; nil if that is no other
// annotation, or if no more Machines can arrive. A name that stays for longer than its Machine is
// marked counts nothing: a Machine can come again only after another change of the MachineSet.
func WithCounted(desired, current *clusterv1.MachineSet) *clusterv1.MachineSet {
	counted := AcknowledgedMoves(current)
	remaining := AcknowledgedMoves(desired)
	isNew := func(name string) bool { return !slices.Contains(counted, name) }
	if !Receives(desired) || len(remaining) >= len(counted) || slices.ContainsFunc(remaining, isNew) {
		return nil
	}
	kept := desired.DeepCopy()
	mark(kept, clusterv1.AcknowledgedMoveAnnotation, counted)
	return kept
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
