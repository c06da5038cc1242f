package probe_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/clustercheck/probe"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/version"
	"github.com/windlass-dev/windlass/test/loopback"
)

// api is an API server that answers paths from a table and counts requests. Other paths are forbidden.
type api struct {
	answers map[string]string
	// pages are how many pages of Pods there are, and pods is what each contains.
	pages int
	pods  string

	mu       sync.Mutex
	requests map[string]int
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests[r.URL.Path]++
	n := a.requests[r.URL.Path]
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch answer, ok := a.answers[r.URL.Path]; {
	case r.Method != http.MethodGet:
		panic("a preflight changes nothing: " + r.Method + " " + r.URL.Path)
	case ok:
		_, _ = w.Write([]byte(answer)) // The caller may be gone.
	case r.URL.Path == "/api/v1/pods" && n < a.pages:
		_, _ = fmt.Fprintf(w, `{"metadata": {"continue": "next"}, "items": [%s]}`, a.pods) // The caller may be gone.
	case r.URL.Path == "/api/v1/pods" && n == a.pages:
		_, _ = fmt.Fprintf(w, `{"items": [%s]}`, a.pods) // The caller may be gone.
	default:
		refuse(w, r.URL.Path+" is forbidden")
	}
}

const emptyList = `{"metadata": {}, "items": []}`

func newAPI(edit func(map[string]string)) *api {
	answers := map[string]string{
		"/version":      `{"gitVersion": "v1.31.4", "major": "1", "minor": "31"}`,
		"/api":          `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":         `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
		"/api/v1":       `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": []}`,
		"/readyz":       "[+]ping ok\n[+]etcd ok\nreadyz check passed\n",
		"/api/v1/nodes": `{"items": [{"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.31.4", "containerRuntimeVersion": "containerd://2.1.5"}}}]}`,
		"/api/v1/pods":  emptyList,
		"/api/v1/namespaces/kube-system/configmaps/kubeadm-config":              `{"data": {"ClusterConfiguration": "featureGates: {OfKubeadm: true}\napiServer: {extraArgs: {profiling: 'false'}}"}}`,
		"/api/v1/namespaces/kube-system/configmaps/kubelet-config":              `{"data": {"kubelet": "kind: KubeletConfiguration\nmaxPods: 110"}}`,
		"/api/v1/namespaces/kube-system/configmaps/kube-proxy":                  `{"data": {"config.conf": "mode: nftables"}}`,
		"/api/v1/nodes/n/proxy/configz":                                         `{"kubeletconfig": {"featureGates": {"NodeSwap": true}, "noSuchField": 1}}`,
		"/api/v1/namespaces/kube-system":                                        `{"metadata": {"name": "kube-system", "labels": {"kubernetes.io/metadata.name": "kube-system"}}}`,
		"/api/v1/namespaces/kube-node-lease":                                    `{"metadata": {"name": "kube-node-lease"}}`,
		"/apis/policy/v1/poddisruptionbudgets":                                  emptyList,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions":               emptyList,
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": emptyList,
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations":   emptyList,
	}
	if edit != nil {
		edit(answers)
	}
	return &api{answers: answers, requests: map[string]int{}}
}

func look(t *testing.T, handler http.HandlerFunc) probe.PreflightOptions {
	t.Helper()
	return probe.PreflightOptions{
		Remote:    serve(t, handler).Remote,
		Requested: func(context.Context) ([]gate.API, error) { return nil, nil },
		Upgrade:   preflight.Upgrade{From: version.MustParse("v1.31.4"), To: version.MustParse("v1.32.0")},
		Version:   version.MustParse("v1.31.4"), Timeout: time.Minute, Now: time.Now(),
		Risks: preflight.Risks{Known: risks.BuiltIn()},
	}
}

func outcomes(findings []clustercheck.Finding) map[clustercheck.ID]clustercheck.Outcome {
	found := make(map[clustercheck.ID]clustercheck.Outcome)
	for _, f := range findings {
		found[f.ID] = f.Outcome
	}
	return found
}

func run(t *testing.T, o probe.PreflightOptions) []clustercheck.Finding {
	t.Helper()
	findings, err := probe.Preflight(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

// TestPreflightPasses holds what is found in a cluster without faults, and that every check reports. Only certificates are
// not seen, because the connection has none.
func TestPreflightPasses(t *testing.T) {
	t.Parallel()
	o := look(t, newAPI(nil).ServeHTTP)
	o.Manifests = []preflight.Manifest{}
	findings := run(t, o)
	ids := make([]clustercheck.ID, 0, len(findings))
	for _, f := range findings {
		ids = append(ids, f.ID)
		if want := clustercheck.Passed; f.Outcome != want && f.ID != clustercheck.Certificates {
			t.Errorf("%s is %s: %s", f.ID, f.Outcome, f.Message)
		}
	}
	if diff := cmp.Diff(preflight.IDs(), ids); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

// TestPreflightUnread holds that what may not be read is not checked, each for itself.
func TestPreflightUnread(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]clustercheck.ID{
		"/readyz": {preflight.APIServerReady, preflight.EtcdHealthy},
		"/api/v1/nodes": {
			clustercheck.Nodes, preflight.VersionSkew, preflight.NewMachinesCanJoin, preflight.MachineRequirements,
			preflight.NodeLabelsStay, preflight.RoomForDrains,
		},
		"/api/v1/namespaces/kube-system/configmaps/kubelet-config": {preflight.RemovedSettings},
		"/api/v1/pods":                         {preflight.EtcdHealthy, preflight.KnownRisks, preflight.BudgetsOverlap, preflight.NodeLabelsStay, preflight.RoomForDrains},
		"/apis/policy/v1/poddisruptionbudgets": {preflight.BudgetsCanBeSatisfied, preflight.BudgetsOverlap},
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
			preflight.StoredVersions, clustercheck.Certificates,
		},
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": {
			preflight.WebhookBackends, preflight.WebhookScope, clustercheck.Certificates,
		},
		"/api/v1/namespaces/kube-system": {preflight.WebhookBackends, preflight.WebhookScope},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			findings := run(t, look(t, newAPI(func(answers map[string]string) { delete(answers, path) }).ServeHTTP))
			var got []clustercheck.ID
			for _, f := range findings {
				if f.Outcome != clustercheck.NotChecked || f.Message == "no certificate was seen" {
					continue
				}
				got = append(got, f.ID)
				if !strings.Contains(f.Message, path+" is forbidden") {
					t.Errorf("%s does not have the API server's message: %s", f.ID, f.Message)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || preflight.Passed(findings) {
				t.Errorf("not checked (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("metrics", func(t *testing.T) {
		t.Parallel()
		o := look(t, newAPI(nil).ServeHTTP)
		o.Requested = func(context.Context) ([]gate.API, error) { return nil, errors.New("forbidden") }
		if got := outcomes(run(t, o))[preflight.RemovedAPIsRequested]; got != clustercheck.NotChecked {
			t.Errorf("RemovedAPIsRequested is %s", got)
		}
	})
}

// TestPreflightFix: a kind that the API server does not serve, and one that cannot answer for now,
// are no questions of rights.
func TestPreflightFix(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"no such kind": {http.NotFound, "a CustomResourceDefinition or an APIService"},
		"away": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "etcd is starting", http.StatusServiceUnavailable)
		}, "wait until the API server answers"},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, "forbidden")
		}, "let the user of the Cluster's kubeconfig read this"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const path = "/apis/policy/v1/poddisruptionbudgets"
			all := newAPI(nil)
			found := 0
			for _, f := range run(t, look(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == path {
					test.answer(w, r)
					return
				}
				all.ServeHTTP(w, r)
			})) {
				if f.ID != preflight.BudgetsCanBeSatisfied {
					continue
				}
				found++
				if f.Outcome != clustercheck.NotChecked || !strings.Contains(f.Fix, test.want) {
					t.Errorf("%s: %s. Fix: %s, want %s", f.Outcome, f.Message, f.Fix, test.want)
				}
			}
			if found != 1 {
				t.Errorf("%d findings", found)
			}
		})
	}
}

// TestLargeCluster holds that Pods are read once, in pages, and that a list without end is given up.
func TestLargeCluster(t *testing.T) {
	t.Parallel()
	list := func(n int) string {
		return strings.Repeat(`{"metadata": {"namespace": "ns", "name": "p"}},`, n-1) + "{}"
	}
	for name, tt := range map[string]struct {
		pages    int
		pods     string
		requests int
		want     clustercheck.Outcome
	}{
		"20,000 Pods": {100, list(200), 100, clustercheck.Passed},
		// A server need not obey the limit of a page.
		"endless": {1 << 20, list(2000), 101, clustercheck.NotChecked},
		"heavy":   {1 << 20, `{"metadata": {"labels": {"a": "` + strings.Repeat("x", 15<<20) + `"}}}`, 9, clustercheck.NotChecked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPI(func(answers map[string]string) { delete(answers, "/api/v1/pods") })
			server.pages, server.pods = tt.pages, tt.pods
			o := look(t, server.ServeHTTP)
			o.Timeout = time.Minute
			if got := outcomes(run(t, o))[preflight.BudgetsOverlap]; got != tt.want {
				t.Errorf("BudgetsOverlap is %s, want %s", got, tt.want)
			}
			if n := server.requests["/api/v1/pods"]; n != tt.requests {
				t.Errorf("%d requests for Pods, want %d", n, tt.requests)
			}
		})
	}
}

// TestManagedFields holds that only kinds which lose a version are read, by their metadata.
func TestManagedFields(t *testing.T) {
	t.Parallel()
	const group = "flowcontrol.apiserver.k8s.io"
	server := newAPI(func(answers map[string]string) {
		answers["/apis"] = `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [
			{"name": "` + group + `", "versions": [{"groupVersion": "` + group + `/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "` + group + `/v1", "version": "v1"}},
			{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]}`
		answers["/apis/"+group+"/v1"] = `{"kind": "APIResourceList", "groupVersion": "` + group + `/v1", "resources": [
			{"name": "flowschemas", "kind": "FlowSchema", "verbs": ["list"]}, {"name": "flowschemas/status", "kind": "FlowSchema", "verbs": ["get"]}]}`
		answers["/apis/apps/v1"] = `{"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment", "verbs": ["list"]}]}`
		answers["/apis/"+group+"/v1/flowschemas"] = `{"metadata": {}, "items": [{"metadata": {"name": "fs", "managedFields": [
			{"manager": "helm", "apiVersion": "` + group + `/v1beta3", "time": "2026-01-02T03:04:05Z"}, {"manager": "new", "apiVersion": "` + group + `/v1"}]}}]}`
	})
	var accept string
	o := look(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/flowschemas") {
			accept = r.Header.Get("Accept")
		}
		server.ServeHTTP(w, r)
	})
	o.Upgrade = preflight.Upgrade{From: version.MustParse("v1.31.4"), To: version.MustParse("v1.32.0")}
	findings := run(t, o)
	at := slices.IndexFunc(findings, func(f clustercheck.Finding) bool { return f.ID == preflight.RemovedAPIsManaged })
	if f := findings[at]; f.Outcome != clustercheck.Warned || f.Subject != group+"/v1beta3 FlowSchema, manager helm" {
		t.Errorf("got %+v", f)
	}
	if !strings.Contains(accept, "as=PartialObjectMetadataList") {
		t.Errorf("whole objects are read: Accept is %q", accept)
	}
	if server.requests["/apis/apps/v1/deployments"] > 0 {
		t.Error("Deployments are read, which lose no version")
	}
}

// TestWebhookBackends holds what is read of a webhook that an upgrade calls: its Service and endpoints. Nothing is read of
// others.
func TestWebhookBackends(t *testing.T) {
	t.Parallel()
	server := newAPI(func(answers map[string]string) {
		webhook := func(service string, policy string) string {
			return `{"name": "` + service + `.example.com", "failurePolicy": "` + policy + `", "clientConfig": {"service": {"namespace": "ops", "name": "` + service + `"}},
				"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"]}]}`
		}
		answers["/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"] =
			`{"metadata": {}, "items": [{"metadata": {"name": "c"}, "webhooks": [` + webhook("one", "Fail") + "," + webhook("gone", "Fail") + "," + webhook("soft", "Ignore") + `]}]}`
		answers["/api/v1/namespaces/ops"] = `{"metadata": {"name": "ops"}}`
		answers["/api/v1/namespaces/ops/services/one"] = `{"metadata": {"name": "one"}}`
		answers["/apis/discovery.k8s.io/v1/namespaces/ops/endpointslices"] = `{"metadata": {}, "items": [
			{"endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "n", "targetRef": {"kind": "Pod", "name": "p"}}, {"addresses": ["10.0.0.2"], "conditions": {"ready": false}}]},
			{"endpoints": [{"addresses": ["fd00::1"], "nodeName": "n", "targetRef": {"kind": "Pod", "name": "p"}}]}]}`
	})
	missing := map[string]bool{}
	findings := run(t, look(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/ops/services/gone" {
			missing["gone"] = true
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			status := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
			_ = json.NewEncoder(w).Encode(status) // The caller may be gone.
			return
		}
		server.ServeHTTP(w, r)
	}))
	var got []string
	for _, f := range findings {
		if f.ID == preflight.WebhookBackends {
			got = append(got, f.Message)
		}
	}
	const refuses = "; its failurePolicy is Fail, so the API server then refuses " +
		"Pods of the system on new Nodes, deletions of evicted Pods, Pods that replace evicted ones"
	want := []string{
		"Service ops/gone does not exist" + refuses,
		"Service ops/one has 1 endpoint, on one Node, and it must admit its own Pods: when this Node is drained, nothing brings it back" + refuses,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if server.requests["/api/v1/namespaces/ops/services/soft"] > 0 {
		t.Error("the backend of a webhook with failurePolicy Ignore is read")
	}
}

// TestKindsOfWebhooks holds that validating and mutating webhooks are read alike.
func TestKindsOfWebhooks(t *testing.T) {
	t.Parallel()
	const list = `{"items": [{"metadata": {"name": "c"}, "webhooks": [
		{"name": "exempt", "clientConfig": {"url": "https://x"},
		 "namespaceSelector": {"matchLabels": {"a": "b"}},
		 "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}]},
		{"name": "old", "clientConfig": {"url": "https://x"}, "matchPolicy": "Exact",
		 "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v0"], "resources": ["nodes"]}]},
		{"name": "object", "clientConfig": {"url": "https://x"}, "objectSelector": {"matchLabels": {"a": "b"}},
		 "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"]}]},
		{"name": "condition", "clientConfig": {"url": "https://x"}, "matchConditions": [{"name": "c", "expression": "true"}],
		 "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"]}]}
	]}]}`
	const refuses = "it is called by a URL, which is not checked; its failurePolicy is Fail, so the API server then " +
		"refuses updates of Nodes, new Nodes, deletions of Nodes " +
		"(as far as its objectSelector and matchConditions select them, which is not evaluated)"
	for _, kind := range []string{"Validating", "Mutating"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			path := "/apis/admissionregistration.k8s.io/v1/" + strings.ToLower(kind) + "webhookconfigurations"
			server := newAPI(func(answers map[string]string) { answers[path] = list })
			got := map[string]string{}
			for _, f := range run(t, look(t, server.ServeHTTP)) {
				if f.ID == preflight.WebhookBackends {
					got[f.Subject] = f.Message
				}
			}
			subject := kind + "WebhookConfiguration c, webhook "
			want := map[string]string{subject + "object": refuses, subject + "condition": refuses}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBundles holds which CAs of webhooks count: of each bundle the one that expires last, and none of a webhook that need
// not answer.
func TestBundles(t *testing.T) {
	t.Parallel()
	authority := loopback.NewAuthority(t, "test")
	now := time.Now()
	old, next := authority.Issue(t, "old", now.Add(time.Hour)).Certificate, authority.Issue(t, "new", now.Add(300*24*time.Hour)).Certificate
	for name, tt := range map[string]struct {
		policy string
		bundle []byte
		want   clustercheck.Outcome
	}{
		"rotated":                   {"Fail", slices.Concat(old, next), clustercheck.Passed},
		"expires":                   {"Fail", old, clustercheck.Failed},
		"of one that may be silent": {"Ignore", old, clustercheck.NotChecked},
		"garbled":                   {"Fail", []byte("no PEM"), clustercheck.NotChecked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := look(t, newAPI(func(answers map[string]string) {
				answers["/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"] = `{"items": [{"metadata": {"name": "c"}, "webhooks": [{"name": "w", "failurePolicy": "` +
					tt.policy + `", "clientConfig": {"url": "https://x", "caBundle": "` + base64.StdEncoding.EncodeToString(tt.bundle) + `"}}]}]}`
			}).ServeHTTP)
			o.CertificateDays = 30
			if got := outcomes(run(t, o))[clustercheck.Certificates]; got != tt.want {
				t.Errorf("Certificates is %s, want %s", got, tt.want)
			}
		})
	}
}

// TestUnreachablePreflight holds that only manifests, and what the management cluster shows to be wrong, are
// judged where the API server is not reached, and each check is reported once.
func TestUnreachablePreflight(t *testing.T) {
	t.Parallel()
	o := look(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	manifests := func(id clustercheck.ID) bool { return id == preflight.RemovedAPIsInManifests }
	without := slices.DeleteFunc(preflight.IDs(), manifests)
	conflict := func(id clustercheck.ID) bool { return id == preflight.UpdateExtensions }
	for name, tt := range map[string]struct {
		manifests []preflight.Manifest
		conflicts []doctor.Conflict
		want      []clustercheck.ID
	}{
		"without manifests": {want: without},
		"with manifests":    {manifests: []preflight.Manifest{}, want: append(slices.Clone(without), preflight.RemovedAPIsInManifests)},
		"two extensions": {
			conflicts: []doctor.Conflict{{Subject: "hook UpdateMachine", Message: "two"}},
			want:      append(slices.DeleteFunc(slices.Clone(without), conflict), preflight.UpdateExtensions),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Manifests, o.Extensions.Conflicts = tt.manifests, tt.conflicts
			var ids []clustercheck.ID
			for i, f := range run(t, o) {
				ids = append(ids, f.ID)
				want := clustercheck.NotChecked
				switch {
				case i == 0, conflict(f.ID) && tt.conflicts != nil:
					want = clustercheck.Failed
				case manifests(f.ID):
					want = clustercheck.Passed
				}
				if f.Outcome != want {
					t.Errorf("%s is %s, want %s", f.ID, f.Outcome, want)
				}
			}
			if diff := cmp.Diff(tt.want, ids); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHostileNames holds that what a workload cluster reports is one line of bounded length.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	name := `\u001b[2J\n\u202e` + strings.Repeat("x", 1<<16)
	findings := run(t, look(t, newAPI(func(answers map[string]string) {
		answers["/readyz"] = "[-]\x1b[2J" + strings.Repeat("y", 1<<12) + " failed\n[-]etcd\x1b[2J failed\n"
		answers["/apis/policy/v1/poddisruptionbudgets"] = `{"items": [{"metadata": {"namespace": "ns", "name": "` + name + `"}, "status": {"expectedPods": 1, "desiredHealthy": 1}}]}`
		answers["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = `{"items": [{"metadata": {"name": "` + name + `"}, "status": {"storedVersions": ["` + name + `"]}}]}`
		answers["/api/v1/nodes"] = `{"items": [{"metadata": {"name": "` + name + `"}, "status": {"nodeInfo": {"kubeletVersion": "` + name + `"}}}]}`
		answers["/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"] = `{"items": [{"metadata": {"name": "` + name + `"}, "webhooks": [{"name": "` + name +
			`", "clientConfig": {"service": {"namespace": "ops\u001b[2J", "name": "x"}}, "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}]}]}`
		answers["/api/v1/namespaces/ops\x1b[2J"] = `{"metadata": {"name": "ops"}}`
		answers["/api/v1/namespaces/ops\x1b[2J/services/x"] = `{"metadata": {"name": "x"}}`
		answers["/apis/discovery.k8s.io/v1/namespaces/ops\x1b[2J/endpointslices"] = emptyList
	}).ServeHTTP))
	for _, f := range findings {
		for _, said := range []string{f.Subject, f.Message, f.Fix} {
			if len(said) > 1<<12 || strings.ContainsAny(said, "\x1b\n\u202e") {
				t.Errorf("%s: %s has %d bytes: %.60q", f.ID, f.Outcome, len(said), said)
			}
		}
	}
	if got := outcomes(findings); got[preflight.WebhookBackends] != clustercheck.Failed || got[preflight.BudgetsCanBeSatisfied] != clustercheck.Failed {
		t.Errorf("got %v", got)
	}
}
