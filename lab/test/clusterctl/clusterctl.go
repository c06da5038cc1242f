// Package clusterctl runs clusterctl as a library, between planes of tests.
package clusterctl

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctlclient "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// Move is `clusterctl move` of a namespace. It blocks for as long as objects block the move, for
// six minutes at most.
func Move(t *testing.T, from, to *wire.Plane, namespace string) error {
	t.Helper()
	label(t, from)
	settings, err := config.New(t.Context(), "", config.InjectReader(config.NewMemoryReader()))
	if err != nil {
		return err
	}
	c, err := clusterctlclient.New(t.Context(), "", clusterctlclient.InjectConfig(settings))
	if err != nil {
		return err
	}
	return c.Move(t.Context(), clusterctlclient.MoveOptions{
		FromKubeconfig: clusterctlclient.Kubeconfig{Path: from.Kubeconfig}, ToKubeconfig: clusterctlclient.Kubeconfig{Path: to.Kubeconfig},
		Namespace: namespace,
	})
}

// label does what `clusterctl init` does to the CustomResourceDefinitions of Cluster API, by which
// a move finds its kinds. Those of Windlass must have their labels without it.
func label(t *testing.T, plane *wire.Plane) {
	t.Helper()
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := plane.Client.List(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata": {"labels": {"` + v1alpha3.ClusterctlLabel + `": ""}}}`)
	for i := range crds.Items {
		crd := &crds.Items[i]
		if !strings.HasSuffix(crd.Spec.Group, "cluster.x-k8s.io") {
			continue
		}
		if err := plane.Client.Patch(t.Context(), crd, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
}
