package hookserver

import "net/http"

// WhileHeld returns a handler that serves requests while held returns nil, and refuses them otherwise. It asks
// again before the first byte of an answer, because the process may have been stopped in between. A nil held
// always allows.
func WhileHeld(held func() error, next http.Handler) http.Handler {
	if held == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := held(); err != nil {
			refuseUnheld(w, err)
			return
		}
		next.ServeHTTP(&heldWriter{ResponseWriter: w, held: held}, r)
	})
}

func refuseUnheld(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// heldWriter replaces an answer that comes too late.
type heldWriter struct {
	http.ResponseWriter

	held           func() error
	asked, refused bool
}

// refuse asks once, and reports whether the answer was replaced.
func (w *heldWriter) refuse() bool {
	if w.asked {
		return w.refused
	}
	w.asked = true
	if err := w.held(); err != nil {
		w.refused = true
		refuseUnheld(w.ResponseWriter, err)
	}
	return w.refused
}

// WriteHeader implements http.ResponseWriter.
func (w *heldWriter) WriteHeader(code int) {
	if !w.refuse() {
		w.ResponseWriter.WriteHeader(code)
	}
}

// Write implements http.ResponseWriter.
func (w *heldWriter) Write(data []byte) (int, error) {
	if w.refuse() {
		return len(data), nil
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap lets an http.ResponseController find the connection.
func (w *heldWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
