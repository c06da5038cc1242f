package inplace

// heldByPause returns the wait of an update whose Machine is paused, unless its updater is at work: that
// one is asked until it ends. Nothing else begins: no attempt, no step, no other update.
func heldByPause(f Facts) (Verdict, bool) {
	p, begins := f.Progress, superseded(f)
	switch p.Phase {
	case Draining, BackingOff:
		begins = true
	case Verifying:
		begins = begins || len(p.Steps) > 1 && isVerified(f)
	case Failed:
		begins = begins || f.Retry
	case Updating, Soaking:
	}
	if !f.Paused || !begins {
		return Verdict{}, false
	}
	return wait(p, pollNode, ReasonPaused,
		"the machine or its Cluster is paused; the update continues when it is unpaused"), true
}

// isVerified reports whether the current step has ended, whose updater says that it is done. A step
// that does not set the version, and that another one follows, needs no look at the node.
func isVerified(f Facts) bool {
	p := f.Progress
	return len(p.Steps) > 1 && !p.Steps[0].SetsVersion || NodeProblem(f) == ""
}
