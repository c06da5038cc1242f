package hosts_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestOperationOfALostRecord has a restore of etcd lose the record of an operation, after each of its
// looks: the machine is asked for by an operation with another id. What runs on the host is not begun
// again, and neither is what is done: the host's own record decides.
func TestOperationOfALostRecord(t *testing.T) {
	t.Parallel()
	const most = 40
	// carry asks for an update until its end, by another operation after a number of looks, and returns
	// how many looks it took.
	carry := func(t *testing.T, w *world, lostAfter int) (looks int) {
		t.Helper()
		for looks = range most {
			operation := "a-1"
			if looks >= lostAfter {
				operation = "b-1"
			}
			running := w.job.state == "running"
			jobs := len(w.starts)
			answer := w.updater(t).UpdateMachine(t.Context(), request(operation))
			switch answer.Outcome {
			case inplace.Finishes:
				return looks
			case inplace.Fails, inplace.Unknown:
				t.Fatalf("the answer is %+v", answer)
			case inplace.InProgress:
			}
			if running && len(w.starts) != jobs {
				t.Errorf("look %d began a job while one was running", looks)
			}
			if looks%2 == 1 {
				w.advance()
			}
		}
		t.Fatalf("it has not ended after %d looks", most)
		return most
	}
	whole := newWorld(t)
	looks := carry(t, whole, most)
	if whole.works != 1 || len(whole.starts) < 2 {
		t.Fatalf("an update runs the steps %v and ends %d times: this shows nothing", whole.starts, whole.works)
	}
	for lostAfter := range looks + 1 {
		t.Run(fmt.Sprint(lostAfter), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			carry(t, w, lostAfter)
			if diff := cmp.Diff(whole.starts, w.starts); diff != "" {
				t.Errorf("steps that ran (-without a loss +with one):\n%s", diff)
			}
		})
	}
}
