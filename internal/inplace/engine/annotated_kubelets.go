package engine

import (
	"context"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/pkg/version"
)

// kubeletsAtOnce is how many nodes one reconcile of a group reads. A workload cluster takes 20 requests a second.
const kubeletsAtOnce = 100

// kubeletNote is what InPlaceUpgradeKubeletAnnotation says of an option that a machine was brought to.
func kubeletNote(option string, kubelet version.Version) string {
	return option + " " + kubelet.String()
}

// notedKubelet returns what a machine ran when it was brought to its release; false where that was not noted.
func notedKubelet(m *clusterv1.Machine, release string) (version.Version, bool) {
	text, noted := strings.CutPrefix(m.Annotations[v1alpha1.InPlaceUpgradeKubeletAnnotation], release+" ")
	if !noted {
		return version.Version{}, false
	}
	// Nobody knew what the machine ran, so there is no version to be read.
	kubelet, _ := version.Parse(text)
	return kubelet, true
}

// noteKubelet returns the change of the annotation that belongs in the write of the end of a machine's upgrade.
func (r *machineRun) noteKubelet(after request.Marks) Patch {
	if after.Status != request.Done || after.Release == r.facts.Marks.Release {
		return nil
	}
	note := kubeletNote(after.Release, r.facts.Node.Kubelet)
	return Patch{v1alpha1.InPlaceUpgradeKubeletAnnotation: &note}
}

// noteKubelets notes on each machine of the group what it runs, where that was not noted at the end of its upgrade: another controller may have upgraded
// it. Cluster API notes the kubelet of a node a while after it has changed, so the nodes are asked. It returns true if it has changed Machines: not all are
// noted then, and the facts must be read again.
func (r *groupRun) noteKubelets(ctx context.Context) (changed bool, err error) {
	notes := 0
	for i, m := range r.machines {
		member := &r.facts.Members[i]
		if member.Deleting || m.Status.NodeRef.Name == "" {
			continue
		}
		if kubelet, noted := notedKubelet(m, member.Marks.Release); noted {
			member.Kubelet = kubelet
			continue
		}
		if notes == kubeletsAtOnce {
			return true, nil
		}
		notes++
		if node := r.Nodes.Node(ctx, client.ObjectKeyFromObject(r.cluster), m.Status.NodeRef.Name); node.Exists && node.Unknown == "" {
			member.Kubelet = node.Kubelet
		}
		note := kubeletNote(member.Marks.Release, member.Kubelet)
		if _, err := r.annotate(ctx, m, Patch{v1alpha1.InPlaceUpgradeKubeletAnnotation: &note}); err != nil {
			return false, err
		}
	}
	return notes > 0, nil
}
