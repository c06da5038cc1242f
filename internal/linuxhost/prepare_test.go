package linuxhost_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// TestPreparationEndsBeforeTheFirstChange: only files and images are brought to
// the host. What would refuse the upgrade refuses the preparation, and one that has begun has
// nothing left to prepare.
func TestPreparationEndsBeforeTheFirstChange(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		done []linuxhost.Name
		edit func(*linuxhost.Seen)
		want string
	}{
		"nothing is there": {want: "start fetch-kubeadm"},
		"one is there": {
			done: []linuxhost.Name{"fetch-kubeadm"}, want: "start fetch-kubelet",
		},
		"the binaries are there": {
			done: []linuxhost.Name{"fetch-kubeadm", "fetch-kubelet", "fetch-kubectl"},
			want: "start pull-images",
		},
		"all are there": {
			done: []linuxhost.Name{
				"fetch-kubeadm", "fetch-kubelet", "fetch-kubectl", linuxhost.PullImages,
			},
			want: "done",
		},
		"no room": {
			edit: func(s *linuxhost.Seen) { s.Facts.FreeKB = 1 },
			want: "fail: DiskFull: step install-kubeadm: ",
		},
		"kubeadm is cut":    {edit: func(s *linuxhost.Seen) { s.Facts.Cut = true }, want: "done"},
		"it does not start": {edit: func(s *linuxhost.Seen) { s.Facts.NotStarted = true }, want: "done"},
		"another goal's job": {edit: func(s *linuxhost.Seen) {
			s.Facts.Job = linuxhost.Job{Operation: "v1-x", State: linuxhost.JobRunning}
		}, want: "wait: another upgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, steps, seen := situation(t, "")
			seen.Checks = make(linuxhost.Checks)
			for _, step := range test.done {
				seen.Checks[step] = linuxhost.CheckResult{Done: true}
			}
			if test.edit != nil {
				test.edit(&seen)
			}
			p := linuxhost.DecidePreparation(g, steps, seen)
			if got := wordNext(p); len(got) < len(test.want) || got[:len(test.want)] != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestPreparationOfAnUnfinishedHost: a host on which an upgrade has not ended cannot be prepared ahead
// of the next one. That upgrade itself goes on.
func TestPreparationOfAnUnfinishedHost(t *testing.T) {
	t.Parallel()
	for _, ahead := range []bool{false, true} {
		for want, edit := range map[string]func(*scriptedHost){
			"kubeadm was cut short":                    func(h *scriptedHost) { h.cut = true },
			"kubelet did not stay up, and is stopped.": func(h *scriptedHost) { h.notStarted = true },
		} {
			host, upgrade := fresh(t)
			host.checks = "kubeadm-recover 1\n"
			edit(host)
			upgrade.Prepare = ahead
			failure, err := linuxhost.CanBegin(t.Context(), upgrade)
			if err != nil || (failure != nil) != ahead ||
				ahead && !strings.Contains(failure.Message, want) {
				t.Errorf("ahead: %t: %v, %v, want %s", ahead, failure, err, want)
			}
		}
	}
}
