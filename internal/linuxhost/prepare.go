package linuxhost

import "strings"

// Prepares reports whether a step leaves the node as it is: it brings a file or images to the host.
func Prepares(s Step) bool {
	return strings.HasPrefix(string(s.Name), FetchPrefix) || s.Name == PullImages
}

// DecidePreparation is Decide for an upgrade that is only prepared: the first step that leaves the
// node as it is, and is not done. Done says that no such step is left. What would keep the upgrade
// from its end is a failure here, too.
func DecidePreparation(g Goal, steps []Step, s Seen) Progress {
	p := decidePreparation(g, steps, s)
	p.Job = s.Facts.Job
	for i, step := range steps {
		if !Prepares(step) {
			continue
		}
		p.Total++
		if IsDone(g, steps, i, s) {
			p.Finished++
		}
	}
	return p
}

func decidePreparation(g Goal, steps []Step, s Seen) Progress {
	if running, ok := Running(g, s.Facts); ok {
		return running
	}
	if Unfinished(s.Facts) != nil {
		// The upgrade has begun, and undoes something first.
		return Progress{Done: true}
	}
	if short := lacks(g, steps, s); short != nil {
		return fails(short)
	}
	for i, step := range steps {
		if Prepares(step) && !IsDone(g, steps, i, s) {
			return decideStep(g, step, s)
		}
	}
	return Progress{Done: true}
}

// Unfinished returns why a host cannot be prepared ahead of an upgrade: the one before has not
// ended, and the next one undoes something before all else. Until then a preparation looks at
// nothing. It is nil for any other host.
func Unfinished(f Facts) *Failure {
	unfinished := func(reason Reason, step Name, what string) *Failure {
		return newFailure(reason, step, "an upgrade of the host has not ended: %s. Nothing was "+
			"looked at. Fix: end that upgrade first", what)
	}
	switch {
	case f.Cut:
		return unfinished(StepFailed, KubeadmRecover, "kubeadm was cut short")
	case f.NotStarted:
		return unfinished(ServiceNotStarted, PutBack, f.Service+" did not stay up, and is stopped")
	}
	return nil
}
