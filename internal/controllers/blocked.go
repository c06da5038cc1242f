package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
)

// interval is when blocked objects are looked at again. Nothing tells of the moment: it shows in their status only, and
// statuses change too often, in too many objects, to be watched for the few that are blocked.
const interval = 15 * time.Second

// Unblocker finds the objects, and brings them in order. *engine.Engine is one.
type Unblocker interface {
	ClearLeftovers(ctx context.Context) error
	FindBlocked(ctx context.Context, kinds []schema.GroupVersionKind) error
	Unblock(ctx context.Context) error
	FollowPaused(ctx context.Context) error
}

// BlockedSweeper looks at blocked objects. It is a manager.Runnable that runs on the leader only.
type BlockedSweeper struct {
	Unblocker Unblocker
	// Kinds are MachineDeployment, and the kinds of control planes.
	Kinds []schema.GroupVersionKind
}

// Start runs until ctx is cancelled. What fails is tried again.
func (s *BlockedSweeper) Start(ctx context.Context) error {
	logger := ctrl.Log.WithName("blocked")
	ctx = ctrl.LoggerInto(ctx, logger)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	found := false
	for {
		if err := s.sweep(ctx, &found); err != nil && ctx.Err() == nil {
			logger.Error(err, "Looking at blocked groups of machines")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (s *BlockedSweeper) sweep(ctx context.Context, found *bool) error {
	if !*found {
		if err := s.Unblocker.FindBlocked(ctx, s.Kinds); err != nil {
			return fmt.Errorf("finding blocked groups of machines: %w", err)
		}
		*found = true
	}
	return errors.Join(s.Unblocker.Unblock(ctx), s.Unblocker.ClearLeftovers(ctx), s.Unblocker.FollowPaused(ctx))
}
