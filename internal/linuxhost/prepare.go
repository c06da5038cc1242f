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
	if Unfinished(s.Facts) != "" {
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

// Unfinished says what an upgrade has left on a host that the next one undoes before all else; empty
// for nothing. Until then a preparation looks at nothing.
func Unfinished(f Facts) string {
	switch {
	case f.Cut:
		return "kubeadm was cut short there"
	case f.NotStarted:
		return "its service did not stay up with a new program or configuration, and is stopped"
	}
	return ""
}
