package guardwebhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
)

// logged serves a guard over HTTP, and counts what it writes to the log.
type logged struct {
	t       *testing.T
	handler http.Handler

	mu           sync.Mutex
	lines, bytes int
}

func newLogged(t *testing.T) *logged {
	t.Helper()
	w := newWorld(t)
	w.fail["Cluster"] = errors.New("away")
	l := &logged{t: t}
	logger := funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines, l.bytes = l.lines+1, l.bytes+len(line)
	}, funcr.Options{Verbosity: 2})
	handler, err := admission.StandaloneWebhook(
		guardwebhook.NewWebhook(w.options), admission.StandaloneOptions{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	l.handler = handler
	return l
}

func (l *logged) post(contentType, body string) {
	request := httptest.NewRequestWithContext(l.t.Context(), http.MethodPost, "/", strings.NewReader(body))
	request.Header.Set("Content-Type", contentType)
	if body == "" {
		request.Body = http.NoBody
	}
	l.handler.ServeHTTP(httptest.NewRecorder(), request)
}

// forged is a review as text. The Machine has no name where name is empty.
func forged(t *testing.T, namespace, name, user string) string {
	t.Helper()
	raw := fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"clusterName":"c"}}`, name)
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: types.UID(user), Operation: admissionv1.Create, Namespace: namespace, Name: name},
	}
	review.Request.UserInfo.Username, review.Request.Object.Raw = user, []byte(raw)
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestForgedReviewsInTheLog forges up to 10,000 reviews of each kind. They cause a few lines, of bounded
// length.
func TestForgedReviewsInTheLog(t *testing.T) {
	t.Parallel()
	const reviews, mostLines, mostBytes = 10_000, 5, 64 << 10
	for name, post := range map[string]func(l *logged, i int){
		"no body":           func(l *logged, _ int) { l.post("application/json", "") },
		"no JSON":           func(l *logged, i int) { l.post("application/json", fmt.Sprint("garbage ", i)) },
		"another type":      func(l *logged, i int) { l.post(fmt.Sprint("type/", i), "{}") },
		"a long type":       func(l *logged, _ int) { l.post(strings.Repeat("x", 16<<10), "{}") },
		"no Machine":        func(l *logged, i int) { l.post("application/json", forged(t, namespace, "", fmt.Sprint(i))) },
		"cannot be decided": func(l *logged, i int) { l.post("application/json", forged(t, namespace, fmt.Sprint("m", i), "u")) },
		"long names": func(l *logged, i int) {
			if i%10 != 0 {
				return // Long bodies take long.
			}
			l.post("application/json", forged(t, namespace, strings.Repeat("n", 16<<10), strings.Repeat("u", 16<<10)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLogged(t)
			for i := range reviews {
				post(l, i)
			}
			if l.lines == 0 || l.lines > mostLines || l.bytes > mostBytes {
				t.Errorf("%d reviews cause %d lines of %d bytes, want 1 to %d of at most %d",
					reviews, l.lines, l.bytes, mostLines, mostBytes)
			}
		})
	}
}
