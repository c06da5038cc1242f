package eventlimit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

	"github.com/windlass-dev/windlass/internal/text"
)

// MaxBytes bounds the note of an Event: the limit of the API. A longer note is cut, and keeps its
// Fix; see [text.Fit].
const MaxBytes = 1024

// Manager makes recorders, as controller-runtime's managers do.
type Manager interface {
	// GetEventRecorder returns a recorder of Events of events.k8s.io.
	GetEventRecorder(name string) events.EventRecorder
}

// CoreManager makes recorders of Events of the core API.
type CoreManager interface {
	// GetEventRecorderFor returns a recorder of such Events.
	GetEventRecorderFor(name string) record.EventRecorder
}

// For returns a recorder of Events of events.k8s.io for a component. It is safe for concurrent use.
func For(mgr Manager, name string) events.EventRecorder { return bounded{mgr.GetEventRecorder(name)} }

// CoreFor returns a recorder of Events of the core API for a component, as Cluster API's controllers
// have it. It is safe for concurrent use.
func CoreFor(mgr CoreManager, name string) record.EventRecorder {
	return core{mgr.GetEventRecorderFor(name)}
}

func note(format string, args []any) string {
	return text.Fit(fmt.Sprintf(format, args...), MaxBytes)
}

type bounded struct{ to events.EventRecorder }

// Eventf implements events.EventRecorder.
func (r bounded) Eventf(
	regarding, related runtime.Object, kind, reason, action, format string, args ...any,
) {
	r.to.Eventf(regarding, related, kind, reason, action, "%s", note(format, args))
}

type core struct{ to record.EventRecorder }

// Event implements record.EventRecorder.
func (r core) Event(object runtime.Object, kind, reason, message string) {
	r.to.Event(object, kind, reason, text.Fit(message, MaxBytes))
}

// Eventf implements record.EventRecorder.
func (r core) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.to.Event(object, kind, reason, note(format, args))
}

// AnnotatedEventf implements record.EventRecorder.
func (r core) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any,
) {
	r.to.AnnotatedEventf(object, annotations, kind, reason, "%s", note(format, args))
}
