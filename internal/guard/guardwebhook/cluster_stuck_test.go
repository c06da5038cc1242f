package guardwebhook_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
	"github.com/windlass-dev/windlass/internal/policy"
)

const kubeadmGroup = "controlplane.cluster.x-k8s.io"

// TestStuck: a change of the version is refused if the control plane could only be stuck on its way there, and no other one.
func TestStuck(t *testing.T) {
	const why = "KubeadmControlPlane c-cp would be stuck: UpdatePolicy keep keeps its machines, but with maxSurge 1 Cluster API creates a machine"
	for name, tt := range map[string]struct {
		// machines are the versions of the control plane's Machines.
		machines            []string
		replicas, surge     int64
		target, has         string
		policy              func(*v1alpha1.UpdatePolicy)
		change              func(before, after *clusterv1.Cluster)
		unread              error
		without, mayReplace bool
		want                string
	}{
		"one machine":              {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, want: why + " beyond replicas 1"},
		"two machines":             {machines: []string{"v1.31.2", "v1.31.2"}, replicas: 2, surge: 1, want: why + " beyond replicas 2"},
		"three, maxSurge 1":        {machines: []string{"v1.31.2", "v1.31.2", "v1.31.2"}, replicas: 3, surge: 1, want: "Fix: set maxSurge 0"},
		"three, maxSurge 0":        {machines: []string{"v1.31.2", "v1.31.2", "v1.31.2"}, replicas: 3},
		"one may be replaced":      {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, mayReplace: true},
		"machines may be replaced": {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, policy: func(p *v1alpha1.UpdatePolicy) { p.Spec.Fallback = v1alpha1.FallbackRollingUpdate }},
		"another Cluster's policy": {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, policy: func(p *v1alpha1.UpdatePolicy) { p.Spec.Targets[0].ClusterName = "other" }},
		"workers' policy": {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, policy: func(p *v1alpha1.UpdatePolicy) {
			p.Spec.Targets[0].MachineDeployments = []v1alpha1.MachineDeploymentName{"md"}
		}},
		"no policies":              {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, without: true},
		"no machine yet":           {replicas: 1, surge: 1},
		"back to its machines":     {machines: []string{"v1.32.3"}, replicas: 1, surge: 1},
		"the control plane has it": {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, target: "v1.33.0", has: "v1.32.3"},
		"switched off": {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, change: func(_, after *clusterv1.Cluster) {
			after.Annotations = map[string]string{clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation: ""}
		}},
		"scaled in the same request": {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, want: "beyond replicas 3", change: func(_, after *clusterv1.Cluster) {
			after.Spec.Topology.ControlPlane.Replicas = new(int32(3))
		}},
		"policies cannot be read": {machines: []string{"v1.31.2"}, replicas: 1, surge: 1, unread: errors.New("away"), want: "Internal error: away"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := cell{target: or(tt.target, "v1.31.2"), controlPlane: or(tt.has, "v1.31.2"), deployment: "-", pool: "-", versions: list}
			all := objects("c", runs)
			plane, _ := all[0].(*unstructured.Unstructured)
			plane.SetAPIVersion(kubeadmGroup + "/v1beta2")
			plane.SetKind("KubeadmControlPlane")
			spec, _ := plane.Object["spec"].(map[string]any)
			spec["replicas"] = tt.replicas
			spec["rollout"] = map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": tt.surge}}}
			for i, version := range tt.machines {
				m := &clusterv1.Machine{ObjectMeta: owned("c", "cp-"+string(rune('a'+i)), clusterv1.MachineControlPlaneLabel, "")}
				m.OwnerReferences = []metav1.OwnerReference{{APIVersion: kubeadmGroup + "/v1beta2", Kind: "KubeadmControlPlane", Name: "c-cp", UID: "cp", Controller: new(true)}}
				m.Spec.Version = version
				if tt.mayReplace {
					m.Annotations = map[string]string{v1alpha1.AllowReplacementAnnotation: ""}
				}
				all = append(all, m)
			}
			all = append(all, class("class", runs), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
				Name: "kubeadmcontrolplanes." + kubeadmGroup, Labels: map[string]string{clusterv1.GroupVersion.String(): "v1beta2"},
			}})
			before := cluster("c", runs)
			before.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: kubeadmGroup, Kind: "KubeadmControlPlane", Name: "c-cp"}
			after := before.DeepCopy()
			after.Spec.Topology.Version = "v1.32.3"
			if tt.change != nil {
				tt.change(before, after)
			}
			keep := v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keep"}, Spec: v1alpha1.UpdatePolicySpec{
				Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, Targets: []v1alpha1.UpdateTarget{{ClusterName: "c"}},
			}}
			if tt.policy != nil {
				tt.policy(&keep)
			}
			validator := &guardwebhook.Cluster{Client: newReader(all...)}
			if !tt.without {
				validator.Policies = func(_ context.Context, of string) (policy.Set, error) {
					if of != namespace {
						t.Errorf("policies of %q are read", of)
					}
					return policy.CompileAll([]v1alpha1.UpdatePolicy{keep}), tt.unread
				}
			}
			_, err := validator.ValidateUpdate(t.Context(), before, after)
			got := strings.Join(causes(err)[versionField], "\n")
			if tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("the answer is %v, want %q", err, tt.want)
			}
		})
	}
}
