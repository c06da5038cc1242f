package linuxhost_test

import (
	"strings"
	"testing"
	"time"

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

// TestHeldRestart: a kubelet of another minor is not restarted while another member of etcd is not
// healthy. It is waited for without a failure, and only before the restart.
func TestHeldRestart(t *testing.T) {
	t.Parallel()
	const peer, begins = "https://10.0.0.9:2379 is unhealthy: refused", "start restart"
	const held = "wait: the kubelet v1.36.3 is not restarted, because it would restart etcd, and " +
		"another member of etcd is not healthy: " + peer + ". Fix: repair that member, or remove it " +
		"from etcd; the upgrade then continues by itself"
	minors := func(_ linuxhost.Goal, s *linuxhost.Seen) {
		s.Facts.Running = version.MustParse("v1.35.4")
	}
	for name, test := range map[string]struct {
		next linuxhost.Name
		edit func(g linuxhost.Goal, s *linuxhost.Seen)
		want string
	}{
		"another minor":      {linuxhost.Restart, minors, held},
		"an unknown kubelet": {linuxhost.Restart, func(linuxhost.Goal, *linuxhost.Seen) {}, held},
		"the same minor": {linuxhost.Restart, func(_ linuxhost.Goal, s *linuxhost.Seen) {
			s.Facts.Running = version.MustParse("v1.36.1")
		}, begins},
		"all members are healthy": {linuxhost.Restart, func(g linuxhost.Goal, s *linuxhost.Seen) {
			minors(g, s)
			s.Facts.EtcdPeerProblem = ""
		}, begins},
		"another step": {"install-kubelet", minors, "start install-kubelet"},
		"a restart that failed": {linuxhost.Restart, func(g linuxhost.Goal, s *linuxhost.Seen) {
			minors(g, s)
			s.Facts.Job = linuxhost.Job{
				Operation: g.Operation(), Manifest: g.Manifest(), Step: linuxhost.Restart,
				Attempt: s.Attempt, State: linuxhost.JobEnded, ExitCode: 1, Output: "x",
			}
		}, "fail: StepFailed: step restart: exit code 1: x"},
		"the next attempt": {linuxhost.Restart, func(g linuxhost.Goal, s *linuxhost.Seen) {
			minors(g, s)
			s.Facts.Job = linuxhost.Job{
				Operation: g.Operation(), Step: linuxhost.Restart, Attempt: "a0",
				State: linuxhost.JobEnded, Ended: clock.Add(-time.Hour),
			}
		}, held},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, seen := controlPlane(t)
			seen.Facts.Verb, seen.Facts.EtcdPeerProblem = "apply", peer
			seen.Facts.Drained, seen.Node.Unschedulable = true, true
			test.edit(g, &seen)
			steps := stepsOf(t, g, seen.Facts)
			for _, step := range steps {
				if step.Name == test.next {
					break
				}
				seen.Checks[step.Name] = linuxhost.CheckResult{Done: true}
			}
			if got := wordNext(linuxhost.Decide(g, steps, seen)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
