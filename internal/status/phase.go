package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// IsPhaseAnnotation reports whether UpdatePhase reads an annotation.
func IsPhaseAnnotation(key string) bool {
	switch key {
	case v1alpha1.UpdateProgressAnnotation, v1alpha1.InPlaceUpgradeAnnotation,
		clusterv1.UpdateInProgressAnnotation, v1alpha1.LastUpdateAnnotation:
		return true
	}
	return false
}

// UpdatePhase returns the phase of a machine's update by its annotations alone, and since when it is in
// it. The phase is one of inplace.Phase, Queued while the update waits for its turn, Unreadable if the
// record cannot be read, and empty for a machine without an update.
func UpdatePhase(m *metav1.PartialObjectMetadata) (phase string, since time.Time) {
	var progress *inplace.Progress
	_, updated := m.Annotations[v1alpha1.UpdateProgressAnnotation]
	asked, upgraded := m.Annotations[v1alpha1.InPlaceUpgradeAnnotation]
	_, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	var err error
	switch {
	case updated:
		progress, err = record.ProgressOf(m.Annotations)
	case upgraded:
		u := request.Upgrade{}
		err = untrusted.Annotation.Unmarshal([]byte(asked), &u)
		progress = u.Progress
		if err == nil && progress == nil && u.IsFinal() {
			return string(inplace.Failed), u.At
		}
	case marked && !hasArrived(m):
		return string(Queued), time.Time{}
	}
	switch {
	case err != nil:
		return string(Unreadable), time.Time{}
	case progress == nil:
		return "", time.Time{}
	}
	if progress.Phase.IsKnown() {
		return string(progress.Phase), progress.Started
	}
	// People may write annotations; each value would be a series.
	return string(Unreadable), time.Time{}
}

// hasArrived reports whether the last update of a machine brought it to its MachineSet: Cluster API
// is about to remove the mark. The metadata of a control plane Machine does not show it; the mark
// stays there for about a second.
func hasArrived(m *metav1.PartialObjectMetadata) bool {
	// A record that cannot be read counts as no arrival.
	last, err := record.SummaryOf(m.Annotations)
	return err == nil && last != nil && last.Target != "" && last.Target == capi.TemplateOf(m)
}
