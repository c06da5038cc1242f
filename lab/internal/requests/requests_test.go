package requests_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/requests"
)

// line is an audit event about a Machine's status.
func line(stage, verb, uri, name string, code int) string {
	return fmt.Sprintf(`{"stage": %q, "verb": %q, "requestURI": %q, "user": {"username": "u"},
		"objectRef": {"apiGroup": "cluster.x-k8s.io", "resource": "machines", "subresource": "status",
		"namespace": "demo", "name": %q}, "responseStatus": {"code": %d}}`, stage, verb, uri, name, code)
}

// write makes each line one line of a file.
func write(t *testing.T, file string, flags int, lines ...string) {
	t.Helper()
	opened, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|flags, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		var flat []byte
		for _, c := range []byte(line) {
			if c != '\n' {
				flat = append(flat, c)
			}
		}
		if _, err := opened.Write(append(flat, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, log *requests.Log) []requests.Request {
	t.Helper()
	found, err := log.Next()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func status(verb, name string, code int, dry bool) requests.Request {
	return requests.Request{
		User: "u", Verb: verb, Group: "cluster.x-k8s.io", Resource: "machines/status", Namespace: "demo", Name: name,
		Code: code, DryRun: dry,
	}
}

func TestNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := requests.NewLog(path)
	write(t, path, 0,
		line("ResponseComplete", "patch", "/apis/x?fieldManager=a&force=true", "a", 200),
		line("ResponseComplete", "patch", "/apis/x?dryRun=All&fieldManager=a", "b", 200),
		line("ResponseStarted", "watch", "/apis/x?watch=true", "c", 200),
		line("ResponseComplete", "watch", "/apis/x?watch=true", "c", 200),
		`{"stage": "ResponseComplete", "verb": "get", "requestURI": "/readyz", "responseStatus": {"code": 200}}`,
	)
	want := []requests.Request{status("patch", "a", 200, false), status("patch", "b", 200, true)}
	if diff := cmp.Diff(want, next(t, log)); diff != "" {
		t.Errorf("the first requests (-want +got):\n%s", diff)
	}
	if found := next(t, log); len(found) != 0 {
		t.Errorf("Next returned requests twice: %v", found)
	}
}

// TestNextAfterRename has the API server start another file twice between two calls, and a line
// without its end.
func TestNextAfterRename(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "audit.log")
	log := requests.NewLog(path)
	event := func(name string) string { return line("ResponseComplete", "update", "/apis/x", name, 409) }
	write(t, path, 0, event("a"))
	_ = next(t, log)
	write(t, path, os.O_APPEND, event("b"))
	rename := func(to string) {
		if err := os.Rename(path, filepath.Join(folder, to)); err != nil {
			t.Fatal(err)
		}
	}
	rename("audit-2026-01-02T03-04-05.000.log")
	write(t, path, 0, event("c"))
	rename("audit-2026-01-02T03-04-06.000.log")
	write(t, path, 0, event("d"))
	if err := appendText(path, `{"stage": `); err != nil {
		t.Fatal(err)
	}
	want := []requests.Request{
		status("update", "b", 409, false), status("update", "c", 409, false), status("update", "d", 409, false),
	}
	if diff := cmp.Diff(want, next(t, log)); diff != "" {
		t.Errorf("requests after two renames (-want +got):\n%s", diff)
	}
	if err := appendText(path, `"ResponseComplete", "verb": "get", "objectRef": {"resource": "pods"}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]requests.Request{{Verb: "get", Resource: "pods"}}, next(t, log)); diff != "" {
		t.Errorf("the line that had no end (-want +got):\n%s", diff)
	}
}

func appendText(file, text string) error {
	opened, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := opened.WriteString(text); err != nil {
		return err
	}
	return opened.Close()
}

func TestWrites(t *testing.T) {
	tests := []struct {
		request    requests.Request
		writes     bool
		clusterAPI bool
		conflict   bool
	}{
		{request: status("patch", "a", 200, false), writes: true, clusterAPI: true},
		{request: status("patch", "a", 200, true), clusterAPI: true},
		{request: status("update", "a", 409, false), writes: true, clusterAPI: true, conflict: true},
		{request: status("list", "", 200, false), clusterAPI: true},
		{request: requests.Request{Verb: "create", Group: "infrastructure.cluster.x-k8s.io"}, writes: true, clusterAPI: true},
		{request: requests.Request{Verb: "delete", Group: "example-cluster.x-k8s.io"}, writes: true},
		{request: requests.Request{Verb: "deletecollection"}, writes: true},
		{request: requests.Request{Verb: "get"}},
	}
	for _, test := range tests {
		r := test.request
		if r.Writes() != test.writes || r.ClusterAPI() != test.clusterAPI || r.Conflict() != test.conflict {
			t.Errorf("%+v: writes %t, Cluster API %t, conflict %t", r, r.Writes(), r.ClusterAPI(), r.Conflict())
		}
	}
}

func TestCountBy(t *testing.T) {
	all := []requests.Request{
		status("patch", "a", 200, false), status("update", "a", 200, false), status("patch", "b", 200, false),
		status("create", "c", 200, false),
	}
	want := []requests.Count{
		{Name: "patch machines/status", Requests: 2}, {Name: "create machines/status", Requests: 1},
		{Name: "update machines/status", Requests: 1},
	}
	if diff := cmp.Diff(want, requests.CountBy(all, requests.Request.String)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if got := requests.Select(all, func(r requests.Request) bool { return r.Name == "b" }); len(got) != 1 {
		t.Errorf("Select returned %v", got)
	}
}
