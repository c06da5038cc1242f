package kubeadmpatch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/kubeadmpatch"
)

// TestIsForWorkers: of the files in the folder, a host without a control plane needs only patches of
// the kubelet's configuration.
func TestIsForWorkers(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for _, name := range []string{
		"README.md", "corednsdeployment.yaml", "etcd+json.json", "kube-apiserver.yaml",
		"kubeletconfiguration.yaml", "kubeletconfiguration1+merge.json", "kubelet.yaml",
	} {
		if kubeadmpatch.IsForWorkers(kubeadmpatch.Target(name)) {
			got[name] = true
		}
	}
	want := map[string]bool{
		"kubeletconfiguration.yaml": true, "kubeletconfiguration1+merge.json": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("for workers (-want +got):\n%s", diff)
	}
}
