package k8sdnodes

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestComputeKubelet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		to      k8sdtest.Option
		want    string
		problem string
	}{
		{to: k8sdtest.Option{Channel: "1.32-classic/stable"}, want: "v1.32.5"},
		{to: k8sdtest.Option{Channel: "1.31"}, want: "v1.31.5"},
		{to: k8sdtest.Option{Channel: "latest/edge"}, problem: "does not begin with a minor"},
		{to: k8sdtest.Option{Channel: "1.32 stable"}, problem: "is not a channel"},
		{to: k8sdtest.Option{Revision: "1234"}, want: "v1.31.34"},
		{to: k8sdtest.Option{Revision: "x7"}, want: "v1.31.7"},
		{to: k8sdtest.Option{Revision: "abc"}, problem: "is no number above 0"},
		{to: k8sdtest.Option{Revision: "-3"}, problem: "is no number above 0"},
		{to: k8sdtest.Option{LocalPath: "/x/v1.31.9.snap"}, want: "v1.31.9"},
		{to: k8sdtest.Option{LocalPath: "/v1.33.0/k8s.snap"}, problem: "no version in the name"},
		{problem: "nothing to refresh to"},
	} {
		got, err := computeKubelet(version.MustParse("v1.31.2"), tt.to)
		switch {
		case tt.problem != "":
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%+v: %v, want %q", tt.to, err, tt.problem)
			}
		case err != nil || got.String() != tt.want:
			t.Errorf("%+v: %s, %v, want %s", tt.to, got, err, tt.want)
		}
	}
}

// newStandIn returns a stand-in for k8sd beside a management cluster with these objects.
func newStandIn(t *testing.T, objects ...client.Object) *standIn {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	server, err := k8sdtest.New(k8sdtest.Options{Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &standIn{server: server, live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
}

func clusterOf(namespace, name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}}
}

func machineOf(namespace, name, cluster string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: clusterv1.MachineSpec{ClusterName: cluster}}
}

// TestTokens gives each Machine a token of its own, once, and a new process goes on with those that there are.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, clusterOf("ns", "c"), machineOf("ns", "a", "c"), machineOf("ns", "b", "c"), machineOf("ns", "lost", "gone"))
	reconcile := func(s *standIn, name string) error {
		_, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: name}})
		return err
	}
	read := func() map[string]string {
		secret := &corev1.Secret{}
		if err := s.live.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "c-token"}, secret); err != nil {
			t.Fatal(err)
		}
		if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].Name != "c" {
			t.Errorf("the Secret's owners are %v", secret.OwnerReferences)
		}
		tokens := map[string]string{}
		for key, value := range secret.Data {
			tokens[key] = string(value)
		}
		return tokens
	}
	for _, name := range []string{"a", "b", "a"} {
		if err := reconcile(s, name); err != nil {
			t.Fatal(err)
		}
	}
	before := read()
	if a, b := before["node-token-a"], before["node-token-b"]; len(before) != 2 || len(a) != 64 || len(b) != 64 || a == b {
		t.Errorf("there are %d tokens, of %d and %d characters", len(before), len(a), len(b))
	}
	if err := reconcile(s, "lost"); err == nil || !strings.Contains(err.Error(), "reading Cluster gone") {
		t.Errorf("a Machine without a Cluster: %v", err)
	}

	// What a Machine has installed stays when the Machine changes.
	if _, err := s.server.Begin("ns/a", k8sdtest.Option{Revision: "5"}); err != nil {
		t.Fatal(err)
	}
	if err := reconcile(s, "a"); err != nil {
		t.Fatal(err)
	}
	if state, _ := s.server.Machine("ns/a"); state.Refreshes != 1 {
		t.Errorf("the state is %+v", state)
	}

	next := newStandIn(t)
	next.live = s.live
	if err := reconcile(next, "a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, read()); diff != "" {
		t.Errorf("tokens changed with the process (-before +after):\n%s", diff)
	}
	if err := s.live.Delete(t.Context(), machineOf("ns", "a", "c")); err != nil {
		t.Fatal(err)
	}
	if err := reconcile(next, "a"); err != nil {
		t.Fatal(err)
	}
	if _, known := next.server.Machine("ns/a"); known {
		t.Error("a Machine that does not exist any longer is known")
	}
}

// TestBehave changes all that a request names, or nothing.
func TestBehave(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, machineOf("ns", "a", "c"), machineOf("ns", "twin", "c"), machineOf("other", "twin", "c"))
	for _, name := range []string{"ns/a", "ns/twin", "other/twin"} {
		if err := s.server.AddMachine(name, "token-"+name, k8sdtest.Option{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ body, problem string }{
		{body: `{"duration": "1ms", "faults": {"a": {"failChanges": "no space", "restartFor": "3s"}, "other/twin": {}}}`},
		{body: `{"faults": {"a": {}, "nobody": {}}}`, problem: "there is no Machine nobody"},
		{body: `{"faults": {"twin": {}}}`, problem: "several namespaces"},
		{body: `{"duration": "-1s"}`, problem: "negative"},
		{body: `{"speed": 1}`, problem: `unknown field "speed"`},
		{body: `{} {}`, problem: "more than one value"},
	} {
		err := s.behave(t.Context(), strings.NewReader(tt.body))
		if tt.problem == "" && err != nil || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%s: %v, want %q", tt.body, err, tt.problem)
		}
	}
	// The fault of the first request is still there, and so is its duration.
	if _, err := s.server.Begin("ns/a", k8sdtest.Option{Revision: "5"}); err != nil {
		t.Fatal(err)
	}
	for {
		stats, err := s.stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a := stats.Machines["ns/a"]
		if len(stats.Machines) != 3 || len(a.Changes) != 1 {
			t.Fatalf("the stats are %+v", stats)
		}
		if a.Changes[0].Ended.IsZero() {
			continue
		}
		if a.Changes[0].Failed != "no space" || a.Completed != 0 {
			t.Errorf("the state is %+v", a)
		}
		return
	}
}

// TestControl serves both requests, and says what is wrong with one.
func TestControl(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	handler := s.handler()
	for _, tt := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{http.MethodGet, "/stats", "", http.StatusOK, `{"machines":{}}`},
		{http.MethodPost, "/behaviour", `{"duration": "1s"}`, http.StatusNoContent, ""},
		{http.MethodPost, "/behaviour", `{"faults": {"a": {}}}`, http.StatusBadRequest, "there is no Machine a"},
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body)))
		if answer.Code != tt.code || !strings.Contains(answer.Body.String(), tt.want) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, answer.Code, answer.Body)
		}
	}
}
