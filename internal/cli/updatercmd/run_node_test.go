package updatercmd

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/pkg/version"
)

// newTestNode returns a Node with the address of scriptedRun's host if it is a worker.
func newTestNode(name, kubelet string, isControlPlane bool) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.NodeInfo.KubeletVersion = kubelet
	if isControlPlane {
		n.Labels = map[string]string{controlPlaneRole: ""}
		return n
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}
	return n
}

func TestFindOldest(t *testing.T) {
	worker := newTestNode("w", "v1.34.1", false)
	for _, test := range []struct {
		name    string
		nodes   []corev1.Node
		want    linuxhost.ControlPlaneNode
		problem string
		workers bool
	}{
		{name: "no Nodes"},
		{name: "a hosted control plane", nodes: []corev1.Node{worker}},
		{
			name: "the oldest of three, and no worker",
			nodes: []corev1.Node{
				worker, newTestNode("a", "v1.36.3", true), newTestNode("b", "v1.35.4", true),
				newTestNode("c", "v1.35.10", true),
			},
			want: linuxhost.ControlPlaneNode{Name: "b", Kubelet: version.MustParse("v1.35.4")},
		},
		{
			name:  "one of RKE2",
			nodes: []corev1.Node{newTestNode("a", "v1.36.3+rke2r1", true)},
			want:  linuxhost.ControlPlaneNode{Name: "a", Kubelet: version.MustParse("v1.36.3+rke2r1")},
		},
		{
			name: "workers count, too", workers: true,
			nodes: []corev1.Node{newTestNode("a", "v1.36.3", true), newTestNode("b", "v1.35.3", false)},
			want:  linuxhost.ControlPlaneNode{Name: "b", Kubelet: version.MustParse("v1.35.3")},
		},
		{
			name:    "one that reports no version may be older than all others",
			nodes:   []corev1.Node{newTestNode("a", "v1.36.3", true), newTestNode("b", "", true)},
			problem: "reading the version of Node b: ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			counts := isControlPlane
			if test.workers {
				counts = isAny
			}
			got, err := findOldest(test.nodes, counts)
			same := cmp.Comparer(func(a, b version.Version) bool { return a == b })
			if diff := cmp.Diff(test.want, got, same); diff != "" {
				t.Errorf("oldest (-want +got):\n%s", diff)
			}
			switch {
			case err == nil && test.problem != "":
				t.Errorf("it does not end with %q", test.problem)
			case err != nil && (test.problem == "" || !strings.HasPrefix(err.Error(), test.problem)):
				t.Errorf("it ends with %v, not %q", err, test.problem)
			}
		})
	}
}

// serveNodes serves Nodes, and returns the file of a kubeconfig. Without nodes, the answer to
// a list is Forbidden.
func serveNodes(t *testing.T, nodes ...corev1.Node) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "forbidden",
		}
		switch name, one := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/"); {
		case one:
			node := newTestNode(name, "v1.35.4", false)
			node.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
			answer = node
		case nodes == nil:
			w.WriteHeader(http.StatusForbidden)
		default:
			list := metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}
			answer = corev1.NodeList{TypeMeta: list, Items: nodes}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	certificate := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(certificate))
	content := fmt.Sprintf(`{"kind":"Config","apiVersion":"v1","current-context":"a",
"clusters":[{"name":"a","cluster":{"server":%q,"certificate-authority-data":%q}}],
"users":[{"name":"a","user":{}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}]}`, server.URL, authority)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRunJudgesByTheOldestAPIServer: one API server at v1.36 is not enough for a worker of v1.36.
func TestRunJudgesByTheOldestAPIServer(t *testing.T) {
	worker := newTestNode("w", "v1.35.4", false)
	upgraded, old := newTestNode("cp-1", "v1.36.3", true), newTestNode("cp-2", "v1.35.4", true)
	const unlisted = "finding the oldest API server, which a worker must not be newer than: " +
		"reading the cluster of --kubeconfig: listing the nodes: "
	for _, test := range []struct {
		name         string
		nodes        []corev1.Node
		controlPlane bool
		args         []string
		code         cli.ExitCode
		problem      string
	}{
		{name: "all API servers are upgraded", nodes: []corev1.Node{worker, upgraded}},
		{
			name: "one of two is", nodes: []corev1.Node{worker, upgraded, old}, code: cli.ExitRefused,
			problem: "host 10.0.0.7 cannot be upgraded to v1.36.3: VersionRefused: " +
				"control plane Node cp-2 is at v1.35.4; ",
		},
		{
			name: "the host is a control plane", nodes: []corev1.Node{worker, upgraded, old},
			controlPlane: true,
		},
		{
			name: "the Nodes cannot be listed", args: []string{"--node", "w"}, code: cli.ExitFailure,
			problem: unlisted,
		},
		{
			name: "the same, for a control plane", controlPlane: true, args: []string{"--node", "w"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := &scriptedHost{controlPlane: test.controlPlane}
			var r scriptedRun
			kubeconfig := serveNodes(t, test.nodes...)
			args := append([]string{"--dry-run", "--kubeconfig", kubeconfig}, test.args...)
			err := r.run(t, h, 100, args...)
			if test.problem == "" && err != nil {
				t.Fatal(err)
			}
			if test.problem != "" &&
				(exitCodeOfRun(err) != test.code || !strings.HasPrefix(fmt.Sprint(err), test.problem)) {
				t.Errorf("exit code %d: %v", exitCodeOfRun(err), err)
			}
		})
	}
}

// TestRunRefusesUnreadableConfig: a control plane host that cannot read the version of its cluster
// is refused before its first step, also by a dry run.
func TestRunRefusesUnreadableConfig(t *testing.T) {
	const problem = "error: You must be logged in to the server (Unauthorized)"
	for _, args := range [][]string{{"--no-drain", "--dry-run"}, {"--no-drain"}} {
		h := &scriptedHost{controlPlane: true, clusterProblem: problem}
		var r scriptedRun
		err := r.run(t, h, 100, args...)
		said := fmt.Sprint(err)
		if exitCodeOfRun(err) != cli.ExitRefused || !strings.Contains(said, "ConfigUnreadable: ") ||
			!strings.Contains(said, "admin.conf: "+problem+". Nothing was changed. Fix: ") {
			t.Errorf("%v: exit code %d: %s", args, exitCodeOfRun(err), said)
		}
		if h.job != "" {
			t.Errorf("%v: the job %s was started", args, h.job)
		}
	}
}
