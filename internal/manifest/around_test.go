package manifest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAround: what acts on machines besides the Cluster's own objects is read, and other Deployments are not,
// whatever their shape.
func TestAround(t *testing.T) {
	t.Parallel()
	type around struct {
		Extensions, Managers []string
		AutoscalersOff       bool
		Namespace            map[string]string
	}
	const cluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, namespace: ns}
`
	named := map[string]string{"kubernetes.io/metadata.name": "ns"}
	for name, tt := range map[string]struct {
		manifests string
		want      around
	}{
		"nothing": {want: around{Namespace: named}},
		"all": {`
---
apiVersion: v1
kind: Namespace
metadata: {name: ns, labels: {team: a}}
---
apiVersion: v1
kind: Namespace
metadata: {name: other, labels: {team: b}}
---
apiVersion: runtime.cluster.x-k8s.io/v1beta2
kind: ExtensionConfig
metadata: {name: hooks}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: capi-controller-manager, labels: {cluster.x-k8s.io/provider: cluster-api}}
spec: {template: {spec: {containers: [{name: manager, image: x}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: scaler, labels: {app: cluster-autoscaler}}
spec: {replicas: 0, template: {spec: {containers: [{name: scaler, image: x}]}}}
`, around{
			Extensions: []string{"hooks"}, Managers: []string{"capi-controller-manager"}, AutoscalersOff: true,
			Namespace: map[string]string{"team": "a", "kubernetes.io/metadata.name": "ns"},
		}},
		"an autoscaler that runs": {`
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: scaler, labels: {app.kubernetes.io/name: clusterapi-cluster-autoscaler}}
spec: {replicas: 1, template: {spec: {containers: [{name: scaler, image: x}]}}}
`, around{Namespace: named}},
		"none of ours": {`
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec: {replicas: "2"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {labels: 7}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a-patch, labels: {cluster.x-k8s.io/provider: cluster-api}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a-template, labels: {cluster.x-k8s.io/provider: cluster-api}}
spec: {template: {spec: {containers: [{name: manager, image: x, args: ["--feature-gates=RuntimeSDK=${EXP_RUNTIME_SDK:=false}"]}]}}}
---
apiVersion: runtime.cluster.x-k8s.io/v1alpha1
kind: ExtensionConfig
metadata: {name: old}
`, around{Namespace: named}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := decode(t, cluster+tt.manifests)
			facts, _, err := s.Facts(s.Clusters[0], time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			got := around{AutoscalersOff: facts.AutoscalersOff, Namespace: facts.NamespaceLabels}
			for _, e := range facts.Extensions {
				got.Extensions = append(got.Extensions, e.Name)
			}
			for _, d := range facts.Managers {
				got.Managers = append(got.Managers, d.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
