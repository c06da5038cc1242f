package pool

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// conditionWords are the type and the reasons of a condition that MachineDeployments and
// MachineSets have alike. internalError is the reason while not all objects were read, and none
// while something is missing: spec.replicas, or Machines.
type conditionWords struct {
	kind, isTrue, isFalse, isUnknown, internalError, none string
}

func (w conditionWords) asTrue(message string) metav1.Condition {
	return condition(w.kind, metav1.ConditionTrue, w.isTrue, message)
}

func (w conditionWords) asFalse(message string) metav1.Condition {
	return condition(w.kind, metav1.ConditionFalse, w.isFalse, message)
}

// unread is the condition while not all objects were read.
func (w conditionWords) unread() metav1.Condition {
	return condition(w.kind, metav1.ConditionUnknown, w.internalError, messageInternalError)
}

// scale is what the conditions ScalingUp and ScalingDown depend on.
type scale struct {
	// read says that the objects of current were read.
	read bool
	// replicas is spec.replicas; nil if nobody has set it. desired is 0 while the object is deleted.
	replicas         *int32
	current, desired int
}

// unknown returns the condition if nobody can tell how many Machines there are or should be; nil if
// they can.
func (s scale) unknown(w conditionWords) *metav1.Condition {
	switch {
	case !s.read:
		return new(w.unread())
	case s.replicas == nil:
		return new(condition(w.kind, metav1.ConditionUnknown, w.none, messageReplicasMissing))
	}
	return nil
}

// up returns the condition ScalingUp. missing says which templates do not exist, and blocked what
// keeps Machines from being created, each as the end of a message.
func (s scale) up(w conditionWords, deleting bool, missing, blocked string) metav1.Condition {
	if c := s.unknown(w); c != nil {
		return *c
	}
	switch {
	case s.current < s.desired:
		message := fmt.Sprintf("Scaling up from %d to %d replicas", s.current, s.desired)
		if blocked != "" {
			message += " is blocked because" + blocked
		}
		return w.asTrue(message)
	case !deleting && missing != "":
		return w.asFalse("Scaling up would be blocked because " + missing)
	}
	return w.asFalse("")
}

// down returns the condition ScalingDown. Its message names deletions that take long.
func (s scale) down(
	w conditionWords, machines []*clusterv1.Machine, now time.Time,
) metav1.Condition {
	if c := s.unknown(w); c != nil {
		return *c
	}
	if s.current <= s.desired {
		return w.asFalse("")
	}
	message := fmt.Sprintf("Scaling down from %d to %d replicas", s.current, s.desired)
	return w.asTrue(message + staleDeletions(machines, now))
}

// summarize merges a condition of Machines.
func (w conditionWords) summarize(machines []*clusterv1.Machine, source string) metav1.Condition {
	if len(machines) == 0 {
		return condition(w.kind, metav1.ConditionTrue, w.none, "")
	}
	merged, err := conditions.NewAggregateCondition(
		machines, source, conditions.TargetConditionType(w.kind),
		conditions.CustomMergeStrategy{
			MergeStrategy: conditions.DefaultMergeStrategy(conditions.ComputeReasonFunc(
				conditions.GetDefaultComputeMergeReasonFunc(w.isFalse, w.isUnknown, w.isTrue))),
		},
	)
	if err != nil {
		return w.unread()
	}
	return *merged
}

// deletion says how far a deletion is: how many Machines are left, or else how many MachineSets.
func deletion(machines []*clusterv1.Machine, sets int, now time.Time) string {
	switch n := len(machines); {
	case n == 1:
		return "Deleting 1 Machine" + staleDeletions(machines, now)
	case n > 1:
		return fmt.Sprintf("Deleting %d Machines", n) + staleDeletions(machines, now)
	case sets > 0:
		return fmt.Sprintf("Deleting %d MachineSets", sets)
	}
	return "Deletion completed"
}
