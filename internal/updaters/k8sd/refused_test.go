package k8sd_test

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
)

// A snap command fails and k8sd does not return why: the answer names where the reason is.
func TestRefusedWithoutAReason(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]string{
		newSnap: "whether `snap info k8s` lists the channel 1.32-classic/stable",
		local:   "k8sd does not return what snap printed. Fix: look at `journalctl -u snapd` and `snap changes` on the node",
	} {
		w := newWorld(t)
		w.faults(t, k8sdtest.Faults{RefuseRefresh: true})
		w.expect(t, w.ask(t, "a", option), inplace.Fails, "exit status 1. k8sd", 0)
		w.expect(t, w.ask(t, "a", option), inplace.Fails, want, 0)
		w.faults(t, k8sdtest.Faults{})
		w.expect(t, w.ask(t, "b", option), inplace.InProgress, "change 1 has begun", 1)
	}
}

// A k8sd that starts or stops has begun nothing: the attempt waits and does not end.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	for _, option := range []string{newSnap, local} {
		w := newWorld(t)
		w.faults(t, k8sdtest.Faults{Unavailable: true})
		for range 2 {
			answer := w.ask(t, "a", option)
			w.expect(t, answer, inplace.InProgress, "waiting until k8sd is ready: k8sd answered: Daemon is shutting down", 0)
			if state := w.record(t)["state"]; state != "not-sent" || !answer.NotBegun {
				t.Errorf("the record is %v, the answer %+v", state, answer)
			}
		}
		w.faults(t, k8sdtest.Faults{})
		w.expect(t, w.ask(t, "a", option), inplace.InProgress, "change 1 has begun", 1)
		w.faults(t, k8sdtest.Faults{Unavailable: true})
		w.expect(t, w.ask(t, "a", option), inplace.Unknown, "change 1: k8sd answered: Daemon is shutting down", 1)
	}
}
