package machinedeployment

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// TestLateSource starts a source whose kind is not installed at first, and then only in part. The
// source starts once the kind is there, and the controller does not wait for it.
func TestLateSource(t *testing.T) {
	answers := make(chan error)
	started := make(chan struct{})
	unknown, none := errors.New("only some CRDs are installed"), errors.New("not installed")
	late := lateSource{
		source: source.Func(func(
			context.Context, workqueue.TypedRateLimitingInterface[ctrl.Request],
		) error {
			close(started)
			return nil
		}),
		exists: func() (bool, error) {
			err := <-answers
			if errors.Is(err, none) {
				return false, nil
			}
			return err == nil, err
		},
		retry: time.Millisecond,
	}
	if _, waits := any(late).(source.SyncingSource); waits {
		t.Error("a controller would wait until the kind is installed")
	}
	if err := late.Start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []error{none, unknown, none} {
		answers <- answer
		select {
		case <-started:
			t.Fatalf("the source started although: %v", answer)
		default:
		}
	}
	answers <- nil
	<-started
}
