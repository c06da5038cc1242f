package inplace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestScenarios runs the scripts in testdata/scenarios. `go test -run TestScenarios -rewrite` writes their outputs anew.
//
//	begin [plan=v-c] [from=v…] [to=v…] [drain] [soak=…] [attempts=…] [timeout=…] [max-minors=…] [dirty=…] [in-flight=n/m] [cordoned] [no-decision] [drifted]
//	                        starts a scenario. A step v sets the version, c does not; V and C need a drain
//	decide                  reads the facts, decides, records
//	answer [effect] outcome=(inprogress|done|failed|unknown) [retry=5s] [msg=…]
//	                        carries the Call out; with effect, the kubelet is at the desired version from then on
//	readiness [no=…] [unknown=…]
//	                        says what updaters answer from then on where they are asked whether they can begin; yes before
//	drained, blocked        carries the Drain out, or finds that it is not over
//	crash [unsaved]         forgets everything that is not recorded; unsaved decides first, and records nothing
//	tick 30s                lets time pass
//	node [kubelet=v…] [ready|not-ready] [outage|reached] [gone|back] [cordoned|schedulable]
//	annotate retry|abandon
//	owner moved-on
//	desired v…              changes the Machine's spec
//	queue n                 says how many other machines are being updated
//
// What a verdict leads to without any choice is carried out at once. The output is what was done, then what is recorded. After
// every command the invariants of the exploration are checked.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Helper()
		s := &scenario{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			s.out.Reset()
			s.run(t, d)
			if s.violation != "" {
				t.Fatalf("%s: %s", d.Pos, s.violation)
			}
			return s.out.String()
		})
	})
}

type scenario struct {
	world
	// says is what updaters answer where they are asked whether they can begin.
	says inplace.Readiness
	out  strings.Builder
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	switch d.Cmd {
	case "begin":
		s.begin(t, d)
	case "decide":
		s.poll()
		s.settle()
	case "answer":
		c, ok := s.calling()
		if !ok {
			t.Fatalf("%s: no updater is being called", d.Pos)
		}
		s.answer(c, d.HasArg("effect"), readAnswer(t, d))
		s.settle()
	case "readiness":
		s.says = inplace.Readiness{}
		d.MaybeScanArgs(t, "no", &s.says.Refused)
		d.MaybeScanArgs(t, "unknown", &s.says.Unknown)
	case "drained", "blocked":
		s.drain(d.Cmd == "drained", `PodDisruptionBudget "web"`)
		s.settle()
	case "crash":
		if d.HasArg("unsaved") {
			s.poll()
		}
		s.crash()
		s.show()
	case "tick":
		s.now = s.now.Add(duration(t, d, d.CmdArgs[0].Key))
	case "node":
		s.editNode(t, d)
	case "annotate":
		s.retry, s.abandon = s.retry || d.HasArg("retry"), s.abandon || d.HasArg("abandon")
	case "owner":
		s.moved = true
	case "desired":
		s.desired = version.MustParse(d.CmdArgs[0].Key)
	case "queue":
		if _, err := fmt.Sscan(d.CmdArgs[0].Key, &s.others.InFlight); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}

func (s *scenario) begin(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	steps, from, to, soak, timeout, dirty := "", older.String(), newer.String(), "0s", "1m", ""
	attempts, minors := 2, 0
	var queue string
	for name, value := range map[string]*string{"plan": &steps, "from": &from, "to": &to, "soak": &soak, "timeout": &timeout, "dirty": &dirty, "in-flight": &queue} {
		d.MaybeScanArgs(t, name, value)
	}
	d.MaybeScanArgs(t, "attempts", &attempts)
	d.MaybeScanArgs(t, "max-minors", &minors)
	s.world = start(sound(), strings.ReplaceAll(steps, "-", ""), attempts, duration(t, d, soak)).world
	s.desired, s.policy.AttemptTimeout, s.policy.Drain = version.MustParse(to), duration(t, d, timeout), d.HasArg("drain")
	for i := range s.decision.Steps {
		if s.decision.Steps[i].SetsVersion {
			s.decision.Steps[i].MaxMinors = minors
		}
	}
	if dirty != "" {
		s.decision.Dirty = []cover.Pointer{{Part: cover.PartInfrastructure, Path: dirty}}
	}
	if d.HasArg("no-decision") {
		s.decision = nil
	}
	if d.HasArg("drifted") {
		s.drifted = []cover.Pointer{{Part: cover.PartMachine, Path: "/spec/version"}}
	}
	if queue != "" {
		if _, err := fmt.Sscanf(queue, "%d/%d", &s.others.InFlight, &s.policy.MaxInFlight); err != nil {
			t.Fatal(err)
		}
	}
	s.setNode(func(n *inplace.Node) { n.Kubelet = version.MustParse(from) })
	if d.HasArg("cordoned") {
		s.node.Unschedulable, s.cordonedBy = true, somebody
	}
}

func readAnswer(t *testing.T, d *datadriven.TestData) inplace.Answer {
	t.Helper()
	var outcome, retry string
	var a inplace.Answer
	d.ScanArgs(t, "outcome", &outcome)
	d.MaybeScanArgs(t, "msg", &a.Message)
	if d.MaybeScanArgs(t, "retry", &retry) {
		a.RetryAfter = duration(t, d, retry)
	}
	known := map[string]inplace.Outcome{"inprogress": inplace.InProgress, "done": inplace.Finishes, "failed": inplace.Fails, "unknown": inplace.Unknown}
	o, ok := known[outcome]
	if !ok {
		t.Fatalf("%s: unknown outcome %s", d.Pos, outcome)
	}
	a.Outcome = o
	return a
}

func duration(t *testing.T, d *datadriven.TestData, text string) time.Duration {
	t.Helper()
	parsed, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return parsed
}

func (s *scenario) editNode(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	s.setNode(func(n *inplace.Node) {
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "kubelet":
				n.Kubelet = version.MustParse(arg.Vals[0])
			case "ready":
				n.Ready, n.NotReady, n.ReadySince = true, "", s.now
			case "not-ready":
				n.Ready, n.NotReady = false, "PLEG is not healthy"
			case "outage":
				n.Unknown = "connection refused"
			case "reached":
				n.Unknown = ""
			case "gone", "back":
				n.Exists = arg.Key == "back"
			case "cordoned":
				n.Unschedulable, s.cordonedBy = true, somebody
			case "schedulable":
				n.Unschedulable, s.cordonedBy = false, nobody
			default:
				t.Fatalf("%s: unknown %s", d.Pos, arg.Key)
			}
		}
	})
}

// settle records and carries out what needs no choice, until there is a choice or a reply.
func (s *scenario) settle() {
	for more := true; more; {
		s.save()
		s.print()
		if a, ok := s.asking(); ok {
			s.canBegin(a, s.says)
			continue
		}
		if _, ok := s.calling(); ok {
			break
		}
		if _, ok := s.verdict.Action.(inplace.Drain); ok {
			break
		}
		more = s.carryOut()
	}
	s.show()
}

func (s *scenario) print() {
	switch a := s.verdict.Action.(type) {
	case inplace.Call:
		fmt.Fprintf(&s.out, "call %s as %s\n", a.Step.Updater, a.Operation)
	case inplace.CanBegin:
		fmt.Fprintf(&s.out, "ask %s whether it can begin %s\n", a.Step.Updater, a.Operation)
	case inplace.Drain:
		s.out.WriteString("drain\n")
	case inplace.Uncordon:
		s.out.WriteString("uncordon\n")
	case inplace.Wait:
		fmt.Fprintf(&s.out, "wait %s: %s: %s\n", a.After, a.Reason, a.Message)
	case inplace.Refuse:
		fmt.Fprintf(&s.out, "refuse: %s: %s\n", a.Reason, a.Message)
	case inplace.Complete:
		fmt.Fprintf(&s.out, "complete: %s\n", a.Message)
	case inplace.AbandonUpdate:
		fmt.Fprintf(&s.out, "abandon, uncordon %v: %s\n", a.Uncordon, a.Message)
	case inplace.Finish:
		fmt.Fprintf(&s.out, "finish %s to %s in %s, dirty %v\n", a.Summary.From, a.Summary.To, a.Summary.Ended.Sub(a.Summary.Began), a.Dirty)
		for _, f := range a.Summary.Done {
			fmt.Fprintf(&s.out, "  %s: attempts %d, %d s\n", f.Updater, f.Attempts, f.Seconds)
		}
	}
}

// show prints what is recorded.
func (s *scenario) show() {
	p := s.saved
	if p == nil {
		s.out.WriteString("recorded: nothing\n")
		return
	}
	fmt.Fprintf(&s.out, "recorded: %s %s %s, attempt %d, done %d, left %d", p.ID, p.Phase, p.Operation, p.Attempt, len(p.Done), len(p.Steps))
	if p.Cordoned {
		s.out.WriteString(", cordoned")
	}
	if p.NotBefore != nil {
		fmt.Fprintf(&s.out, ", next in %s", p.NotBefore.Sub(s.now))
	}
	if p.LastError != "" {
		fmt.Fprintf(&s.out, ", error %q", p.LastError)
	}
	s.out.WriteString("\n")
}
