//go:build linux

package controllers

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

// TestHostNotMade: the condition of a HostMachine says why its host could not be made.
func TestHostNotMade(t *testing.T) {
	rented := site.New(func(string, string) (hosts.Options, error) {
		return hosts.Options{}, errors.New("no programs of v1.99.0")
	})
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- rented.Serve(listener) }()
	t.Cleanup(func() {
		_ = listener.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	data := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
		Data:       map[string][]byte{"value": []byte("#cloud-config\n")},
	}
	s := &machineScope{
		hostMachine: &v1alpha1.HostMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m", UID: "1"},
		},
		machine: &clusterv1.Machine{}, cluster: &clusterv1.Cluster{},
	}
	s.machine.Spec.Version, s.machine.Spec.Bootstrap.DataSecretName = "v1.99.0", &data.Name
	s.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	r := &machineReconciler{
		client: fake.NewClientBuilder().WithObjects(data).Build(), site: site.NewClient(socket),
	}
	if err := r.provide(t.Context(), s); err == nil {
		t.Error("a host that cannot be made is no error")
	}
	ready := conditions.Get(s.hostMachine, clusterv1.ReadyCondition)
	if ready == nil || ready.Reason != v1alpha1.HostNotMadeReason ||
		!strings.Contains(ready.Message, "no programs of v1.99.0") {
		t.Errorf("the condition is %+v", ready)
	}
}
