package updatercmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// runPace is how long is waited before a step that runs is looked at again.
	runPace = time.Second
	// firstBackoff and lastBackoff are how long is waited before a host that did not answer is tried again.
	firstBackoff, lastBackoff = 500 * time.Millisecond, 5 * time.Second
	// firstTries is how often a host is tried that has never answered: its address may be wrong.
	firstTries = 3
	// outagePace is how often it is said that nothing is heard.
	outagePace = 30 * time.Second
	// silence is how long a host that answers may take at most for one answer, as far as people are told.
	silence = 10 * time.Second
	// lastLookTimeout bounds the look at the node after the end.
	lastLookTimeout = 5 * time.Second
)

// runDriver carries an upgrade out, and says what happens.
type runDriver struct {
	upgrade linuxhost.Upgrade
	address string
	// reach returns the host for a new connection.
	reach func() (port.Host, error)
	// node is nil where nobody looks at it.
	node *workload.SingleNode
	// oldestNode and unknown are those of clusterView.
	oldestNode version.Version
	unknown    error
	printer    runPrinter
	clock      cli.Clock
	tracker    runTracker
	outage     runOutage
	// heard is when the host answered last, or when the run began.
	heard time.Time
}

func newRunDriver(
	r runRequest, host port.Host, view clusterView, tools runTools, printer runPrinter,
) *runDriver {
	d := &runDriver{
		upgrade: linuxhost.Upgrade{
			Goal: r.goal, Host: host, Bundle: r.bundle, Attempt: tools.attempt(), Oldest: view.oldest,
			Prepare: r.prefetch,
		},
		address: r.login.Address, node: view.node, unknown: view.unknown, oldestNode: view.oldestNode, printer: printer,
		clock: tools.clock,
		reach: func() (port.Host, error) { return tools.reach(r.login) },
	}
	if view.node != nil {
		d.upgrade.Node = view.node
	}
	d.printer.began = d.clock.Now()
	d.heard = d.printer.began
	return d
}

// run prints the steps, and carries them out unless it only shows them.
func (d *runDriver) run(ctx context.Context, dryRun bool) error {
	report, err := d.look(ctx)
	if err != nil {
		return err
	}
	if report.Refused != nil {
		return cli.Refusedf("host %s cannot be upgraded to %s: %s", d.address, d.upgrade.Goal.Version, report.Refused)
	}
	if report, err = d.keepPreparation(report); err != nil {
		return err
	}
	// The control plane's only API server may be the one that its own upgrade has stopped.
	if d.unknown != nil && !report.Facts.ControlPlane {
		return fmt.Errorf(
			"finding the oldest API server, which a worker must not be newer than: %w", d.unknown)
	}
	// The bundle is on this machine, so it is checked before anything is done.
	if _, err := linuxhost.FindMissing(d.upgrade.Bundle, report.Steps); err != nil {
		return cli.WrapInput("--bundle", err)
	}
	plan := computePlan(d.upgrade.Goal, report, d.node != nil)
	plan.DryRun, plan.Host = dryRun, d.address
	if d.node != nil {
		plan.Node = d.node.Name()
	}
	if err := d.printer.plan(plan); err != nil {
		return err
	}
	d.printer.NoteAll(linuxhost.Warnings(d.upgrade.Goal, report.Facts))
	d.printer.NoteAll(planNotes(report.Facts, d.upgrade.Goal, d.node != nil || d.upgrade.Prepare))
	if dryRun {
		d.printer.NoteAll(linuxhost.KnownRisks(
			d.upgrade.Goal, report.Facts, d.node != nil, d.oldestNode))
		d.printer.NoteAll(sourceNotes(d.upgrade.Goal.Source, report.Steps))
		return d.foresee(report)
	}
	for _, step := range report.Steps {
		d.tracker.order = append(d.tracker.order, step.Step.Name)
	}
	return d.follow(ctx)
}

// foresee tells what would keep the host from being upgraded, as far as that can be seen.
func (d *runDriver) foresee(report linuxhost.Report) error {
	if failure := report.Next.Failure; failure != nil {
		return cli.Refusedf("host %s would not be brought to %s: %s", d.address, d.upgrade.Goal.Version, failure)
	}
	return nil
}

// planNotes says what people should know of a host besides its steps.
func planNotes(f linuxhost.Facts, g linuxhost.Goal, watched bool) []string {
	var notes []string
	if running, ok := linuxhost.Running(g, f); ok {
		notes = append(notes, running.Message)
	}
	if note := linuxhost.NoteArchives(g, f); note != "" {
		notes = append(notes, note)
	}
	if !watched {
		notes = append(notes, "the node is neither drained nor watched, as --no-drain says: its pods stay, and nobody waits until it is Ready")
	}
	return notes
}

// sourceNotes says what a look at the host does not show: whether binaries are where they are to come from.
func sourceNotes(source linuxhost.Source, steps []linuxhost.StepState) []string {
	fetches := func(s linuxhost.StepState) bool {
		return !s.Done && strings.HasPrefix(string(s.Step.Name), linuxhost.FetchPrefix)
	}
	if source.URL == "" || !slices.ContainsFunc(steps, fetches) {
		return nil
	}
	return []string{fmt.Sprintf("whether %s has them is seen when they are fetched: nobody has looked for the binaries there", source.URL)}
}

// look reads how far the host is.
func (d *runDriver) look(ctx context.Context) (linuxhost.Report, error) {
	for tries := 1; ; tries++ {
		report, err := linuxhost.Look(ctx, d.upgrade)
		switch {
		case err == nil:
			d.answered()
			return report, nil
		case ctx.Err() != nil:
			return report, d.unfinished(ctx)
		case lasts(err) || tries == firstTries:
			return report, err
		}
		if err := d.prepareRetry(ctx, err); err != nil {
			return report, err
		}
	}
}

// follow does one thing after another until the upgrade has ended.
func (d *runDriver) follow(ctx context.Context) error {
	for {
		progress, err := linuxhost.Advance(ctx, d.upgrade)
		if err != nil {
			if err := d.outlast(ctx, err); err != nil {
				return err
			}
			continue
		}
		d.answered()
		if err := d.printer.changes(d.tracker.observe(progress), d.clock.Now()); err != nil {
			return err
		}
		switch {
		case progress.Done && d.upgrade.Prepare:
			return d.prepared()
		case progress.Done:
			return d.done(ctx, progress)
		case progress.Failure != nil:
			return d.failed(ctx, *progress.Failure)
		case !isSending(d.upgrade.Goal, progress) && !d.wait(ctx, runPace):
			return d.unfinished(ctx)
		}
	}
}

// outlast waits until a step that met an error can be tried again. It returns why it cannot.
func (d *runDriver) outlast(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return d.unfinished(ctx)
	case lasts(err):
		return err
	}
	return d.prepareRetry(ctx, err)
}

// isSending reports whether a part of a file was sent, after which the next one can be sent at once.
func isSending(g linuxhost.Goal, p linuxhost.Progress) bool {
	return g.Source.Bundle && !p.Waits() && strings.HasPrefix(string(p.Step), linuxhost.FetchPrefix)
}

// lasts reports whether trying again changes nothing.
func lasts(err error) bool {
	failed, ok := errors.AsType[*port.HostError](err)
	return ok && failed.Lasts()
}

// wait reports whether there is time left after a pause.
func (d *runDriver) wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-d.clock.After(pause):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// runOutage is a time in which nothing was heard.
type runOutage struct {
	since, told time.Time
	backoff     time.Duration
	// host says that it is the host that does not answer.
	host bool
}

// lost says now and then that nothing is heard, waits, and reports whether there is time left.
func (d *runDriver) lost(ctx context.Context, err error) bool {
	now := d.clock.Now()
	if d.outage.backoff == 0 {
		d.outage = runOutage{since: now, told: now, backoff: firstBackoff}
		d.printer.Note(cli.OneLine(describeHostError(err).Error()) + "; it is tried again")
	} else {
		d.outage.backoff = min(2*d.outage.backoff, lastBackoff)
	}
	if now.Sub(d.outage.told) >= outagePace {
		d.outage.told = now
		d.printer.Note(fmt.Sprintf("%s; it has been tried again for %s", cli.OneLine(describeHostError(err).Error()), now.Sub(d.outage.since).Truncate(time.Second)))
	}
	d.outage.host = port.ReasonOfHost(err) != ""
	return d.wait(ctx, d.outage.backoff)
}

// prepareRetry waits after an error that may pass. It returns why there is no other try.
func (d *runDriver) prepareRetry(ctx context.Context, err error) error {
	if !d.lost(ctx, err) {
		return d.unfinished(ctx)
	}
	return d.reconnect(err)
}

// reconnect makes another connection after one was lost: a port.Host does not log in twice. Nobody but
// the person who gives the command names the host, and known hosts pin its key, so the host needs no
// other proof.
func (d *runDriver) reconnect(lost error) error {
	if port.ReasonOfHost(lost) != port.HostLost {
		return nil
	}
	_ = d.upgrade.Host.Close() // The connection is lost already.
	host, err := d.reach()
	if err != nil {
		return err
	}
	d.upgrade.Host = host
	return nil
}

// answered says that there is an answer again.
func (d *runDriver) answered() {
	d.heard = d.clock.Now()
	if d.outage.backoff == 0 {
		return
	}
	d.printer.Note(fmt.Sprintf("there is an answer again, after %s", d.clock.Now().Sub(d.outage.since).Truncate(time.Second)))
	d.outage = runOutage{}
}

func (d *runDriver) done(ctx context.Context, p linuxhost.Progress) error {
	message := fmt.Sprintf("host %s is at %s", d.address, d.upgrade.Goal.Version)
	const why = "it was so before; an earlier upgrade may have cordoned it. Fix: kubectl uncordon"
	if cordon := d.describeCordon(ctx, why); cordon != "" {
		message += "; " + cordon
	}
	if p.Cordoned {
		message += "; an earlier run cordoned the node, and nobody has looked whether it still is. " +
			"Fix: kubectl uncordon NODE"
	}
	return d.printer.finished(message, d.clock.Now())
}

func (d *runDriver) failed(ctx context.Context, failure linuxhost.Failure) error {
	message := fmt.Sprintf("host %s was not brought to %s: %s", d.address, d.upgrade.Goal.Version, failure)
	if cordon := d.describeCordon(ctx, "until that has succeeded"); cordon != "" {
		message += "; " + cordon
	}
	return cli.Refusedf("%s. %s", message, computeAdvice(failure))
}

// computeAdvice returns what a person does after a failure. The failure may name the fix itself.
func computeAdvice(failure linuxhost.Failure) string {
	const (
		done  = "Completed steps stay done. "
		again = "run the same command again; it continues from there"
	)
	switch {
	case strings.Contains(failure.Message, "Fix: "):
		return "Then run the same command again; completed steps stay done"
	case isForPeople(failure.Reason):
		return done + "Fix: correct the cause, and " + again
	}
	return done + "Fix: " + again
}

// isForPeople reports whether the same command fails again until somebody has fixed something.
func isForPeople(r linuxhost.Reason) bool {
	switch r {
	case linuxhost.NotThisDistribution, linuxhost.VersionRefused, linuxhost.NoDigest, linuxhost.WrongDigest, linuxhost.WrongVersion, linuxhost.DownloadFailed, linuxhost.DiskFull,
		linuxhost.FolderReadOnly, linuxhost.ToolMissing, linuxhost.FileRefused, linuxhost.WrongHost,
		linuxhost.EtcdUnhealthy, linuxhost.EtcdUnknown, linuxhost.ServiceNotStarted,
		linuxhost.ConfigUnreadable, linuxhost.ConfigUnsupported, linuxhost.RemovedSetting,
		linuxhost.ImageMissing, linuxhost.RegistryRefused, linuxhost.RegistryUnreachable,
		linuxhost.ImagePullFailed, linuxhost.ArchiveUnusable, linuxhost.RuntimeUnavailable:
		return true
	case linuxhost.SnapshotFailed, linuxhost.StepFailed, linuxhost.StepTimedOut, linuxhost.StepHadNoEffect,
		linuxhost.ControlPlaneNotReady, linuxhost.NodeNotReady:
	}
	return false
}

// unfinished says what goes on where nobody waits any longer.
func (d *runDriver) unfinished(ctx context.Context) error {
	why := "interrupted"
	if cause := context.Cause(ctx); errors.Is(cause, errRunTimeout) {
		why = cause.Error()
	}
	going, silent := "nothing was begun on the host", d.clock.Now().Sub(d.heard)
	switch {
	case d.tracker.shown.Step != "" && (d.outage.host || silent > silence):
		going = fmt.Sprintf("the host has not answered for %s; it is unknown whether step %s still runs there", silent.Truncate(time.Second), d.tracker.shown.Step)
	case d.tracker.order != nil && d.outage.host:
		going = fmt.Sprintf("the host has not answered for %s; it is unknown whether a step still runs there", silent.Truncate(time.Second))
	case d.tracker.shown.State == linuxhost.LogRunning:
		going = fmt.Sprintf("step %s continues on the host, and the next one does not begin", d.tracker.shown.Step)
	case d.tracker.shown.Step != "":
		going = fmt.Sprintf("step %s was waited for", d.tracker.shown.Step)
	}
	message := why + ": " + going
	if d.tracker.shown.Step != "" {
		if cordon := d.describeCordon(ctx, "until all is done"); cordon != "" {
			message += "; " + cordon
		}
	}
	return &cli.ExitError{Code: cli.ExitUnfinished, Err: fmt.Errorf("%s. Fix: run the same command again to continue; add --dry-run to see the progress", message)}
}

// describeCordon says that the node is cordoned; nothing where it is not, or nobody looks at it.
func (d *runDriver) describeCordon(ctx context.Context, why string) string {
	if d.node == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLookTimeout)
	defer cancel()
	node := d.node.Look(ctx)
	switch {
	case node.Unknown != "":
		return fmt.Sprintf("whether Node %s is cordoned cannot be seen: %s", d.node.Name(), cli.OneLine(node.Unknown))
	case node.Unschedulable:
		return fmt.Sprintf("Node %s is cordoned, and stays so: %s", d.node.Name(), why)
	}
	return ""
}

// runChange is a step that is in another state than before.
type runChange struct {
	Step    linuxhost.Name
	State   linuxhost.LogState
	Message string
	// Output is the last of what a failed step printed; Quoted says that Message tells the same, after the reason.
	Output string
	Quoted bool
}

// runTracker tells what is new.
type runTracker struct {
	// order has all steps. Those before one that is begun are done.
	order []linuxhost.Name
	shown runChange
}

// observe gives what has changed.
func (t *runTracker) observe(p linuxhost.Progress) []runChange {
	now := computeChange(p)
	if now == t.shown {
		if isStartedAgain(now, p) {
			now.Message = "started again: it ended without a result"
			return []runChange{now}
		}
		return nil
	}
	var changes []runChange
	before := t.shown
	t.shown = now
	if before.Step != "" && before.Step != now.Step && (p.Done || t.precedes(before.Step, p)) {
		changes = append(changes, runChange{Step: before.Step, State: linuxhost.LogDone})
	}
	if p.Done || now.Step == "" && now.Message == "" {
		return changes
	}
	return append(changes, now)
}

// isStartedAgain reports whether a step was started whose job has vanished, as after a power cut.
func isStartedAgain(now runChange, p linuxhost.Progress) bool {
	return now.State == linuxhost.LogRunning && p.Job.State == linuxhost.JobVanished && p.Job.Step == p.Step
}

// precedes reports whether a step comes before the one that is begun or waited for. A failure may be of a step that comes later than what is done.
func (t *runTracker) precedes(step linuxhost.Name, p linuxhost.Progress) bool {
	at := slices.Index(t.order, step)
	return p.Failure == nil && at >= 0 && at < slices.Index(t.order, p.Step)
}

// computeChange says in which state the step is that is at work. A step that runs has no message: how long it runs changes all the time.
func computeChange(p linuxhost.Progress) runChange {
	change := runChange{Step: p.Step, State: linuxhost.LogRunning}
	switch {
	case p.Done:
		return runChange{State: linuxhost.LogDone}
	case p.Failure != nil:
		change.State, change.Message = linuxhost.LogFailed, string(p.Failure.Reason)+": "+p.Failure.Message
		if p.Job.State == linuxhost.JobEnded && p.Job.Step == p.Failure.Step {
			change.Output, change.Quoted = lastOutput(p.Job.Output)
		}
	case p.Waits() && p.Job.State == linuxhost.JobRunning && p.Job.Step != p.Step:
		change.State, change.Message = linuxhost.LogWaiting, fmt.Sprintf("another upgrade of this host, to %s, runs step %s", p.Job.Operation, p.Job.Step)
	case p.Waits() && p.Job.State != linuxhost.JobRunning:
		change.State, change.Message = linuxhost.LogWaiting, p.Message
	}
	return change
}

// maxOutputLines is how many lines of a failed step are shown.
const maxOutputLines = 20

// lastOutput gives the last lines of what a failed step printed, and whether the failure's message was made of them.
func lastOutput(output string) (last string, quoted bool) {
	lines := strings.Split(strings.TrimRight(output, "\n "), "\n")
	all := len(lines)
	lines = linuxhost.DropReasons(lines)
	last = strings.Join(lines[max(0, len(lines)-maxOutputLines):], "\n")
	return last, last != "" && len(lines) == all
}
