package updatercmd

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/cli"
)

// TestPrefetchOfAnUnfinishedHost: a host on which an upgrade has to undo something first is not
// taken for prepared, because nothing was looked at.
func TestPrefetchOfAnUnfinishedHost(t *testing.T) {
	for fact, want := range map[string]string{
		"cut": "kubeadm was cut short", "not-started": "kubelet did not stay up",
	} {
		for _, args := range [][]string{nil, {"--dry-run"}} {
			h := &scriptedHost{facts: map[string]string{fact: "yes"}}
			r := scriptedRun{verb: "prefetch"}
			err := r.run(t, h, 100, args...)
			if exitCodeOfRun(err) != cli.ExitRefused || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %q: %v, want %q", fact, args, err, want)
			}
			if h.job != "" || strings.Contains(r.out.String(), "has what an upgrade") {
				t.Errorf("it began %q, and prints %s", h.job, r.out.String())
			}
		}
	}
}

// TestKnownRisksOfADryRun: what is known of the version is noted before anything is begun.
func TestKnownRisksOfADryRun(t *testing.T) {
	for _, test := range []struct {
		args []string
		want bool
	}{{[]string{"--no-drain", "--dry-run"}, true}, {[]string{"--no-drain"}, false}} {
		var r scriptedRun
		h := &scriptedHost{facts: map[string]string{
			"containerd": "containerd github.com/containerd/containerd v1.7.24 abc", "kernel": "6.8.0",
		}}
		_ = r.run(t, h, 2, test.args...) // The other one is interrupted.
		if got := strings.Contains(r.notes.String(), "note: known risk kubelet-138-containerd-1: "); got != test.want {
			t.Errorf("%q notes %s", test.args, r.notes.String())
		}
	}
}
