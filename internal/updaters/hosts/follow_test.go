package hosts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// TestFollowPutsBack: an upgrade is given up while files that kubeadm was changing are not put
// back. The updater puts them back before the upgrade is forgotten, and begins nothing else.
func TestFollowPutsBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*job){
		"a power cut":           func(j *job) { j.state = "vanished" },
		"it took too long":      func(j *job) { j.state, j.exit = "ended", 124 },
		"in an earlier attempt": func(j *job) { j.state, j.attempt = "vanished", "a-0" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			u, r := w.updater(t), request("a-1")
			u.UpdateMachine(t.Context(), r)
			w.job.step, w.cut = string(linuxhost.KubeadmUpgrade), true
			end(&w.job)
			r.Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation] = "true"
			checkAnswer(t, u.UpdateMachine(t.Context(), r), inplace.Answer{
				Outcome: inplace.InProgress, RetryAfter: 5 * time.Second,
				Message: "step 1 of 9, kubeadm-recover: putting back what the upgrade has changed",
			})
			got := u.UpdateMachine(t.Context(), r)
			if got.Outcome != inplace.InProgress ||
				!strings.Contains(got.Message, "kubeadm-recover: runs since ") {
				t.Errorf("while the step runs: %+v", got)
			}
			w.advance()
			began := w.job
			checkAnswer(t, u.UpdateMachine(t.Context(), r), inplace.Answer{
				Outcome: inplace.Fails, Message: "nothing more is begun: 0 of 8 steps are done on the host",
			})
			if w.job != began || w.job.step != string(linuxhost.KubeadmRecover) || w.cut {
				t.Errorf("the last job was %+v and is %+v; the files are back: %t", began, w.job, !w.cut)
			}
		})
	}
}
