package workload_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// apiServer is as much of a workload cluster's API server as a drain needs. With inMemory it is like that of Cluster API's
// in-memory provider: it knows no evictions.
type apiServer struct {
	*httptest.Server

	t        *testing.T
	inMemory bool
	token    string

	mu       sync.Mutex
	nodes    map[string]*corev1.Node
	pods     map[string]*corev1.Pod
	budgets  []policyv1.PodDisruptionBudget
	refuse   map[string]*apierrors.StatusError
	requests map[string]int
}

const namespace = "apps"

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{
		t: t, token: "secret-token", nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{},
		refuse: map[string]*apierrors.StatusError{}, requests: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes/{name}", s.getNode)
	mux.HandleFunc("PATCH /api/v1/nodes/{name}", s.patchNode)
	mux.HandleFunc("GET /api/v1/pods", s.listPods)
	mux.HandleFunc("GET /api/v1/namespaces", func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, &corev1.NamespaceList{TypeMeta: kind("v1", "NamespaceList"), Items: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}})
	})
	mux.HandleFunc("GET /apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answer(w, &policyv1.PodDisruptionBudgetList{TypeMeta: kind("policy/v1", "PodDisruptionBudgetList"), Items: s.budgets})
	})
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods/{name}/eviction", s.evict)
	s.Server = httptest.NewUnstartedServer(s.authorize(mux))
	// As API servers do: what becomes another protocol must ask for HTTP/1.1.
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func kind(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

func (s *apiServer) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		token := s.token
		s.requests[r.Method+" "+r.URL.Path]++
		s.mu.Unlock()
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			s.fail(w, apierrors.NewUnauthorized("who are you"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *apiServer) answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		s.t.Errorf("encoding an answer: %v", err)
	}
}

func (s *apiServer) fail(w http.ResponseWriter, err *apierrors.StatusError) {
	w.Header().Set("Content-Type", "application/json")
	if err.ErrStatus.Details != nil && err.ErrStatus.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(err.ErrStatus.Details.RetryAfterSeconds))
	}
	w.WriteHeader(int(err.ErrStatus.Code))
	status := err.ErrStatus
	status.TypeMeta = kind("v1", "Status")
	if err := json.NewEncoder(w).Encode(status); err != nil {
		s.t.Errorf("encoding a status: %v", err)
	}
}

func (s *apiServer) getNode(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node, ok := s.nodes[r.PathValue("name")]
	if !ok {
		s.fail(w, apierrors.NewNotFound(corev1.Resource("nodes"), r.PathValue("name")))
		return
	}
	s.answer(w, node)
}

// patchNode drops changes of the status, as API servers do on this path; the in-memory provider's takes them.
func (s *apiServer) patchNode(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.nodes[r.PathValue("name")]
	if !ok {
		s.fail(w, apierrors.NewNotFound(corev1.Resource("nodes"), r.PathValue("name")))
		return
	}
	patch, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a patch: %v", err)
	}
	before, err := json.Marshal(old)
	if err != nil {
		s.t.Errorf("encoding a node: %v", err)
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		s.t.Errorf("applying a patch: %v", err)
	}
	var node corev1.Node
	if err := json.Unmarshal(after, &node); err != nil {
		s.t.Errorf("decoding a patched node: %v", err)
	}
	if !strings.HasPrefix(old.Spec.ProviderID, "in-memory://") {
		node.Status = old.Status
	}
	s.nodes[node.Name] = &node
	s.answer(w, &node)
}

func (s *apiServer) listPods(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &corev1.PodList{TypeMeta: kind("v1", "PodList")}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		if "spec.nodeName="+s.pods[name].Spec.NodeName == r.URL.Query().Get("fieldSelector") {
			list.Items = append(list.Items, *s.pods[name])
		}
	}
	s.answer(w, list)
}

func (s *apiServer) evict(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := r.PathValue("name")
	refusal := s.refuse[name]
	switch {
	case s.inMemory:
		http.NotFound(w, r)
	case refusal != nil:
		s.fail(w, refusal)
	case s.pods[name] == nil:
		s.fail(w, apierrors.NewNotFound(corev1.Resource("pods"), name))
	default:
		delete(s.pods, name)
		s.answer(w, &metav1.Status{TypeMeta: kind("v1", "Status"), Status: metav1.StatusSuccess})
	}
}

// kubeconfig is one for the server, as edited.
func (s *apiServer) kubeconfig(edit func(*clientcmdapi.Config)) []byte {
	s.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server:                   s.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: s.token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	if edit != nil {
		edit(config)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		s.t.Fatalf("writing a kubeconfig: %v", err)
	}
	return data
}

func (s *apiServer) putPod(name, node string, edit func(*corev1.Pod)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := &corev1.Pod{
		TypeMeta:   kind("v1", "Pod"),
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	if edit != nil {
		edit(pod)
	}
	s.pods[name] = pod
}

// refuseEviction makes evictions of a pod fail; with nil they succeed again.
func (s *apiServer) refuseEviction(pod string, err *apierrors.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse[pod] = err
}

// budgetRefuses is the API server's answer to an eviction that a PodDisruptionBudget forbids.
func budgetRefuses(budget string, retryAfterSeconds int) *apierrors.StatusError {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfterSeconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + budget + " needs 2 healthy pods and has 2 currently",
	})
	return err
}
