package handover

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
)

// TestGroupByOwner: the Machines that an updater is told of are those of the owner's group, whatever
// labels the Machine or MachineSet has lost or got.
func TestGroupByOwner(t *testing.T) {
	t.Parallel()
	meta := func(name, kind, owner string, keys ...string) metav1.PartialObjectMetadata {
		group := clusterv1.GroupVersion.String()
		if kind == "KubeadmControlPlane" {
			group = "controlplane.cluster.x-k8s.io/v1beta2"
		}
		m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: kind, Name: owner, Controller: new(true)}},
		}}
		for _, key := range keys {
			m.Labels[key] = map[string]string{clusterv1.MachineDeploymentNameLabel: "md"}[key]
		}
		return m
	}
	const workers, plane = clusterv1.MachineDeploymentNameLabel, clusterv1.MachineControlPlaneLabel
	all := []metav1.PartialObjectMetadata{
		meta("w-0", "MachineSet", "set", workers), meta("w-1", "MachineSet", "set", workers, plane),
		meta("cp-0", "KubeadmControlPlane", "cp", plane), meta("cp-1", "KubeadmControlPlane", "cp", workers),
		meta("other-0", "MachineSet", "other"), meta("pool-0", "MachinePool", "mp"),
	}
	u := &Updater{options: Options{Machines: func(
		_ context.Context, _ string, selected map[string]string,
	) ([]metav1.PartialObjectMetadata, error) {
		return slices.DeleteFunc(slices.Clone(all), func(m metav1.PartialObjectMetadata) bool {
			return !labels.SelectorFromSet(selected).Matches(labels.Set(m.Labels))
		}), nil
	}}}
	set := &clusterv1.MachineSet{ObjectMeta: meta("set", "MachineDeployment", "md").ObjectMeta}
	md := OwnerFrom(capi.MachineDeployment("ns", "md"))
	cp := updatesv1.Owner{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Namespace: "ns", Name: "cp"}
	relabelled := set.DeepCopy()
	relabelled.Labels[workers] = "another"
	for name, tt := range map[string]struct {
		member metav1.Object
		owner  updatesv1.Owner
		want   []string
	}{
		"a worker":                            {&all[0], md, []string{"w-0", "w-1"}},
		"a worker labelled a control plane":   {&all[1], md, []string{"w-0", "w-1"}},
		"a worker without a label":            {&all[4], md, []string{"w-0", "w-1"}},
		"a MachineSet without a label":        {set, ownerOf(set), []string{"w-0", "w-1"}},
		"a MachineSet with another's label":   {relabelled, ownerOf(relabelled), []string{"w-0", "w-1"}},
		"a Machine of the control plane":      {&all[2], cp, []string{"cp-0"}},
		"a Machine of a MachineSet by itself": {&all[4], ownerOf(&all[4]), []string{"other-0"}},
		"a Machine of a pool":                 {&all[5], ownerOf(&all[5]), []string{"pool-0"}},
	} {
		found, err := u.listGroup(t.Context(), tt.member, tt.owner, "c")
		got := map[string]bool{}
		for _, m := range found {
			got[m.Name] = true
		}
		if diff := cmp.Diff(tt.want, slices.Sorted(maps.Keys(got))); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
