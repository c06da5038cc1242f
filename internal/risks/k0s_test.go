package risks_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/risks"
)

// TestPinnedImages: versions count, and nothing else of spec.images.
func TestPinnedImages(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ config, want string }{
		"what k0s v1.29 wrote": {`{spec: {
network: {nodeLocalLoadBalancing: {envoyProxy: {image: {image: e, version: v1.29.2}, imagePullPolicy: Never}}},
images: {default_pull_policy: Never, kubeproxy: {image: k, version: v1.29.4}, coredns: {image: c, version: 1.11.1},
  kuberouter: {cni: {image: r, version: v1.6.0}, cniInstaller: {image: i, version: 1.3.0-k0s.0}}}}}`,
			"spec.images names coredns 1.11.1, kubeproxy v1.29.4, kuberouter.cni v1.6.0, " +
				"kuberouter.cniInstaller 1.3.0-k0s.0, envoyProxy v1.29.2; default_pull_policy is Never, " +
				"so a machine whose bundle lacks one does not become ready"},
		"machines that pull":    {`{spec: {images: {repository: r, kubeproxy: {version: v1.29.4}}}}`, "spec.images names kubeproxy v1.29.4"},
		"the policy alone":      {`{spec: {images: {default_pull_policy: IfNotPresent}}}`, ""},
		"the policy Never":      {`{spec: {images: {default_pull_policy: Never}}}`, ""},
		"a repository alone":    {`{spec: {images: {repository: registry.example.com, kubeproxy: {image: k}}}}`, ""},
		"the image of Envoy":    {`{spec: {images: {default_pull_policy: Never}, network: {nodeLocalLoadBalancing: {envoyProxy: {image: {version: v1.37.2}}}}}}`, ""},
		"nothing of its form":   {`{spec: {images: {kubeproxy: v1.29.4, coredns: {version: 1}, calico: [a]}, network: a}}`, ""},
		"no images":             {`{spec: {telemetry: {enabled: false}}}`, ""},
		"nothing":               {`{}`, ""},
		"no fields in the spec": {`{spec: a}`, ""},
	} {
		var config map[string]any
		if err := yaml.Unmarshal([]byte(tt.config), &config); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, risks.PinnedImages(config)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
