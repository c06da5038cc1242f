package extensioncmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/app"
)

// TestSlim keeps in the cache what maxInFlight and canary are counted by, and what asks for upgrades in place.
func TestSlim(t *testing.T) {
	t.Parallel()
	slim := slim(app.InPlaceUpgrades{Prefix: "example.com/upgrade-"})
	object := func(kind string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind))
		o.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
		o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		o.Annotations = map[string]string{
			v1alpha1.UpdateProgressAnnotation: "{}", v1alpha1.LastUpdateAnnotation: "{}", clusterv1.UpdateInProgressAnnotation: "", v1alpha1.InPlaceUpgradeAnnotation: "{}", "example.com/upgrade-to": "revision=1", "other": "long",
		}
		return o
	}
	for kind, annotations := range map[string]map[string]string{
		"Machine":                  {v1alpha1.UpdateProgressAnnotation: "{}", v1alpha1.LastUpdateAnnotation: "{}", clusterv1.UpdateInProgressAnnotation: "", v1alpha1.InPlaceUpgradeAnnotation: "{}", "example.com/upgrade-to": "revision=1"},
		"CustomResourceDefinition": nil,
		"Cluster": {
			v1alpha1.UpdateProgressAnnotation: "{}", v1alpha1.LastUpdateAnnotation: "{}", clusterv1.UpdateInProgressAnnotation: "", v1alpha1.InPlaceUpgradeAnnotation: "{}", "example.com/upgrade-to": "revision=1", "other": "long",
		},
	} {
		want := object(kind)
		want.ManagedFields, want.Annotations = nil, annotations
		got, err := slim(object(kind))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(want), got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", kind, diff)
		}
	}
	if got, err := slim("no object"); got != "no object" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSlimWhole keeps of whole Machines what groups decide by, and nothing that is long.
func TestSlimWhole(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{}
	m.Name, m.ResourceVersion, m.Labels = "m", "5", map[string]string{clusterv1.ClusterNameLabel: "c"}
	m.Annotations = map[string]string{clusterv1.PausedAnnotation: "", v1alpha1.InPlaceUpgradeAnnotation: "{}", "example.com/upgrade-to": "revision=1"}
	m.Spec.ClusterName, m.Spec.Version, m.Status.NodeRef.Name = "c", "v1.30.2", "n"
	m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.30.2"}
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue}}
	whole := m.DeepCopy()
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	whole.Annotations["other"] = "long"
	whole.Spec.ProviderID, whole.Status.NodeInfo.BootID = "x://1", "b"
	whole.Status.Addresses = clusterv1.MachineAddresses{{Address: "1.2.3.4"}}
	whole.Status.Conditions = append(whole.Status.Conditions, metav1.Condition{Type: clusterv1.MachineInfrastructureReadyCondition})
	got, err := slim(app.InPlaceUpgrades{Prefix: "example.com/upgrade-"})(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(m), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
