package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// graphAPI is as much of an API server as UpgradeGraphs need: discovery, list, watch, and a merge patch of the status. It
// records what it was asked to do, so that a test can hold that against the role that the extension has in a cluster.
type graphAPI struct {
	url string

	mu      sync.Mutex
	graphs  map[string]*v1alpha1.UpgradeGraph
	version int
	// changed is closed and replaced at every change.
	changed chan struct{}
	log     []watchEvent
	asked   map[string]struct{}
	lists   int
	patches int
}

type watchEvent struct {
	version int
	Type    string                 `json:"type"`
	Object  *v1alpha1.UpgradeGraph `json:"object"`
}

const graphsPath = "/apis/windlass.dev/v1alpha1/upgradegraphs"

// newGraphAPI starts a graphAPI; without the CRD it knows no UpgradeGraphs.
func newGraphAPI(t *testing.T, withCRD bool) *graphAPI {
	t.Helper()
	f := &graphAPI{graphs: map[string]*v1alpha1.UpgradeGraph{}, version: 1, changed: make(chan struct{}), asked: map[string]struct{}{}}
	mux := http.NewServeMux()
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	if withCRD {
		version := metav1.GroupVersionForDiscovery{GroupVersion: "windlass.dev/v1alpha1", Version: "v1alpha1"}
		group := metav1.APIGroup{Name: "windlass.dev", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
		groups.Groups = append(groups.Groups, group)
		mux.HandleFunc("GET /apis/windlass.dev", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, group) })
		mux.HandleFunc("GET /apis/windlass.dev/v1alpha1", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, metav1.APIResourceList{GroupVersion: "windlass.dev/v1alpha1", APIResources: []metav1.APIResource{
				{Name: "upgradegraphs", SingularName: "upgradegraph", Kind: "UpgradeGraph", Verbs: metav1.Verbs{"list", "watch", "patch"}},
				{Name: "upgradegraphs/status", Kind: "UpgradeGraph", Verbs: metav1.Verbs{"patch"}},
				{Name: "updaters", SingularName: "updater", Kind: "Updater", Verbs: metav1.Verbs{"list", "watch"}},
				{Name: "updatepolicies", SingularName: "updatepolicy", Kind: "UpdatePolicy", Namespaced: true, Verbs: metav1.Verbs{"list", "watch"}},
				{Name: "upgradegates", SingularName: "upgradegate", Kind: "UpgradeGate", Namespaced: true, Verbs: metav1.Verbs{"list", "watch"}},
			}})
		})
		mux.HandleFunc("GET /apis/windlass.dev/v1alpha1/updaters", listNone("windlass.dev/v1alpha1", "UpdaterList"))
		mux.HandleFunc("GET /apis/windlass.dev/v1alpha1/updatepolicies", listNone("windlass.dev/v1alpha1", "UpdatePolicyList"))
		mux.HandleFunc("GET /apis/windlass.dev/v1alpha1/upgradegates", listNone("windlass.dev/v1alpha1", "UpgradeGateList"))
		mux.HandleFunc("GET "+graphsPath, f.listOrWatch)
		mux.HandleFunc("PATCH "+graphsPath+"/{name}/status", f.patchStatus)
	}
	for _, g := range []struct {
		name, version string
		resources     []metav1.APIResource
	}{
		{version: "v1", resources: []metav1.APIResource{{Name: "namespaces", Kind: "Namespace"}}},
		{name: "apiextensions.k8s.io", version: "v1", resources: []metav1.APIResource{{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}}},
		{name: "admissionregistration.k8s.io", version: "v1", resources: []metav1.APIResource{{Name: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration"}}},
		{name: "cluster.x-k8s.io", version: "v1beta2", resources: []metav1.APIResource{
			{Name: "clusters", Kind: "Cluster", Namespaced: true}, {Name: "machinedeployments", Kind: "MachineDeployment", Namespaced: true},
			{Name: "machines", Kind: "Machine", Namespaced: true},
		}},
	} {
		handleNone(mux, &groups, g.name, g.version, g.resources)
	}
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, metav1.APIVersions{Versions: []string{"v1"}})
	})
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, groups) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis/windlass.dev/v1alpha1/") || strings.HasPrefix(r.URL.Path, "/api/v1/") {
			f.record(r.Method + " " + r.URL.Path)
		}
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such path")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	f.url = server.URL
	return f
}

// handleNone serves kinds of which there are no objects.
func handleNone(mux *http.ServeMux, groups *metav1.APIGroupList, name, version string, resources []metav1.APIResource) {
	path, groupVersion := "/apis/"+name+"/"+version, name+"/"+version
	if name == "" {
		path, groupVersion = "/api/"+version, version
	} else {
		served := metav1.GroupVersionForDiscovery{GroupVersion: groupVersion, Version: version}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served})
	}
	for i := range resources {
		resources[i].Verbs = metav1.Verbs{"list", "watch"}
		mux.HandleFunc("GET "+path+"/"+resources[i].Name, listNone(groupVersion, resources[i].Kind+"List"))
	}
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, metav1.APIResourceList{GroupVersion: groupVersion, APIResources: resources})
	})
}

// listNone answers a list with no items, and a watch with no events until the caller leaves.
func listNone(apiVersion, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}}
		if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			body["apiVersion"], body["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
		}
		if r.URL.Query().Get("watch") == "" {
			answer(w, http.StatusOK, body)
			return
		}
		if r.URL.Query().Get("sendInitialEvents") != "" {
			refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// kubeconfig writes a kubeconfig for the server.
func (f *graphAPI) kubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["fake"] = &clientcmdapi.Cluster{Server: f.url}
	config.Contexts["fake"] = &clientcmdapi.Context{Cluster: "fake"}
	config.CurrentContext = "fake"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (f *graphAPI) record(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[what] = struct{}{}
}

// done returns what the server was asked to do so far, as "verb resource", sorted.
func (f *graphAPI) done() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	what := make([]string, 0, len(f.asked))
	for a := range f.asked {
		what = append(what, a)
	}
	slices.Sort(what)
	return what
}

// Put creates a graph or changes its spec.
func (f *graphAPI) put(name string, spec v1alpha1.UpgradeGraphSpec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	event, graph := "MODIFIED", f.graphs[name].DeepCopy()
	if graph == nil {
		event, graph = "ADDED", &v1alpha1.UpgradeGraph{}
		graph.Name = name
	}
	graph.Spec = spec
	graph.Generation++
	f.store(event, graph)
}

// store is called with the lock held.
func (f *graphAPI) store(event string, graph *v1alpha1.UpgradeGraph) {
	f.version++
	graph.APIVersion, graph.Kind, graph.ResourceVersion = "windlass.dev/v1alpha1", "UpgradeGraph", strconv.Itoa(f.version)
	f.graphs[graph.Name] = graph
	f.log = append(f.log, watchEvent{version: f.version, Type: event, Object: graph})
	close(f.changed)
	f.changed = make(chan struct{})
}

// ready returns the status and message of a graph's Ready condition, and how often any status was written.
func (f *graphAPI) ready(name string) (state string, patches int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.graphs[name].Status.Conditions {
		state = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
	}
	return strings.TrimSpace(state), f.patches
}

// listed returns how often the graphs were listed.
func (f *graphAPI) listed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists
}

func (f *graphAPI) listOrWatch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		f.record("list upgradegraphs")
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lists++
		list := v1alpha1.UpgradeGraphList{TypeMeta: metav1.TypeMeta{APIVersion: "windlass.dev/v1alpha1", Kind: "UpgradeGraphList"}}
		list.ResourceVersion = strconv.Itoa(f.version)
		for _, g := range f.graphs {
			list.Items = append(list.Items, *g)
		}
		answer(w, http.StatusOK, list)
		return
	}
	f.record("watch upgradegraphs")
	if r.URL.Query().Get("sendInitialEvents") != "" {
		// As a server that is too old for it: clients then list and watch.
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
		return
	}
	since, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flusher, _ := w.(http.Flusher)
	flusher.Flush()
	for {
		f.mu.Lock()
		events, changed := slices.Clone(f.log), f.changed
		f.mu.Unlock()
		for _, e := range events {
			if e.version > since {
				_ = json.NewEncoder(w).Encode(e)
				since = e.version
			}
		}
		flusher.Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (f *graphAPI) patchStatus(w http.ResponseWriter, r *http.Request) {
	f.record("patch upgradegraphs/status")
	patch, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		refuse(w, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "only merge patches")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	current, known := f.graphs[r.PathValue("name")]
	if !known {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such graph")
		return
	}
	patched, err := applyMergePatch(current, patch)
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if patched.ResourceVersion != current.ResourceVersion {
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
		return
	}
	// Only the status counts, as for a real subresource.
	next := current.DeepCopy()
	next.Status = patched.Status
	f.patches++
	f.store("MODIFIED", next)
	answer(w, http.StatusOK, next)
}

func applyMergePatch(current *v1alpha1.UpgradeGraph, patch []byte) (*v1alpha1.UpgradeGraph, error) {
	document, err := json.Marshal(current)
	if err != nil {
		return nil, err
	}
	if document, err = jsonpatch.MergePatch(document, patch); err != nil {
		return nil, err
	}
	patched := &v1alpha1.UpgradeGraph{}
	return patched, json.Unmarshal(document, patched)
}
