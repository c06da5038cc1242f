package inplace

import "strings"

// Detail returns what a message says about the current step, attempt and phase of an update, without naming them again, and
// whether it is about them. Messages reach people through Cluster API, which keeps one until it asks again, so that it may be
// about a step or attempt that is over. message may have words of others before it.
func Detail(p *Progress, message string) (detail string, current bool) {
	var words string
	switch p.Phase {
	case Draining:
		words = "draining node before " + position(p) + ": "
	case Updating:
		words = position(p) + ": "
		if strings.Contains(message, "draining node before "+words) {
			return "", false
		}
	case Verifying:
		words = position(p) + " is done; "
	case Soaking:
		words = "all updaters are done; "
	case BackingOff, Failed:
		// LastError says it.
		return "", false
	default:
		return "", false
	}
	_, detail, current = strings.Cut(message, words)
	return detail, current
}

// notStarted begins the message of a machine that waits for its turn. An updater may be named behind
// it: the one that chooses others.
const notStarted = "not started: "

// AboutStep reports whether a message is about a step of some update, or the end of one: a machine whose update has not begun keeps
// such a message from an earlier update.
func AboutStep(message string) bool {
	for _, words := range []string{`updater "`, "all updaters are done", "updated in place", "node drained"} {
		if before, _, found := strings.Cut(message, words); found && !strings.Contains(before, notStarted) {
			return true
		}
	}
	return false
}
