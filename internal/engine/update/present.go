package update

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/core/cover"
	"github.com/windlass-dev/windlass/internal/core/inplace/annotated"
	"github.com/windlass-dev/windlass/pkg/version"
)

// pollAnnotated is when an update is tried again that waits for an upgrade that an annotation asked for.
const pollAnnotated = 10 * time.Second

// waitsForAnnotated reports whether a Machine is being upgraded because an annotation asks for it: two at once would each undo what the other relies
// on. A record that cannot be read counts as one that is under way.
func waitsForAnnotated(m client.Object) (reply Reply, waits bool) {
	u, err := readAnnotation[annotated.Upgrade](m, v1alpha1.InPlaceUpgradeAnnotation)
	switch {
	case err != nil:
		return Reply{RetryAfter: pollAnnotated, Message: "not started: " + err.Error()}, true
	case u.IsRunning():
		return Reply{RetryAfter: pollAnnotated, Message: fmt.Sprintf("not started: an annotation has the machine upgraded in place to %s", u.Option)}, true
	}
	return Reply{}, false
}

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
	for i := range machines {
		if !e.isPresent(&machines[i], r.To) {
			return c, nil
		}
	}
	if len(machines) == 0 {
		return c, nil
	}
	return c.Present(), nil
}

// isPresent reports whether an annotation has brought a machine to a version. The kubelet alone does not tell: of a control plane machine it says nothing
// about the API server.
func (e *Engine) isPresent(m *clusterv1.Machine, desired version.Version) bool {
	if !has(m, e.Prefix+v1alpha1.InPlaceUpgradeRelease) || m.Status.NodeInfo == nil {
		return false
	}
	kubelet, err := version.Parse(m.Status.NodeInfo.KubeletVersion)
	return err == nil && desired.RunBy(kubelet)
}

// readSubjects returns the Machine, or all Machines of the MachineSet, that a question is about.
func (e *Engine) readSubjects(ctx context.Context, subject client.Object) ([]clusterv1.Machine, error) {
	if m, ok := subject.(*clusterv1.Machine); ok {
		return []clusterv1.Machine{*m}, nil
	}
	var list clusterv1.MachineList
	if err := e.Live.List(ctx, &list, client.InNamespace(subject.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: subject.GetLabels()[clusterv1.ClusterNameLabel]}); err != nil {
		return nil, fmt.Errorf("listing the Machines of MachineSet %s: %w", client.ObjectKeyFromObject(subject), err)
	}
	var owned []clusterv1.Machine
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], subject) && list.Items[i].DeletionTimestamp.IsZero() {
			owned = append(owned, list.Items[i])
		}
	}
	return owned, nil
}
