package management

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Provider names a provider as clusterctl records it.
type Provider struct{ Type, Name string }

// The providers that Cluster API itself releases.
var (
	CoreProvider    = Provider{Type: "CoreProvider", Name: "cluster-api"}
	KubeadmProvider = Provider{Type: "ControlPlaneProvider", Name: "kubeadm"}
)

// RKE2Provider is that of RKE2ControlPlane.
var RKE2Provider = Provider{Type: "ControlPlaneProvider", Name: "rke2"}

// ProviderVersion returns the oldest version of a provider by clusterctl's Provider objects, with
// one request. It is zero if there is none, if it cannot be read, or if nobody used clusterctl.
func (m Cluster) ProviderVersion(ctx context.Context, p Provider) (oldest version.Version) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Kind: "ProviderList",
	})
	if err := m.List(ctx, list, client.Limit(pageSize)); err != nil || list.GetContinue() != "" {
		return version.Version{} // Best effort: it is not known then.
	}
	for i := range list.Items {
		object := &list.Items[i]
		kind, _, _ := unstructured.NestedString(object.Object, "type")
		name, _, _ := unstructured.NestedString(object.Object, "providerName")
		if (Provider{kind, name}) != p {
			continue
		}
		v := capi.VersionAt(object, "version")
		if v.IsZero() {
			return v
		}
		if oldest.IsZero() || version.Compare(v, oldest) == version.Less {
			oldest = v
		}
	}
	return oldest
}
