package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
)

// TestSource: a HostMachine that no pool owns cannot name a Secret for the provider to read.
func TestSource(t *testing.T) {
	pooled := v1alpha1.PoolMember{Version: "v1.36.3", DataSecretName: "of-the-pool"}
	own := v1alpha1.PoolMember{Version: "v1.35.4", DataSecretName: "of-the-machine"}
	for name, test := range map[string]struct {
		owner metav1.OwnerReference
		want  v1alpha1.PoolMember
	}{
		"a pool": {metav1.OwnerReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "HostMachinePool",
		}, pooled},
		"a pool of another group": {metav1.OwnerReference{
			APIVersion: "x/v1", Kind: "HostMachinePool",
		}, own},
		"a Machine": {metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine",
		}, own},
	} {
		t.Run(name, func(t *testing.T) {
			s := &machineScope{hostMachine: &v1alpha1.HostMachine{}, machine: &clusterv1.Machine{}}
			s.hostMachine.OwnerReferences = []metav1.OwnerReference{test.owner}
			s.hostMachine.Spec.Pool = &pooled
			s.machine.Spec.Version = own.Version
			s.machine.Spec.Bootstrap.DataSecretName = &own.DataSecretName
			if diff := cmp.Diff(test.want, s.source()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
