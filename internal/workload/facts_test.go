package workload_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

// factsWorld is a management cluster with one workload cluster, whose API server serves what paths say.
type factsWorld struct {
	*world

	facts *workload.Facts
	paths map[string]http.HandlerFunc
}

func newFactsWorld(t *testing.T) *factsWorld {
	t.Helper()
	w := &factsWorld{world: newWorld(t), paths: map[string]http.HandlerFunc{}}
	w.facts = workload.NewFacts(w.management, func() time.Time { return w.now })
	w.server.Config.Handler = w.server.authorize(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if serve, ok := w.paths[r.URL.Path]; ok {
			serve(rw, r)
			return
		}
		http.NotFound(rw, r)
	}))
	return w
}

// pages answers with one item a page.
func pages[T any](w *factsWorld, kind metav1.TypeMeta, items []T) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		at, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		list := map[string]any{"kind": kind.Kind, "apiVersion": kind.APIVersion, "metadata": map[string]any{}, "items": []any{}}
		if at < len(items) {
			list["items"] = items[at : at+1]
		}
		if at+1 < len(items) {
			list["metadata"] = map[string]any{"continue": strconv.Itoa(at + 1)}
		}
		w.server.answer(rw, list)
	}
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) }
}

func TestFactsOfNodes(t *testing.T) {
	w := newFactsWorld(t)
	node := func(name string, conditions ...corev1.NodeCondition) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: true}, Status: corev1.NodeStatus{Conditions: conditions}}
	}
	w.paths["/api/v1/nodes"] = pages(w, kind("v1", "NodeList"), []corev1.Node{
		node("ready", corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}),
		node("down", corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "last seen 31 s ago"}),
		node("wordless", corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse}),
		node("new"),
	})
	got, err := w.facts.Nodes(t.Context(), cluster)
	want := []gate.Node{
		{Name: "ready"}, {Name: "down", NotReady: "Ready is Unknown: NodeStatusUnknown"}, {Name: "wordless", NotReady: "Ready is False"}, {Name: "new", NotReady: "it has no Ready condition"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestControlPlaneNodes: all pages count, and the server is asked for the marked Nodes only.
func TestControlPlaneNodes(t *testing.T) {
	w := newFactsWorld(t)
	named := func(name string) corev1.Node { return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	serve := pages(w, kind("v1", "NodeList"), []corev1.Node{named("a"), named("b"), named("c")})
	w.paths["/api/v1/nodes"] = func(rw http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("labelSelector"); got != "node-role.kubernetes.io/control-plane" {
			t.Errorf("labelSelector=%s", got)
		}
		serve(rw, r)
	}
	got, err := w.facts.ControlPlaneNodes(t.Context(), cluster)
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestFactsOfBudgets(t *testing.T) {
	w := newFactsWorld(t)
	budget := func(name string, status policyv1.PodDisruptionBudgetStatus) policyv1.PodDisruptionBudget {
		return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name, Generation: 2}, Status: status}
	}
	w.paths["/apis/policy/v1/poddisruptionbudgets"] = pages(w, kind("policy/v1", "PodDisruptionBudgetList"), []policyv1.PodDisruptionBudget{
		budget("fine", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, ExpectedPods: 3, DesiredHealthy: 2}),
		budget("new", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1}),
		budget("failed", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, Conditions: []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Reason: policyv1.SyncFailedReason}}}),
	})
	got, err := w.facts.Budgets(t.Context(), cluster)
	want := []gate.Budget{
		{Namespace: "apps", Name: "fine", ExpectedPods: 3, DesiredHealthy: 2},
		{Namespace: "apps", Name: "new", Problem: "the disruption controller has not looked at it"},
		{Namespace: "apps", Name: "failed", Problem: "its pods cannot be counted: SyncFailed"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// startedBefore is a metric of when an API server started, before the time at which answers are given.
func startedBefore(age time.Duration) string {
	return fmt.Sprintf("process_start_time_seconds %g\n", float64(time.Now().Add(-age).Unix()))
}

// metrics is an excerpt of what a kube-apiserver of v1.31 answers.
const metrics = `# HELP apiserver_request_total [STABLE] Counter of apiserver requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver"} 42
# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs that have been requested
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="status",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="a\"b",removed_release="1.40",resource="r",subresource="",version="v1"} 0
apiserver_requested_deprecated_apis_of_somebody_else{removed_release="1.32"} 1
`

func TestFactsOfDeprecatedAPIs(t *testing.T) {
	w := newFactsWorld(t)
	old := startedBefore(time.Hour)
	w.paths["/metrics"] = text(metrics + old)
	got, err := w.facts.DeprecatedAPIs(t.Context(), cluster)
	want := []gate.API{{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta3", Resource: "flowschemas", Subresource: "status", Removed: version.MustParse("v1.32.0").Minor()}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	line := `apiserver_requested_deprecated_apis{group="",removed_release="%s",resource="r",subresource="",version="v1"} 1` + "\n"
	for name, test := range map[string]struct{ body, want string }{
		"none in use":             {body: "apiserver_request_total 1\n" + old},
		"no API server":           {body: "process_cpu_seconds_total 1\n", want: "the API server of Cluster default/c: its answer to /metrics holds no metric of an API server"},
		"an empty answer":         {want: "the API server of Cluster default/c: its answer to /metrics holds no metric of an API server"},
		"just long enough":        {body: metrics + startedBefore(10*time.Minute)},
		"started just now":        {body: metrics + startedBefore(9*time.Minute), want: "the metrics of Cluster default/c: they say nothing yet: the API server has started less than 10 minutes ago"},
		"started in the future":   {body: metrics + startedBefore(-time.Hour), want: "they say nothing yet"},
		"a start that is none":    {body: metrics + "process_start_time_seconds NaN\n", want: "they say nothing yet"},
		"no start":                {body: metrics, want: "process_start_time_seconds is missing, so it is not known when the API server started"},
		"a release that is none":  {body: fmt.Sprintf(line, "soon") + old, want: "the label removed_release"},
		"a line that is none":     {body: "apiserver_requested_deprecated_apis{group=\n", want: "reading apiserver_requested_deprecated_apis"},
		"a line without an end":   {body: strings.Repeat("x", 2<<20), want: "token too long"},
		"more than anybody reads": {body: strings.Repeat(fmt.Sprintf(line, "1.32"), 10_000), want: "its metrics are too long to be read"},
	} {
		w.paths["/metrics"] = text(test.body)
		_, err := w.facts.DeprecatedAPIs(t.Context(), cluster)
		if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		// The cluster is asked again at once: an answer was no failure of the connection. One that does not end is.
		w.now = w.now.Add(time.Minute)
	}
}

// Whether an API server has run for long enough is told by its own clock.
func TestFactsOfDeprecatedAPIsByTheServersClock(t *testing.T) {
	w := newFactsWorld(t)
	started := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for date, want := range map[string]string{
		started.Add(9 * time.Minute).Format(http.TimeFormat):  "they say nothing yet",
		started.Add(11 * time.Minute).Format(http.TimeFormat): "<nil>",
		"yesterday": "its answer to /metrics has no date",
	} {
		w.paths["/metrics"] = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Date", date)
			_, _ = fmt.Fprintf(rw, "%sprocess_start_time_seconds %d\n", metrics, started.Unix())
		}
		if _, err := w.facts.DeprecatedAPIs(t.Context(), cluster); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("at %s: got %v, want %q", date, err, want)
		}
	}
}

// What is not served, refused or unreachable is an error in words that stay the same.
func TestFactsThatCannotBeRead(t *testing.T) {
	w := newFactsWorld(t)
	// An address that nobody listens on, with the certificate of a server that is gone.
	unreachable := newAPIServer(t)
	w.putSecret(t, away, unreachable.kubeconfig(nil))
	unreachable.Close()
	read := map[string]func(w *factsWorld) (error, error){
		"Nodes": func(w *factsWorld) (error, error) {
			_, here := w.facts.Nodes(t.Context(), cluster)
			_, there := w.facts.Nodes(t.Context(), away)
			return here, there
		},
		"PodDisruptionBudgets": func(w *factsWorld) (error, error) {
			_, here := w.facts.Budgets(t.Context(), cluster)
			_, there := w.facts.Budgets(t.Context(), away)
			return here, there
		},
		"metrics": func(w *factsWorld) (error, error) {
			_, here := w.facts.DeprecatedAPIs(t.Context(), cluster)
			_, there := w.facts.DeprecatedAPIs(t.Context(), away)
			return here, there
		},
	}
	for what, both := range read {
		w.facts = workload.NewFacts(w.management, func() time.Time { return w.now })
		here, there := both(w)
		if here == nil || !strings.Contains(here.Error(), "Cluster default/c") || !strings.Contains(here.Error(), "404") && !strings.Contains(here.Error(), "serves no "+what) {
			t.Errorf("%s that are not served: %v", what, here)
		}
		if there == nil || !strings.HasPrefix(there.Error(), "Cluster default/away cannot be asked: ") || !strings.Contains(there.Error(), "connect: connection refused") {
			t.Errorf("%s of a cluster that is not there: %v", what, there)
		}
		if _, again := both(w); fmt.Sprint(again) != fmt.Sprint(there) {
			t.Errorf("%s a second time: %v, not %v", what, again, there)
		}
	}
}

// Credentials that are refused are read again.
func TestFactsWithNewCredentials(t *testing.T) {
	w := newFactsWorld(t)
	w.paths["/metrics"] = text(metrics + startedBefore(time.Hour))
	if _, err := w.facts.DeprecatedAPIs(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	w.server.mu.Lock()
	w.server.token = "another"
	w.server.mu.Unlock()
	if _, err := w.facts.DeprecatedAPIs(t.Context(), cluster); err == nil || !strings.Contains(err.Error(), "the credentials of its kubeconfig are refused") {
		t.Errorf("with old credentials: %v", err)
	}
	w.putSecret(t, cluster, w.server.kubeconfig(nil))
	if _, err := w.facts.DeprecatedAPIs(t.Context(), cluster); err != nil {
		t.Errorf("with new ones: %v", err)
	}
}
