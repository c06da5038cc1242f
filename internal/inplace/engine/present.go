package engine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/pkg/version"
)

// withPresent takes the version out of what is to be covered where annotations have brought all machines concerned to the desired one, so that the version
// of the group's spec was raised after them. Nothing has to be done to them for it, and no updater is asked to.
func (e *Engine) withPresent(ctx context.Context, q question, c *cover.Coverage) (*cover.Coverage, error) {
	r := c.Result()
	if r.From == r.To || r.To.IsZero() {
		return c, nil
	}
	machines, err := e.readSubjects(ctx, q.subject)
	if err != nil {
		return nil, err
	}
	present, err := e.arePresent(ctx, machines, r.To)
	if err != nil || !present {
		return c, err
	}
	return c.Present(), nil
}

// arePresent reports whether annotations have brought machines to a version; false where there are none. Nodes are asked last, and no more of them than it
// takes.
func (e *Engine) arePresent(ctx context.Context, machines []clusterv1.Machine, desired version.Version) (bool, error) {
	for i := range machines {
		if !e.isReleased(&machines[i], desired) {
			return false, nil
		}
	}
	for i := range machines {
		if present, err := e.isPresent(ctx, &machines[i], desired); err != nil || !present {
			return false, err
		}
	}
	return len(machines) > 0, nil
}

// isReleased reports whether what an annotation brought a machine to may be a version. The kubelet alone does not tell: of a control plane machine it says
// nothing about the API server.
func (e *Engine) isReleased(m *clusterv1.Machine, desired version.Version) bool {
	option, err := request.ParseOption(m.Annotations[e.Prefix+v1alpha1.InPlaceUpgradeRelease])
	if err != nil {
		return false
	}
	minor, named := option.Minor()
	return !named || minor == desired.Minor()
}

// isPresent reports whether a machine runs a version. Cluster API notes a node's version a while after it has changed, so where it notes another one the node
// itself is asked. The error says that the node cannot be looked up now: updaters need not be asked then, and no machine replaced.
func (e *Engine) isPresent(ctx context.Context, m *clusterv1.Machine, desired version.Version) (bool, error) {
	if kubelet, err := version.Parse(capi.Kubelet(m)); err == nil && desired.RunBy(kubelet) {
		return true, nil
	}
	name := m.Status.NodeRef.Name
	if name == "" {
		return false, nil
	}
	node := e.Nodes.Node(ctx, types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.ClusterName}, name)
	if node.Unknown != "" {
		return false, fmt.Errorf("finding out whether the node of Machine %s runs %s already: %s", client.ObjectKeyFromObject(m), desired, node.Unknown)
	}
	return node.Exists && desired.RunBy(node.Kubelet), nil
}

// readSubjects returns the Machine, or all Machines of the MachineSet, that a question is about; none where it is known without asking the API server that
// one of them has no release.
func (e *Engine) readSubjects(ctx context.Context, subject client.Object) ([]clusterv1.Machine, error) {
	if m, ok := subject.(*clusterv1.Machine); ok {
		return []clusterv1.Machine{*m}, nil
	}
	labels := client.MatchingLabels{clusterv1.ClusterNameLabel: subject.GetLabels()[clusterv1.ClusterNameLabel]}
	if md := subject.GetLabels()[clusterv1.MachineDeploymentNameLabel]; md != "" {
		labels[clusterv1.MachineDeploymentNameLabel] = md
	}
	released, err := e.allReleased(ctx, subject, labels)
	if err != nil || !released {
		return nil, err
	}
	var owned []clusterv1.Machine
	err = eachPage(ctx, e.Live, func() *clusterv1.MachineList { return &clusterv1.MachineList{} }, func(page *clusterv1.MachineList) {
		for i := range page.Items {
			if isOwned(&page.Items[i], subject) {
				owned = append(owned, page.Items[i])
			}
		}
	}, client.InNamespace(subject.GetNamespace()), labels)
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of MachineSet %s: %w", client.ObjectKeyFromObject(subject), err)
	}
	return owned, nil
}

// allReleased reports whether the cache shows Machines of a MachineSet, and a release on each.
func (e *Engine) allReleased(ctx context.Context, set client.Object, labels client.MatchingLabels) (bool, error) {
	machines := newMachineMetadataList()
	if err := e.Client.List(ctx, machines, client.InNamespace(set.GetNamespace()), labels, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the metadata of the Machines of MachineSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	found := false
	for i := range machines.Items {
		m := &machines.Items[i]
		if !isOwned(m, set) {
			continue
		}
		if !has(m, e.Prefix+v1alpha1.InPlaceUpgradeRelease) {
			return false, nil
		}
		found = true
	}
	return found, nil
}

func isOwned(m metav1.Object, set client.Object) bool {
	return metav1.IsControlledBy(m, set) && m.GetDeletionTimestamp().IsZero()
}
