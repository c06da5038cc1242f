package hookclient

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// states remembers which extensions do not answer, so that the log says when that begins, changes and ends instead of once per
// call. What extensions answer is not their state: it is about one object, whose conditions show it. The zero value is ready. It is safe for
// concurrent use.
type states struct {
	mu sync.Mutex
	// broken are the faults by call.
	broken map[Call]string
}

// changed reports whether the fault, empty for none, is another than at the call before.
func (s *states) changed(call Call, fault string) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken[call] == fault {
		return false
	}
	if s.broken == nil {
		s.broken = map[Call]string{}
	}
	if fault == "" {
		delete(s.broken, call)
	} else {
		s.broken[call] = fault
	}
	return true
}

func (s *states) forget(extensionConfig string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for call := range s.broken {
		if call.ExtensionConfig == extensionConfig {
			delete(s.broken, call)
		}
	}
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
