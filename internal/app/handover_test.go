package app

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestHandOverIsOfferedTheGroup opens a hand-over Updater, and holds that its implementer is offered the live Machines of the
// group in one request, and that it chooses their order.
func TestHandOverIsOfferedTheGroup(t *testing.T) {
	t.Parallel()
	var offered []updatesv1.HandOverRequest
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := updatesv1.HandOverRequest{}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		offered = append(offered, request)
		_ = json.NewEncoder(w).Encode(updatesv1.HandOverResponse{ // The caller may be gone.
			APIVersion: updatesv1.APIVersion, Kind: updatesv1.HandOverResponseKind, Accepted: true,
		})
	}))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for name, set := range map[string]string{"m-0": "set", "m-1": "set", "m-2": "another"} {
		builder = builder.WithObjects(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: porttest.UpdaterCluster},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: set, UID: types.UID(set), Controller: new(true),
			}},
		}})
	}
	pool := newUpdaterPool(builder.Build(), "")
	opened, err := pool.Open(t.Context(), &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "u"}, Spec: v1alpha1.UpdaterSpec{
		Remote: &v1alpha1.RemoteUpdater{
			Protocol: v1alpha1.HandOverProtocol, URL: server.URL,
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	chooser, ok := opened.(port.Chooser)
	if !ok {
		t.Fatalf("the updater is a %T, which chooses no order", opened)
	}
	set := types.NamespacedName{Namespace: "ns", Name: "set"}
	if _, err := chooser.CanUpdateMachineSet(t.Context(), porttest.CanUpdateMachineSet(set, porttest.UpdaterFrom, porttest.UpdaterTo)); err != nil {
		t.Fatal(err)
	}
	names := func(names ...string) (found []updatesv1.ObjectName) {
		for _, name := range names {
			found = append(found, updatesv1.ObjectName{Namespace: "ns", Name: name})
		}
		return found
	}
	if len(offered) != 1 {
		t.Fatalf("there were %d requests", len(offered))
	}
	if diff := cmp.Diff(names("m-0", "m-1"), offered[0].Machines); diff != "" {
		t.Errorf("the machines (-want +got)\n%s", diff)
	}
	// The MachineSet has no MachineDeployment, so the Machines of another one are not of its group.
	if diff := cmp.Diff(names("m-0", "m-1"), offered[0].Group); diff != "" {
		t.Errorf("the group (-want +got)\n%s", diff)
	}
}

// TestHandOverNamesTheControlPlane holds that an offer of a control plane machine names the object that
// controls the live Machine.
func TestHandOverNamesTheControlPlane(t *testing.T) {
	t.Parallel()
	offered := make(chan updatesv1.HandOverRequest, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := updatesv1.HandOverRequest{}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		offered <- request
		_ = json.NewEncoder(w).Encode(updatesv1.HandOverResponse{ // The caller may be gone.
			APIVersion: updatesv1.APIVersion, Kind: updatesv1.HandOverResponseKind, Accepted: true,
		})
	}))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	const apiVersion, kind = "controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "cp-0", Labels: map[string]string{
			clusterv1.ClusterNameLabel: porttest.UpdaterCluster, clusterv1.MachineControlPlaneLabel: "",
		},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "cp", UID: "cp", Controller: new(true)}},
	}}).Build()
	opened, err := newUpdaterPool(live, "").Open(t.Context(), &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "u"}, Spec: v1alpha1.UpdaterSpec{
		Remote: &v1alpha1.RemoteUpdater{
			Protocol: v1alpha1.HandOverProtocol, URL: server.URL,
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	name := types.NamespacedName{Namespace: "ns", Name: "cp-0"}
	if _, err := opened.CanUpdateMachine(t.Context(), porttest.CanUpdateMachine(name, porttest.UpdaterFrom, porttest.UpdaterTo)); err != nil {
		t.Fatal(err)
	}
	want := updatesv1.Owner{APIVersion: apiVersion, Kind: kind, Namespace: "ns", Name: "cp"}
	if diff := cmp.Diff(want, (<-offered).Owner); diff != "" {
		t.Errorf("the owner (-want +got)\n%s", diff)
	}
}
