package access_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// TestDiagnostics asks for metrics and profiles without a token, as an account without rights, and as one that may
// get them. The process has the rights of the manifests. With --insecure-diagnostics, everybody gets metrics, and
// nobody profiles.
func TestDiagnostics(t *testing.T) {
	plane := wire.Start(t)
	restricted := plane.Restricted(t)
	namespace := plane.Namespace(t)
	may, mayNot := account(t, plane, namespace, "scraper"), account(t, plane, namespace, "tenant")
	allow(t, plane, namespace, "scraper")
	for name, p := range map[string]*wire.Process{
		"extension": restricted.Run(t, "--leader-elect=false"),
		"manager":   plane.RunManager(t, "--insecure-diagnostics=false", "--feature-gates=ClusterTopology=true"),
	} {
		client := p.Client(t, nil)
		if name == "manager" { // It creates its certificate, as Cluster API's does.
			client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		}
		loopback.Eventually(t, "the "+name+" serves diagnostics", func() bool {
			connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Diagnostics)
			return err == nil && connection.Close() == nil
		})
		for _, tt := range []struct {
			path, token string
			want        int
		}{
			{"/metrics", "", http.StatusUnauthorized}, {"/metrics", "nonsense", http.StatusInternalServerError},
			{"/metrics", mayNot, http.StatusForbidden}, {"/metrics", may, http.StatusOK},
			{"/debug/pprof/cmdline", mayNot, http.StatusForbidden}, {"/debug/pprof/cmdline", may, http.StatusOK},
		} {
			if got, body := get(t, client, "https://"+p.Diagnostics+tt.path, tt.token); got != tt.want {
				t.Errorf("%s: %s with a token of %d bytes: %d, want %d: %.200s", name, tt.path, len(tt.token), got, tt.want, body)
			}
		}
	}
	insecure := plane.Run(t, "--insecure-diagnostics")
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/debug/pprof/cmdline": http.StatusNotFound} {
		got, body := get(t, http.DefaultClient, "http://"+insecure.Diagnostics+path, "")
		if got != want || (path == "/metrics" && !strings.Contains(body, "go_goroutines")) {
			t.Errorf("insecure: %s: %d, want %d", path, got, want)
		}
	}
}

// account creates a ServiceAccount and returns a token of it.
func account(t *testing.T, plane *wire.Plane, namespace, name string) string {
	t.Helper()
	created := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	plane.Create(t, created)
	request := &authenticationv1.TokenRequest{}
	if err := plane.Client.SubResource("token").Create(t.Context(), created, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// allow lets an account get metrics and profiles.
func allow(t *testing.T, plane *wire.Plane, namespace, name string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: namespace}
	plane.CreateForTest(t, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{NonResourceURLs: []string{"/metrics", "/debug/pprof/*"}, Verbs: []string{"get"}},
	}})
	plane.CreateForTest(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	})
}

// get returns the status and the body of an answer.
func get(t *testing.T, c *http.Client, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
