package annotated

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/pkg/version"
)

func inplaceVersion(s string) version.Version { return version.MustParse(s) }

// typed is a MachineDeployment as its own type.
func typed(t *testing.T, u *unstructured.Unstructured) client.Object {
	t.Helper()
	md := &clusterv1.MachineDeployment{}
	if err := convert(u.Object, md); err != nil {
		t.Fatal(err)
	}
	return md
}
