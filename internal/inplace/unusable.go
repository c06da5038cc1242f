package inplace

import "fmt"

// refuseRecord refuses to act on a record that this release cannot use.
func refuseRecord(p *Progress) (Verdict, bool) {
	if p.IsUnknown() {
		return refuse(p, ReasonUnknownPhase, "the recorded phase %q is unknown to this release of "+
			"Windlass. Fix: upgrade Windlass to the release that recorded it, or set the annotation "+
			"windlass.dev/update-abandon", p.Phase), true
	}
	if why := unusable(p); why != "" {
		return refuse(p, ReasonNoDecision, "cannot use the recorded progress: %s. Fix: remove the "+
			"annotation windlass.dev/update-progress from the Machine to begin its update again, or "+
			"set windlass.dev/update-abandon", why), true
	}
	return Verdict{}, false
}

// unusable says why progress that was read from a Machine cannot be carried on; empty if it can.
func unusable(p *Progress) string {
	switch p.Phase {
	case Draining, Updating, BackingOff:
		if len(p.Steps) == 0 {
			return fmt.Sprintf("it is in phase %s, but no step is left", p.Phase)
		}
		if p.Operation == "" {
			return fmt.Sprintf("it is in phase %s, but has no operation id", p.Phase)
		}
	case Verifying, Soaking, Failed:
	}
	switch {
	case p.ID == "":
		return "it has no id"
	case p.Phase == "":
		return "it has no phase"
	}
	return ""
}
