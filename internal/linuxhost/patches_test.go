package linuxhost

import (
	"strings"
	"testing"
)

// TestPatchOfCoreDNS: a control plane host gets a patch of CoreDNS only if a prefix names the file. A
// worker's kubeadm applies none.
func TestPatchOfCoreDNS(t *testing.T) {
	t.Parallel()
	const folder, patch = "/etc/kubernetes/p", "/etc/kubernetes/p/corednsdeployment.yaml"
	for name, tt := range map[string]struct {
		prefixes     []string
		controlPlane bool
		refused      bool
	}{
		"a control plane":          {controlPlane: true, refused: true},
		"a control plane, allowed": {prefixes: []string{patch}, controlPlane: true},
		"a worker":                 {},
	} {
		goal := Goal{
			PatchesFolder: folder, Prefixes: tt.prefixes,
			Files: []File{{Path: patch, Content: []byte("spec: {template: {spec: {hostPID: true}}}")}},
		}
		failure, err := checkEffects(t.Context(), goal, Facts{ControlPlane: tt.controlPlane})
		if err != nil || (failure != nil) != tt.refused {
			t.Errorf("%s: %v, %v", name, failure, err)
		}
		if failure != nil && (failure.Reason != FileRefused || !strings.Contains(failure.Message, "CoreDNS")) {
			t.Errorf("%s: the failure is %v", name, failure)
		}
	}
}
