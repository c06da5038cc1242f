package contract

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/internal/capi"
)

func TestFetchOwner(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	controlledBy := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, Controller: new(true)}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "md-a-x", OwnerReferences: controlledBy("MachineDeployment", "md-a"),
	}}).Build()
	for name, test := range map[string]struct {
		machine metav1.ObjectMeta
		want    capi.Owner
		ok      bool
	}{
		"with its label":      {metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineDeploymentNameLabel: "md-b"}}, capi.MachineDeployment("ns", "md-b"), true},
		"its label is gone":   {metav1.ObjectMeta{OwnerReferences: controlledBy("MachineSet", "md-a-x")}, capi.MachineDeployment("ns", "md-a"), true},
		"a Machine by itself": {},
		"a MachineSet is gone": {metav1.ObjectMeta{OwnerReferences: controlledBy("MachineSet", "gone")}, capi.Owner{
			GroupVersionKind: capi.MachineSetKind, NamespacedName: types.NamespacedName{Namespace: "ns", Name: "gone"},
		}, true},
	} {
		test.machine.Namespace = "ns"
		got, ok, err := FetchOwner(t.Context(), c, &test.machine)
		if diff := cmp.Diff(test.want, got); err != nil || ok != test.ok || diff != "" {
			t.Errorf("%s: %t, %v (-want +got):\n%s", name, ok, err, diff)
		}
	}
	failing := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("away")
		},
	})
	unlabelled := &metav1.ObjectMeta{Namespace: "ns", OwnerReferences: controlledBy("MachineSet", "md-a-x")}
	if _, _, err := FetchOwner(t.Context(), failing, unlabelled); err == nil || !strings.Contains(err.Error(), "reading MachineSet md-a-x: away") {
		t.Errorf("%v, want the error of the MachineSet", err)
	}
}
