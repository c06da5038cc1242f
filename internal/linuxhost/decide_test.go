package linuxhost_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/pkg/version"
)

var clock = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// situation is a worker on its way from v1.35.4 to v1.36.3, drained by the upgrade itself, with all steps done up to one.
func situation(t *testing.T, doneBefore linuxhost.Name) (linuxhost.Goal, []linuxhost.Step, linuxhost.Seen) {
	t.Helper()
	g := linuxhost.Goal{
		Distribution: linuxhost.Kubeadm, Version: version.MustParse("v1.36.3"), Digests: manifest(t), Drain: true, Source: linuxhost.Source{URL: "https://x/{version}/{name}"},
	}
	f := linuxhost.Facts{
		Now: clock, Arch: "amd64", Installed: version.MustParse("v1.35.4"), Service: "kubelet", Writable: true, NeedKB: 300 << 10, FreeKB: 1 << 20, FreeStateKB: 1 << 20,
	}
	steps, refused := linuxhost.ComputeSteps(g, f)
	if refused != nil {
		t.Fatal(refused)
	}
	checks := make(linuxhost.Checks)
	for _, step := range steps {
		if step.Name == doneBefore {
			break
		}
		if step.Check != "" {
			checks[step.Name] = linuxhost.CheckResult{Done: true}
		}
	}
	node := inplace.Node{Exists: true, Ready: true, Kubelet: version.MustParse("v1.35.4")}
	return g, steps, linuxhost.Seen{Facts: f, Checks: checks, Node: &node, Attempt: "a1"}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		doneBefore linuxhost.Name
		edit       func(g linuxhost.Goal, s *linuxhost.Seen)
		want       string
	}{
		"begins with the first step":      {"fetch-kubeadm", nil, "start fetch-kubeadm"},
		"goes on with the first not done": {"fetch-kubectl", nil, "start fetch-kubectl"},
		"looks for files before it begins": {
			"", func(_ linuxhost.Goal, s *linuxhost.Seen) {
				s.Checks["fetch-kubeadm"] = linuxhost.CheckResult{Output: "part 0\n"}
				s.Checks["fetch-kubelet"] = linuxhost.CheckResult{Output: "missing /srv/kubelet\n"}
				s.Checks["fetch-kubectl"] = linuxhost.CheckResult{Output: "missing /srv/kubectl\n"}
			}, "fail: DownloadFailed: step fetch-kubelet: the host has no file /srv/kubelet, /srv/kubectl",
		},
		"needs no file that is fetched": {
			"install-kubeadm", func(_ linuxhost.Goal, s *linuxhost.Seen) {
				s.Checks["fetch-kubelet"] = linuxhost.CheckResult{Done: true, Output: "missing /srv/kubelet\n"}
			}, "drain, recording that it was schedulable",
		},
		"drains before the first change": {"install-kubeadm", nil, "drain, recording that it was schedulable"},
		"does not drain a node of which it does not know whether it is schedulable": {
			"install-kubeadm", func(_ linuxhost.Goal, s *linuxhost.Seen) {
				*s.Node = inplace.Node{Unknown: "no answer"}
			}, "wait: the node is not drained before it can be looked at: no answer",
		},
		"does not record a cordon of somebody else": {
			"install-kubeadm", func(_ linuxhost.Goal, s *linuxhost.Seen) { s.Node.Unschedulable = true }, "drain",
		},
		"does not guess which control plane machine is the first": {
			"kubeadm-upgrade", func(_ linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Drained, s.Node.Unschedulable, s.Facts.ControlPlane = true, true, true
			},
			"wait: the ConfigMap kube-system/kubeadm-config cannot be read with the host's kubectl and admin.conf: it has no kubernetesVersion",
		},
		"drained": {"install-kubeadm", func(_ linuxhost.Goal, s *linuxhost.Seen) { s.Facts.Drained, s.Node.Unschedulable = true, true }, "start install-kubeadm"},
		"waits for its job": {
			"restart", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{Operation: g.Operation(), Step: "kubeadm-upgrade", Attempt: "a1", State: linuxhost.JobRunning, Started: clock.Add(-time.Minute)}
			}, "wait: step kubeadm-upgrade runs since 1m0s",
		},
		"waits for the job of another upgrade": {
			"restart", func(_ linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{Operation: "v1.35.9-0", Step: "restart", Attempt: "a1", State: linuxhost.JobRunning, Started: clock.Add(-time.Minute)}
			}, "wait: another upgrade of this host, to v1.35.9, runs step restart since 1m0s",
		},
		"a job that was killed is started again": {
			"kubeadm-upgrade", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Drained, s.Node.Unschedulable = true, true
				s.Facts.Job = linuxhost.Job{Operation: g.Operation(), Step: "kubeadm-upgrade", Attempt: "a1", State: linuxhost.JobVanished}
			}, "start kubeadm-upgrade",
		},
		"a job that failed is not, in this attempt": {
			"kubeadm-upgrade", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Drained, s.Node.Unschedulable = true, true
				s.Facts.Job = linuxhost.Job{Operation: g.Operation(), Step: "kubeadm-upgrade", Attempt: "a1", State: linuxhost.JobEnded, ExitCode: 1, Output: "one\ntwo\nthree\nboom\n"}
			}, "fail: StepFailed: step kubeadm-upgrade: exit code 1: two; three; boom",
		},
		"in the next attempt it is": {
			"kubeadm-upgrade", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Drained, s.Node.Unschedulable = true, true
				s.Facts.Job = linuxhost.Job{Operation: g.Operation(), Step: "kubeadm-upgrade", Attempt: "a0", State: linuxhost.JobEnded, ExitCode: 1}
			}, "start kubeadm-upgrade",
		},
		"with other digests it is": {
			"fetch-kubelet", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{
					Operation: g.Operation(), Step: "fetch-kubelet", Attempt: "a1", Manifest: "others",
					State: linuxhost.JobEnded, ExitCode: 1,
				}
			}, "start fetch-kubelet",
		},
		"a step that tells its reason": {
			"fetch-kubelet", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{
					Operation: g.Operation(), Step: "fetch-kubelet", Attempt: "a1", State: linuxhost.JobEnded, ExitCode: 1,
					Output: "noise\nwindlass-reason WrongDigest: kubelet has the SHA-256 1, but the manifest says 2\n",
				}
			}, "fail: WrongDigest: step fetch-kubelet: kubelet has the SHA-256 1, but the manifest says 2",
		},
		"a disk that filled up": {
			"fetch-kubelet", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{
					Operation: g.Operation(), Step: "fetch-kubelet", Attempt: "a1", State: linuxhost.JobEnded, ExitCode: 1, Output: "cp: error writing 'x': No space left on device",
				}
			}, "fail: DiskFull: step fetch-kubelet: a disk of the host is full: cp: error writing 'x': No space left on device",
		},
		"a step that took too long": {
			"fetch-kubelet", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{
					Operation: g.Operation(), Step: "fetch-kubelet", Attempt: "a1", State: linuxhost.JobEnded, ExitCode: 124, Started: clock.Add(-time.Hour), Ended: clock.Add(-30 * time.Minute),
				}
			}, "fail: StepTimedOut: step fetch-kubelet: it was ended after 30m0s: it printed nothing",
		},
		"a step that had no effect": {
			"fetch-kubelet", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{Operation: g.Operation(), Step: "fetch-kubelet", Attempt: "a1", State: linuxhost.JobEnded}
			}, "fail: StepHadNoEffect: step fetch-kubelet: it ended well, but the step is not done: it printed nothing",
		},
		"a folder that is read-only, before the drain": {
			"drain", func(_ linuxhost.Goal, s *linuxhost.Seen) {
				delete(s.Checks, "install-kubeadm")
				s.Facts.Writable, s.Facts.Why = false, "Read-only file system"
			}, "fail: FolderReadOnly: step install-kubeadm: no file can be made in /usr/bin: Read-only file system. Nothing was changed",
		},
		"a disk that is full, before anything": {
			"fetch-kubeadm", func(_ linuxhost.Goal, s *linuxhost.Seen) { s.Facts.FreeStateKB = 200 << 10 },
			"fail: DiskFull: step fetch-kubeadm: /var/lib/windlass has 200 MiB left, but 3 binaries need about 360 MiB",
		},
		"waits for the node": {
			"node-ready", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{Operation: g.Operation(), Step: "restart", Attempt: "a1", State: linuxhost.JobEnded, Ended: clock.Add(-4 * time.Minute)}
			}, "wait: the node reports v1.35.4, not v1.36.3",
		},
		"but not for ever": {
			"node-ready", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Node.Kubelet, s.Node.Ready, s.Node.NotReady = g.Version, false, "container runtime is down"
				s.Facts.Job = linuxhost.Job{Operation: g.Operation(), Step: "restart", Attempt: "a1", State: linuxhost.JobEnded, Ended: clock.Add(-5 * time.Minute)}
			}, "fail: NodeNotReady: step node-ready: 5m0s after the restart: the node is not Ready: container runtime is down",
		},
		"time without power does not count": {
			"node-ready", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Boot = clock.Add(-4 * time.Minute)
				s.Facts.Job = linuxhost.Job{
					Operation: g.Operation(), Step: "restart", Attempt: "a1",
					State: linuxhost.JobEnded, Ended: clock.Add(-time.Hour),
				}
			}, "wait: the node reports v1.35.4, not v1.36.3",
		},
		"a boot before the restart does not count": {
			"node-ready", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Boot = clock.Add(-time.Hour)
				s.Facts.Job = linuxhost.Job{
					Operation: g.Operation(), Step: "restart", Attempt: "a1",
					State: linuxhost.JobEnded, Ended: clock.Add(-4 * time.Minute),
				}
			}, "wait: the node reports v1.35.4, not v1.36.3",
		},
		"an end that is lost counts from the boot": {
			"node-ready", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Boot = clock.Add(-5 * time.Minute)
				s.Facts.Job = linuxhost.Job{
					Operation: g.Operation(), Step: "restart", Attempt: "a1", State: linuxhost.JobEnded,
				}
			}, "fail: NodeNotReady: step node-ready: 5m0s after the restart: " +
				"the node reports v1.35.4, not v1.36.3",
		},
		"another attempt restarts the service of a node that is not Ready": {
			"node-ready", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{Operation: g.Operation(), Step: "restart", Attempt: "a0", State: linuxhost.JobEnded, Ended: clock.Add(-time.Hour)}
			}, "start restart",
		},
		"it does not end the restart of another attempt": {
			"node-ready", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Facts.Job = linuxhost.Job{
					Operation: g.Operation(), Step: "restart", Attempt: "a0",
					State: linuxhost.JobEnded, Ended: clock.Add(-4 * time.Minute),
				}
			}, "wait: the node reports v1.35.4, not v1.36.3",
		},
		"but not of one that cannot be looked up": {
			"node-ready", func(_ linuxhost.Goal, s *linuxhost.Seen) { s.Node.Unknown = "no answer" }, "wait: the node cannot be looked up: no answer",
		},
		"drains again what somebody made schedulable": {
			"install-kubeadm", func(_ linuxhost.Goal, s *linuxhost.Seen) { s.Facts.Drained, s.Facts.Cordoned = true, true }, "drain",
		},
		"uncordons what it cordoned": {
			"node-ready", func(g linuxhost.Goal, s *linuxhost.Seen) {
				s.Node.Kubelet, s.Node.Unschedulable, s.Facts.Cordoned = g.Version, true, true
			}, "uncordon",
		},
		"and nothing else": {
			"node-ready", func(g linuxhost.Goal, s *linuxhost.Seen) { s.Node.Kubelet, s.Node.Unschedulable = g.Version, true }, "done",
		},
		"without a node, it is not waited for": {"node-ready", func(_ linuxhost.Goal, s *linuxhost.Seen) { s.Node = nil }, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, steps, seen := situation(t, test.doneBefore)
			if test.edit != nil {
				test.edit(g, &seen)
			}
			if seen.Facts.Job.Manifest == "" {
				seen.Facts.Job.Manifest = g.Manifest()
			}
			if diff := cmp.Diff(test.want, wordNext(linuxhost.Decide(g, steps, seen))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func wordNext(p linuxhost.Progress) string {
	switch {
	case p.Waits():
		return "wait: " + p.Message
	case p.Failure != nil:
		return "fail: " + p.Failure.String()
	case p.Done:
		return "done"
	}
	switch begin := p.Begin.(type) {
	case linuxhost.Run:
		return "start " + string(p.Step)
	case linuxhost.Send:
		return fmt.Sprintf("send %s from %d", begin.Name, begin.Offset)
	case linuxhost.DrainNode:
		if begin.Record {
			return "drain, recording that it was schedulable"
		}
		return "drain"
	case linuxhost.UncordonNode:
		return "uncordon"
	case linuxhost.AwaitControlPlane, linuxhost.AwaitNode:
	}
	return "nothing"
}

// TestEveryStepCanBeCutShort: whatever steps are done, the first one that is not comes next, once the node is drained and has room.
func TestEveryStepCanBeCutShort(t *testing.T) {
	t.Parallel()
	_, steps, _ := situation(t, "")
	for done := range 1 << 8 {
		g, _, seen := situation(t, "")
		seen.Facts.Drained, seen.Node.Unschedulable = true, true
		var want string
		bit := 0
		for _, step := range steps {
			if step.Check == "" {
				continue
			}
			isDone := done&(1<<bit) != 0
			bit++
			seen.Checks[step.Name] = linuxhost.CheckResult{Done: isDone}
			if !isDone && want == "" {
				want = "start " + string(step.Name)
			}
		}
		if want == "" {
			want = "start restart"
		}
		if got := wordNext(linuxhost.Decide(g, steps, seen)); got != want {
			t.Errorf("done %b: %s, want %s", done, got, want)
		}
	}
}

// TestLackingKubectl: nobody drains a control plane host whose turn could not be found out.
func TestLackingKubectl(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		facts func(*linuxhost.Facts)
		want  string
	}{
		"no kubectl": {func(*linuxhost.Facts) {}, "fail: ToolMissing: step kubeadm-upgrade: the host has no kubectl in /usr/bin"},
		"one on the host": {func(f *linuxhost.Facts) {
			f.Kubectl, f.Cluster = true, version.MustParse("v1.35.4")
		}, "start fetch-kubeadm"},
		"begun already": {func(f *linuxhost.Facts) { f.Verb = "apply" }, "start fetch-kubeadm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, _, seen := situation(t, "")
			bare, err := linuxhost.ParseManifest(strings.Repeat("1", 64) + " v1.36.3/linux/amd64/kubeadm\n" + strings.Repeat("2", 64) + " v1.36.3/linux/amd64/kubelet\n")
			if err != nil {
				t.Fatal(err)
			}
			g.Digests, seen.Checks, seen.Facts.ControlPlane = bare, nil, true
			test.facts(&seen.Facts)
			steps, refused := linuxhost.ComputeSteps(g, seen.Facts)
			if refused != nil {
				t.Fatal(refused)
			}
			if got := wordNext(linuxhost.Decide(g, steps, seen)); !strings.HasPrefix(got, test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestControlPlaneReady: after the restart the static pods of a control plane machine are waited for,
// also if nobody watches the node, and not forever.
func TestControlPlaneReady(t *testing.T) {
	t.Parallel()
	restarted := func(g linuxhost.Goal, attempt string, ago time.Duration) linuxhost.Job {
		return linuxhost.Job{
			Operation: g.Operation(), Step: linuxhost.Restart, Attempt: attempt,
			State: linuxhost.JobEnded, Ended: clock.Add(-ago),
		}
	}
	const missing = "the static pod etcd-a is not Ready since the kubelet was restarted"
	unready := linuxhost.CheckResult{Output: missing}
	for name, test := range map[string]struct {
		ago     time.Duration
		attempt string
		check   linuxhost.CheckResult
		want    string
	}{
		"waits": {4 * time.Minute, "a1", linuxhost.CheckResult{Output: missing + "\n"}, "wait: " + missing},
		"but not forever": {5 * time.Minute, "a1", unready,
			"fail: ControlPlaneNotReady: step control-plane-ready: 5m0s after the restart: " + missing},
		"another attempt waits":   {4 * time.Minute, "a0", unready, "wait: " + missing},
		"while that one fails":    {5 * time.Minute, "a0", unready, "wait: " + missing},
		"and restarts afterwards": {6 * time.Minute, "a0", unready, "start restart"},
		"a restart in the future": {-time.Minute, "a0", unready, "start restart"},
		"done":                    {time.Hour, "a0", linuxhost.CheckResult{Done: true}, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, _, seen := situation(t, "")
			seen.Facts.ControlPlane, seen.Facts.Kubectl, seen.Node = true, true, nil
			seen.Facts.Job = restarted(g, test.attempt, test.ago)
			seen.Facts.Drained = true
			steps, refused := linuxhost.ComputeSteps(g, seen.Facts)
			if refused != nil {
				t.Fatal(refused)
			}
			for _, step := range steps {
				seen.Checks[step.Name] = linuxhost.CheckResult{Done: true}
			}
			seen.Checks[linuxhost.ControlPlaneReady] = test.check
			if diff := cmp.Diff(test.want, wordNext(linuxhost.Decide(g, steps, seen))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLackingEtcd: a host whose etcd cannot be saved, or has a dead member, is refused before
// anything is brought to it, and only if etcd is still to be saved or restarted.
func TestLackingEtcd(t *testing.T) {
	t.Parallel()
	const begins = "start fetch-kubeadm"
	const dead = "https://10.0.0.9:2379 is unhealthy: refused"
	for name, test := range map[string]struct {
		edit func(g *linuxhost.Goal, s *linuxhost.Seen)
		want string
	}{
		"no client": {func(*linuxhost.Goal, *linuxhost.Seen) {}, "fail: ToolMissing: step etcd-snapshot: " +
			"the host has neither etcdctl nor crictl to save etcd with. Nothing was changed. Fix: "},
		"a client":  {func(_ *linuxhost.Goal, s *linuxhost.Seen) { s.Facts.EtcdClient = true }, begins},
		"no member": {func(_ *linuxhost.Goal, s *linuxhost.Seen) { s.Facts.Member = false }, begins},
		"skipped":   {func(g *linuxhost.Goal, _ *linuxhost.Seen) { g.Snapshot = false }, begins},
		"saved": {func(_ *linuxhost.Goal, s *linuxhost.Seen) {
			s.Checks = make(linuxhost.Checks)
			s.Checks[linuxhost.EtcdSnapshot] = linuxhost.CheckResult{Done: true}
		}, begins},
		"a dead member": {func(g *linuxhost.Goal, s *linuxhost.Seen) {
			g.Snapshot, s.Facts.EtcdClient, s.Facts.EtcdProblem = false, true, dead
		}, "fail: EtcdUnhealthy: step kubeadm-upgrade: not all members of etcd are healthy: " + dead + ". " +
			"Nothing was changed. Fix: "},
		"a dead member when kubeadm has run": {func(_ *linuxhost.Goal, s *linuxhost.Seen) {
			s.Facts.EtcdClient, s.Facts.EtcdProblem = true, dead
			s.Checks = make(linuxhost.Checks)
			s.Checks[linuxhost.KubeadmUpgrade] = linuxhost.CheckResult{Done: true}
		}, begins},
		"a dead member in the middle of an attempt": {func(_ *linuxhost.Goal, s *linuxhost.Seen) {
			s.Facts.EtcdClient, s.Facts.EtcdProblem = true, dead
			s.Facts.Job = linuxhost.Job{Attempt: s.Attempt, State: linuxhost.JobEnded}
		}, begins},
		"a dead member in the next attempt": {func(_ *linuxhost.Goal, s *linuxhost.Seen) {
			s.Facts.EtcdClient, s.Facts.EtcdProblem = true, dead
			s.Facts.Job = linuxhost.Job{Attempt: "a0", State: linuxhost.JobEnded}
		}, "fail: EtcdUnhealthy: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, _, seen := situation(t, "")
			g.Snapshot, seen.Checks = true, nil
			seen.Facts.ControlPlane, seen.Facts.Member = true, true
			seen.Facts.Kubectl, seen.Facts.Cluster = true, seen.Facts.Installed
			test.edit(&g, &seen)
			steps, refused := linuxhost.ComputeSteps(g, seen.Facts)
			if refused != nil {
				t.Fatal(refused)
			}
			if got := wordNext(linuxhost.Decide(g, steps, seen)); !strings.HasPrefix(got, test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestParseFacts(t *testing.T) {
	t.Parallel()
	fact := func(key, value string) string {
		return key + " " + base64.StdEncoding.EncodeToString([]byte(value)) + "\n"
	}
	whole := "time =1795300000\narch =x86_64\n" + fact("installed", "Kubernetes v1.35.4") + fact("api-server", `"v1.36.3",`) + fact("service", "kubelet") +
		fact("writable", "yes") + fact("free-kb", "1000") + fact("job", "v1.36.3-abc restart a1 def") + fact("job-state", "ended") + fact("job-exit", "3") +
		fact("job-started", "1795290000") + fact("job-ended", "1795290060") + fact("job-output", "x\ny\n") + fact("unknown", "z") + fact("end", "yes")
	got, err := linuxhost.ParseFacts(whole)
	want := linuxhost.Facts{
		Now: time.Unix(1795300000, 0).UTC(), Arch: "amd64", Installed: version.MustParse("v1.35.4"), APIServer: version.MustParse("v1.36.3"), Service: "kubelet",
		Writable: true, FreeKB: 1000, Job: linuxhost.Job{
			Operation: "v1.36.3-abc", Step: "restart", Attempt: "a1", Manifest: "def", State: linuxhost.JobEnded, ExitCode: 3,
			Started: time.Unix(1795290000, 0).UTC(), Ended: time.Unix(1795290060, 0).UTC(), Output: "x\ny",
		},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, test := range map[string]struct{ output, want string }{
		"half":      {whole[:len(whole)-10], "is not whole"},
		"nothing":   {"", "is not whole"},
		"a banner":  {"Welcome to host7!\n" + whole, "is something printed at login?"},
		"no number": {fact("free-kb", "much") + fact("end", "yes"), `free-kb is "much", which is no number`},
	} {
		if _, err := linuxhost.ParseFacts(test.output); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("time MQ==\nend eWVz\n")
	f.Add("time =1\nend =yes\n")
	f.Add("restart 0 \nend\n")
	f.Fuzz(func(_ *testing.T, output string) {
		_, _ = linuxhost.ParseFacts(output)
		_, _ = linuxhost.ParseChecks(output)
		_, _ = linuxhost.ParseManifest(output)
		_ = linuxhost.Mask(output)
	})
}

func TestParseChecks(t *testing.T) {
	t.Parallel()
	encoded := base64.StdEncoding.EncodeToString([]byte("part 17\n"))
	got, err := linuxhost.ParseChecks("a 0 \nb 1 " + encoded + "\nc 1 =part 17 \nend\n")
	want := make(linuxhost.Checks)
	want["a"], want["b"] = linuxhost.CheckResult{Done: true}, linuxhost.CheckResult{Output: "part 17"}
	want["c"] = linuxhost.CheckResult{Output: "part 17 "}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, output := range []string{"", "a 0 \n", "a x \nend\n", "a 0 %%%\nend\n"} {
		if _, err := linuxhost.ParseChecks(output); err == nil {
			t.Errorf("%q is accepted", output)
		}
	}
}
