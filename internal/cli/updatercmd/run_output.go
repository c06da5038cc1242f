package updatercmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/text"
)

// runPrinter prints how long a run has taken with each line.
type runPrinter struct {
	cli.LinePrinter
	// width is that of tables; 0 means no limit.
	width int
	began time.Time
}

// The states of a planned step.
const (
	stepDone    = "done"
	stepRunning = "running"
	stepToDo    = "to do"
	stepLeftOut = "left out"
)

// plannedStep is a step of a plan; what stands in a table, and in JSON.
type plannedStep struct {
	Step  linuxhost.Name `json:"step"`
	State string         `json:"state"`
	What  string         `json:"what"`
}

// computePlan says what is known of the host, and of the steps.
func computePlan(g linuxhost.Goal, r linuxhost.Report, watched bool) runPlanDocument {
	var running linuxhost.Name
	if job := r.Facts.Job; job.State == linuxhost.JobRunning && job.Operation == g.Operation() {
		running = job.Step
	}
	plan := runPlanDocument{From: r.Facts.Installed.String(), To: g.Version.String(), Steps: computePlanned(r.Steps, running, watched)}
	if !r.Facts.Running.IsZero() && r.Facts.Running != r.Facts.Installed {
		plan.From, plan.inPlace = r.Facts.Running.String(), r.Facts.Installed.String()
	}
	return plan
}

// computePlanned says which steps are done, and which one runs. What is only done because the drain has not begun is still to do.
func computePlanned(steps []linuxhost.StepState, running linuxhost.Name, watched bool) []plannedStep {
	planned := make([]plannedStep, 0, len(steps))
	drained := true
	for _, s := range steps {
		state := stepToDo
		if s.Done {
			state = stepDone
		}
		if s.Step.Name == linuxhost.Drain {
			drained = s.Done
		}
		if s.Step.Name == linuxhost.Uncordon && !drained {
			state = stepToDo
		}
		if s.Step.Name == linuxhost.NodeReady && !watched {
			state = stepLeftOut
		}
		if s.Step.Name == running {
			state = stepRunning
		}
		planned = append(planned, plannedStep{Step: s.Step.Name, State: state, What: s.Step.Summary})
	}
	return planned
}

// runPlanDocument is the first line of `windlass updater kubeadm run -o json`, a stable interface: fields are never renamed or removed.
type runPlanDocument struct {
	DryRun bool   `json:"dryRun"`
	Host   string `json:"host"`
	// Node is left out where nobody looks at it.
	Node string `json:"node,omitempty"`
	// From is the version that runs.
	From  string        `json:"from"`
	To    string        `json:"to"`
	Steps []plannedStep `json:"steps"`
	// inPlace is the version that the next restart brings; empty where it is the one that runs.
	inPlace string
}

func (p runPrinter) plan(d runPlanDocument) error {
	if p.JSON {
		return cli.WriteLine(p.Out, d)
	}
	var buffer strings.Builder
	fmt.Fprintf(&buffer, "Host %s, at %s", d.Host, d.From)
	if d.inPlace != "" {
		fmt.Fprintf(&buffer, " (%s is in place, and waits for a restart)", d.inPlace)
	}
	buffer.WriteString(", to " + d.To)
	if d.Node != "" {
		buffer.WriteString("; its node is " + d.Node)
	}
	buffer.WriteString("\n\n")
	rows := make([][]string, 0, len(d.Steps))
	for _, s := range d.Steps {
		rows = append(rows, []string{string(s.Step), s.State, text.Printable(s.What)})
	}
	text.WriteTable(&buffer, []string{"STEP", "STATE", "WHAT"}, rows, p.width)
	buffer.WriteString("\n")
	return p.Print(buffer.String())
}

// runChangeDocument is a line of `windlass updater kubeadm run -o json`, a stable interface.
type runChangeDocument struct {
	Time           time.Time          `json:"time"`
	ElapsedSeconds int64              `json:"elapsedSeconds"`
	Step           linuxhost.Name     `json:"step,omitempty"`
	State          linuxhost.LogState `json:"state"`
	Message        string             `json:"message,omitempty"`
	Output         string             `json:"output,omitempty"`
}

func (p runPrinter) changes(changes []runChange, now time.Time) error {
	for _, c := range changes {
		if err := p.change(c, now); err != nil {
			return err
		}
	}
	return nil
}

func (p runPrinter) change(c runChange, now time.Time) error {
	elapsed := now.Sub(p.began).Truncate(time.Second)
	if p.JSON {
		return cli.WriteLine(p.Out, runChangeDocument{
			Time: now.UTC(), ElapsedSeconds: int64(elapsed / time.Second), Step: c.Step, State: c.State, Message: c.Message, Output: c.Output,
		})
	}
	message := cli.OneLine(c.Message)
	if c.Quoted {
		message, _, _ = strings.Cut(message, ": ")
	}
	line := strings.TrimRight(fmt.Sprintf("%7s  %-18s %-8s %s", elapsed, c.Step, c.State, message), " ") + "\n"
	if c.Output != "" {
		line += cli.Indented(c.Output, "         ")
	}
	return p.Print(line)
}

// finished says that all is done.
func (p runPrinter) finished(message string, now time.Time) error {
	if p.JSON {
		return p.change(runChange{State: linuxhost.LogDone, Message: message}, now)
	}
	return p.Print(fmt.Sprintf("%7s  done: %s\n", now.Sub(p.began).Truncate(time.Second), text.Printable(message)))
}
