package probe_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/version"
)

// missing is an answer of an API server that does not have the path.
const missing = "missing"

// TestFactsOfRisks holds which requests a risk on the way costs, and that each fact decides both ways:
// a cluster that is not concerned is not warned, and neither is one whose facts cannot be read.
func TestFactsOfRisks(t *testing.T) {
	t.Parallel()
	const (
		devices = "/apis/resource.k8s.io"
		classes = devices + "/v1/deviceclasses"
		claims  = devices + "/v1/resourceclaims"
		binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kubeadm:apiserver-kubelet-client"
		charts  = "/apis/helm.cattle.io/v1/namespaces/kube-system/"
		config  = charts + "helmchartconfigs/traefik"
		chart   = charts + "helmcharts/traefik"
		k0s     = "/apis/k0s.k0sproject.io/v1beta1/namespaces/kube-system/clusterconfigs/k0s"
		one     = `{"items": [{"metadata": {"name": "a"}}]}`
		served  = `{"preferredVersion": {"version": "v1"}}`
		pinned  = `{"spec": {"valuesContent": "image: {tag: 2.11.10}"}}`
	)
	pinnedHere := make(map[risks.ClusterFact]risks.Answer)
	pinnedHere[risks.K0sPinnedImages] = risks.Answer{Known: true, Holds: true}
	unbound := map[string]string{devices: missing, binding: missing}
	for name, tt := range map[string]struct {
		from, to, provider string
		answers            map[string]string
		warned             []string
		requests           map[string]int
		known              map[risks.ClusterFact]risks.Answer
	}{
		"no such risk": {from: "v1.31.4", to: "v1.32.0"},
		"no devices": {
			from: "v1.34.6", to: "v1.35.4", answers: map[string]string{devices: served, classes: emptyList, claims: emptyList},
			requests: map[string]int{devices: 1, classes: 1, claims: 1},
		},
		"a class": {
			from: "v1.34.6", to: "v1.35.4", answers: map[string]string{devices: served, classes: one},
			warned: []string{"dra-storage-v1"}, requests: map[string]int{devices: 1, classes: 1},
		},
		"a claim": {
			from: "v1.34.6", to: "v1.35.4", answers: map[string]string{devices: served, classes: emptyList, claims: one},
			warned: []string{"dra-storage-v1"}, requests: map[string]int{devices: 1, classes: 1, claims: 1},
		},
		"not served": {
			from: "v1.34.6", to: "v1.35.4", answers: map[string]string{devices: missing}, requests: map[string]int{devices: 1},
		},
		"no right to list": {
			from: "v1.34.6", to: "v1.35.4", answers: map[string]string{devices: served},
			requests: map[string]int{devices: 1, classes: 1},
		},
		"no right to get": {from: "v1.35.4", to: "v1.36.3", requests: map[string]int{binding: 1}},
		"bound":           {from: "v1.35.4", to: "v1.36.3", answers: map[string]string{binding: "{}"}, requests: map[string]int{binding: 1}},
		"not bound by an old provider": {
			from: "v1.35.4", to: "v1.36.3", provider: "v1.13.1", answers: unbound,
			warned: []string{"kubeadm-kubelet-client-binding"}, requests: map[string]int{binding: 1},
		},
		"not bound by a new provider": {from: "v1.35.4", to: "v1.36.3", provider: "v1.13.3", answers: unbound},
		"not bound by an unknown one": {from: "v1.35.4", to: "v1.36.3", answers: unbound, requests: map[string]int{binding: 1}},
		"Traefik 2": {
			from: "v1.31.9+k3s1", to: "v1.32.5+k3s1", answers: map[string]string{config: pinned, chart: "{}"},
			warned: []string{"rancher-132-traefik-3"}, requests: map[string]int{config: 1, chart: 1},
		},
		"Traefik 2 of a chart that is disabled": {
			from: "v1.31.9+k3s1", to: "v1.32.5+k3s1", answers: map[string]string{config: pinned, chart: missing},
			requests: map[string]int{config: 1, chart: 1},
		},
		"no HelmChartConfig": {
			from: "v1.31.9+k3s1", to: "v1.32.5+k3s1", answers: map[string]string{config: missing}, requests: map[string]int{config: 1},
		},
		"Traefik 3": {
			from: "v1.31.9+k3s1", to: "v1.32.5+k3s1", requests: map[string]int{config: 1},
			answers: map[string]string{config: `{"spec": {"valuesContent": "image: {tag: v3.3.6}"}}`},
		},
		"values that are no YAML": {
			from: "v1.31.9+k3s1", to: "v1.32.5+k3s1", requests: map[string]int{config: 1},
			answers: map[string]string{config: `{"spec": {"valuesContent": "a: [b"}}`},
		},
		"images pinned by k0s": {
			from: "v1.29.4+k0s.0", to: "v1.30.2+k0s.0", requests: map[string]int{k0s: 1}, warned: []string{"k0s-pinned-images"},
			answers: map[string]string{k0s: `{"spec": {"images": {"default_pull_policy": "Never", "kubeproxy": {"version": "v1.29.4"}}}}`},
		},
		"the pull policy of k0s alone": {
			from: "v1.34.6+k0s.0", to: "v1.35.4+k0s.0", requests: map[string]int{k0s: 1, devices: 1},
			answers: map[string]string{k0s: `{"spec": {"images": {"default_pull_policy": "IfNotPresent"}}}`, devices: missing},
		},
		"no dynamic configuration of k0s": {
			from: "v1.29.4+k0s.0", to: "v1.30.2+k0s.0", requests: map[string]int{k0s: 1}, answers: map[string]string{k0s: missing},
		},
		"no right to get that of k0s": {from: "v1.29.4+k0s.0", to: "v1.30.2+k0s.0", requests: map[string]int{k0s: 1}},
		"images pinned by the object": {
			from: "v1.29.4+k0s.0", to: "v1.30.2+k0s.0", warned: []string{"k0s-pinned-images"},
			known: pinnedHere,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPI(func(answers map[string]string) {
				for path, answer := range tt.answers {
					if answer != missing {
						answers[path] = answer
					}
				}
			})
			o := look(t, func(w http.ResponseWriter, r *http.Request) {
				isList := strings.HasPrefix(r.URL.Path, devices+"/v1/")
				if isList && r.URL.Query().Get("limit") != "1" {
					t.Errorf("%s reads more than one object", r.URL)
				}
				if tt.answers[r.URL.Path] != missing {
					server.ServeHTTP(w, r)
					return
				}
				server.mu.Lock()
				server.requests[r.URL.Path]++
				server.mu.Unlock()
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				status := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
				_ = json.NewEncoder(w).Encode(status) // The caller may be gone.
			})
			o.Upgrade = preflight.Upgrade{From: version.MustParse(tt.from), To: version.MustParse(tt.to)}
			o.Risks.Facts.Cluster = tt.known
			o.Risks.Steps = []risks.Step{{From: o.Upgrade.From, To: o.Upgrade.To}}
			if tt.provider != "" {
				o.KubeadmProvider = version.MustParse(tt.provider)
			}
			var warned []string
			for _, f := range run(t, o) {
				facts := []string{"dra-storage-v1", "kubeadm-kubelet-client-binding", "rancher-132-traefik-3", "k0s-pinned-images"}
				for _, id := range facts {
					if f.ID == preflight.KnownRisks && f.Outcome == clustercheck.Warned && f.Subject == id {
						warned = append(warned, id)
					}
				}
			}
			if diff := cmp.Diff(tt.warned, warned); diff != "" {
				t.Errorf("warned (-want +got):\n%s", diff)
			}
			asked := map[string]int{}
			for path, n := range server.requests {
				if strings.HasPrefix(path, devices) || path == binding || path == k0s || strings.HasPrefix(path, charts) {
					asked[path] = n
				}
			}
			if tt.requests == nil {
				tt.requests = map[string]int{}
			}
			if diff := cmp.Diff(tt.requests, asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKnownRisks: the oldest etcd that runs counts, by the tags of its Pods, and without them what the version brings.
func TestKnownRisks(t *testing.T) {
	t.Parallel()
	pod := func(image string) string {
		return fmt.Sprintf(`{"metadata": {"name": "etcd", "namespace": "kube-system", "labels": {"component": "etcd", "tier": "control-plane"}},
			"spec": {"containers": [{"name": "etcd", "image": %q}]}}`, image)
	}
	for name, tt := range map[string]struct{ pods, want string }{
		"safe":            {pod("registry.k8s.io/etcd:3.5.26-0") + "," + pod("localhost:5000/etcd:v3.5.27"), ""},
		"one is older":    {pod("registry.k8s.io/etcd:3.5.26-0") + "," + pod("registry.k8s.io/etcd:3.5.21-0"), "(etcd v3.5.21 -> v3.6.5)"},
		"RKE2's image":    {pod("index.docker.io/rancher/hardened-etcd:v3.5.26-k3s1-build20260101"), ""},
		"with a digest":   {pod("registry.k8s.io/etcd:3.5.26-0@sha256:abc"), ""},
		"no tag":          {pod("registry.k8s.io/etcd@sha256:abc"), "(etcd v3.5.24 -> v3.6.5)"},
		"one without tag": {pod("registry.k8s.io/etcd:3.5.26-0") + "," + pod("localhost:5000/etcd"), "(etcd v3.5.24 -> v3.6.5)"},
		"no Pod of etcd":  {"", "(etcd v3.5.24 -> v3.6.5)"},
	} {
		o := look(t, newAPI(func(answers map[string]string) {
			answers["/api/v1/pods"] = `{"metadata": {}, "items": [` + tt.pods + `]}`
		}).ServeHTTP)
		from, to := version.MustParse("v1.33.7"), version.MustParse("v1.34.5")
		o.Upgrade = preflight.Upgrade{From: from, To: to}
		o.Risks.Steps = []risks.Step{{From: from, To: to}}
		got := ""
		for _, f := range run(t, o) {
			if f.ID == preflight.KnownRisks && f.Subject == "etcd-36-zombie-members" {
				got = f.Message
			}
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
