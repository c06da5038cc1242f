package linuxhost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
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
	// Bundle is needed where the goal's source is one.
	Bundle Bundle
	// Attempt names the attempt. A step that failed is run again by another attempt only.
	Attempt string
	// Proof is kept on the host with each step that is started: see hosts.Proof. Empty for none.
	Proof string
}

// Progress is how far an upgrade has come.
type Progress struct {
	// Done says that the host is what it is to be, and Failure why the attempt failed; neither is set while it goes on.
	Done    bool
	Failure *Failure
	// Step is the step that runs, or is waited for; Finished of Total steps are done.
	Step            Name
	Finished, Total int
	// Message says what runs, or is waited for.
	Message string
	// Job is what is known about the last job, with what it printed, without secrets.
	Job     Job
	cleaned bool
}

// Waits reports whether there is nothing to do but to wait.
func (p Progress) Waits() bool { return p.Message != "" }

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
	seen    Seen
}

// Next decides what Advance would do next. A host that is refused has no next.
func (r Report) Next(g Goal) Next {
	steps := make([]Step, 0, len(r.Steps))
	for _, step := range r.Steps {
		steps = append(steps, step.Step)
	}
	return Decide(g, steps, r.seen)
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
	report := Report{Facts: facts}
	steps, refused := ComputeSteps(u.Goal, facts)
	if refused != nil {
		report.Refused = refused
		return report, nil
	}
	printed, err := run(ctx, u.Host, "looking at what is done", port.HostCommand{Script: ChecksScript(steps)})
	if err != nil {
		return Report{}, err
	}
	checks, err := ParseChecks(printed)
	if err != nil {
		return Report{}, err
	}
	report.seen = Seen{Facts: facts, Checks: checks, Attempt: u.Attempt}
	if u.Node != nil {
		node := u.Node.Look(ctx)
		report.seen.Node = &node
	}
	for i, step := range steps {
		report.Steps = append(report.Steps, StepState{Step: step, Done: IsDone(u.Goal, steps, i, report.seen)})
	}
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
		return Progress{Step: running.Step, Message: running.Message, Job: maskText(facts.Job)}, nil
	}
	report, err := u.lookFurther(ctx, facts)
	if err != nil {
		return Progress{}, err
	}
	progress := report.progress()
	if report.Refused != nil {
		return progress, nil
	}
	return u.apply(ctx, report.Next(u.Goal), progress)
}

// progress is how far a host was when it was looked at.
func (r Report) progress() Progress {
	p := Progress{Job: maskText(r.Facts.Job), Failure: r.Refused, Total: len(r.Steps), cleaned: r.Facts.Cleaned}
	for _, step := range r.Steps {
		if step.Done {
			p.Finished++
		}
	}
	return p
}

func maskText(job Job) Job {
	job.Output = Mask(job.Output)
	return job
}

func readFacts(ctx context.Context, u Upgrade) (Facts, error) {
	printed, err := run(ctx, u.Host, "reading the host's facts", port.HostCommand{Script: FactsScript(u.Goal)})
	if err != nil {
		return Facts{}, err
	}
	return ParseFacts(printed)
}

// apply carries out what was decided.
func (u Upgrade) apply(ctx context.Context, next Next, p Progress) (Progress, error) {
	switch next := next.(type) {
	case Done:
		return u.finish(ctx, p)
	case Fail:
		p.Step, p.Failure = next.Failure.Step, &next.Failure
		return p, nil
	case Wait:
		p.Step, p.Message = next.Step, next.Message
		return p, nil
	case Start:
		p.Step = next.Step.Name
		return u.start(ctx, next, p)
	case SendPart:
		p.Step = next.Step.Name
		return u.send(ctx, next, p)
	case DrainNext:
		p.Step = Drain
		return u.drain(ctx, next, p)
	case UncordonNext:
		p.Step = Uncordon
		return p, u.uncordon(ctx)
	}
	return p, fmt.Errorf("nothing is known about a %T", next)
}

// finish removes what was staged, and only then tells that the upgrade is done. It does so once.
func (u Upgrade) finish(ctx context.Context, p Progress) (Progress, error) {
	if !p.cleaned {
		if _, err := run(ctx, u.Host, "removing what was staged", port.HostCommand{Script: CleanScript(u.Goal)}); err != nil {
			return p, err
		}
	}
	p.Done = true
	return p, nil
}

func (u Upgrade) start(ctx context.Context, next Start, p Progress) (Progress, error) {
	result, err := u.Host.Exec(ctx, port.HostCommand{
		Script: StartScript(u.Goal, next.Step.Name, u.Attempt, u.Proof, next.Run.Limit),
		Stdin:  strings.NewReader(next.Run.Script),
	})
	if err != nil {
		return p, fmt.Errorf("starting step %s: %w", next.Step.Name, err)
	}
	if result.ExitCode == StartBusy {
		p.Message = "the host is busy: " + describe(result)
		return p, nil
	}
	if result.ExitCode != 0 {
		p.Failure = startFailure(next.Step.Name, result)
	}
	return p, nil
}

// startFailure tells why a job could not even be started: nearly always the disk.
func startFailure(step Name, result port.HostResult) *Failure {
	failure := FailureOf(Job{Step: step, ExitCode: result.ExitCode, Output: result.Stderr + "\n" + string(result.Stdout)})
	return &failure
}

func (u Upgrade) drain(ctx context.Context, next DrainNext, p Progress) (Progress, error) {
	if u.Node == nil {
		return p, nil
	}
	if next.Record {
		if _, err := run(ctx, u.Host, "recording that the node was schedulable", port.HostCommand{Script: CordonedScript(u.Goal)}); err != nil {
			return p, err
		}
	}
	status, err := u.Node.Drain(ctx)
	if err != nil {
		return p, fmt.Errorf("draining the node: %w", err)
	}
	if !status.Done {
		p.Message = "the node is drained: " + status.Message
		return p, nil
	}
	_, err = run(ctx, u.Host, "recording that the node is drained", port.HostCommand{Script: DrainedScript(u.Goal)})
	return p, err
}

func (u Upgrade) uncordon(ctx context.Context) error {
	if u.Node != nil {
		if err := u.Node.Uncordon(ctx); err != nil {
			return fmt.Errorf("making the node schedulable: %w", err)
		}
	}
	_, err := run(ctx, u.Host, "recording that the node is schedulable", port.HostCommand{Script: UncordonedScript(u.Goal)})
	return err
}

// partSize is how much of a file is sent at once, in bytes: what a slow line carries in the few seconds that one call may take.
const partSize = 4 << 20

func (u Upgrade) send(ctx context.Context, next SendPart, p Progress) (Progress, error) {
	file, size, err := u.Bundle.Open(next.Send.Name)
	if err != nil {
		p.Failure = &Failure{Reason: DownloadFailed, Step: next.Step.Name, Message: err.Error()}
		return p, nil //nolint:nilerr // A file that the bundle does not have is a failure of the upgrade, which is told as one.
	}
	offset := min(next.Offset, size)
	length := min(size-offset, partSize)
	part := make([]byte, length)
	if n, err := file.ReadAt(part, offset); n < len(part) {
		return p, fmt.Errorf("reading %s of the bundle: %w", next.Send.Name, err)
	}
	result, err := u.Host.Exec(ctx, port.HostCommand{
		Script: SendScript(u.Goal, next.Send, next.Offset, length, offset+length == size), Stdin: bytes.NewReader(part),
	})
	if err != nil {
		return p, fmt.Errorf("sending %s: %w", next.Send.Name, err)
	}
	if result.ExitCode != 0 && result.ExitCode != SendMoved {
		p.Failure = startFailure(next.Step.Name, result)
	}
	return p, nil
}

// run runs a script that must end well, and gives what it printed.
func run(ctx context.Context, host port.Host, what string, c port.HostCommand) (string, error) {
	result, err := host.Exec(ctx, c)
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
