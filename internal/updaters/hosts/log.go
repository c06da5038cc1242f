package hosts

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// Log keeps what the steps of updates print. It is safe for concurrent use.
type Log interface {
	// Record keeps entries of a Machine's log; ended says that the update has ended well, so that only the last of them need to stay. An update does not
	// depend on its log: what cannot be kept is lost.
	Record(ctx context.Context, machine types.NamespacedName, entries []linuxhost.LogEntry, ended bool)
}

const (
	// logEvery is how often a step that runs is logged while only its output changes.
	logEvery = 15 * time.Second
	// forgetAfter is how long it is remembered what was said of a Machine that nobody asks about.
	forgetAfter = time.Hour
)

// said is what was last said about a Machine.
type said struct {
	operation string
	// step is the step that was begun as the finished+1st of total.
	step            linuxhost.Name
	finished, total int
	// logged are the entries of the last record, at its time.
	logged []linuxhost.LogEntry
	at     time.Time
}

// note remembers how far an upgrade has come, and logs what is new. It gives the progress with its place among the steps, which is not counted while a step
// runs.
func (u *Updater) note(ctx context.Context, a attempt, p linuxhost.Progress) linuxhost.Progress {
	now := u.options.Now()
	s, _ := u.said.Get(a.machine, now)
	if s.operation != a.operation {
		s = said{operation: a.operation}
	}
	if p.Total > 0 {
		s.step, s.finished, s.total = p.Step, p.Finished, p.Total
	} else if p.Step == s.step && p.Step != "" {
		p.Finished, p.Total = s.finished, s.total
	}
	entries := computeEntries(p, a.operation, now)
	if isWorthLogging(s, entries, now) {
		s.logged, s.at = entries, now
		if u.options.Log != nil {
			u.options.Log.Record(ctx, a.machine, entries, p.Done)
		}
	}
	u.said.Put(a.machine, s, now, forgetAfter)
	return p
}

// isWorthLogging reports whether a step or its state is new, or, after a while, its output.
func isWorthLogging(s said, entries []linuxhost.LogEntry, now time.Time) bool {
	if len(entries) != len(s.logged) {
		return true
	}
	output := false
	for i, entry := range entries {
		if entry.Step != s.logged[i].Step || entry.State != s.logged[i].State {
			return true
		}
		output = output || entry.Output != s.logged[i].Output
	}
	return output && now.Sub(s.at) >= logEvery
}

// computeEntries computes what there is to log of how an upgrade goes on: the last job of the operation, and what is waited for, or has ended, besides.
func computeEntries(p linuxhost.Progress, operation string, now time.Time) []linuxhost.LogEntry {
	var entries []linuxhost.LogEntry
	if p.Job.State != linuxhost.NoJob && p.Job.Attempt == operation {
		entry := linuxhost.LogEntry{Time: now, Operation: operation, Step: p.Job.Step, State: stateOf(p.Job), Output: p.Job.Output}
		if p.Job.State == linuxhost.JobVanished {
			entry.Output += "\nit was cut short"
		}
		entries = append(entries, entry)
	}
	last, ok := computeLast(p)
	if !ok {
		return entries
	}
	last.Time, last.Operation = now, operation
	if n := len(entries); n > 0 && entries[n-1].Step == last.Step {
		last.Output = strings.TrimLeft(entries[n-1].Output+"\n"+last.Output, "\n")
		entries = entries[:n-1]
	}
	return append(entries, last)
}

// computeLast computes what there is to say beside what a job prints; ok is false where that is nothing.
func computeLast(p linuxhost.Progress) (last linuxhost.LogEntry, ok bool) {
	switch {
	case p.Done:
		return linuxhost.LogEntry{State: linuxhost.LogDone, Output: describeDone(p)}, true
	case p.Failure != nil:
		return linuxhost.LogEntry{Step: p.Failure.Step, State: linuxhost.LogFailed, Output: p.Failure.String()}, true
	case p.Waits() && p.Job.State != linuxhost.JobRunning:
		return linuxhost.LogEntry{Step: p.Step, State: linuxhost.LogWaiting, Output: p.Message}, true
	case p.Step != "" && !p.Waits():
		return linuxhost.LogEntry{Step: p.Step, State: linuxhost.LogRunning}, true
	}
	return linuxhost.LogEntry{}, false
}

func describeDone(p linuxhost.Progress) string {
	if p.Cordoned {
		return "all steps are done; an earlier run cordoned the node. " +
			"Fix: if it stays cordoned, kubectl uncordon it"
	}
	return "all steps are done"
}

func stateOf(job linuxhost.Job) linuxhost.LogState {
	switch {
	case job.State == linuxhost.JobRunning:
		return linuxhost.LogRunning
	case job.State == linuxhost.JobEnded && job.ExitCode == 0:
		return linuxhost.LogDone
	}
	return linuxhost.LogFailed
}
