package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/httplimit"
)

// TestOnlyJSON sends AdmissionReviews in each form that the decoder of webhooks reads.
func TestOnlyJSON(t *testing.T) {
	t.Parallel()
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a"}}`
	const yaml = "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest:\n  uid: a\n"
	handled, converted := 0, ""
	server := httplimit.NewTLSServer("webhooks", webhook.Options{}, httplimit.ForCalls)
	server.Register("/admit", &admission.Webhook{
		Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			handled++
			return admission.Allowed("")
		}),
	})
	server.Register("/other", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		converted = string(body)
	}))
	send := func(path, body string) int {
		answer := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		server.WebhookMux().ServeHTTP(answer, request)
		return answer.Code
	}
	for name, tt := range map[string]struct {
		body          string
		code, handled int
	}{
		"JSON":                 {review, http.StatusOK, 1},
		"YAML":                 {yaml, http.StatusBadRequest, 0},
		"YAML after a comment": {"# \"\n" + yaml, http.StatusBadRequest, 0},
		"YAML in braces":       {strings.ReplaceAll(review, `"`, ""), http.StatusOK, 0},
		"a protobuf":           {"k8s\x00" + review, http.StatusBadRequest, 0},
		"nothing":              {"", http.StatusBadRequest, 0},
	} {
		handled = 0
		if code := send("/admit", tt.body); code != tt.code || handled != tt.handled {
			t.Errorf("%s: %d, handled %d times, want %d, %d times", name, code, handled, tt.code, tt.handled)
		}
	}
	if send("/other", yaml); converted != yaml {
		t.Errorf("another handler reads %q", converted)
	}
}
