package wire

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/test/loopback"
)

// Workload is the API server of a workload cluster: it has Nodes, and empty lists of everything else.
type Workload struct {
	// URL is where it serves. Authority signed its certificate.
	URL       string
	Authority *loopback.Authority
	// Token is the one that it accepts.
	Token string
	// Before is called with each request before it is answered, and may block. Set it before the first request.
	Before func(*http.Request)

	mu       sync.Mutex
	nodes    map[string]*corev1.Node
	requests []string
}

// NewWorkload starts an API server that ends with the test.
func NewWorkload(t *testing.T) *Workload {
	t.Helper()
	w := &Workload{Authority: loopback.NewAuthority(t, "workload"), Token: "token-of-" + t.Name(), nodes: map[string]*corev1.Node{}}
	server := httptest.NewUnstartedServer(w)
	server.TLS = w.Authority.Server(t)
	server.StartTLS()
	t.Cleanup(server.Close)
	w.URL = server.URL
	return w
}

// Secret is the kubeconfig of a Cluster that leads to it.
func (w *Workload) Secret(t *testing.T, namespace, cluster string) *corev1.Secret {
	t.Helper()
	return KubeconfigSecret(t, namespace, cluster, w.URL, w.Authority.PEM, w.Token)
}

// KubeconfigSecret is the kubeconfig of a Cluster that leads to a server at a URL.
func KubeconfigSecret(t *testing.T, namespace, cluster, url string, ca []byte, token string) *corev1.Secret {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": data},
	}
}

// SetNode makes a node that is Ready at a kubelet's version, or changes its version.
func (w *Workload) SetNode(name, kubelet string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ready := metav1.NewTime(time.Now().Add(-time.Hour))
	w.nodes[name] = &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec: corev1.NodeSpec{ProviderID: "dev:////" + name}, // As in the Machine of a Pool.
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: kubelet},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: ready}},
		},
	}
}

// Requests returns method and path of the requests so far, oldest first.
func (w *Workload) Requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}

// ServeHTTP answers a request.
func (w *Workload) ServeHTTP(response http.ResponseWriter, r *http.Request) {
	if w.Before != nil {
		w.Before(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // The caller is gone.
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r.Method+" "+r.URL.Path)
	switch name, isNode := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/"); {
	case r.Header.Get("Authorization") != "Bearer "+w.Token:
		fail(response, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case isNode && w.nodes[name] == nil:
		fail(response, http.StatusNotFound, metav1.StatusReasonNotFound)
	case isNode && r.Method == http.MethodPatch:
		w.patch(response, name, body)
	case isNode:
		write(response, w.nodes[name])
	case r.URL.Path == "/api/v1/nodes":
		list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		for _, node := range w.nodes {
			list.Items = append(list.Items, *node)
		}
		slices.SortFunc(list.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
		write(response, list)
	case r.Method == http.MethodGet && listKinds[path.Base(r.URL.Path)].Kind != "":
		write(response, map[string]any{
			"apiVersion": listKinds[path.Base(r.URL.Path)].APIVersion, "kind": listKinds[path.Base(r.URL.Path)].Kind,
			"metadata": map[string]any{}, "items": []any{},
		})
	default:
		fail(response, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// listKinds are the lists that are empty.
var listKinds = map[string]metav1.TypeMeta{
	"pods":                 {APIVersion: "v1", Kind: "PodList"},
	"namespaces":           {APIVersion: "v1", Kind: "NamespaceList"},
	"poddisruptionbudgets": {APIVersion: "policy/v1", Kind: "PodDisruptionBudgetList"},
}

func (w *Workload) patch(response http.ResponseWriter, name string, patch []byte) {
	node, err := json.Marshal(w.nodes[name])
	if err == nil {
		node, err = jsonpatch.MergePatch(node, patch) // A strategic merge patch of a Node's spec.unschedulable is one.
	}
	changed := &corev1.Node{}
	if err == nil {
		err = json.Unmarshal(node, changed)
	}
	if err != nil {
		fail(response, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	w.nodes[name] = changed
	write(response, changed)
}

func write(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object) // The caller may be gone.
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(&metav1.Status{ // The caller may be gone.
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: string(reason),
	})
}
