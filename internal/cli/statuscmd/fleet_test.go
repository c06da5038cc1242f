package statuscmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/test/apiserver"
)

const fleetObjectsYAML = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: team-a, uid: u1, labels: {env: prod}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: test, namespace: team-a, labels: {env: test}}
---
apiVersion: windlass.dev/v1alpha1
kind: UpgradeGate
metadata: {name: boss, namespace: team-a}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m-1, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod}}
`

// fleetDocument is what the test reads of a line.
type fleetDocument struct {
	Clusters []struct {
		Cluster     string `json:"cluster"`
		NeedsPerson bool   `json:"needsPerson"`
		Failed      int    `json:"failed"`
	} `json:"clusters"`
	Hidden []string `json:"hidden"`
}

func putYAML(t *testing.T, api *apiserver.Server, document string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
		t.Fatal(err)
	}
	api.Put(o)
}

// followFleet starts windlass status --watch without a Cluster. next returns the next line.
func followFleet(t *testing.T, kubeconfig string, args ...string) (next func() fleetDocument, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		cmd := New() //nolint:contextcheck // A command gets its context when it runs.
		cmd.SetArgs(append(args, "--watch", "-o", "json", "--kubeconfig", kubeconfig))
		cmd.SetOut(writer)
		err := cmd.ExecuteContext(ctx)
		ended <- errors.Join(err, writer.Close())
	}()
	decoder := json.NewDecoder(reader)
	next = func() fleetDocument {
		t.Helper()
		var raw json.RawMessage
		var d fleetDocument
		if err := decoder.Decode(&raw); err != nil {
			t.Fatalf("the output ends: %v", errors.Join(err, <-ended))
		}
		if err := json.Unmarshal(raw, &d); err != nil || bytes.Contains(raw, []byte("\n")) {
			t.Fatalf("the document is not one line, or no JSON (%v): %s", err, raw)
		}
		return d
	}
	return next, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("an interrupted watch ends with %v", err)
		}
	}
}

// TestFleetWatch follows Clusters while they change: a line for each change of what is shown, and none
// for other Clusters.
func TestFleetWatch(t *testing.T) {
	t.Parallel()
	api, kubeconfig := apiserver.Start(t, fleetObjectsYAML)
	next, end := followFleet(t, kubeconfig, "-l", "env=prod")
	if d := next(); len(d.Clusters) != 1 || d.Clusters[0].NeedsPerson {
		t.Errorf("the first document is %+v", d)
	}
	putYAML(t, api, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: test, namespace: team-a, labels: {env: test}}, spec: {paused: true}}`)
	putYAML(t, api, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: m-1, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod},
annotations: {other: x, windlass.dev/update-progress: '{"id":"u","phase":"Failed","started":"2026-01-01T00:00:00Z"}'}}}`)
	if d := next(); len(d.Clusters) != 1 || d.Clusters[0].Failed != 1 || !d.Clusters[0].NeedsPerson {
		t.Errorf("after a failure the document is %+v", d)
	}
	putYAML(t, api, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: new, namespace: team-a, labels: {env: prod}}}`)
	if d := next(); len(d.Clusters) != 2 {
		t.Errorf("with another Cluster the document is %+v", d)
	}
	end()
}

// TestFleetWatchHidden: what may not be read is named in each document, and is not watched.
func TestFleetWatchHidden(t *testing.T) {
	t.Parallel()
	handler, _ := apiserver.Start(t, fleetObjectsYAML)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/upgradegates") || strings.HasSuffix(r.URL.Path, "/machines") {
			if r.URL.Query().Get("watch") != "" {
				t.Errorf("%s is watched", r.URL.Path)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden"}`)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(apiserver.Kubeconfig(server)), 0o600); err != nil {
		t.Fatal(err)
	}
	next, end := followFleet(t, kubeconfig)
	if d := next(); len(d.Clusters) != 2 || len(d.Hidden) != 2 {
		t.Errorf("the first document is %+v", d)
	}
	putYAML(t, handler, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: new, namespace: team-a}}`)
	if d := next(); len(d.Clusters) != 3 || len(d.Hidden) != 2 {
		t.Errorf("with another Cluster the document is %+v", d)
	}
	end()
}
