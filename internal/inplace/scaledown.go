package inplace

import "context"

// A drained node looks unneeded to the cluster autoscaler, which removes such a node. So its
// scale-down is disabled while an update is recorded: after the record was written, and until
// before it is removed. A process that dies in between finds the record, and on the node a marker
// that says whose the annotation is.

// mustDisableScaleDown reports whether the node of a machine with a recorded update is not
// protected yet.
func mustDisableScaleDown(a Action, n Node) bool {
	if !n.Exists || n.Unknown != "" || n.ScaleDown != ScaleDownAllowed {
		return false
	}
	switch a.(type) {
	case CanBegin, Drain, Call, Wait:
		return true
	case AbandonUpdate, Complete, Finish, Refuse, Uncordon:
	}
	return false
}

// disableScaleDown tries once a call, and goes on if it fails: the update does not depend on it.
func (r *run) disableScaleDown(ctx context.Context, a Action) {
	if r.protected || r.saved == nil || !mustDisableScaleDown(a, r.facts.Node) {
		return
	}
	r.protected = true
	r.effects.DisableScaleDown(ctx)
}
