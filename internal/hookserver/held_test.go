package hookserver_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/windlass-dev/windlass/internal/hookserver"
)

// TestWhileHeld answers only while the replica holds the lease, at the beginning and at the end of a request.
func TestWhileHeld(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		held []bool
		want int
		runs bool
	}{
		"holds the lease":            {held: []bool{true, true}, want: http.StatusAccepted, runs: true},
		"does not lead":              {held: []bool{false}, want: http.StatusServiceUnavailable},
		"was stopped in between":     {held: []bool{true, false}, want: http.StatusServiceUnavailable, runs: true},
		"leads again before the end": {held: []bool{true, false, true}, want: http.StatusServiceUnavailable, runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran, asked := false, 0
			held := func() error {
				asked++
				if !tt.held[asked-1] {
					return errors.New("another replica leads")
				}
				return nil
			}
			handler := hookserver.WhileHeld(held, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				ran = true
				w.WriteHeader(http.StatusAccepted)
				for _, part := range []string{"allo", "wed"} {
					if _, err := io.WriteString(w, part); err != nil {
						t.Error(err)
					}
				}
			}))
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
			if answer.Code != tt.want || ran != tt.runs || (answer.Body.String() == "allowed") != (tt.want == http.StatusAccepted) {
				t.Errorf("%d, %q; the handler ran: %t", answer.Code, answer.Body, ran)
			}
		})
	}
}
