package machinedeployment

import "errors"

// errCrash is what a write returns when the process is killed.
var errCrash = errors.New("killed")

// crashAt kills the controller at its nth write from now: before the write, or after it. A killed
// process writes nothing more; restart begins the next one. It returns whether that has happened.
func (w *world) crashAt(n int, after bool) *bool {
	left, crashed := n, new(bool)
	w.Fail = func(string, string) (error, bool) {
		left--
		*crashed = left <= 0
		return errOf(left <= 0), left == 0 && after
	}
	w.reborn = func() { w.Fail = nil }
	return crashed
}

// crashAlways kills the first process at its first write, the second one at its second, and so on.
func (w *world) crashAlways(after bool) {
	lives := 1
	left := lives
	w.Fail = func(string, string) (error, bool) {
		left--
		return errOf(left <= 0), left == 0 && after
	}
	w.reborn = func() {
		lives++
		left = lives
	}
}

func errOf(crash bool) error {
	if crash {
		return errCrash
	}
	return nil
}

// events returns the Events since the last call.
func (w *world) events() []string {
	var events []string
	for {
		select {
		case e := <-w.recorder.Events:
			events = append(events, e)
		default:
			return events
		}
	}
}
