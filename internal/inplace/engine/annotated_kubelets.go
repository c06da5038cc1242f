package engine

import (
	"context"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/pkg/version"
)

// kubeletsAtOnce is how many nodes one reconcile of a group reads, or notes it removes. A workload cluster takes 20 requests a second.
const kubeletsAtOnce = 100

// kubeletNote is what InPlaceUpgradeKubeletAnnotation contains about a machine that has an option.
type kubeletNote struct {
	kubelet version.Version
	// unchanged says that no updater was asked to bring the machine there.
	unchanged bool
}

const unchangedSuffix = " unchanged"

func (n kubeletNote) patch(option string) Patch {
	note := option + " " + n.kubelet.String()
	if n.unchanged {
		note += unchangedSuffix
	}
	return Patch{v1alpha1.InPlaceUpgradeKubeletAnnotation: &note}
}

// readKubeletNote returns what a machine ran when it had got its release; false if that was not noted.
func readKubeletNote(m *clusterv1.Machine, release string) (n kubeletNote, noted bool) {
	text, noted := strings.CutPrefix(m.Annotations[v1alpha1.InPlaceUpgradeKubeletAnnotation], release+" ")
	if !noted {
		return kubeletNote{}, false
	}
	text, n.unchanged = strings.CutSuffix(text, unchangedSuffix)
	var err error
	n.kubelet, err = version.Parse(text)
	return n, err == nil
}

// noteKubelet returns the change of the annotation that belongs in the write of the end of a machine's upgrade.
func (r *machineRun) noteKubelet(v request.MachineVerdict) Patch {
	after, kubelet := v.After.Marks, r.facts.Node.Kubelet
	if after.Status != request.Done || after.Release == r.facts.Marks.Release || kubelet.IsZero() {
		return nil
	}
	return kubeletNote{kubelet: kubelet, unchanged: v.Unchanged}.patch(after.Release)
}

// noteKubelets notes on each machine of the group what its node reports, where that was not noted at the end of its upgrade: another controller may have
// upgraded it. Cluster API notes the kubelet of a node a while after it has changed, so the nodes are asked. A machine of which the node does not tell gets
// no note, and shows that as a fact. It returns true if it has changed Machines: not all are noted then, and the facts must be read again.
func (r *groupRun) noteKubelets(ctx context.Context) (changed bool, err error) {
	asked := 0
	for i, m := range r.machines {
		member := &r.facts.Members[i]
		if _, noted := readKubeletNote(m, member.Marks.Release); member.Deleting || noted {
			continue
		}
		if asked == kubeletsAtOnce {
			break
		}
		asked++
		node := r.askNode(ctx, m)
		if node.Unknown != "" {
			member.KubeletUnknown = node.Unknown
			return changed, nil // Asking another node of an unreachable cluster takes as long again.
		}
		if node.Kubelet.IsZero() {
			member.KubeletUnknown = "its node does not exist, or reports no version"
			continue
		}
		if _, err := r.annotate(ctx, m, kubeletNote{kubelet: node.Kubelet}.patch(member.Marks.Release)); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// askNode reads the node of a machine of the group.
func (r *groupRun) askNode(ctx context.Context, m *clusterv1.Machine) inplace.Node {
	if m.Status.NodeRef.Name == "" {
		return inplace.Node{Unknown: "it has no status.nodeRef"}
	}
	return r.Nodes.Node(ctx, client.ObjectKeyFromObject(r.cluster), m.Status.NodeRef.Name)
}

// forgetKubelets removes what was noted of the machines' kubelets. It returns true if some notes may be left.
func (r *groupRun) forgetKubelets(ctx context.Context) (more bool, err error) {
	removed := 0
	for _, m := range r.machines {
		if !has(m, v1alpha1.InPlaceUpgradeKubeletAnnotation) {
			continue
		}
		if removed == kubeletsAtOnce {
			return true, nil
		}
		removed++
		if _, err := r.annotate(ctx, m, Patch{v1alpha1.InPlaceUpgradeKubeletAnnotation: nil}); err != nil {
			return false, err
		}
	}
	return false, nil
}
