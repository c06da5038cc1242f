package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/clustercheck/probe"
	"github.com/windlass-dev/windlass/internal/workload"
)

// remote is a workload cluster whose API server answers with a handler.
type remote struct{ kubernetes.Interface }

func (remote) Certificates(context.Context) ([]workload.Certificate, error) { return nil, nil }

func serve(t *testing.T, handler http.HandlerFunc) probe.Options {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return probe.Options{Remote: remote{clients}, Image: "i", Timeout: time.Minute, ID: "id", Now: time.Now()}
}

func refuse(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	status := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: message}
	status.APIVersion, status.Kind = "v1", "Status"
	_ = json.NewEncoder(w).Encode(status) // The caller may be gone.
}

// TestSilentServer holds that an API server which accepts requests and does not answer ends no check later than its time.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	options := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			refuse(w, "no")
			return
		}
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	defer close(ended)
	options.Timeout = time.Second
	type result struct {
		findings []clustercheck.Finding
		err      error
	}
	results := make(chan result, 1)
	go func() {
		findings, err := probe.Run(t.Context(), options)
		results <- result{findings, err}
	}()
	select {
	case r := <-results:
		if r.err != nil || len(r.findings) == 0 || r.findings[0].Outcome != clustercheck.Failed || !strings.Contains(r.findings[0].Message, "did not answer in time") {
			t.Errorf("got %v, %v", r.findings, r.err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("a check with a timeout of 1s still waits after 2m")
	}
}

// TestLongMessages holds that what a workload cluster reports is one line of bounded length.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	options := serve(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, "\x1b[2J"+strings.Repeat("x", 1<<20)) })
	findings, err := probe.Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if len(f.Message) > 1<<12 || strings.ContainsAny(f.Message, "\x1b\n") {
			t.Errorf("%s has a message of %d bytes: %.40q", f.ID, len(f.Message), f.Message)
		}
	}
}

// TestNodesArePaged holds that Nodes are read in pages, as far as a cluster can have Nodes.
func TestNodesArePaged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pages int
		want  string
	}{
		"three pages": {3, "300 Nodes"},
		"endless":     {1 << 20, "does not end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			options := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/nodes" {
					refuse(w, "no")
					return
				}
				list := corev1.NodeList{Items: make([]corev1.Node, 100)}
				list.APIVersion, list.Kind = "v1", "NodeList"
				for i := range list.Items {
					list.Items[i].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
				}
				if int(asked.Add(1)) < tt.pages {
					list.Continue = "next"
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(list) // The caller may be gone.
			})
			options.Timeout = time.Minute
			findings, err := probe.Run(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if f.ID == clustercheck.Nodes && !strings.Contains(f.Message, tt.want) {
					t.Errorf("the Nodes are %s: %s, want %q", f.Outcome, f.Message, tt.want)
				}
			}
		})
	}
}

// TestInterruptedCleanUp holds that an interrupted run reports the namespace that it could not delete.
func TestInterruptedCleanUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	options := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			cancel()
		}
		refuse(w, "no")
	})
	_, err := probe.Run(ctx, options)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "kubectl delete namespace windlass-check-id") {
		t.Errorf("the error is %v", err)
	}
}

// TestUnreachable holds that an API server which is not reached leaves everything unchecked.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	options := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	options.Timeout = time.Second
	findings, err := probe.Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	const verdict = "It is not known whether the cluster works: the API server is not reached; " +
		"not checked: Nodes, Certificates, ConfigMapWatch, Deployment, Service, Job."
	if got := clustercheck.Verdict(findings); got != verdict || clustercheck.Worst(findings) != clustercheck.Failed {
		t.Errorf("the verdict is %q, %s", got, clustercheck.Worst(findings))
	}
	if findings[0].Fix == "" || !strings.Contains(findings[0].Message, "listing the Nodes") {
		t.Errorf("the first finding is %+v", findings[0])
	}
}

// TestSimulatedAPI holds that what a simulated API server does not have is not checked.
func TestSimulatedAPI(t *testing.T) {
	t.Parallel()
	options := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}, "spec": {"providerID": "in-memory:////n"}}]}`))
			return
		}
		refuse(w, "the path is not known")
	})
	findings, err := probe.Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.ID == clustercheck.APIDiscovery && f.Outcome != clustercheck.NotChecked {
			t.Errorf("got %+v", f)
		}
	}
}
