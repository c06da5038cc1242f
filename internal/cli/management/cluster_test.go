package management

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/test/apiserver"
)

// TestConnectTimeout checks that an API server that never answers does not make completion hang. Without
// the limit this test does not end.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer server.Close()
	defer close(ended)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(apiserver.Kubeconfig(server)), 0o600); err != nil {
		t.Fatal(err)
	}
	m, _, err := connect(&Flags{KubeConfig: kubeconfig}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	_, err = List[*clusterv1.Cluster, clusterv1.ClusterList](t.Context(), m, "Clusters", Scope{})
	if err == nil {
		t.Error("no error, want a timeout")
	}
}
