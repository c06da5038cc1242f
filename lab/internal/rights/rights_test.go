package rights_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/rights"
)

// role is an encoded ClusterRole with one rule, or a Role if it has a namespace.
func role(namespace, rule string) json.RawMessage {
	kind := "ClusterRole"
	if namespace != "" {
		kind = "Role"
	}
	return json.RawMessage(fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": %q,
		"metadata": {"name": "a", "namespace": %q}, "rules": [%s]}`, kind, namespace, rule))
}

func texts[T fmt.Stringer](items []T) []string {
	var out []string
	for _, item := range items {
		out = append(out, item.String())
	}
	return out
}

func TestUnused(t *testing.T) {
	const (
		machines = `{"apiGroups": ["cluster.x-k8s.io"], "resources": ["machines", "machines/status"], "verbs": ["get", "patch"]}`
		all      = `{"apiGroups": ["infrastructure.example.com"], "resources": ["*"], "verbs": ["get"]}`
		statuses = `{"apiGroups": ["controlplane.example.com"], "resources": ["*/status"], "verbs": ["patch"]}`
		lease    = `{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["ours", "other"], "verbs": ["update"]}`
		pods     = `{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}`
		metrics  = `{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}`
	)
	tests := []struct {
		name     string
		objects  []json.RawMessage
		requests []rights.Request
		want     []string
	}{
		{
			name: "each verb and resource counts alone", objects: []json.RawMessage{role("", machines)},
			requests: []rights.Request{
				{Verb: "get", Group: "cluster.x-k8s.io", Resource: "machines", Namespace: "demo", Name: "m"},
				{Verb: "patch", Group: "cluster.x-k8s.io", Resource: "machines/status", Namespace: "demo", Name: "m"},
			},
			want: []string{"ClusterRole a: get machines/status.cluster.x-k8s.io", "ClusterRole a: patch machines.cluster.x-k8s.io"},
		},
		{
			name: "another group does not count", objects: []json.RawMessage{role("", pods)},
			requests: []rights.Request{{Verb: "list", Group: "metrics.k8s.io", Resource: "pods"}},
			want:     []string{"ClusterRole a: list pods"},
		},
		{
			name: "wildcards", objects: []json.RawMessage{role("", all), role("", statuses)},
			requests: []rights.Request{
				{Verb: "get", Group: "infrastructure.example.com", Resource: "hosts", Namespace: "demo", Name: "h"},
				{Verb: "patch", Group: "controlplane.example.com", Resource: "planes/status", Namespace: "demo", Name: "p"},
			},
		},
		{
			name: "a subresource is not the resource", objects: []json.RawMessage{role("", statuses)},
			requests: []rights.Request{{Verb: "patch", Group: "controlplane.example.com", Resource: "planes", Name: "p"}},
			want:     []string{"ClusterRole a: patch */status.controlplane.example.com"},
		},
		{
			name: "each name counts alone, and a request without a name uses none", objects: []json.RawMessage{role("", lease)},
			requests: []rights.Request{
				{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "demo", Name: "ours"},
				{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "demo"},
			},
			want: []string{"ClusterRole a: update leases.coordination.k8s.io other"},
		},
		{
			name: "a Role is for its namespace", objects: []json.RawMessage{role("ours", pods)},
			requests: []rights.Request{{Verb: "list", Resource: "pods", Namespace: "other"}, {Verb: "list", Resource: "pods"}},
			want:     []string{"Role a: list pods"},
		},
		{
			name: "in its namespace", objects: []json.RawMessage{role("ours", pods)},
			requests: []rights.Request{{Verb: "list", Resource: "pods", Namespace: "ours"}},
		},
		{
			name: "an URL is no resource", objects: []json.RawMessage{role("", metrics)},
			requests: []rights.Request{{Verb: "get", Resource: "pods"}},
			want:     []string{"ClusterRole a: get /metrics"},
		},
		{
			name: "other kinds grant nothing",
			objects: []json.RawMessage{
				json.RawMessage(`{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}`),
				json.RawMessage(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "roleRef": {"name": "a"}}`),
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			grants, err := rights.Grants(test.objects)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, texts(rights.Unused(grants, test.requests))); diff != "" {
				t.Errorf("unused (-want +got):\n%s", diff)
			}
		})
	}
}

// event is an audit event of the user "us" about a Machine, as the API server writes it.
func event(verb, decision string, code int, message string) string {
	return fmt.Sprintf(`{"kind": "Event", "verb": %q, "user": {"username": "us"},
		"objectRef": {"apiGroup": "cluster.x-k8s.io", "resource": "machines", "subresource": "status", "namespace": "demo", "name": "m"},
		"responseStatus": {"code": %d, "message": %q}, "annotations": {"authorization.k8s.io/decision": %q}}`, verb, code, message, decision)
}

func TestReadLog(t *testing.T) {
	const about = " machines/status.cluster.x-k8s.io demo/m"
	tests := []struct {
		name             string
		events           []string
		allowed, refused []string
	}{
		{
			name:    "each once, sorted",
			events:  []string{event("patch", "allow", 200, ""), event("get", "allow", 404, "not found"), event("patch", "allow", 200, "")},
			allowed: []string{"get" + about, "patch" + about},
		},
		{name: "refused by the authorizer", events: []string{event("get", "forbid", 403, "cannot")}, refused: []string{"get" + about}},
		{name: "refused by admission", events: []string{event("delete", "allow", 403, "a policy keeps it")}, allowed: []string{"delete" + about}},
		{name: "not authorized, because it was not authenticated", events: []string{event("get", "", 401, "")}},
		{
			name: "a patch that creates", events: []string{event("patch", "allow", 201, "")},
			allowed: []string{"create" + about, "patch" + about},
		},
		{
			name:    "a patch that may not create",
			events:  []string{event("patch", "allow", 403, `machines is forbidden: User "us" cannot create resource "machines"`)},
			allowed: []string{"patch" + about}, refused: []string{"create" + about},
		},
		{name: "of another user", events: []string{strings.ReplaceAll(event("get", "allow", 200, ""), `"us"`, `"them"`)}},
		{name: "about no resource", events: []string{`{"verb": "get", "user": {"username": "us"}, "requestURI": "/metrics"}`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var data strings.Builder
			for _, e := range test.events {
				data.WriteString(strings.Join(strings.Fields(e), " ") + "\n")
			}
			log, err := rights.ReadLog([]byte(data.String()+`{"verb": "unfinis`), "us")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.allowed, texts(log.Allowed)); diff != "" {
				t.Errorf("allowed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.refused, texts(log.Refused)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBrokenLog(t *testing.T) {
	if _, err := rights.ReadLog([]byte("{\n"), "us"); err == nil {
		t.Error("a broken line is read")
	}
	if _, err := rights.Grants([]json.RawMessage{role("", `"no rule"`)}); err == nil {
		t.Error("a broken role is read")
	}
}
