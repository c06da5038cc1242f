package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// TestWireFormat holds the annotations that users of Canonical's provider set and watch.
func TestWireFormat(t *testing.T) {
	t.Parallel()
	const prefix = "v1beta2.k8sd.io/in-place-upgrade-"
	want := Keys{
		To: prefix + "to", Status: prefix + "status", Release: prefix + "release",
		ChangeID: prefix + "change-id", LastFailed: prefix + "last-failed-attempt-at",
	}
	if diff := cmp.Diff(want, NewKeys(v1alpha1.DefaultInPlaceUpgradePrefix)); diff != "" {
		t.Errorf("the keys (-want +got)\n%s", diff)
	}
	statuses := []request.Status{request.InProgress, request.Done, request.Failed}
	if diff := cmp.Diff([]request.Status{"in-progress", "done", "failed"}, statuses); diff != "" {
		t.Errorf("the statuses (-want +got)\n%s", diff)
	}
}
