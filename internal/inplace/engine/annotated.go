package engine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// pollAnnotated is when an update is tried again that waits for an upgrade that an annotation asked for.
const pollAnnotated = 10 * time.Second

// upgradedTo says what an annotation has a Machine upgraded to at the moment, in words; empty for nothing. A record that cannot be read counts as one of an
// upgrade that is under way.
func upgradedTo(m client.Object) string {
	u, err := readAnnotation[request.Upgrade](m, v1alpha1.InPlaceUpgradeAnnotation)
	switch {
	case err != nil:
		return err.Error()
	case u.IsRunning():
		return fmt.Sprintf("Machine %s is being upgraded in place to %s, as its annotation asks for", m.GetName(), u.Option)
	}
	return ""
}

// waitsForAnnotated returns the reply where a Machine itself is being upgraded because an annotation asks for it: two at once would each undo what the other
// relies on.
func waitsForAnnotated(m client.Object) (reply inplace.Reply, waits bool) {
	why := upgradedTo(m)
	return inplace.Reply{RetryAfter: pollAnnotated, Message: "not started: " + why}, why != ""
}

// peerUpgraded says which other machine of the control plane is being upgraded because an annotation asks for it, in words; empty for none. All is read live.
//
// The lock is not taken. Cluster API's mark is on this Machine already, and whoever upgrades by annotations takes the lock first and then looks at the marks:
// so where this finds the lock free, the other takes it later and finds the mark. One of the two always sees the other. Where both do, whoever took the lock
// gives it back, as it has not begun.
func (r *run) peerUpgraded(ctx context.Context) (string, error) {
	lock, err := r.locks.Read(ctx, r.owner.cluster)
	if err != nil {
		return "", err
	}
	if lock.Holder != "" && lock.Holder != r.Object.Name {
		return fmt.Sprintf("the lock of the control plane, of which one machine changes at a time, is held by %s", lock.Holder), nil
	}
	why := ""
	err = eachPage(ctx, r.Live, newMachineMetadataList, func(page *metav1.PartialObjectMetadataList) {
		for i := range page.Items {
			if m := &page.Items[i]; why == "" && m.Name != r.Object.Name && capi.IsControlPlane(m) {
				why = upgradedTo(m)
			}
		}
	}, client.InNamespace(r.Object.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: r.cluster().Name}, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err != nil {
		return "", fmt.Errorf("listing the control plane Machines of Cluster %s: %w", r.cluster(), err)
	}
	return why, nil
}

// eachPage lists objects page by page, and shows each page to f. Every page is a list of its own: decoding one into another's would mix their objects.
func eachPage[L client.ObjectList](ctx context.Context, reader client.Reader, newList func() L, f func(page L), options ...client.ListOption) error {
	for next, more := "", true; more; more = next != "" {
		page := newList()
		if err := reader.List(ctx, page, append([]client.ListOption{client.Limit(pageSize), client.Continue(next)}, options...)...); err != nil {
			return err
		}
		f(page)
		next = page.GetContinue()
	}
	return nil
}

func newMachineMetadataList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
	return list
}
