package request_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// The faults of the original that upgrades by annotations must not have (section 4 of the facts about updates in place). Those that are about requests to
// k8sd (3, 4, 5) are tested in internal/updaters/k8sd, those about what is written to the API server also in internal/inplace/engine.

func TestFault1_ToChangedWhileAChangeRuns(t *testing.T) {
	d := drive(t, true, 1)
	d.machines[0].marks.To = optionA
	d.machineOnce(0, "works")
	d.machines[0].marks.To = optionB
	// The running change is followed to its end; what it installed is recorded, and nothing else.
	d.machineOnce(0, "done")
	d.want(0, request.Marks{To: optionB, Status: request.Done, Release: optionA})
	d.machineOnce(0, "done")
	d.want(0, request.Marks{Status: request.Done, Release: optionB})
}

func TestFault2_RetryHasBackoffAndCap(t *testing.T) {
	d := drive(t, false, 1)
	m := &d.machines[0]
	m.marks.To = optionA
	d.machineOnce(0, "fails")
	if m.upgrade.Progress.Phase != inplace.BackingOff {
		t.Fatalf("%+v", m.upgrade.Progress)
	}
	if _, asked := d.machineOnce(0, "done"); asked {
		t.Error("asked again at once")
	}
	d.now = d.now.Add(time.Minute)
	d.machineOnce(0, "fails")
	d.want(0, request.Marks{To: optionA, Status: request.Failed})
	for range 10 {
		d.now = d.now.Add(time.Hour)
		if state, asked := d.machineOnce(0, "done"); asked || state.Going || state.Message == "" {
			t.Fatalf("asked %v, %+v", asked, state)
		}
	}
	m.retry = true
	d.machineOnce(0, "done")
	d.want(0, request.Marks{Status: request.Done, Release: optionA})
	if m.retry {
		t.Error("the wish for a retry stays")
	}
}

func TestFault6_BadOptionFailsAndKeepsTheRelease(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"nonsense", "channel=", "revision=0", "revision=1;reboot", "localPath=k8s.snap", "localPath=/a/../b", "version=1", "=", "snap=1", "channel=1.31/stable/x/y"} {
		t.Run(to, func(t *testing.T) {
			d := drive(t, true, 1)
			m := &d.machines[0]
			m.installed = optionA
			m.marks = request.Marks{To: to, Status: request.Done, Release: optionA}
			state, asked := d.machineOnce(0, "done")
			d.want(0, request.Marks{To: to, Status: request.Failed, Release: optionA})
			if asked || state.Reason != request.ReasonBadOption || d.holder != "" {
				t.Errorf("asked %v, %+v, lock %q", asked, state, d.holder)
			}
			// A good one is heeded at once.
			m.marks.To = optionB
			d.machineOnce(0, "done")
			d.want(0, request.Marks{Status: request.Done, Release: optionB})
		})
	}
}

func TestFault7_AllMachineSetsCount(t *testing.T) {
	// The members of a group are those of all its MachineSets: the decider has no notion of one. The engine's part is tested beside it.
	d := drive(t, false, 3)
	d.marks.To = optionA
	for range 40 {
		d.groupOnce()
		for i := range d.machines {
			d.machineOnce(i, "done")
		}
	}
	for i := range d.machines {
		d.want(i, request.Marks{Status: request.Done, Release: optionA})
	}
	if d.marks.Release != optionA {
		t.Errorf("%+v", d.marks)
	}
}

func TestFault8_LeftoverLastFailedDoesNotBlock(t *testing.T) {
	d := drive(t, false, 2)
	for i := range d.machines {
		d.machines[i].marks.LastFailed = "Sat, 07 Nov 2024 13:30:00 +0400"
	}
	d.marks.To = optionA
	for range 20 {
		d.groupOnce()
		for i := range d.machines {
			d.machineOnce(i, "done")
		}
	}
	for i := range d.machines {
		d.want(i, request.Marks{Status: request.Done, Release: optionA})
		if d.machines[i].marks.LastFailed != "" {
			t.Error("the time of a failure outlives a success")
		}
	}
}

// TestFault2_FailedMachineStopsTheGroup begins no further machine until a person asks for another try.
func TestFault2_FailedMachineStopsTheGroup(t *testing.T) {
	d := drive(t, false, 3)
	d.marks.To = optionA
	d.limit = 2
	for range 20 {
		d.groupOnce()
		d.machineOnce(0, "fails")
		d.machineOnce(1, "done")
		if _, asked := d.machineOnce(2, "done"); asked && d.machines[0].upgrade.IsFinal() && d.machines[2].marks.Release == "" {
			t.Fatal("a machine begins after another has failed")
		}
		d.now = d.now.Add(time.Minute)
	}
	if d.marks.Status != request.Failed || !strings.Contains(d.record.Message, "m0") {
		t.Fatalf("%+v %+v", d.marks, d.record)
	}
	d.retry = true
	for range 10 {
		d.groupOnce()
		for i := range d.machines {
			d.machineOnce(i, "done")
		}
	}
	if d.marks != (request.Marks{Status: request.Done, Release: optionA}) || d.retry {
		t.Errorf("%+v, retry %v", d.marks, d.retry)
	}
}

// TestFault1_GroupMovesOn gives machines that wait, or have failed, the group's new option at once, and withdraws any of its options when it is cancelled.
func TestFault1_GroupMovesOn(t *testing.T) {
	d := drive(t, false, 2)
	d.marks.To = optionA
	d.groupOnce()
	d.groupOnce()
	d.marks.To = optionB
	d.groupOnce()
	if v := d.groupOnce(); v.Action != (request.Mark{Member: "m0", To: optionB}) {
		t.Fatalf("%+v", v.Action)
	}
	d.machines[1].marks.To = optionA
	d.marks.To = ""
	for range 4 {
		d.groupOnce()
	}
	if d.machines[0].marks.To != "" || d.machines[1].marks.To != "" || d.record != nil {
		t.Errorf("%+v %+v", d.machines[0].marks, d.machines[1].marks)
	}
}

func TestFault9_NeverTwoControlPlaneMachines(t *testing.T) {
	d := drive(t, true, 3)
	for i := range d.machines {
		d.machines[i].marks.To = optionA
	}
	// The world checks at each step. A change whose attempt ran out of time keeps the lock, also when its annotation goes.
	d.machineOnce(0, "works")
	d.now = d.now.Add(2 * time.Minute)
	d.machineOnce(0, "works")
	d.machines[0].marks.To = ""
	for range 5 {
		d.now = d.now.Add(2 * time.Minute)
		d.machineOnce(0, "works")
		if state, asked := d.machineOnce(1, "done"); asked || state.Reason != request.ReasonLocked {
			t.Fatalf("asked %v, %+v", asked, state)
		}
	}
	d.machineOnce(0, "done")
	d.machineOnce(0, "done")
	d.want(0, request.Marks{Status: request.Done, Release: optionA})
	if _, asked := d.machineOnce(1, "done"); !asked {
		t.Error("the next machine does not begin")
	}
}

// TestFault9_BadOptionDoesNotHideAChange keeps the lock where an option that is refused comes while a change may still run.
func TestFault9_BadOptionDoesNotHideAChange(t *testing.T) {
	d := drive(t, true, 2)
	d.machines[0].marks.To = optionA
	d.machineOnce(0, "works")
	d.now = d.now.Add(2 * time.Minute)
	d.machineOnce(0, "works")
	d.machines[0].marks.To = "nonsense"
	d.machineOnce(0, "works")
	d.machines[0].marks.To = ""
	d.machineOnce(0, "works")
	if d.holder != "m0" || !d.machines[0].upgrade.IsRunning() {
		t.Fatalf("lock %q, %+v", d.holder, d.machines[0].upgrade)
	}
	d.machineOnce(0, "fails")
	d.machineOnce(0, "fails")
	if d.holder != "" || d.machines[0].upgrade != nil {
		t.Errorf("lock %q, %+v", d.holder, d.machines[0].upgrade)
	}
}

// TestFault9_UnendedChangeCounts lets no other worker of the group begin while a change may still run that was given up.
func TestFault9_UnendedChangeCounts(t *testing.T) {
	d := drive(t, false, 2)
	d.marks.To = optionA
	d.groupOnce()
	d.groupOnce()
	for range 4 {
		d.machineOnce(0, "works")
		d.now = d.now.Add(2 * time.Minute)
	}
	if !d.machines[0].upgrade.IsFinal() || !d.machines[0].upgrade.IsRunning() {
		t.Fatalf("%+v", d.machines[0].upgrade)
	}
	d.machines[0].marks.To = ""
	for range 5 {
		if v := d.groupOnce(); v.Action == (request.Mark{Member: "m1", To: optionA}) {
			t.Fatal("another machine begins")
		}
	}
	d.machineOnce(0, "fails")
	d.machineOnce(0, "fails")
	for range 3 {
		d.groupOnce()
	}
	if d.machines[0].marks.To+d.machines[1].marks.To == "" {
		t.Error("no machine begins after it")
	}
}

// TestFault10_BlockedDrainIsReported ends a drain that a budget blocks, as failed in the end.
func TestFault10_BlockedDrainIsReported(t *testing.T) {
	t.Parallel()
	f := well()
	f.Upgrade = &request.Upgrade{Option: f.Marks.To, Progress: &inplace.Progress{
		ID: "u", Phase: inplace.Draining, Attempt: 2, Started: start0, Steps: []inplace.Step{{Updater: "u", NeedsDrain: true}}, Operation: "u-2",
	}}
	f.Now = start0.Add(f.Policy.AttemptTimeout)
	if _, drains := inplace.Decide(f.Facts()).Action.(inplace.Drain); !drains {
		t.Error("the drain ends before its time")
	}
	f.Now = f.Now.Add(time.Second)
	if v := request.Carried(f, inplace.Decide(f.Facts()).Progress); !v.After.Record.IsFinal() || !strings.Contains(v.Event.Message, "drained") {
		t.Errorf("%+v %+v", v.After.Record, v.Event)
	}
}

func TestFault10_BrokenNodeIsRepaired(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]inplace.Node{
		"not Ready":        {Exists: true, NotReady: "kubelet stopped", Kubelet: current},
		"cannot be asked":  {Unknown: "connection refused"},
		"does not exist":   {},
		"cordoned already": {Exists: true, NotReady: "kubelet stopped", Kubelet: current, Unschedulable: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, true, 3)
			m := &d.machines[0]
			m.node = node
			m.marks.To = optionA
			if _, asked := d.machineOnce(0, "done"); asked == (node.Unknown != "") {
				t.Fatalf("the updater is asked at once: %v", asked)
			}
			// A node that cannot be asked may run what a drain should move: that is waited for, for a while.
			d.now = d.now.Add(d.policy.AttemptTimeout + time.Second)
			if _, asked := d.machineOnce(0, "done"); !asked && node.Unknown != "" {
				t.Fatal("the updater is not asked")
			}
			if m.cordoned {
				t.Error("a broken node is drained")
			}
			// It stays broken: that is reported in the end.
			for range 20 {
				d.now = d.now.Add(2 * time.Minute)
				d.machineOnce(0, "done")
			}
			d.want(0, request.Marks{To: optionA, Status: request.Failed})
			// Another option is its repair.
			m.marks.To = optionB
			if _, asked := d.machineOnce(0, "done"); !asked {
				t.Fatal("the repair does not begin")
			}
			m.node = inplace.Node{Exists: true, Ready: true, Kubelet: current}
			d.machineOnce(0, "done")
			d.want(0, request.Marks{Status: request.Done, Release: optionB})
		})
	}
}

func TestFault10_BrokenNodeComesFirst(t *testing.T) {
	d := drive(t, false, 3)
	d.machines[2].node.Ready, d.machines[2].node.NotReady = false, "kubelet stopped"
	d.marks.To = optionA
	d.groupOnce()
	if v := d.groupOnce(); v.Action != (request.Mark{Member: "m2", To: optionA}) {
		t.Errorf("%+v", v.Action)
	}
}

func TestFault11_NodeMustBeReadyBeforeTheNext(t *testing.T) {
	d := drive(t, true, 3)
	d.policy.Soak = 30 * time.Second
	d.marks.To = optionA
	d.groupOnce()
	d.groupOnce()
	d.machineOnce(0, "done")
	if state, _ := d.machineOnce(0, "done"); state.Reason != request.Reason(inplace.ReasonSoaking) {
		t.Errorf("%+v", state)
	}
	if v := d.groupOnce(); v.Action == nil || v.State.Reason != request.ReasonMachines {
		t.Errorf("%+v", v)
	}
	d.now = d.now.Add(time.Minute)
	d.machineOnce(0, "done")
	d.machineOnce(0, "done")
	d.want(0, request.Marks{Status: request.Done, Release: optionA})
	// It breaks after its soak: nothing else begins.
	d.machines[0].node.Ready, d.machines[0].node.NotReady = false, "flap"
	if v := d.groupOnce(); v.State.Reason != request.ReasonMachinesHeld || !strings.Contains(v.State.Message, "m0") {
		t.Errorf("%+v", v)
	}
	d.machines[1].marks.To = optionA
	if state, asked := d.machineOnce(1, "done"); asked || state.Reason != request.ReasonControlPlaneUnhealthy {
		t.Errorf("asked %v, %+v", asked, state)
	}
}

func TestFault12_OneEventPerChange(t *testing.T) {
	d := drive(t, false, 1)
	d.machines[0].marks.To = optionA
	for range 5 {
		d.machineOnce(0, "works")
	}
	d.machineOnce(0, "fails")
	for range 5 {
		d.machineOnce(0, "works")
	}
	d.now = d.now.Add(time.Minute)
	for range 5 {
		d.machineOnce(0, "works")
	}
	d.machineOnce(0, "fails")
	for range 5 {
		d.machineOnce(0, "works")
	}
	want := []request.EventKind{request.Started, request.AttemptFailed, request.FailedFinally}
	if len(d.events) != len(want) || d.events[0] != want[0] || d.events[1] != want[1] || d.events[2] != want[2] {
		t.Errorf("%v, want %v", d.events, want)
	}
}

func TestFault13_RemovedToCancels(t *testing.T) {
	d := drive(t, false, 3)
	d.marks.To = optionA
	d.groupOnce()
	d.groupOnce()
	d.machineOnce(0, "works")
	d.marks.To = ""
	for range 10 {
		d.groupOnce()
		for i := range d.machines {
			d.machineOnce(i, "works")
		}
	}
	d.want(0, request.Marks{Status: request.InProgress})
	// The change is followed to its end, and its release is recorded; nothing else has begun.
	d.machineOnce(0, "done")
	d.want(0, request.Marks{Status: request.Done, Release: optionA})
	d.want(1, request.Marks{})
	d.want(2, request.Marks{})
	if d.marks != (request.Marks{}) || d.record != nil {
		t.Errorf("group %+v %+v", d.marks, d.record)
	}
	cancelled := 0
	for _, e := range d.events {
		if e == request.Cancelled {
			cancelled++
		}
	}
	if cancelled != 2 { // The group's, and the machine's.
		t.Errorf("%d Events say that it was cancelled", cancelled)
	}
}

func TestFault13_RemovedToIsNotRetried(t *testing.T) {
	d := drive(t, true, 1)
	d.machines[0].marks.To = optionA
	d.machineOnce(0, "works")
	d.machines[0].marks.To = ""
	d.machineOnce(0, "works")
	d.machineOnce(0, "fails")
	for range 5 {
		d.now = d.now.Add(time.Hour)
		if _, asked := d.machineOnce(0, "done"); asked {
			t.Error("a cancelled upgrade is tried again")
		}
	}
	if m := d.machines[0]; m.upgrade != nil || m.cordoned || d.holder != "" {
		t.Errorf("%+v, lock %q", m, d.holder)
	}
}
