package pool

import (
	"fmt"
	"slices"
	"strconv"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/record"
)

const revisionHistoryAnnotation = record.RevisionHistoryAnnotation

// Revisions returns the revision of the new MachineSet, and the annotations that record it. It is
// larger than those of all old MachineSets, and never decreases. current is the new MachineSet as
// stored; nil if it is not created yet. Revisions of old MachineSets that are not numbers count as
// 0. The history keeps the last ones. It returns an error if current's is not a number.
func Revisions(
	current *clusterv1.MachineSet, old []*clusterv1.MachineSet,
) (revision string, annotations map[string]string, err error) {
	next := highestRevision(old) + 1
	annotations = map[string]string{}
	if current != nil {
		before, has := current.Annotations[clusterv1.RevisionAnnotation]
		history := current.Annotations[revisionHistoryAnnotation]
		if _, ok := current.Annotations[revisionHistoryAnnotation]; ok {
			annotations[revisionHistoryAnnotation] = history
		}
		if has {
			number, err := strconv.ParseInt(before, 10, 64)
			if err != nil {
				return "", nil, fmt.Errorf("reading the annotation %s of MachineSet %s: %w. Fix: remove the "+
					"annotation", clusterv1.RevisionAnnotation,
					objectName(current.Namespace, current.Name), err)
			}
			next = max(next, number)
			if before != strconv.FormatInt(next, 10) {
				annotations[revisionHistoryAnnotation] = record.KeepLast(
					appendName(history, before), record.LimitOf(revisionHistoryAnnotation))
			}
		}
	}
	revision = strconv.FormatInt(next, 10)
	annotations[clusterv1.RevisionAnnotation] = revision
	return revision, annotations, nil
}

func highestRevision(sets []*clusterv1.MachineSet) int64 {
	var highest int64
	for _, set := range sets {
		n, err := strconv.ParseInt(set.Annotations[clusterv1.RevisionAnnotation], 10, 64)
		if err == nil {
			highest = max(highest, n)
		}
	}
	return highest
}

// keptRevisions returns the annotations by which an old MachineSet keeps its revision.
func keptRevisions(current *clusterv1.MachineSet) map[string]string {
	kept := map[string]string{}
	for _, key := range []string{clusterv1.RevisionAnnotation, revisionHistoryAnnotation} {
		if value, ok := current.Annotations[key]; ok {
			kept[key] = value
		}
	}
	return kept
}

// appendName adds a name to a list that is separated by commas.
func appendName(list, name string) string {
	if list == "" {
		return name
	}
	return list + "," + name
}

// Complete reports whether a rollout is over by status, the status of md that follows from what has
// been written: all replicas are up to date and available, there are no others, and the status is
// about the current generation.
func Complete(md *clusterv1.MachineDeployment, status clusterv1.MachineDeploymentStatus) bool {
	replicas := deref(md.Spec.Replicas)
	return deref(status.UpToDateReplicas) == replicas && deref(status.Replicas) == replicas &&
		deref(status.AvailableReplicas) == replicas && status.ObservedGeneration >= md.Generation
}

// Cleanable returns the old MachineSets that can be deleted after a rollout, oldest first: they
// have no replicas, no Machines, and their controller has seen that. machines are those of the
// group: a Machine that has just moved to a MachineSet is not in its status yet, and would be
// deleted with it. Cluster API keeps no history of MachineSets.
func Cleanable(old []*clusterv1.MachineSet, machines []*clusterv1.Machine) []*clusterv1.MachineSet {
	var sets []*clusterv1.MachineSet
	for _, set := range sortedByAge(old) {
		empty := set.Spec.Replicas != nil && *set.Spec.Replicas == 0 &&
			deref(set.Status.Replicas) == 0 &&
			!slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool { return Owns(set, m) })
		if empty && set.DeletionTimestamp.IsZero() &&
			set.Generation <= set.Status.ObservedGeneration {
			sets = append(sets, set)
		}
	}
	return sets
}
