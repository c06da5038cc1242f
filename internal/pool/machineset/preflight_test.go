package machineset

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
)

// TestPreflightOfRemediation: the checks are about the version of the Machine that takes the place of
// a remediated one. In a kept group that is not the version of the old MachineSet, which the control
// plane has left behind.
func TestPreflightOfRemediation(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy            policy.Policy
		revision, version string
		want              bool
	}{
		"kept":                              {policy.Policy{Guarded: true}, "2", "v1.36.0", true},
		"kept, and the template is too old": {policy.Policy{Guarded: true}, "2", "v1.33.1", false},
		"not kept":                          {policy.Policy{}, "1", "v1.36.0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			remediates(w)
			w.belongs()
			w.Put(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "TestControlPlane",
				"metadata": map[string]any{"name": "cp", "namespace": namespace},
				"spec":     map[string]any{"version": "v1.37.0"},
			}})
			edit(w, get(w, "c", &clusterv1.Cluster{}), func(c *clusterv1.Cluster) {
				c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
					APIGroup: "controlplane.cluster.x-k8s.io", Kind: "TestControlPlane", Name: "cp",
				}
			})
			md := get(w, "d", &clusterv1.MachineDeployment{})
			edit(w, md, func(md *clusterv1.MachineDeployment) {
				md.Annotations = map[string]string{clusterv1.RevisionAnnotation: tt.revision}
				md.Spec.Replicas = new(int32(1))
				md.Spec.Template = *w.set("a").Spec.Template.DeepCopy()
				md.Spec.Template.Spec.Version = tt.version
			})
			edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
				s.Annotations = with(s.Annotations, v1alpha1.NoUpdateAnnotation, "NotCovered")
				s.Annotations = with(s.Annotations, clusterv1.RevisionAnnotation, "1")
				s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md, capi.MachineDeploymentKind)}
			})
			w.Take()
			w.r.PreflightChecks = sets.New(clusterv1.MachineSetPreflightCheckKubernetesVersionSkew)
			w.r.Policies = policies(tt.policy, nil)
			if got := slices.Contains(w.settle("a"), "delete Machine"); got != tt.want {
				t.Errorf("the Machine is deleted: %v, want %v", got, tt.want)
			}
		})
	}
}
