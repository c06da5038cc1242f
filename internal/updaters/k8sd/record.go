package k8sd

import (
	"errors"
	"fmt"
	"time"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// state is how far a refresh has come.
type state string

const (
	// requesting: the request is about to be made, or was made and its answer is not known.
	requesting state = "requesting"
	// notSent: the request was not made after all, or was refused because another change goes on.
	notSent state = "not-sent"
	// running: k8sd has begun a change.
	running state = "running"
	done    state = "done"
	failed  state = "failed"
)

// refresh is what v1alpha1.RefreshAnnotation holds. The zero value is that there is none.
type refresh struct {
	// Operation is the operation id that it serves.
	Operation string `json:"operation" record:"key"`
	// Option is what the snap is refreshed to. It is not known of a change that another controller began.
	Option string `json:"option"`
	// Requested is when the request was about to be made.
	Requested time.Time `json:"requested"`
	// Kubelet is the version that the kubelet reported then, where what became of the request can be told by that alone.
	Kubelet string `json:"kubelet,omitempty"`
	// ChangeID is the change that k8sd began.
	ChangeID string `json:"changeId,omitempty"`
	State    state  `json:"state"`
	// Message says how it ended.
	Message string `json:"message,omitempty"`
}

// parseRecord reads the record of a Machine; the zero value where it has none.
func parseRecord(annotations map[string]string) (refresh, error) {
	written, found := annotations[v1alpha1.RefreshAnnotation]
	if !found {
		return refresh{}, nil
	}
	var r refresh
	err := untrusted.Annotation.Unmarshal([]byte(written), &r)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return refresh{}, fmt.Errorf("the annotation %s cannot be used (%w), so nobody knows whether a refresh runs. Fix: upgrade Windlass if a newer release wrote it; otherwise see to it with `snap changes k8s` on the node that none does, then remove the annotation",
			v1alpha1.RefreshAnnotation, err)
	}
	return r, nil
}

func (r refresh) check() error {
	switch r.State {
	case requesting, notSent, done, failed:
	case running:
		if r.ChangeID == "" {
			return errors.New("it runs without a change")
		}
	default:
		return fmt.Errorf("the state %q is unknown", r.State)
	}
	if r.Operation == "" {
		return errors.New("it has no operation")
	}
	return nil
}

// step is what to do about a machine.
type step int

const (
	// begin asks for a refresh, on record first.
	begin step = iota
	// adopt takes over the change that another controller began, and follows it.
	adopt
	// follow asks how the recorded change goes on.
	follow
	// outlast asks how the change of an earlier operation goes on, and begins once that has ended.
	outlast
	// askAgain makes a request again whose answer is not known.
	askAgain
	// look finds out by the kubelet what became of a request whose answer is not known.
	look
	// report says how the operation ended.
	report
)

// computeStep computes what to do about an operation. changeID is the change that an annotation says goes on.
func computeStep(r refresh, changeID, operation string, option request.Option) step {
	switch {
	case r.Operation == "" && changeID != "":
		return adopt
	case r.Operation == "":
		return begin
	case r.Operation == operation:
		return computeOwnStep(r, option)
	case r.State == running:
		return outlast
	case r.State == requesting && option.Method == request.LocalPath && r.Option == option.String():
		return look
	default:
		return begin
	}
}

// computeOwnStep is computeStep for an operation that is on record.
func computeOwnStep(r refresh, option request.Option) step {
	switch r.State {
	case running:
		return follow
	case done, failed:
		return report
	case requesting:
		if option.Method == request.LocalPath {
			return look
		}
		// A refresh to a channel or revision that was reached, or that runs, is not begun again by asking again.
		return askAgain
	case notSent:
	}
	return begin
}
