package hookclient

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// states remembers which extensions do not answer, so that the log says when that begins, changes and ends instead of once per
// call. What extensions answer is not their state: it is about one object, whose conditions show it. It is safe for concurrent use.
type states struct{ faults *keyed.Once[Call] }

func newStates() states { return states{faults: keyed.NewOnce[Call](keyed.Forever, 0)} }

// changed reports whether the fault, empty for none, is another than at the call before.
func (s *states) changed(call Call, fault string) (changed bool) {
	if fault == "" {
		return s.faults.Forget(call)
	}
	return s.faults.Changed(call, fault, time.Time{})
}

func (s *states) forget(extensionConfig string) {
	s.faults.ForgetFunc(func(call Call) bool { return call.ExtensionConfig == extensionConfig })
}

// log writes a line if a call ended otherwise than the one before, as far as the extension itself is concerned.
func (s *states) log(ctx context.Context, call Call, result string, err error) {
	unreachable, isUnreachable := errors.AsType[*UnreachableError](err)
	_, isBadResponse := errors.AsType[*BadResponseError](err)
	_, isRefused := errors.AsType[*RefusedError](err)
	switch {
	case isUnreachable || isBadResponse:
		if !s.changed(call, err.Error()) {
			return
		}
		log := loggerFor(ctx, call)
		if isUnreachable {
			// What the network said may hold more than the words that are the same for every call.
			log = log.WithValues("cause", boundMessage(unreachable.cause.Error()))
		}
		log.Error(err, "Extension does not answer", "ignored", result == resultIgnored)
	case err == nil || isRefused:
		if s.changed(call, "") {
			loggerFor(ctx, call).Info("Extension answers again")
		}
	}
}

func loggerFor(ctx context.Context, call Call) logr.Logger {
	return ctrl.LoggerFrom(ctx, "hook", call.Hook, "extension", call.Extension())
}
