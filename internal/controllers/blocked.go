package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// interval is between two sweeps. Nothing reports the moment: it shows in the status of objects only, and
// statuses change too often, in too many objects, to be watched for the few that are blocked.
const interval = 15 * time.Second

// Swept does what no event and no hook asks for. *engine.Engine implements it.
type Swept interface {
	FindBlocked(ctx context.Context, kinds []schema.GroupVersionKind) error
	Unblock(ctx context.Context) error
	SweepMachines(ctx context.Context) error
}

// UpdateSweeper lifts the conditions of groups that nothing blocks any longer, ends updates that nobody
// asks for, and follows those that a move waits for. It is a manager.Runnable that runs on the leader
// only.
type UpdateSweeper struct {
	Swept Swept
	// Kinds are MachineDeployment, and the kinds of control planes.
	Kinds []schema.GroupVersionKind
}

// Start runs until ctx is cancelled. What fails is tried again, and logged once per change.
func (s *UpdateSweeper) Start(ctx context.Context) error {
	found := false
	return repeat(ctx, "blocked", "Looking at blocked groups of machines", func(ctx context.Context) error {
		return s.sweep(ctx, &found)
	})
}

// repeat calls do at once and after each interval, until ctx is cancelled. name is the logger's, doing
// what an error is logged with, once per change.
func repeat(ctx context.Context, name, doing string, do func(context.Context) error) error {
	logger := ctrl.Log.WithName(name)
	ctx = ctrl.LoggerInto(ctx, logger)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	said := keyed.NewOnce[struct{}](time.Hour, 1)
	for {
		err := do(ctx)
		if err != nil && ctx.Err() == nil && said.Changed(struct{}{}, err.Error(), time.Now()) {
			logger.Error(err, doing)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (s *UpdateSweeper) sweep(ctx context.Context, found *bool) error {
	if !*found {
		if err := s.Swept.FindBlocked(ctx, s.Kinds); err != nil {
			return fmt.Errorf("finding blocked groups of machines: %w", err)
		}
		*found = true
	}
	return errors.Join(s.Swept.Unblock(ctx), s.Swept.SweepMachines(ctx))
}
