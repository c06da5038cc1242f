package updaterserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Fault is how the server misbehaves, whatever the updater behind it says.
type Fault string

// The faults.
const (
	// NoFault serves what the updater says.
	NoFault Fault = ""
	// HangFault never answers.
	HangFault Fault = "Hang"
	// ErrorFault answers with the HTTP status 500.
	ErrorFault Fault = "Error500"
	// NonsenseFault answers with something that is no JSON.
	NonsenseFault Fault = "Nonsense"
	// EmptyFault answers with nothing.
	EmptyFault Fault = "Empty"
	// OldVersionFault answers in a version of the API that is long gone.
	OldVersionFault Fault = "OldVersion"
	// RedirectFault sends callers elsewhere.
	RedirectFault Fault = "Redirect"
)

// ParseFault parses a Fault.
func ParseFault(s string) (Fault, error) {
	switch f := Fault(s); f {
	case NoFault, HangFault, ErrorFault, NonsenseFault, EmptyFault, OldVersionFault, RedirectFault:
		return f, nil
	default:
		return NoFault, fmt.Errorf("the fault %q is unknown. Fix: use %s, %s, %s, %s, %s, %s or nothing", s,
			HangFault, ErrorFault, NonsenseFault, EmptyFault, OldVersionFault, RedirectFault)
	}
}

// SetFault makes the server misbehave from the next request on.
func (s *Server) SetFault(f Fault) { s.faults.Store(&f) }

// oldAnswer is a response of the first version of the hooks.
const oldAnswer = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha0","kind":"Response","status":"Success"}`

// intercept serves a fault where there is one, and turns an answer that was marked into the HTTP status 503.
func (s *Server) intercept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := s.faults.Load(); fault != nil && *fault != NoFault {
			serveFault(*fault, w, r)
			return
		}
		mark := &mark{}
		next.ServeHTTP(&markedWriter{ResponseWriter: w, mark: mark}, r.WithContext(context.WithValue(r.Context(), markKey{}, mark)))
	})
}

func serveFault(fault Fault, w http.ResponseWriter, r *http.Request) {
	// A server notices that the caller has gone only once the request was read.
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 32<<20))
	switch fault {
	case NoFault, EmptyFault:
	case HangFault:
		<-r.Context().Done()
	case ErrorFault:
		http.Error(w, "told to", http.StatusInternalServerError)
	case NonsenseFault:
		_, _ = io.WriteString(w, "<html>nothing of use</html>")
	case OldVersionFault:
		_, _ = io.WriteString(w, oldAnswer)
	case RedirectFault:
		http.Redirect(w, r, "https://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
	}
}

// mark carries a handler's wish for another HTTP status to the writer: Cluster API's server always writes 200. It is written
// and read by the goroutine of one request.
type mark struct{ unavailable bool }

type markKey struct{}

func markUnavailable(ctx context.Context) {
	if m, ok := ctx.Value(markKey{}).(*mark); ok {
		m.unavailable = true
	}
}

type markedWriter struct {
	http.ResponseWriter
	mark *mark
}

// WriteHeader implements http.ResponseWriter.
func (w *markedWriter) WriteHeader(status int) {
	if w.mark.unavailable {
		status = http.StatusServiceUnavailable
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap serves http.ResponseController.
func (w *markedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
