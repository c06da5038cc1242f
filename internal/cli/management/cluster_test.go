package management

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

// TestConnectExplains: each fault of a kubeconfig has its own sentence, and none asks an API server
// that the kubeconfig does not name.
func TestConnectExplains(t *testing.T) {
	const clusters = `
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
`
	missing := filepath.Join(t.TempDir(), "nothing")
	for name, test := range map[string]struct {
		content string
		flags   Flags
		want    string
	}{
		"no file that is listed": {flags: Flags{}, want: "no file of KUBECONFIG exists (" + missing + "), so that it names no cluster. Fix: "},
		"no file":                {flags: Flags{KubeConfig: missing}, want: "no such file or directory. Fix: name a file that exists"},
		"empty":                  {content: "{}", want: "it names no cluster. Fix: "},
		"no YAML":                {content: "a: [", want: ". Fix: correct this file"},
		"no current context":     {content: "contexts: [{name: x, context: {cluster: c, user: u}}]" + clusters, want: `it has no current context. Fix: choose one of ["x"] with --context`},
		"no such context": {
			content: "contexts: [{name: x, context: {cluster: c, user: u}}]" + clusters,
			flags:   Flags{Context: "y"}, want: `specified context: y. Fix: choose one of`,
		},
		"context without cluster": {
			content: "current-context: x\ncontexts: [{name: x, context: {user: u}}]" + clusters,
			want:    `its context "x" has no cluster. Fix: choose another of ["x"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", missing)
			flags := test.flags
			if test.content != "" {
				flags.KubeConfig = filepath.Join(t.TempDir(), "kubeconfig")
				if err := os.WriteFile(flags.KubeConfig, []byte(test.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err := Connect(&flags)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
