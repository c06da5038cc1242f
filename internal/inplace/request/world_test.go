package request_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// machine is a machine of a world: what stands on its object, and what is true of it.
type machine struct {
	name    string
	marks   request.Marks
	upgrade *request.Upgrade
	retry   bool
	node    inplace.Node
	// installed is what is really on the node; running, which change runs there, and operation, by which request it began.
	installed, running, operation string
	// cordoned says that the upgrade has cordoned the node.
	cordoned bool
	// asked says that it is recorded that the updater is asked to begin a change.
	asked bool
	// brought are the options to which an updater has brought the machine, each followed by a blank.
	brought string
}

// world is a group, its machines, and the lock of the control plane.
type world struct {
	now          time.Time
	controlPlane bool
	limit        int
	canary       int
	policy       policy.Policy
	marks        request.Marks
	record       *request.Record
	retry        bool
	machines     []machine
	holder       string
	ids          int
	// byHand says that a person has marked a machine, so that more are in flight than the group allows.
	byHand    bool
	violation string
}

var (
	start0  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	current = version.MustParse("v1.31.1")
)

func newWorld(controlPlane bool, machines int) world {
	w := world{now: start0, controlPlane: controlPlane, limit: 1, policy: policy.Policy{MaxInFlight: 1, Drain: true, MaxAttempts: 2, AttemptTimeout: time.Minute}}
	for i := range machines {
		w.machines = append(w.machines, machine{
			name: "m" + strconv.Itoa(i), installed: "old",
			node: inplace.Node{Exists: true, Ready: true, ReadySince: start0, Kubelet: current},
		})
	}
	return w
}

func (w *world) clone() world {
	c := *w
	c.machines = slices.Clone(w.machines)
	return c
}

func (w *world) violate(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
	}
}

// busy reports whether something may be happening on a machine.
func (m *machine) busy() bool {
	return m.running != "" || m.upgrade.IsRunning()
}

// facts are a machine's, as an engine reads them.
func (w *world) facts(i int) request.Machine {
	m := &w.machines[i]
	w.ids++
	f := request.Machine{
		Now: w.now, FreshID: "u" + strconv.Itoa(w.ids), Name: m.name, Marks: m.marks, Upgrade: m.upgrade, Retry: m.retry, Spec: current,
		ControlPlane: w.controlPlane, Node: m.node, Policy: w.policy, Holder: w.holder,
	}
	for j := range w.machines {
		if p := &w.machines[j]; j != i && w.controlPlane {
			peer := request.Peer{Name: p.name, Kubelet: p.node.Kubelet, NotReady: p.node.NotReady}
			if p.upgrade.IsRunning() {
				peer.Busy = "is being upgraded"
			}
			f.Peers = append(f.Peers, peer)
		}
	}
	return f
}

// save records what a verdict says, and checks it.
func (w *world) save(i int, v request.MachineVerdict) {
	m := &w.machines[i]
	changed := v.After.Marks != m.marks || v.After.Retry != m.retry || !reflect.DeepEqual(v.After.Record, m.upgrade)
	if v.Event.Kind != request.NoEvent && !changed {
		w.violate("%s: an Event %q without a change of state", m.name, v.Event.Message)
	}
	if v.After.Marks.Status == request.Failed && v.After.Record.IsFinal() && v.After.Record.Why() == "" {
		w.violate("%s: failed without a reason", m.name)
	}
	m.marks, m.upgrade, m.retry = v.After.Marks, v.After.Record, v.After.Retry
	w.checkStatus(m)
	w.check()
}

// checkStatus: the status annotation is failed between two attempts, and after the last one.
func (w *world) checkStatus(m *machine) {
	if m.upgrade == nil || m.upgrade.Progress == nil || m.marks.To == "" || m.marks.To != m.upgrade.Option {
		return
	}
	want := request.InProgress
	if phase := m.upgrade.Progress.Phase; phase == inplace.BackingOff || phase == inplace.Failed {
		want = request.Failed
	}
	if m.marks.Status != want {
		w.violate("%s: the status is %q in phase %s", m.name, m.marks.Status, m.upgrade.Progress.Phase)
	}
}

// check holds the world against what must never be.
func (w *world) check() {
	flying := 0
	for i := range w.machines {
		m := &w.machines[i]
		if m.marks.Release != "" && m.marks.Release != m.installed {
			w.violate("%s: %s is recorded, and %s is on the node", m.name, m.marks.Release, m.installed)
		}
		if m.busy() {
			flying++
		}
		if w.controlPlane && m.running != "" && w.holder != m.name {
			w.violate("%s: %s runs, and the lock is with %q", m.name, m.running, w.holder)
		}
	}
	if w.controlPlane && flying > 1 {
		w.violate("%d control plane machines in flight", flying)
	}
	if !w.controlPlane && !w.byHand && flying > w.limit {
		w.violate("%d machines in flight, and %d are allowed", flying, w.limit)
	}
	for _, option := range []string{optionA, optionB} {
		w.checkCanary(option)
	}
}

// checkCanary: until an updater has brought one machine to an option, it runs on so many only.
func (w *world) checkCanary(option string) {
	begun := 0
	for i := range w.machines {
		m := &w.machines[i]
		if strings.Contains(m.brought, option+" ") {
			return
		}
		if m.running == option || m.upgrade.IsRunning() && m.upgrade.Option == option {
			begun++
		}
	}
	if w.canary > 0 && !w.byHand && begun > w.canary {
		w.violate("%d machines are on the way to %s, which none has reached, and the canary is %d", begun, option, w.canary)
	}
}

// keep records what the engine does where package inplace has decided d.
func (w *world) keep(i int, d inplace.Verdict, save func(request.MachineVerdict)) {
	if _, over := d.Action.(inplace.Finish); over {
		save(request.Finished(w.facts(i)))
		return
	}
	if d.Progress != nil {
		save(request.Carried(w.facts(i), d.Progress))
	}
	switch a := d.Action.(type) {
	case inplace.Refuse:
		save(request.Refused(w.facts(i), a.Message))
	case inplace.Call:
		save(request.Asked(w.facts(i)))
		w.machines[i].asked = w.machines[i].asked || !w.requestOf(i, a).Follow
	case inplace.CanBegin, inplace.Drain, inplace.Uncordon, inplace.Finish, inplace.AbandonUpdate, inplace.Wait, inplace.Complete:
	}
}

// request is what the updater of a machine is asked.
type wish struct {
	Operation, Option string
	Follow            bool
}

// requestOf is what an updater is asked for a Call of package inplace.
func (w *world) requestOf(i int, c inplace.Call) wish {
	m := &w.machines[i]
	return wish{Operation: c.Operation, Option: m.upgrade.Option, Follow: m.marks.To != m.upgrade.Option}
}

// call lets the updater of a machine do something, and answers.
func (w *world) call(i int, c wish, answer string) inplace.Answer {
	m := &w.machines[i]
	if w.controlPlane && w.holder != m.name {
		w.violate("%s: an updater is called without the lock", m.name)
	}
	for j := range w.machines {
		if w.controlPlane && j != i && w.machines[j].busy() {
			w.violate("%s: an updater is called while %s is in flight", m.name, w.machines[j].name)
		}
	}
	own := m.operation == c.Operation
	switch {
	case answer == "unreachable":
		return inplace.Answer{Outcome: inplace.Unknown, Message: "unreachable", NotBegun: !own && m.running == ""}
	case m.running != "" && !own && (answer == "works" || answer == "lost"):
		return inplace.Answer{Outcome: inplace.InProgress, Message: "waiting for an earlier change"}
	case m.running != "" && !own:
		// The updater waits for the end of an earlier change before it begins.
		m.end(answer == "done" || answer == "done in silence")
	}
	if c.Follow {
		return m.follow(own, answer)
	}
	if !own && m.marks.To != c.Option {
		w.violate("%s: a change to %s begins, and %q is asked for", m.name, c.Option, m.marks.To)
	}
	m.running, m.operation = c.Option, c.Operation
	return m.work(answer)
}

// end ends what runs on a machine.
func (m *machine) end(works bool) {
	if works {
		m.installed = m.running
	}
	if works && !strings.Contains(m.brought, m.running+" ") {
		m.brought += m.running + " "
	}
	m.running = ""
}

// work takes the change that runs a step farther.
func (m *machine) work(answer string) inplace.Answer {
	switch answer {
	case "done":
		m.end(true)
		return inplace.Answer{Outcome: inplace.Finishes}
	case "fails":
		m.end(false)
		return inplace.Answer{Outcome: inplace.Fails, Message: "it failed"}
	case "done in silence":
		m.end(true)
		return inplace.Answer{Outcome: inplace.Unknown, Message: "no answer"}
	case "lost":
		return inplace.Answer{Outcome: inplace.Unknown, Message: "no answer"}
	}
	return inplace.Answer{Outcome: inplace.InProgress, Message: "working"}
}

// follow says how a change goes on that nobody wants, and begins none.
func (m *machine) follow(own bool, answer string) inplace.Answer {
	switch {
	case !own:
		return inplace.Answer{Outcome: inplace.Fails, Message: "nothing was begun"}
	case m.running != "":
		return m.work(answer)
	case m.upgrade != nil && m.installed == m.upgrade.Option:
		return inplace.Answer{Outcome: inplace.Finishes}
	}
	return inplace.Answer{Outcome: inplace.Fails, Message: "it has failed"}
}

// group are the group's facts.
func (w *world) group() request.Group {
	g := request.Group{
		Now: w.now, ControlPlane: w.controlPlane, Marks: w.marks, Record: w.record, Retry: w.retry, Spec: current, Replicas: len(w.machines), MaxInFlight: w.limit, Canary: w.canary,
		CannotRaise: "it is a model",
	}
	for i := range w.machines {
		m := &w.machines[i]
		g.Members = append(g.Members, request.Member{
			Name: m.name, Created: start0, Marks: m.marks, Upgrade: m.upgrade, NotReady: m.node.NotReady, Kubelet: m.node.Kubelet, Spec: current,
		})
	}
	return g
}

// saveGroup records what a verdict says, and checks it.
func (w *world) saveGroup(v request.GroupVerdict) {
	if v.Event.Kind != request.NoEvent && v.After.Marks == w.marks && v.After.Retry == w.retry && reflect.DeepEqual(v.After.Record, w.record) {
		w.violate("group: an Event %q without a change of state", v.Event.Message)
	}
	if release := v.After.Marks.Release; release != "" && release != w.marks.Release {
		for i := range w.machines {
			if w.machines[i].installed != release {
				w.violate("group: %s is recorded, and %s has %s", release, w.machines[i].name, w.machines[i].installed)
			}
		}
	}
	if v.After.Marks.Status == request.Failed && (v.After.Record == nil || v.After.Record.Message == "") {
		w.violate("group: failed without a reason")
	}
	w.marks, w.record, w.retry = v.After.Marks, v.After.Record, v.After.Retry
}

// carryOutGroup does what was decided about the group.
func (w *world) carryOutGroup(a request.GroupAction) {
	find := func(name string) *machine {
		return &w.machines[slices.IndexFunc(w.machines, func(m machine) bool { return m.name == name })]
	}
	switch a := a.(type) {
	case request.Mark:
		m := find(a.Member)
		m.marks.To = a.To
		if m.upgrade.IsFinal() || m.upgrade == nil {
			m.marks.Status, m.marks.LastFailed, m.marks.ChangeID, m.retry = "", "", "", false
		}
	case request.Unmark:
		if m := find(a.Member); m.marks.To == a.To {
			m.marks.To = ""
		}
	case request.RetryMember:
		find(a.Member).retry = true
	case request.Raise, request.Rest, request.Wait:
	}
}

// carryOut does what was decided about a machine, and reports whether to decide again.
func (w *world) carryOut(i int, a request.Action) (again bool) {
	m := &w.machines[i]
	switch a.(type) {
	case request.TakeLock:
		if w.holder == "" {
			w.holder = m.name
		}
		return true
	case request.ReleaseLock:
		if w.holder == m.name {
			w.holder = ""
		}
	case request.Uncordon:
		m.node.Unschedulable, m.cordoned = false, false
		return true
	case request.EnableScaleDown:
		m.node.ScaleDown = inplace.ScaleDownAllowed
		return true
	case request.Ask, request.Run, request.Follow, request.Rest, request.Wait:
	}
	return false
}
