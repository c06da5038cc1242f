package linuxhost_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/pkg/version"
)

// controlPlane is a control plane host with a member of etcd, on which no step is done.
func controlPlane(t *testing.T) (linuxhost.Goal, linuxhost.Seen) {
	t.Helper()
	g, _, seen := situation(t, "")
	f := &seen.Facts
	f.ControlPlane, f.Member, f.Kubectl, f.EtcdClient = true, true, true, true
	f.Cluster = f.Installed
	seen.Checks = make(linuxhost.Checks)
	return g, seen
}

func stepsOf(t *testing.T, g linuxhost.Goal, f linuxhost.Facts) []linuxhost.Step {
	t.Helper()
	steps, refused := linuxhost.ComputeSteps(g, f)
	if refused != nil {
		t.Fatal(refused)
	}
	return steps
}

// TestLackingConfig: nobody drains a host that cannot read which machine of the control plane is
// the first. An attempt that has begun waits for it instead.
func TestLackingConfig(t *testing.T) {
	t.Parallel()
	const begins, problem = "start fetch-kubeadm", "error: Unauthorized"
	for name, test := range map[string]struct {
		edit func(f *linuxhost.Facts, s *linuxhost.Seen)
		want string
	}{
		"when an attempt begins": {func(*linuxhost.Facts, *linuxhost.Seen) {},
			"fail: ConfigUnreadable: step kubeadm-upgrade: the ConfigMap kube-system/kubeadm-config " +
				"cannot be read with the host's kubectl and admin.conf: " + problem +
				". Nothing was changed. Fix: "},
		"in the middle of one": {func(f *linuxhost.Facts, s *linuxhost.Seen) {
			f.Job.Attempt = s.Attempt
		}, begins},
		"a worker": {func(f *linuxhost.Facts, _ *linuxhost.Seen) {
			f.ControlPlane = false
		}, begins},
		"kubeadm has begun": {func(f *linuxhost.Facts, _ *linuxhost.Seen) { f.Verb = "apply" }, begins},
		"kubeadm has run": {func(_ *linuxhost.Facts, s *linuxhost.Seen) {
			s.Checks[linuxhost.KubeadmUpgrade] = linuxhost.CheckResult{Done: true}
		}, begins},
		"it is read": {func(f *linuxhost.Facts, _ *linuxhost.Seen) {
			f.Cluster = version.MustParse("v1.35.4")
		}, begins},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, seen := controlPlane(t)
			seen.Facts.Cluster, seen.Facts.ClusterProblem = version.Version{}, problem
			test.edit(&seen.Facts, &seen)
			next := wordNext(linuxhost.Decide(g, stepsOf(t, g, seen.Facts), seen))
			if !strings.HasPrefix(next, test.want) {
				t.Errorf("%s, want %s", next, test.want)
			}
		})
	}
}
