package topology_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestReadCurrentWithoutTemplates reads a MachineDeployment whose templates went before it.
func TestReadCurrentWithoutTemplates(t *testing.T) {
	w := steady(t, fixture("full"))
	blueprint, current := w.read()
	md := current.MachineDeployments["a"]
	for _, object := range []client.Object{md.BootstrapTemplate, md.InfrastructureMachineTemplate} {
		if err := w.Inner.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if _, current = w.read(); current.MachineDeployments["a"].BootstrapTemplate != nil ||
		current.MachineDeployments["a"].InfrastructureMachineTemplate != nil {
		t.Error("templates of a MachineDeployment that stays were read, and are gone")
	}
	w.update(md.Object, func() { md.Object.Finalizers = []string{"cluster.x-k8s.io/machinedeployment"} })
	if err := w.Inner.Delete(t.Context(), md.Object); err != nil {
		t.Fatal(err)
	}
	_, current = w.read()
	if state := current.MachineDeployments["a"]; state.BootstrapTemplate != nil || state.InfrastructureMachineTemplate != nil || state.MachineHealthCheck == nil {
		t.Errorf("state %+v", state)
	}
	w.again()
	duplicate := current.MachineDeployments["b"].Object.DeepCopy()
	duplicate.ObjectMeta = metav1.ObjectMeta{Name: "copy", Namespace: duplicate.Namespace, Labels: duplicate.Labels}
	if err := w.Inner.Create(t.Context(), duplicate); err != nil {
		t.Fatal(err)
	}
	if _, err := w.objects.ReadCurrent(t.Context(), current.Cluster, blueprint); err == nil || !strings.Contains(err.Error(), "second object") {
		t.Errorf("two MachineDeployments of one name: %v", err)
	}
}
