package linuxhost_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/pkg/version"
)

// scriptedHost is a worker on which nothing is done but the steps of checks. It records what it is
// asked.
type scriptedHost struct {
	goal   linuxhost.Goal
	checks string
	asked  []string
	// cordoned says that an upgrade has cordoned the host's node.
	cordoned bool
	// cut says that kubeadm was cut short; job and exit are the last job, and how it ended.
	cut bool
	// notStarted says that the kubelet is stopped because it did not stay up.
	notStarted bool
	job, exit  string
	// starts is the exit code of the scripts that start steps.
	starts  int
	started port.HostCommand
}

func (h *scriptedHost) Exec(_ context.Context, c port.HostCommand) (port.HostResult, error) {
	switch {
	case c.Script == linuxhost.FactsScript(h.goal):
		h.asked = append(h.asked, "facts")
		var facts strings.Builder
		for _, fact := range [][2]string{
			{"arch", "x86_64"}, {"installed", "Kubernetes v1.35.4"}, {"service", "kubelet"}, {"writable", "yes"}, {"free-kb", "9000000"}, {"free-state-kb", "9000000"},
			{"cordoned", map[bool]string{true: "yes"}[h.cordoned]},
			{"cut", map[bool]string{true: "yes"}[h.cut]},
			{"not-started", map[bool]string{true: "yes"}[h.notStarted]},
			{"job", h.job}, {"job-state", map[bool]string{true: "ended"}[h.exit != ""]}, {"job-exit", h.exit},
			{"end", "yes"},
		} {
			facts.WriteString(fact[0] + " " + base64.StdEncoding.EncodeToString([]byte(fact[1])) + "\n")
		}
		return port.HostResult{Stdout: []byte(facts.String())}, nil
	case strings.HasSuffix(c.Script, "echo end\n"):
		h.asked = append(h.asked, "checks")
		return port.HostResult{Stdout: []byte(h.checks + "end\n")}, nil
	}
	h.asked = append(h.asked, "start")
	h.started = c
	return port.HostResult{ExitCode: h.starts, Stderr: "x"}, nil
}

func (h *scriptedHost) Close() error { return nil }

// fresh is an upgrade of a host on which nothing is done.
func fresh(t *testing.T) (*scriptedHost, linuxhost.Upgrade) {
	t.Helper()
	digests, err := linuxhost.ParseManifest(strings.Repeat("1", 64) + " v1.36.3/linux/amd64/kubeadm\n" + strings.Repeat("2", 64) + " v1.36.3/linux/amd64/kubelet\n")
	if err != nil {
		t.Fatal(err)
	}
	host := &scriptedHost{goal: linuxhost.Goal{Distribution: linuxhost.Kubeadm, Version: version.MustParse("v1.36.3"), Digests: digests, Source: linuxhost.Source{HostFolder: "/opt/b"}}}
	return host, linuxhost.Upgrade{Goal: host.goal, Host: host, Attempt: "a"}
}

// TestOneLook: to begin a step costs three scripts on the host, and no more. Thousands of hosts are asked every few seconds.
func TestOneLook(t *testing.T) {
	t.Parallel()
	host, upgrade := fresh(t)
	p, err := linuxhost.Advance(t.Context(), upgrade)
	if err != nil || p.Step != "fetch-kubeadm" {
		t.Fatalf("%v, %+v", err, p)
	}
	if diff := cmp.Diff([]string{"facts", "checks", "start"}, host.asked); diff != "" {
		t.Errorf("the host was asked (-want +got):\n%s", diff)
	}
}

// TestNoHalfOfAJob: a connection that ends cuts stdin off, and never a script. So a job is a part of
// the script that starts it.
func TestNoHalfOfAJob(t *testing.T) {
	t.Parallel()
	host, upgrade := fresh(t)
	if _, err := linuxhost.Advance(t.Context(), upgrade); err != nil {
		t.Fatal(err)
	}
	if host.started.Stdin != nil || !strings.Contains(host.started.Script, "\nJOB='") {
		t.Errorf("the job is read from stdin: %t; its start is\n%s", host.started.Stdin != nil, host.started.Script)
	}
}

// TestFollowBeginsNothing: it names no step as one that begins either.
func TestFollowBeginsNothing(t *testing.T) {
	t.Parallel()
	host, upgrade := fresh(t)
	p, err := linuxhost.Follow(t.Context(), upgrade)
	if err != nil || p.Step != "" || p.Begin != nil || p.Waits() || p.Done || p.Failure != nil || p.Total == 0 {
		t.Errorf("%v, %+v", err, p)
	}
	if diff := cmp.Diff([]string{"facts", "checks"}, host.asked); diff != "" {
		t.Errorf("the host was asked (-want +got):\n%s", diff)
	}
}

// TestFollowEnds: an upgrade that nobody wants any longer, and that is done all the same, is recorded
// as done. Otherwise the next one would wait for it.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	host, upgrade := fresh(t)
	host.finish()
	p, err := linuxhost.Follow(t.Context(), upgrade)
	if err != nil || !p.Done {
		t.Errorf("%v, %+v", err, p)
	}
	if !strings.HasSuffix(host.started.Script, "mark \"done\" yes\n") {
		t.Errorf("the last script is\n%s", host.started.Script)
	}
}

// TestFollowUndoes: one step begins also if nobody wants the upgrade any longer, because it undoes
// what a kubeadm that was cut short has done.
func TestFollowUndoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit func(h *scriptedHost)
		want string
	}{
		"a power cut": {func(*scriptedHost) {}, "wait: putting back what the upgrade has changed"},
		"kubeadm took too long": {func(h *scriptedHost) {
			h.job = h.goal.Operation() + " kubeadm-upgrade a " + h.goal.Manifest()
			h.exit = "124"
		}, "wait: putting back what the upgrade has changed"},
		"another upgrade is at work": {func(h *scriptedHost) { h.starts = linuxhost.StartBusy },
			"wait: the host is busy: x"},
		"it cannot begin": {func(h *scriptedHost) { h.starts = 1 },
			"fail: StepFailed: step kubeadm-recover: exit code 1: x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, upgrade := fresh(t)
			host.cut, host.checks = true, "kubeadm-recover 1\n"
			test.edit(host)
			p, err := linuxhost.Follow(t.Context(), upgrade)
			if got := wordNext(p); err != nil || got != test.want || p.Step != linuxhost.KubeadmRecover {
				t.Errorf("%v, %+v, want %s", err, p, test.want)
			}
			if p.Begin != nil || p.Waits() && p.Failure != nil {
				t.Errorf("it begins, or waits and has failed: %+v", p)
			}
			if diff := cmp.Diff([]string{"facts", "checks", "start"}, host.asked); diff != "" {
				t.Errorf("the host was asked (-want +got):\n%s", diff)
			}
			id := "ID='" + host.goal.Operation() + " kubeadm-recover a "
			if !strings.Contains(host.started.Script, id) {
				t.Errorf("it starts\n%s", host.started.Script)
			}
		})
	}
}

// TestFollowAfterRecovery: a recovery that has failed is not begun again, and says why.
func TestFollowAfterRecovery(t *testing.T) {
	t.Parallel()
	host, upgrade := fresh(t)
	host.cut, host.checks = true, "kubeadm-recover 1\n"
	host.job, host.exit = host.goal.Operation()+" kubeadm-recover a "+host.goal.Manifest(), "1"
	p, err := linuxhost.Follow(t.Context(), upgrade)
	if err != nil || p.Failure == nil || p.Failure.Step != linuxhost.KubeadmRecover {
		t.Errorf("%v, %+v", err, p)
	}
	if diff := cmp.Diff([]string{"facts", "checks"}, host.asked); diff != "" {
		t.Errorf("the host was asked (-want +got):\n%s", diff)
	}
}

// TestPutBackOfARefusedGoal: a service that is stopped gets back what it ran with although the host
// cannot be upgraded to the goal. The attempt tells that; the next one is refused.
func TestPutBackOfARefusedGoal(t *testing.T) {
	t.Parallel()
	host, upgrade := fresh(t)
	upgrade.Goal.Version = version.MustParse("v1.38.0")
	host.goal, host.notStarted = upgrade.Goal, true
	p, err := linuxhost.Advance(t.Context(), upgrade)
	if err != nil || p.Step != linuxhost.PutBack || p.Begin == nil || p.Failure != nil {
		t.Fatalf("%v, %+v", err, p)
	}
	if diff := cmp.Diff([]string{"facts", "checks", "start"}, host.asked); diff != "" {
		t.Errorf("the host was asked (-want +got):\n%s", diff)
	}
	host.notStarted, host.exit = false, "1"
	host.job = strings.Join([]string{host.goal.Operation(), string(linuxhost.PutBack), "a", host.goal.Manifest()}, " ")
	if p, err = linuxhost.Advance(t.Context(), upgrade); err != nil || p.Failure == nil || p.Failure.Step != linuxhost.PutBack {
		t.Errorf("%v, %+v", err, p)
	}
	upgrade.Attempt = "b"
	if p, err = linuxhost.Advance(t.Context(), upgrade); err != nil || p.Failure == nil || p.Failure.Reason != linuxhost.VersionRefused {
		t.Errorf("%v, %+v", err, p)
	}
	host.notStarted, upgrade.Prepare = true, true
	if p, err = linuxhost.Advance(t.Context(), upgrade); err != nil || p.Failure == nil || p.Failure.Reason != linuxhost.VersionRefused {
		t.Errorf("a preparation: %v, %+v", err, p)
	}
}
