package pool_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/record"
)

// TestRevisionHistoryIsBounded: each revert adds a revision, and the oldest ones leave.
func TestRevisionHistoryIsBounded(t *testing.T) {
	t.Parallel()
	const key = record.RevisionHistoryAnnotation
	limit := record.LimitOf(key)
	set := func(revision, history string) *clusterv1.MachineSet {
		return &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			clusterv1.RevisionAnnotation: revision, key: history,
		}}}
	}
	_, got, err := pool.Revisions(set("7000", strings.Repeat("1234,", 1000)+"6999"), []*clusterv1.MachineSet{set("7001", "")})
	if err != nil {
		t.Fatal(err)
	}
	if history := got[key]; len(history) > limit || len(history) < limit-5 || !strings.HasPrefix(history, "1234,") || !strings.HasSuffix(history, ",6999,7000") {
		t.Errorf("the history has %d bytes, want at most %d: %s", len(history), limit, history)
	}
}
