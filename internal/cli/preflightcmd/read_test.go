package preflightcmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestStartOf asks API servers for their version.
func TestStartOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		serve     http.HandlerFunc
		want, err string
	}{
		"a version": {serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"gitVersion":"v1.35.2"}`))
		}, want: "v1.35.2"},
		"an answer that does not end": {serve: func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"gitVersion":`))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, err: "context deadline exceeded"},
		"a request to wait": {serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}, err: "context deadline exceeded"},
		"no version": {serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`[]`))
		}, err: "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.serve)
			t.Cleanup(server.Close)
			remote, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			timeout := time.Minute
			if strings.Contains(tt.err, "deadline") {
				timeout = time.Second
			}
			got, err := startOf(t.Context(), version.Version{}, remote, timeout)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("the error is %v, want %q", err, tt.err)
			}
			if err == nil && got.String() != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestDirectSteps: groups of workers that are behind the control plane have steps of their own.
func TestDirectSteps(t *testing.T) {
	t.Parallel()
	group := func(v string) *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{}
		md.Spec.Template.Spec.Version = v
		return md
	}
	pool := &clusterv1.MachinePool{}
	pool.Spec.Template.Spec.Version = "v1.33.1"
	v := version.MustParse
	u := preflight.Upgrade{From: v("v1.35.5"), To: v("v1.36.3")}
	got := directSteps(snapshot.Objects{
		MachineDeployments: []*clusterv1.MachineDeployment{group("v1.34.8"), group(""), group("v1.34.8")},
		MachinePools:       []*clusterv1.MachinePool{pool},
	}, u)
	want := []risks.Step{
		{From: u.From, To: u.To},
		{From: v("v1.34.8"), To: u.To, Workers: true},
		{From: u.From, To: u.To, Workers: true},
		{From: v("v1.33.1"), To: u.To, Workers: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestManifestsOfARelease: what `helm get manifest` prints is read from the standard input, and judged.
func TestManifestsOfARelease(t *testing.T) {
	t.Parallel()
	for api, want := range map[string]clustercheck.Outcome{
		"v1beta3": clustercheck.Failed, "v1": clustercheck.Passed,
	} {
		const of = "---\n# Source: apf/templates/%s.yaml\napiVersion: flowcontrol.apiserver.k8s.io/%s\n" +
			"kind: %s\nmetadata:\n  name: a\n  labels:\n    app.kubernetes.io/managed-by: Helm\n"
		printed := fmt.Sprintf(of, "level", "v1", "PriorityLevelConfiguration") +
			fmt.Sprintf(of, "schema", api, "FlowSchema") + "---\n# Source: apf/templates/empty.yaml\n\n"
		manifests, err := readManifests([]string{"-"}, strings.NewReader(printed))
		if err != nil || len(manifests) != 2 {
			t.Fatalf("%v, %v", manifests, err)
		}
		upgrade := preflight.Upgrade{
			From: version.MustParse("v1.31.14"), To: version.MustParse("v1.32.10"),
		}
		found := preflight.CheckManifests(upgrade, manifests)
		if len(found) != 1 || found[0].Outcome != want ||
			want == clustercheck.Failed && found[0].Subject != "FlowSchema a" {
			t.Errorf("%s: %+v, want %s", api, found, want)
		}
	}
}
