package request_test

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// driver takes a world through reconciles, with nothing going wrong that a test does not ask for.
type driver struct {
	*testing.T
	world
	events []request.EventKind
}

func drive(t *testing.T, controlPlane bool, machines int) *driver {
	t.Helper()
	t.Parallel()
	return &driver{T: t, world: newWorld(controlPlane, machines)}
}

// machineOnce reconciles a machine; its updater answers as told. It returns the state that people see, and whether the updater was asked.
func (d *driver) machineOnce(i int, answer string) (request.State, bool) {
	d.Helper()
	v, asked := request.DecideMachine(d.facts(i)), false
	for range 20 {
		d.note(i, v)
		f := d.facts(i)
		switch a := v.Action.(type) {
		case request.Ask:
			v = request.Planned(f, request.Plan{Steps: []inplace.Step{{Updater: "u", SetsVersion: true}}})
		case request.Run:
			wait, called := d.run(i, answer)
			if asked = asked || called; wait != nil {
				return request.State{Going: true, Reason: request.Reason(wait.Reason), Message: wait.Message}, asked
			}
			// Another option that is asked for by now begins in the next reconcile.
			if v = request.DecideMachine(d.facts(i)); v.State.Reason == request.Reason(inplace.ReasonUpdating) {
				return v.State, asked
			}
		case request.Follow:
			asked = true
			said := d.call(i, wish{Operation: a.Operation, Option: d.machines[i].upgrade.Option, Follow: true}, answer)
			v = request.Followed(d.facts(i), said)
		case request.TakeLock, request.Uncordon, request.EnableScaleDown, request.ReleaseLock,
			request.Rest, request.Wait:
			if !d.carryOut(i, a) {
				return v.State, asked
			}
			v = request.DecideMachine(d.facts(i))
		}
	}
	d.Fatal("no end of actions")
	return request.State{}, false
}

// note records what was decided about a machine.
func (d *driver) note(i int, v request.MachineVerdict) {
	d.Helper()
	d.save(i, v)
	if v.Event.Kind != request.NoEvent {
		d.events = append(d.events, v.Event.Kind)
	}
	if d.violation != "" {
		d.Fatal(d.violation)
	}
}

// run carries the upgrade of a machine on as the engine does. It returns what is waited for; nil where it is over.
func (d *driver) run(i int, answer string) (wait *inplace.Wait, asked bool) {
	d.Helper()
	f := d.facts(i)
	v := inplace.Decide(f.Facts())
	for range 20 {
		d.keep(i, v, func(v request.MachineVerdict) { d.note(i, v) })
		switch a := v.Action.(type) {
		case inplace.CanBegin:
			f = d.facts(i)
			v = inplace.AnsweredCanBegin(f.Facts(), inplace.Readiness{})
		case inplace.Drain:
			d.machines[i].node.Unschedulable, d.machines[i].cordoned = true, true
			f = d.facts(i)
			v = inplace.Drained(f.Facts())
		case inplace.Call:
			asked = true
			said := d.call(i, d.requestOf(i, a), answer)
			f = d.facts(i)
			v = inplace.Answered(f.Facts(), said)
		case inplace.Uncordon:
			d.carryOut(i, request.Uncordon{})
			f = d.facts(i)
			v = inplace.Decide(f.Facts())
		case inplace.Wait:
			return &a, asked
		case inplace.Finish, inplace.Refuse, inplace.AbandonUpdate, inplace.Complete:
			return nil, asked
		}
	}
	d.Fatal("no end of actions")
	return nil, false
}

func (d *driver) groupOnce() request.GroupVerdict {
	d.Helper()
	v := request.DecideGroup(d.group())
	d.saveGroup(v)
	if v.Event.Kind != request.NoEvent {
		d.events = append(d.events, v.Event.Kind)
	}
	d.carryOutGroup(v.Action)
	if d.check(); d.violation != "" {
		d.Fatal(d.violation)
	}
	return v
}

// want compares the marks of a machine, without the time of a failure.
func (d *driver) want(i int, want request.Marks) {
	d.Helper()
	got := d.machines[i].marks
	got.LastFailed = ""
	if got != want {
		d.Errorf("machine %d: %+v, want %+v", i, got, want)
	}
}
