package updatercmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// TestPatches: kubeadm takes patches only from a folder that somebody names, and a host with
// patches is refused if nobody says anything.
func TestPatches(t *testing.T) {
	t.Parallel()
	type result struct {
		Folder          string
		Refuse, Invalid bool
	}
	for flag, want := range map[string]result{
		"":                        {Refuse: true},
		"none":                    {},
		"/etc/kubernetes/patches": {Folder: "/etc/kubernetes/patches"},
		"patches":                 {Invalid: true},
		"/a'b":                    {Invalid: true},
	} {
		o := runOptions{
			distribution: linuxhost.Kubeadm, host: "10.0.0.7", to: "v1.36.3", patches: flag,
		}
		var r runRequest
		err := o.parseGoal(&r)
		got := result{r.goal.HostPatches, r.goal.RefusePatches, err != nil}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("--patches %q: %v (-want +got):\n%s", flag, err, diff)
		}
	}
}
