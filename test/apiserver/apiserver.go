// Package apiserver serves the requests of the command line for tests: a server in memory that speaks
// enough of the Kubernetes API over HTTP for kubeconfigs, discovery, reads, watches and merge patches.
package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Server serves the discovery, get, list, watch and merge patch requests that commands make, for objects of any kind. Lists have one
// object a page, so that whoever forgets to go on sees too little.
type Server struct {
	mu sync.Mutex
	// resources are by API version, such as "group/version" or "v1", then by plural name.
	resources map[string]map[string][]*unstructured.Unstructured
	version   int
	log       []event
	// changed is closed and replaced at every change.
	changed chan struct{}
}

type event struct {
	version  int
	resource string
	Type     string         `json:"type"`
	Object   map[string]any `json:"object"`
}

// clusterScoped are the resources that have no namespace, by their plural name.
var clusterScoped = []string{"upgradegraphs", "updaters", "namespaces", "validatingwebhookconfigurations", "extensionconfigs"}

// servedWith are the resources that are there whenever any object of their API version is.
var servedWith = map[string]map[string]string{
	"cluster.x-k8s.io/v1beta2": {
		"clusters": "Cluster", "clusterclasses": "ClusterClass", "machinedeployments": "MachineDeployment", "machinesets": "MachineSet",
		"machinepools": "MachinePool", "machines": "Machine", "machinehealthchecks": "MachineHealthCheck",
	},
	"windlass.dev/v1alpha1": {"upgradegraphs": "UpgradeGraph", "updaters": "Updater", "updatepolicies": "UpdatePolicy", "upgradegates": "UpgradeGate"},
}

// New returns a server with the objects in the YAML files of a folder.
func New(folder string) (*Server, error) {
	f := &Server{resources: map[string]map[string][]*unstructured.Unstructured{}, version: 1, changed: make(chan struct{})}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := f.addAll(string(data)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *Server) addAll(documents string) error {
	for document := range strings.SplitSeq(documents, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return err
		}
		f.Put(object)
	}
	return nil
}

// Start serves the objects of a text until the test ends, and returns a kubeconfig for it.
func Start(t *testing.T, documents string) (f *Server, kubeconfig string) {
	t.Helper()
	f, err := New("no-folder")
	if err == nil {
		err = f.addAll(documents)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(Kubeconfig(server)), 0o600); err != nil {
		t.Fatal(err)
	}
	return f, kubeconfig
}

// Kubeconfig returns a kubeconfig for a server. It trusts the certificate of a server that has one.
func Kubeconfig(server *httptest.Server) string {
	trust := ""
	if certificate := server.Certificate(); certificate != nil {
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
		trust = ", certificate-authority-data: " + base64.StdEncoding.EncodeToString(block)
	}
	return `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "` + server.URL + `"` + trust + `}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: team-a}}]
users: [{name: test, user: {}}]
current-context: test
`
}

// PluralOf returns the resource of a kind.
func PluralOf(kind string) string {
	plural := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(plural, "class"):
		return plural + "es"
	case strings.HasSuffix(plural, "policy"):
		return strings.TrimSuffix(plural, "y") + "ies"
	default:
		return plural + "s"
	}
}

// Put adds an object, or replaces the one of its kind and name.
func (f *Server) Put(object *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	version, plural := object.GetAPIVersion(), PluralOf(object.GetKind())
	if f.resources[version] == nil {
		f.resources[version] = map[string][]*unstructured.Unstructured{}
		for name := range servedWith[version] {
			f.resources[version][name] = nil
		}
	}
	f.version++
	object.SetResourceVersion(strconv.Itoa(f.version))
	kind, list := "ADDED", f.resources[version][plural]
	at := slices.IndexFunc(list, func(o *unstructured.Unstructured) bool {
		return o.GetNamespace() == object.GetNamespace() && o.GetName() == object.GetName()
	})
	if at < 0 {
		f.resources[version][plural] = append(list, object)
	} else {
		kind, list[at] = "MODIFIED", object
	}
	f.log = append(f.log, event{version: f.version, resource: version + " " + plural, Type: kind, Object: object.Object})
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/apis/authentication.k8s.io/v1/selfsubjectreviews":
		reply(w, map[string]any{
			"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "status": map[string]any{"userInfo": map[string]any{"username": "jane@example.com"}},
		})
	case r.URL.Path == "/api":
		reply(w, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	case r.URL.Path == "/apis":
		reply(w, f.groups())
	case parts[0] == "api" && len(parts) == 2:
		f.serveResources(w, parts[1])
	case parts[0] == "api" && len(parts) > 2:
		f.serveObjects(w, r, parts[1], parts[2:])
	case len(parts) == 3:
		f.serveResources(w, path.Join(parts[1:3]...))
	case len(parts) >= 4:
		f.serveObjects(w, r, path.Join(parts[1:3]...), parts[3:])
	default:
		fail(w, http.StatusNotFound, "NotFound", r.URL.Path)
	}
}

func (f *Server) groups() map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	groups := []any{}
	for groupVersion := range f.resources {
		group, version, found := strings.Cut(groupVersion, "/")
		if !found {
			continue
		}
		entry := map[string]string{"groupVersion": groupVersion, "version": version}
		groups = append(groups, map[string]any{"name": group, "versions": []any{entry}, "preferredVersion": entry})
	}
	return map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
}

func (f *Server) serveResources(w http.ResponseWriter, groupVersion string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resources, known := f.resources[groupVersion]
	if !known && groupVersion != "v1" {
		fail(w, http.StatusNotFound, "NotFound", groupVersion)
		return
	}
	list := []any{}
	for plural := range resources {
		list = append(list, map[string]any{
			"name": plural, "singularName": "", "namespaced": !slices.Contains(clusterScoped, plural),
			"kind": f.kindOf(groupVersion, plural), "verbs": []string{"get", "list", "watch"},
		})
	}
	reply(w, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": list})
}

// kindOf returns the kind of a resource, also of one that has no objects.
func (f *Server) kindOf(groupVersion, plural string) string {
	if objects := f.resources[groupVersion][plural]; len(objects) > 0 {
		return objects[0].GetKind()
	}
	return servedWith[groupVersion][plural]
}

func (f *Server) serveObjects(w http.ResponseWriter, r *http.Request, groupVersion string, rest []string) {
	namespace, name := "", ""
	if rest[0] == "namespaces" && len(rest) > 2 {
		namespace, rest = rest[1], rest[2:]
	}
	resource := rest[0]
	if len(rest) > 1 {
		name = rest[1]
	}
	if namespace == "forbidden" {
		fail(w, http.StatusForbidden, "Forbidden", resource+" is forbidden: User \"jane\" cannot get it")
		return
	}
	matches := func(o *unstructured.Unstructured) bool {
		return (namespace == "" || o.GetNamespace() == namespace) && (name == "" || o.GetName() == name) && selects(r, o)
	}
	if r.URL.Query().Get("watch") != "" {
		f.serveWatch(w, r, groupVersion+" "+resource, matches)
		return
	}
	if r.Method == http.MethodPatch {
		f.patch(w, r, matches, groupVersion, resource)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []any
	for _, o := range f.resources[groupVersion][resource] {
		if matches(o) {
			found = append(found, o.Object)
		}
	}
	switch {
	case name != "" && len(found) == 0:
		fail(w, http.StatusNotFound, "NotFound", resource+" "+strconv.Quote(name)+" not found")
	case name != "":
		reply(w, found[0])
	default:
		first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		metadata := map[string]any{"resourceVersion": strconv.Itoa(f.version)}
		page := []any{}
		if first < len(found) {
			page = found[first : first+1]
		}
		if first+1 < len(found) {
			metadata["continue"] = strconv.Itoa(first + 1)
		}
		reply(w, map[string]any{"kind": f.kindOf(groupVersion, resource) + "List", "apiVersion": groupVersion, "metadata": metadata, "items": page})
	}
}

// serveWatch sends what has changed since the version that was asked for, until the caller leaves.
func (f *Server) serveWatch(w http.ResponseWriter, r *http.Request, resource string, matches func(*unstructured.Unstructured) bool) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		// As a server that is too old for it: clients then list and watch.
		fail(w, http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is forbidden")
		return
	}
	since, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		fail(w, http.StatusBadRequest, "BadRequest", err.Error())
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
			if e.version <= since {
				continue
			}
			since = e.version
			if e.resource == resource && matches(&unstructured.Unstructured{Object: e.Object}) {
				_ = json.NewEncoder(w).Encode(e)
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

// selects knows label selectors that are lists of key and key=value.
func selects(r *http.Request, o *unstructured.Unstructured) bool {
	selector := r.URL.Query().Get("labelSelector")
	if selector == "" {
		return true
	}
	for requirement := range strings.SplitSeq(selector, ",") {
		key, value, valued := strings.Cut(requirement, "=")
		got, found := o.GetLabels()[key]
		if !found || valued && got != value {
			return false
		}
	}
	return true
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func fail(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
	})
}
