package refusal

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/record"
)

// Reason is why a write is refused. The values are those of the label reason of
// windlass_refused_writes_total.
type Reason string

// The reasons.
const (
	// QuotaExceeded: a ResourceQuota of the namespace has no room for the object.
	QuotaExceeded Reason = "QuotaExceeded"
	// TooLarge: the object exceeds what the API server or etcd takes, or a record its own limit.
	TooLarge Reason = "TooLarge"
	// Invalid: the object breaks a rule of its CRD, or of a webhook.
	Invalid Reason = "Invalid"
	// FieldsDropped: the API server did not store a field, because the CRD does not have it, or a
	// webhook changed it.
	FieldsDropped Reason = "FieldsDropped"
)

// A DroppedError says that the API server accepted a write and did not store all of it.
type DroppedError struct {
	// Kind and Fields name what was not stored.
	Kind   string
	Fields []string
}

func (e *DroppedError) Error() string {
	return fmt.Sprintf("the API server did not store %s of %s: the installed CRD does not have it. "+
		"Fix: install the CRDs of this release", strings.Join(e.Fields, ", "), e.Kind)
}

// ReasonOf returns why the API server refuses what err is about, and false if err is none of that.
// Wrapped errors count.
func ReasonOf(err error) (Reason, bool) {
	if _, dropped := errors.AsType[*DroppedError](err); dropped {
		return FieldsDropped, true
	}
	if _, changed := errors.AsType[*record.UnstoredError](err); changed {
		return FieldsDropped, true
	}
	if _, long := errors.AsType[*record.TooLongError](err); long {
		return TooLarge, true
	}
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return "", false
	case apierrors.IsForbidden(err) && strings.Contains(status.Status().Message, "exceeded quota"):
		return QuotaExceeded, true
	case apierrors.IsRequestEntityTooLargeError(err), strings.Contains(status.Status().Message, "etcdserver: request is too large"):
		return TooLarge, true
	case apierrors.IsInvalid(err):
		return Invalid, true
	default:
		return "", false
	}
}

// CheckStored returns a DroppedError if the status that the API server returned lacks a field of the
// status that was sent to it. sent is a copy from before the request; both have the same kind.
func CheckStored(sent, returned client.Object) error {
	var status [2]any
	for i, object := range []client.Object{sent, returned} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return fmt.Errorf("reading the status of %s: %w", object.GetName(), err)
		}
		status[i] = fields["status"]
	}
	if fields := missing("status", status[0], status[1]); len(fields) > 0 {
		return &DroppedError{Kind: fmt.Sprintf("%T %s", sent, client.ObjectKeyFromObject(sent)), Fields: fields}
	}
	return nil
}
