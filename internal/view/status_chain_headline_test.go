package view

import (
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestChainHeadlinePaused(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &status.Chain{State: status.ChainPaused, Now: "the Cluster is paused", Target: version.MustParse("v1.33.0"), Engine: status.Windlass}
	if got, want := chainHeadline(c, now), "Upgrade: none under way; the Cluster is paused."; got != want {
		t.Errorf("at rest: %q, want %q", got, want)
	}
	c.Steps = []status.Step{{State: status.StepRunning}}
	if got, want := chainHeadline(c, now), "Upgrade to v1.33.0: paused, run by windlass manager."; got != want {
		t.Errorf("in the middle of an upgrade: %q, want %q", got, want)
	}
}
