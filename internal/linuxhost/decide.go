package linuxhost

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

// CheckResult is what a step's check found.
type CheckResult struct {
	Done   bool
	Output string
}

// Checks are the results of the checks of steps.
type Checks map[Name]CheckResult

// ChecksScript runs the checks of steps, for ParseChecks. It changes nothing.
func ChecksScript(steps []Step) string {
	var checks, installed strings.Builder
	for _, step := range steps {
		if step.Installs != "" {
			fmt.Fprintln(&installed, step.Installs)
		}
		if step.Check != "" {
			text := strings.TrimSuffix(step.Check, "\n") + "\n"
			fmt.Fprintf(&checks, "%s %d lines\n%s", step.Name, strings.Count(text, "\n"), text)
		}
	}
	return render("checks", value{"INSTALLED", installed.String()}, value{"CHECKS", checks.String()})
}

// ParseChecks parses what ChecksScript printed.
func ParseChecks(output string) (Checks, error) {
	checks, whole := make(Checks), false
	for line := range strings.Lines(output) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if name == "end" && rest == "" {
			whole = true
			continue
		}
		if rest == "" {
			continue
		}
		code, encoded, _ := strings.Cut(rest, " ")
		status, err := strconv.Atoi(code)
		if err != nil {
			return nil, fmt.Errorf("the answer to the check of step %q has %q in place of an exit code", name, code)
		}
		printed, err := decodeValue(encoded)
		if err != nil {
			return nil, fmt.Errorf("the answer to the check of step %q cannot be read: %w", name, err)
		}
		checks[Name(name)] = CheckResult{Done: status == 0, Output: printed}
	}
	if !whole {
		return nil, fmt.Errorf("the answer to the checks is not whole: %d of them, without the end", len(checks))
	}
	return checks, nil
}

// Seen is what is known when the next thing is decided.
type Seen struct {
	Facts  Facts
	Checks Checks
	// Sizes are those of archives of images that are sent to the host, in bytes, by the step.
	Sizes map[Name]int64
	// Node is the node in its cluster; nil where nobody can be asked about it.
	Node *inplace.Node
	// UnsafePatches says why kubeadm must not run with the goal's patches; nil if it may.
	UnsafePatches *Failure
	// Attempt names the attempt: a job that failed is started again by another attempt only.
	Attempt string
}

// Progress is how far an upgrade of a host has come, and what comes next: one of Begin, Message,
// Failure and Done is set.
type Progress struct {
	// Step is the step that begins, runs, is waited for, or has failed.
	Step Name
	// Begin is the action of the step, to begin now: a Run, Send, DrainNode or UncordonNode. Message
	// or Failure is set, too, where it could not be begun.
	Begin Action
	// Message says what runs, or is waited for.
	Message string
	// Failure says why the attempt ends.
	Failure *Failure
	// Done says that the host is what it is to be.
	Done bool
	// Cordoned says that an earlier run cordoned the node, and that this upgrade is done and does not
	// make it schedulable: the node is cordoned, or nobody can look at it.
	Cordoned bool
	// Finished of Total steps are done; Total is 0 where nobody has looked at the steps.
	Finished, Total int
	// Job is what is known about the last job.
	Job Job
}

// Waits reports whether there is nothing to do but to wait.
func (p Progress) Waits() bool { return p.Message != "" }

func fails(f *Failure) Progress { return Progress{Step: f.Step, Failure: f} }

// Running tells, before any check is made, whether a job runs: nothing is decided while one does. The second result is false where none runs.
func Running(g Goal, f Facts) (Progress, bool) {
	job := f.Job
	if job.State != JobRunning {
		return Progress{}, false
	}
	since := f.Now.Sub(job.Started)
	p := Progress{Step: job.Step, Message: fmt.Sprintf("step %s runs since %s", job.Step, since), Job: job}
	if job.Operation != g.Operation() {
		p.Step = ""
		p.Message = fmt.Sprintf("another upgrade of this host, to %s, runs step %s since %s", target(job.Operation), job.Step, since)
	}
	return p, true
}

// target is the version in the name of an operation.
func target(operation string) string {
	if end := strings.LastIndex(operation, "-"); end >= 0 {
		return operation[:end]
	}
	return operation
}

// Decide decides what comes next: the first step that is not done. steps are those that ComputeSteps gave for the facts.
func Decide(g Goal, steps []Step, s Seen) Progress {
	p := decide(g, steps, s)
	p.Total, p.Job = len(steps), s.Facts.Job
	p.Cordoned = p.Done && s.Facts.Cordoned && !g.Drain && (s.Node == nil || s.Node.Unschedulable)
	for i := range steps {
		if IsDone(g, steps, i, s) {
			p.Finished++
		}
	}
	return p
}

func decide(g Goal, steps []Step, s Seen) Progress {
	if running, ok := Running(g, s.Facts); ok {
		return running
	}
	if len(steps) > 0 && steps[0].Name == KubeadmRecover && !IsDone(g, steps, 0, s) {
		return decideRecovery(g, steps[0], s)
	}
	if undoesRestart(g, s) {
		return decidePutBack(g, s)
	}
	if short := lacks(g, steps, s); short != nil {
		return fails(short)
	}
	return decideFirstLeft(g, steps, s)
}

// decideFirstLeft decides what comes next in the first step that is not done.
func decideFirstLeft(g Goal, steps []Step, s Seen) Progress {
	for i, step := range steps {
		if IsDone(g, steps, i, s) {
			continue
		}
		switch step.Action.(type) {
		case AwaitControlPlane:
			return decideControlPlane(g, steps, i, s)
		case AwaitNode:
			return decideNode(g, steps, i, s)
		case Run, Send, DrainNode, UncordonNode:
		}
		return decideStep(g, step, s)
	}
	return Progress{Done: true}
}

// IsDone tells whether a step is done.
func IsDone(g Goal, steps []Step, i int, s Seen) bool {
	switch steps[i].Action.(type) {
	case Run, Send, AwaitControlPlane:
		return s.Checks[steps[i].Name].Done
	case DrainNode:
		return isDrained(s) || !disrupts(steps[i+1:], s)
	case AwaitNode:
		return s.Node == nil || isReady(g, *s.Node)
	case UncordonNode:
		return !s.Facts.Cordoned || s.Node != nil && s.Node.Exists && !s.Node.Unschedulable
	}
	return false
}

// isDrained tells whether the node is as a drain left it. One that somebody has made schedulable since is not empty any longer.
func isDrained(s Seen) bool {
	return s.Facts.Drained && (s.Node == nil || !s.Node.Exists || s.Node.Unschedulable)
}

func isReady(g Goal, n inplace.Node) bool {
	return n.Unknown == "" && n.Exists && n.Ready && g.Version.RunBy(n.Kubelet)
}

// disrupts tells whether a job is left to run: a node whose processes stay as they are needs no drain.
func disrupts(steps []Step, s Seen) bool {
	for _, step := range steps {
		if _, ok := step.Action.(Run); ok && !s.Checks[step.Name].Done {
			return true
		}
	}
	return false
}

// lacks tells what a host lacks for the steps that are left, before anything is done on it: so that its node is not drained for nothing.
func lacks(g Goal, steps []Step, s Seen) *Failure {
	if lacksKubectl(steps, s) {
		return &Failure{Reason: ToolMissing, Step: KubeadmUpgrade, Message: "the host has no kubectl in " + g.folder() +
			" to read the version in the ConfigMap kubeadm-config with; add kubectl to the manifest of digests, and it is brought along"}
	}
	if s.UnsafePatches != nil && isLeft(steps, s, KubeadmUpgrade) {
		return s.UnsafePatches
	}
	if refused := lacksCluster(steps, s); refused != nil {
		return refused
	}
	if refused := lacksEtcd(g, steps, s); refused != nil {
		return refused
	}
	if missing := lacksFiles(steps, s); missing != nil {
		return missing
	}
	return lacksRoom(g, steps, s)
}

// lacksFiles returns which binaries the folder on the host lacks that they are copied from.
func lacksFiles(steps []Step, s Seen) *Failure {
	var first Name
	var files []string
	for _, step := range steps {
		check := s.Checks[step.Name]
		file, missing := strings.CutPrefix(check.Output, "missing ")
		if !strings.HasPrefix(string(step.Name), FetchPrefix) || check.Done || !missing {
			continue
		}
		first = cmp.Or(first, step.Name)
		files = append(files, strings.TrimSpace(file))
	}
	if files == nil {
		return nil
	}
	return newFailure(DownloadFailed, first, "the host has no file %s", strings.Join(files, ", "))
}

// isLeft reports whether a step is one of the upgrade, and not done.
func isLeft(steps []Step, s Seen, name Name) bool {
	return !s.Checks[name].Done &&
		slices.ContainsFunc(steps, func(step Step) bool { return step.Name == name })
}

// lacksKubectl tells whether nobody could find out which machine of a control plane is the first.
func lacksKubectl(steps []Step, s Seen) bool {
	if !s.Facts.ControlPlane || s.Facts.Kubectl || s.Facts.Verb != "" {
		return false
	}
	brings := func(step Step) bool { return step.Name == FetchPrefix+kubectl }
	return isLeft(steps, s, KubeadmUpgrade) && !slices.ContainsFunc(steps, brings)
}

// lacksEtcd returns why etcd cannot be saved, or would not survive that the host's member is
// restarted. RKE2 and K3s see to that themselves.
func lacksEtcd(g Goal, steps []Step, s Seen) *Failure {
	// In the middle of an attempt, a member may need a while after a power cut.
	begins := s.Facts.Job.Attempt != s.Attempt
	switch {
	case g.Distribution != Kubeadm || !s.Facts.Member:
		return nil
	case !s.Facts.EtcdClient && isLeft(steps, s, EtcdSnapshot):
		return newFailure(ToolMissing, EtcdSnapshot, "the host has neither etcdctl nor crictl to save "+
			"etcd with. Nothing was changed. Fix: install one of them, or save etcd in another way and "+
			"set etcdSnapshot: Skip (--skip-etcd-snapshot)")
	case s.Facts.EtcdProblem != "" && begins && isLeft(steps, s, KubeadmUpgrade):
		return refuseEtcd(s.Facts.EtcdProblem)
	}
	return nil
}

// refuseEtcd tells a member that is not healthy from etcd that nobody could ask: then no member
// must be removed.
func refuseEtcd(problem string) *Failure {
	if strings.Contains(problem, "is unhealthy") {
		return newFailure(EtcdUnhealthy, KubeadmUpgrade, "not all members of etcd are healthy: %s. "+
			"Nothing was changed. Fix: repair the member, or remove it from etcd", problem)
	}
	return newFailure(EtcdUnknown, KubeadmUpgrade, "etcd on the host cannot be asked for the health "+
		"of its members: %s. Nothing was changed. Fix: have etcdctl endpoint --cluster health succeed "+
		"on the host, or in the container etcd there", problem)
}

func decideStep(g Goal, step Step, s Seen) Progress {
	p := Progress{Step: step.Name}
	switch action := step.Action.(type) {
	case DrainNode:
		return decideDrain(step, s)
	case Run:
		return decideRun(g, step, action, s)
	case Send:
		if _, err := fmt.Sscanf(s.Checks[step.Name].Output, "part %d", &action.Offset); err != nil {
			action.Offset = 0
		}
		p.Begin = action
	case UncordonNode:
		p.Begin = action
	case AwaitControlPlane, AwaitNode:
	}
	return p
}

// decideDrain drains the node, unless nobody would know whether the upgrade is to make it
// schedulable again.
func decideDrain(step Step, s Seen) Progress {
	n := s.Node
	if n != nil && !n.Exists && n.Unknown != "" {
		return Progress{
			Step: step.Name, Message: "the node is not drained before it can be looked at: " + n.Unknown,
		}
	}
	record := !s.Facts.Cordoned && n != nil && n.Exists && !n.Unschedulable
	return Progress{Step: step.Name, Begin: DrainNode{Record: record}}
}

// decideRun starts a step, unless this attempt has run it.
func decideRun(g Goal, step Step, run Run, s Seen) Progress {
	if step.Name == KubeadmUpgrade && s.Facts.ControlPlane && s.Facts.Verb == "" && s.Facts.Cluster.IsZero() {
		return Progress{Step: step.Name, Message: describeUnread(s.Facts)}
	}
	job := s.Facts.Job
	if !ranInAttempt(g, step.Name, s) || job.State != JobEnded {
		if held := holdRestart(g, step, s.Facts); held != "" {
			return Progress{Step: step.Name, Message: held}
		}
		return Progress{Step: step.Name, Begin: run}
	}
	if job.ExitCode != 0 {
		return fails(FailureOf(job))
	}
	return fails(newFailure(StepHadNoEffect, step.Name, "it ended well, but the step is not done: %s",
		lastLines(Mask(job.Output+"\n"+s.Checks[step.Name].Output), 3)))
}

// decideControlPlane waits for the static pods of the machine.
func decideControlPlane(g Goal, steps []Step, i int, s Seen) Progress {
	missing := lastLines(Mask(s.Checks[steps[i].Name].Output), 1)
	return decideReady(g, steps, i, s, ControlPlaneNotReady, missing)
}

// decideNode waits for the node. One that cannot be looked up is no reason for a restart.
func decideNode(g Goal, steps []Step, i int, s Seen) Progress {
	missing := describeMissing(g, *s.Node)
	if s.Node.Unknown != "" && !restarted(g, s) {
		return Progress{Step: steps[i].Name, Message: missing}
	}
	return decideReady(g, steps, i, s, NodeNotReady, missing)
}

// restarted reports whether the last job is a restart of the service whose time counts for this
// attempt: its own, or one of another attempt, which has a minute more to see its failure. If two
// attempts restarted the service in turns, each would end the other's restart, and neither would
// ever fail.
func restarted(g Goal, s Seen) bool {
	job := s.Facts.Job
	waited := sinceRestart(s.Facts)
	counts := job.Attempt == s.Attempt || waited >= 0 && waited < g.readyWithin()+staleLimit
	return job.Operation == g.Operation() && job.Step == Restart && job.State == JobEnded && counts
}

// sinceRestart is the time since the end of a restart, by the host's clock, or since a boot after
// it: a host without power brings nothing up.
func sinceRestart(f Facts) time.Duration {
	from := f.Job.Ended
	if f.Boot.After(from) {
		from = f.Boot
	}
	return f.Now.Sub(from)
}

// decideReady waits for what follows a restart. A boot starts the time again, so a host that boots
// again and again within that time never fails. An attempt without a restart that counts restarts
// the service first: so each attempt has its time, and what was fixed meanwhile counts.
func decideReady(
	g Goal, steps []Step, i int, s Seen, reason Reason, missing string,
) Progress {
	name := steps[i].Name
	if !restarted(g, s) {
		isRestart := func(before Step) bool { return before.Name == Restart }
		if at := slices.IndexFunc(steps[:i], isRestart); at >= 0 {
			return decideStep(g, steps[at], s)
		}
		return Progress{Step: name, Message: missing}
	}
	waited := sinceRestart(s.Facts)
	if waited >= g.readyWithin() && s.Facts.Job.Attempt == s.Attempt {
		return fails(newFailure(reason, name, "%s after the restart: %s",
			waited.Truncate(time.Second), missing))
	}
	return Progress{Step: name, Message: missing}
}

// describeMissing says what keeps a node from being Ready at the version.
func describeMissing(g Goal, n inplace.Node) string {
	switch {
	case n.Unknown != "":
		return "the node cannot be looked up: " + n.Unknown
	case !n.Exists:
		return "there is no such node in the cluster"
	case !g.Version.RunBy(n.Kubelet):
		return fmt.Sprintf("the node reports %s, not %s%s", kubeletOf(n), g.Version, because(n))
	default:
		return "the node is not Ready" + because(n)
	}
}

func kubeletOf(n inplace.Node) string {
	if n.Kubelet == (version.Version{}) {
		return "no version"
	}
	return n.Kubelet.String()
}

func because(n inplace.Node) string {
	if n.NotReady == "" {
		return ""
	}
	return ": " + n.NotReady
}
