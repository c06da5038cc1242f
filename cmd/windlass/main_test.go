package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestMain makes the test binary behave as windlass when a script calls it by that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"windlass": main})
}

// TestScripts runs the command line as users do. Beside the usual commands scripts have:
//
//	exits CODE COMMAND ARGS...   runs a command that must exit with that code
//	apiserver FOLDER KUBECONFIG  serves the objects in a folder's YAML files, and writes a kubeconfig for it
//	jsonkeys FILE KEY...         checks which keys the top level of a JSON document has
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("WINDLASS_UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			// Neither a kubeconfig nor a service account of the machine may reach a script.
			env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, "no-kubeconfig"))
			env.Setenv("KUBERNETES_SERVICE_HOST", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "apiserver": cmdAPIServer, "jsonkeys": cmdJSONKeys,
		},
	})
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("running %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s exits with %d, not %d", strings.Join(args[1:], " "), got, want)
	}
}

func cmdJSONKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: jsonkeys FILE KEY...")
	}
	var document map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &document))
	got := make([]string, 0, len(document))
	for key := range document {
		got = append(got, key)
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(args[1:])); !slices.Equal(got, want) {
		ts.Fatalf("%s has the keys %q, not %q", args[0], got, want)
	}
}

func cmdAPIServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: apiserver FOLDER KUBECONFIG")
	}
	folder, kubeconfig := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	handler, err := newFakeAPI(folder)
	ts.Check(err)
	server := httptest.NewServer(handler)
	ts.Defer(server.Close)
	ts.Check(os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "`+server.URL+`"}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: team-a}}]
users: [{name: test, user: {}}]
current-context: test
`), 0o600))
}

// fakeAPI serves the discovery, get and list requests that plan makes, for objects of any kind. Lists have one object a
// page, so that whoever forgets to go on sees too little.
type fakeAPI struct {
	// resources are by "group/version", then by plural name.
	resources map[string]map[string][]*unstructured.Unstructured
}

func newFakeAPI(folder string) (*fakeAPI, error) {
	f := &fakeAPI{resources: map[string]map[string][]*unstructured.Unstructured{}}
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
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				return nil, err
			}
			f.add(object)
		}
	}
	return f, nil
}

func (f *fakeAPI) add(object *unstructured.Unstructured) {
	plural := strings.ToLower(object.GetKind()) + "s"
	if strings.HasSuffix(plural, "classs") {
		plural = "clusterclasses"
	}
	version := object.GetAPIVersion()
	if f.resources[version] == nil {
		f.resources[version] = map[string][]*unstructured.Unstructured{}
		if strings.HasPrefix(version, "cluster.x-k8s.io/") {
			for _, name := range []string{"clusters", "clusterclasses", "machinedeployments", "machinepools", "machines"} {
				f.resources[version][name] = nil
			}
		}
	}
	f.resources[version][plural] = append(f.resources[version][plural], object)
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/api":
		reply(w, map[string]any{"kind": "APIVersions", "versions": []string{}})
	case r.URL.Path == "/apis":
		reply(w, f.groups())
	case len(parts) == 3:
		f.serveResources(w, path.Join(parts[1:3]...))
	case len(parts) >= 4:
		f.serveObjects(w, r, path.Join(parts[1:3]...), parts[3:])
	default:
		fail(w, http.StatusNotFound, "NotFound", r.URL.Path)
	}
}

func (f *fakeAPI) groups() map[string]any {
	var groups []any
	for groupVersion := range f.resources {
		group, version, _ := strings.Cut(groupVersion, "/")
		entry := map[string]string{"groupVersion": groupVersion, "version": version}
		groups = append(groups, map[string]any{"name": group, "versions": []any{entry}, "preferredVersion": entry})
	}
	return map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
}

func (f *fakeAPI) serveResources(w http.ResponseWriter, groupVersion string) {
	resources, known := f.resources[groupVersion]
	if !known {
		fail(w, http.StatusNotFound, "NotFound", groupVersion)
		return
	}
	var list []any
	for plural := range resources {
		list = append(list, map[string]any{
			"name": plural, "singularName": "", "namespaced": plural != "upgradegraphs",
			"kind": f.kindOf(groupVersion, plural), "verbs": []string{"get", "list"},
		})
	}
	reply(w, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": list})
}

// kindOf returns the kind of a resource, also of one that has no objects.
func (f *fakeAPI) kindOf(groupVersion, plural string) string {
	if objects := f.resources[groupVersion][plural]; len(objects) > 0 {
		return objects[0].GetKind()
	}
	return map[string]string{
		"clusters": "Cluster", "clusterclasses": "ClusterClass", "machinedeployments": "MachineDeployment",
		"machinepools": "MachinePool", "machines": "Machine",
	}[plural]
}

func (f *fakeAPI) serveObjects(w http.ResponseWriter, r *http.Request, groupVersion string, rest []string) {
	namespace, name := "", ""
	if rest[0] == "namespaces" {
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
	var found []any
	for _, o := range f.resources[groupVersion][resource] {
		if (namespace == "" || o.GetNamespace() == namespace) && (name == "" || o.GetName() == name) && selects(r, o) {
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
		metadata := map[string]any{"resourceVersion": "1"}
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

// selects knows label selectors of the form key=value.
func selects(r *http.Request, o *unstructured.Unstructured) bool {
	key, value, found := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	return !found || o.GetLabels()[key] == value
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
