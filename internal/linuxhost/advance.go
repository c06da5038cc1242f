package linuxhost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Node is the node on the host, in its cluster.
type Node interface {
	// Look looks the node up. That it is not there, or cannot be looked up, is part of the answer.
	Look(ctx context.Context) inplace.Node
	// Drain cordons the node, and evicts its pods. It returns at once; call it again until it is done.
	Drain(ctx context.Context) (port.DrainStatus, error)
	// Uncordon makes the node schedulable again.
	Uncordon(ctx context.Context) error
}

// Bundle holds binaries that are sent to hosts.
type Bundle interface {
	// Open gives a file by its name in the bundle, and its size in bytes. The error says which file is missing.
	Open(name string) (io.ReaderAt, int64, error)
}

// Upgrade is one upgrade of one host.
type Upgrade struct {
	Goal Goal
	Host port.Host
	// Node is nil where nobody can be asked about the node; then its state is not waited for, and it is not drained.
	Node Node
	// Oldest is the control plane Node of the cluster with the oldest kubelet. It is zero if the
	// cluster has no such Node, or nobody listed them.
	Oldest ControlPlaneNode
	// Bundle is needed where the goal's source is one.
	Bundle Bundle
	// Attempt names the attempt. A step that failed is run again by another attempt only.
	Attempt string
	// Proof is kept on the host with each step that is started: see hosts.Proof. Empty for none.
	Proof string
	// Prepare limits Advance to the steps that leave the node as it is. See DecidePreparation. A worker
	// may then be prepared before its control plane is upgraded.
	Prepare bool
}

// StepState is a step, and whether it is done.
type StepState struct {
	Step Step
	Done bool
}

// Report is what is known about a host.
type Report struct {
	Facts Facts
	// Steps are all steps of the upgrade, in order; Refused says why there are none.
	Steps   []StepState
	Refused *Failure
	// Next is what Advance would do next.
	Next Progress
}

// Look reads how far an upgrade has come. It changes nothing. Errors are those of the host's transport, or of what the host said.
func Look(ctx context.Context, u Upgrade) (Report, error) {
	facts, err := readFacts(ctx, u)
	if err != nil {
		return Report{}, err
	}
	return u.lookFurther(ctx, facts)
}

// lookFurther reads which steps are done on a host whose facts are known.
func (u Upgrade) lookFurther(ctx context.Context, facts Facts) (Report, error) {
	facts.Oldest = u.Oldest
	if u.Prepare && !facts.ControlPlane {
		// The control plane may follow between now and the upgrade, which looks again.
		facts.APIServer, facts.Oldest = version.Version{}, ControlPlaneNode{}
	}
	report := Report{Facts: facts}
	seen := Seen{Facts: facts, Attempt: u.Attempt}
	steps, refused := ComputeSteps(u.Goal, facts)
	if refused != nil && u.putsBack(seen) {
		// A host that cannot be upgraded to the goal gets back what it ran with as well.
		steps, refused = nil, nil
	}
	if refused != nil {
		return u.refused(report, refused), nil
	}
	printed, err := run(ctx, u.Host, "looking at what is done", ChecksScript(steps))
	if err != nil {
		return Report{}, err
	}
	checks, err := ParseChecks(printed)
	if err != nil {
		return Report{}, err
	}
	seen.Checks = checks
	if u.Node != nil {
		node := u.Node.Look(ctx)
		seen.Node = &node
	}
	if seen.UnsafePatches, err = checkEffects(ctx, u.Goal, facts); err != nil {
		return Report{}, err
	}
	seen.Checks, seen.Sizes = ExpireSnapshot(u.Goal, seen), u.sizes(steps, checks)
	for i, step := range steps {
		report.Steps = append(report.Steps, StepState{Step: step, Done: IsDone(u.Goal, steps, i, seen)})
	}
	decide := Decide
	if u.Prepare {
		decide = DecidePreparation
	}
	report.Next = decide(u.Goal, steps, seen)
	return report, nil
}

// Advance does the next thing: at most one, and it does not wait for its end. Call it again until the upgrade is done or has failed. An error
// says that the host was not reached, or did not answer as it should: nothing is known about what goes on there, and asking again later is
// right, unless it is a *port.HostError that lasts.
func Advance(ctx context.Context, u Upgrade) (Progress, error) {
	facts, err := readFacts(ctx, u)
	if err != nil {
		return Progress{}, err
	}
	if running, ok := Running(u.Goal, facts); ok {
		return running, nil
	}
	report, err := u.lookFurther(ctx, facts)
	if err != nil {
		return Progress{}, err
	}
	if err := u.clean(ctx, report); err != nil {
		return Progress{}, err
	}
	return u.begin(ctx, report.Next)
}

// refused returns the report of a host that has no steps.
func (u Upgrade) refused(report Report, why *Failure) Report {
	running, ok := Running(u.Goal, report.Facts)
	if !ok {
		running.Failure, running.Job = why, report.Facts.Job
	}
	report.Refused, report.Next = why, running
	return report
}

// putsBack reports whether a restart is ended before all else. A host whose service is unknown starts
// it by itself.
func (u Upgrade) putsBack(s Seen) bool {
	return !u.Prepare && s.Facts.Service != "" && undoesRestart(u.Goal, s)
}

// clean ends an upgrade that is done. Binaries that are in their places leave as much room as the
// staged ones take. The script also records that the upgrade is done, so that nobody waits for it.
func (u Upgrade) clean(ctx context.Context, r Report) error {
	if !r.Next.Done || u.Prepare {
		return nil
	}
	if !r.Facts.Cleaned {
		if _, err := run(ctx, u.Host, "removing what was staged", u.Goal.script("clean")); err != nil {
			return err
		}
	}
	if r.Facts.Cordoned && !r.Next.Cordoned {
		// Somebody has made the node schedulable, and may cordon it later.
		return u.recordUncordon(ctx)
	}
	return nil
}

// Follow is Advance for an upgrade that nobody wants any longer: it looks, and begins nothing but
// KubeadmRecover and PutBack, because they undo. Where neither Done nor Failure is set, and nothing is waited
// for, nothing goes on, and only a step that would have to begin could bring the upgrade further.
func Follow(ctx context.Context, u Upgrade) (Progress, error) {
	report, err := Look(ctx, u)
	if err != nil {
		return Progress{}, err
	}
	p := report.Next
	if begin, ok := report.findRecovery(); ok {
		return u.undo(ctx, begin)
	}
	if err := u.clean(ctx, report); err != nil {
		return Progress{}, err
	}
	if p.Begin != nil {
		p.Begin, p.Step = nil, ""
	}
	return p, nil
}

// CanBegin returns what would keep an upgrade from its end, as far as that can be seen before anything
// is begun; nil for nothing. It changes nothing. Errors are those of Look.
func CanBegin(ctx context.Context, u Upgrade) (*Failure, error) {
	report, err := Look(ctx, u)
	if err != nil || report.Next.Failure != nil {
		return report.Next.Failure, err
	}
	if unfinished := Unfinished(report.Facts); u.Prepare && unfinished != nil {
		return unfinished, nil
	}
	if step, err := FindMissing(u.Bundle, report.Steps); err != nil {
		return newFailure(DownloadFailed, step, "%v", err), nil
	}
	return nil, nil //nolint:nilnil // Nothing keeps it from its end.
}

// sizes returns those of the archives of images that are still to be sent. FindMissing and the step
// itself tell of a file that the bundle lacks.
func (u Upgrade) sizes(steps []Step, checks Checks) map[Name]int64 {
	sizes := make(map[Name]int64)
	for _, step := range steps {
		send, ok := step.Action.(Send)
		if !ok || u.Bundle == nil || checks[step.Name].Done || !isArchive(send.Name) {
			continue
		}
		if _, size, err := u.Bundle.Open(send.Name); err == nil {
			sizes[step.Name] = size
		}
	}
	return sizes
}

// FindMissing returns the first step that sends a file which the bundle does not have, and the error
// that says so; nil if it has all files that are still to be sent.
func FindMissing(bundle Bundle, steps []StepState) (Name, error) {
	for _, s := range steps {
		send, ok := s.Step.Action.(Send)
		if !ok || s.Done {
			continue
		}
		if _, _, err := bundle.Open(send.Name); err != nil {
			return s.Step.Name, err
		}
	}
	return "", nil
}

func readFacts(ctx context.Context, u Upgrade) (Facts, error) {
	printed, err := run(ctx, u.Host, "reading the host's facts", FactsScript(u.Goal))
	if err != nil {
		return Facts{}, err
	}
	return ParseFacts(printed)
}

// begin begins what was decided.
func (u Upgrade) begin(ctx context.Context, p Progress) (Progress, error) {
	switch action := p.Begin.(type) {
	case nil, AwaitControlPlane, AwaitNode:
	case Run:
		return u.start(ctx, action, p)
	case Send:
		return u.send(ctx, action, p)
	case DrainNode:
		return u.drain(ctx, action, p)
	case UncordonNode:
		return p, u.uncordon(ctx)
	}
	return p, nil
}

func (u Upgrade) start(ctx context.Context, job Run, p Progress) (Progress, error) {
	result, err := u.Host.Exec(ctx, port.HostCommand{
		Script: StartScript(u.Goal, p.Step, u.Attempt, u.Proof, job),
	})
	if err != nil {
		return p, fmt.Errorf("starting step %s: %w", p.Step, err)
	}
	if result.ExitCode == StartBusy {
		p.Message = "the host is busy: " + describe(result)
		return p, nil
	}
	if result.ExitCode != 0 {
		p.Failure = startFailure(p.Step, result)
	}
	return p, nil
}

// startFailure tells why a job could not even be started: nearly always the disk.
func startFailure(step Name, result port.HostResult) *Failure {
	return FailureOf(Job{Step: step, ExitCode: result.ExitCode, Output: result.Stderr + "\n" + string(result.Stdout)})
}

func (u Upgrade) drain(ctx context.Context, drain DrainNode, p Progress) (Progress, error) {
	if u.Node == nil {
		return p, nil
	}
	if drain.Record {
		// The upgrade makes the node schedulable again.
		if _, err := run(ctx, u.Host, "recording that the node was schedulable", u.Goal.script("cordoned")); err != nil {
			return p, err
		}
	}
	status, err := u.Node.Drain(ctx)
	if err != nil {
		return p, fmt.Errorf("draining the node: %w", err)
	}
	if !status.Done {
		p.Message = "draining the node: " + status.Message
		return p, nil
	}
	_, err = run(ctx, u.Host, "recording that the node is drained", u.Goal.script("drained"))
	return p, err
}

func (u Upgrade) uncordon(ctx context.Context) error {
	if u.Node != nil {
		if err := u.Node.Uncordon(ctx); err != nil {
			return fmt.Errorf("making the node schedulable: %w", err)
		}
	}
	return u.recordUncordon(ctx)
}

func (u Upgrade) recordUncordon(ctx context.Context) error {
	_, err := run(ctx, u.Host, "recording that the node is schedulable", u.Goal.script("uncordoned"))
	return err
}

// partSize is how much of a file is sent at once, in bytes: what a slow line carries in the few seconds that one call may take.
const partSize = 4 << 20

func (u Upgrade) send(ctx context.Context, file Send, p Progress) (Progress, error) {
	content, size, err := u.Bundle.Open(file.Name)
	if err != nil {
		p.Failure = &Failure{Reason: DownloadFailed, Step: p.Step, Message: err.Error()}
		return p, nil //nolint:nilerr // A file that the bundle does not have is a failure of the upgrade, which is told as one.
	}
	offset := min(file.Offset, size)
	length := min(size-offset, partSize)
	part := make([]byte, length)
	if n, err := content.ReadAt(part, offset); n < len(part) {
		return p, fmt.Errorf("reading %s of the bundle: %w", file.Name, err)
	}
	result, err := u.Host.Exec(ctx, port.HostCommand{
		Script: SendScript(u.Goal, file, file.Offset, length, offset+length == size), Stdin: bytes.NewReader(part),
	})
	if err != nil {
		return p, fmt.Errorf("sending %s: %w", file.Name, err)
	}
	if result.ExitCode != 0 && result.ExitCode != SendMoved {
		p.Failure = startFailure(p.Step, result)
	}
	return p, nil
}

// run runs a script that must end well, and gives what it printed.
func run(ctx context.Context, host port.Host, what, script string) (string, error) {
	result, err := host.Exec(ctx, port.HostCommand{Script: script})
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if result.ExitCode != 0 {
		return "", fmt.Errorf("%s: exit code %d: %s", what, result.ExitCode, describe(result))
	}
	return string(result.Stdout), nil
}

func describe(result port.HostResult) string {
	// Mask first: it tells secrets of several lines by their lines.
	return strings.Join(strings.Fields(Mask(result.Stderr+"\n"+string(result.Stdout))), " ")
}
