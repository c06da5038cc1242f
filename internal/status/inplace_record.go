package status

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// asked is what stands on an object about an upgrade that an annotation asks for. R is what is recorded of it.
type asked[R any] struct {
	marks request.Marks
	retry bool
	// record is nil where there is none, or where problem says why it cannot be read.
	record    *R
	problem   *Problem
	condition *metav1.Condition
}

// ReadMarks reads the annotations that begin with a prefix.
func ReadMarks(annotations map[string]string, prefix string) request.Marks {
	return request.Marks{
		To: annotations[prefix+v1alpha1.InPlaceUpgradeTo], Status: request.Status(annotations[prefix+v1alpha1.InPlaceUpgradeStatus]),
		Release: annotations[prefix+v1alpha1.InPlaceUpgradeRelease], ChangeID: annotations[prefix+v1alpha1.InPlaceUpgradeChangeID],
		LastFailed: annotations[prefix+v1alpha1.InPlaceUpgradeLastFailedAttemptAt],
	}
}

// readAsked reads what stands on an object. check says what a record that was decoded lacks.
func readAsked[R any](kind string, object metav1.Object, conditions []metav1.Condition, prefix string, check func(R) error) asked[R] {
	annotations := object.GetAnnotations()
	_, retry := annotations[v1alpha1.UpdateRetryAnnotation]
	a := asked[R]{marks: ReadMarks(annotations, prefix), retry: retry, condition: meta.FindStatusCondition(conditions, v1alpha1.InPlaceUpgradeCondition)}
	text, found := annotations[v1alpha1.InPlaceUpgradeAnnotation]
	if !found {
		return a
	}
	record := new(R)
	err := untrusted.Annotation.Unmarshal([]byte(text), record)
	if err == nil {
		err = check(*record)
	}
	if err != nil {
		a.problem = &Problem{
			Kind: kind, Name: object.GetName(), Annotation: v1alpha1.InPlaceUpgradeAnnotation, Message: fmt.Sprintf("it cannot be read: %v", err),
		}
		return a
	}
	a.record = record
	return a
}

var (
	errNoOption = errors.New("it says no option")
	errNoReason = errors.New("it has neither progress nor a reason for a refusal")
)

func checkUpgrade(u request.Upgrade) error {
	switch {
	case u.Option == "":
		return errNoOption
	case u.Progress == nil && u.Message == "":
		return errNoReason
	case u.Progress != nil && u.Progress.Phase == "":
		return errNoPhase
	}
	return nil
}

func checkRecord(r request.Record) error {
	if r.Option == "" {
		return errNoOption
	}
	return nil
}

// isEmpty reports whether nothing stands there.
func (a asked[R]) isEmpty() bool {
	return a.marks == (request.Marks{}) && a.record == nil && a.problem == nil
}

// isAbandoned reports whether a change may run of which nobody knows what it leads to.
func (a asked[R]) isAbandoned() bool {
	return a.record == nil && a.marks.To == "" && a.marks.Status == request.InProgress && a.marks.ChangeID != ""
}

// told returns what the annotations and the condition say.
func (a asked[R]) told() Asking {
	said := Asking{To: a.marks.To, Release: a.marks.Release, Retry: a.retry}
	if a.condition != nil {
		said.Reason, said.Message, said.Told = request.Reason(a.condition.Reason), a.condition.Message, a.condition.LastTransitionTime.UTC()
	}
	return said
}

// going and stopped report what the condition says of the upgrade, if it is there.
func (a asked[R]) going() bool {
	return a.condition != nil && a.condition.Status == metav1.ConditionTrue
}
func (a asked[R]) stopped() bool {
	return a.condition != nil && a.condition.Status == metav1.ConditionFalse
}

// readLock returns who holds a control plane's lock; nil where nobody does.
func readLock(c *corev1.ConfigMap) *Lock {
	if c == nil {
		return nil
	}
	l := &Lock{Since: c.CreationTimestamp.UTC()}
	var holder struct {
		MachineName string `json:"machineName"`
	}
	if err := untrusted.Annotation.Unmarshal([]byte(c.Data[v1alpha1.InPlaceUpgradeLockKey]), &holder); err != nil {
		l.Problem = fmt.Sprintf("ConfigMap %s does not name the holder: %v", c.Name, err)
		return l
	}
	if l.Machine = holder.MachineName; l.Machine == "" {
		l.Problem = fmt.Sprintf("ConfigMap %s does not name the holder", c.Name)
	}
	return l
}
