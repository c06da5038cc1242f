package request_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// timedOut is a control plane machine whose attempt ended with its time, while its updater was as the answer says.
func timedOut(t *testing.T, answer string) *driver {
	t.Helper()
	d := drive(t, true, 2)
	d.machines[0].marks.To = optionA
	d.machineOnce(0, "works")
	d.now = d.now.Add(2 * time.Minute)
	d.machineOnce(0, answer)
	return d
}

// TestFault13_NothingBeginsAfterACancel withdraws an upgrade whose request never reached the updater.
func TestFault13_NothingBeginsAfterACancel(t *testing.T) {
	d := drive(t, true, 1)
	d.machines[0].marks.To = optionA
	d.machineOnce(0, "unreachable")
	d.now = d.now.Add(2 * time.Minute)
	d.machineOnce(0, "unreachable")
	d.machines[0].marks.To = ""
	for range 6 {
		d.now = d.now.Add(time.Hour)
		d.machineOnce(0, "done")
	}
	if m := d.machines[0]; m.installed != "old" || m.upgrade != nil || m.cordoned || d.holder != "" {
		t.Errorf("%+v, lock %q", m, d.holder)
	}
}

// TestFault9_UnendedOutlivesTheNextOption keeps in mind that a change may still run while another option is tried.
func TestFault9_UnendedOutlivesTheNextOption(t *testing.T) {
	d := timedOut(t, "works")
	// The version that the node runs: nothing would have to be done, were it not for the change.
	d.machines[0].marks.To = "version=" + current.String()
	d.machineOnce(0, "works")
	if m := d.machines[0]; m.marks.Release != "" || d.holder != "m0" || !m.upgrade.Progress.Unended {
		t.Fatalf("%+v, lock %q", m.marks, d.holder)
	}
	d.machines[0].marks.To = ""
	for range 3 {
		d.now = d.now.Add(2 * time.Minute)
		d.machineOnce(0, "works")
		if _, asked := d.machineOnce(1, "done"); asked || d.holder != "m0" {
			t.Fatalf("lock %q", d.holder)
		}
	}
	d.machineOnce(0, "fails")
	d.machineOnce(0, "fails")
	if d.holder != "" || d.machines[0].upgrade != nil {
		t.Errorf("lock %q, %+v", d.holder, d.machines[0].upgrade)
	}
}

// TestFault9_UnendedOutlivesTheNextDrain keeps it in mind through the drain before the next attempt.
func TestFault9_UnendedOutlivesTheNextDrain(t *testing.T) {
	d := timedOut(t, "works")
	d.machines[0].node.Unschedulable = false // Somebody has made it schedulable, so it is drained again.
	d.now = d.now.Add(time.Minute)
	f := d.facts(0)
	v := inplace.Decide(f.Facts())
	if _, drains := v.Action.(inplace.Drain); !drains {
		t.Fatalf("%T", v.Action)
	}
	d.save(0, request.Carried(f, v.Progress))
	d.machines[0].marks.To = ""
	d.machineOnce(0, "works")
	d.machineOnce(0, "works")
	if d.holder != "m0" || !d.machines[0].upgrade.IsRunning() {
		t.Errorf("lock %q, %+v", d.holder, d.machines[0].upgrade)
	}
}

// TestOtherUpdaterWaits lets no other updater begin beside a change that may still run.
func TestOtherUpdaterWaits(t *testing.T) {
	d := timedOut(t, "works")
	d.machines[0].marks.To = optionB
	f := d.facts(0)
	if v := request.DecideMachine(f); v.Action != (request.Ask{Option: mustParse(t, optionB)}) {
		t.Fatalf("%+v", v.Action)
	}
	v := request.Planned(f, request.Plan{Steps: []inplace.Step{{Updater: "other", SetsVersion: true}}})
	if follow, ok := v.Action.(request.Follow); !ok || follow.Step.Updater != "u" {
		t.Errorf("%+v", v.Action)
	}
}

func mustParse(t *testing.T, text string) request.Option {
	t.Helper()
	o, err := request.ParseOption(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestFault10_LockIsGivenBack lets no machine that waits keep the lock from the one that it waits for.
func TestFault10_LockIsGivenBack(t *testing.T) {
	d := drive(t, true, 2)
	d.machines[0].marks.To, d.machines[1].marks.To = optionA, optionA
	d.holder = "m0" // It died between taking the lock and its first record.
	d.machines[1].node.Ready, d.machines[1].node.NotReady = false, "kubelet stopped"
	d.machineOnce(0, "done")
	if _, asked := d.machineOnce(1, "done"); !asked {
		t.Errorf("the repair does not begin: lock %q", d.holder)
	}
	for name, plan := range map[string]request.Plan{"refused": {Refused: "no updater"}, "unknown": {Unknown: "away"}} {
		f := well()
		f.ControlPlane, f.Holder = true, "m0"
		v := request.Planned(f, plan)
		f = f.With(v.After)
		if _, releases := v.Action.(request.ReleaseLock); !releases {
			if _, releases = request.DecideMachine(f).Action.(request.ReleaseLock); !releases {
				t.Errorf("%s: %T", name, v.Action)
			}
		}
	}
}

// TestFault11_OwnEtcd takes a control plane machine whose etcd member is not healthy for one that is not Ready.
func TestFault11_OwnEtcd(t *testing.T) {
	t.Parallel()
	f := well()
	f.ControlPlane, f.Holder, f.OwnEtcd = true, "m0", "its etcd member is not healthy"
	f.Upgrade = &request.Upgrade{Option: f.Marks.To, Progress: &inplace.Progress{
		ID: "u", Phase: inplace.Verifying, Attempt: 1, Started: start0, To: current, Steps: []inplace.Step{{Updater: "u", SetsVersion: true}}, Operation: "u-1",
	}}
	v := inplace.Decide(f.Facts())
	if wait, ok := v.Action.(inplace.Wait); !ok || wait.Reason != inplace.ReasonVerifying || v.Progress.Phase != inplace.Verifying {
		t.Errorf("%+v", v)
	}
	f.OwnEtcd = ""
	if _, over := inplace.Decide(f.Facts()).Action.(inplace.Finish); !over {
		t.Error("it does not end")
	}
}

// TestFault11_UnknownNodeIsDrainedFirst has a node that cannot be asked for a moment drained all the same.
func TestFault11_UnknownNodeIsDrainedFirst(t *testing.T) {
	d := drive(t, false, 1)
	m := &d.machines[0]
	m.node.Unknown = "no answer"
	m.marks.To = optionA
	if _, asked := d.machineOnce(0, "done"); asked {
		t.Fatal("the updater is asked")
	}
	m.node.Unknown = ""
	if _, asked := d.machineOnce(0, "works"); !asked || !m.cordoned {
		t.Errorf("asked %v, cordoned %v", asked, m.cordoned)
	}
}

// TestCancelUncordonsLater waits for a node that cannot be asked for a moment, to make it schedulable again.
func TestCancelUncordonsLater(t *testing.T) {
	d := drive(t, false, 1)
	m := &d.machines[0]
	m.marks.To = optionA
	d.machineOnce(0, "fails")
	m.marks.To, m.node.Unknown = "", "no answer"
	if d.machineOnce(0, "done"); m.upgrade == nil {
		t.Fatal("nobody knows any longer that the node is cordoned")
	}
	m.node.Unknown = ""
	if d.machineOnce(0, "done"); m.upgrade != nil || m.cordoned {
		t.Errorf("%+v", m)
	}
}

// TestGroupRetryIsUsedUp retries the machines that have failed once for each time that it is asked for.
func TestGroupRetryIsUsedUp(t *testing.T) {
	d := drive(t, false, 2)
	d.marks.To = optionA
	refuse := func() {
		f := d.facts(0)
		v := request.DecideMachine(f)
		if _, asks := v.Action.(request.Ask); asks {
			v = request.Planned(f, request.Plan{Refused: "no updater"})
		}
		d.save(0, v)
		if v.Event.Kind != request.NoEvent {
			d.events = append(d.events, v.Event.Kind)
		}
	}
	for range 5 {
		d.groupOnce()
		refuse()
	}
	d.now = d.now.Add(time.Minute)
	d.retry, d.events = true, nil
	for range 10 {
		d.groupOnce()
		d.now = d.now.Add(time.Second)
		refuse()
	}
	// The group's begin and end, and the machine's one refusal.
	if len(d.events) != 3 || d.retry || d.marks.Status != request.Failed {
		t.Errorf("Events %v, retry %v, %+v", d.events, d.retry, d.marks)
	}
}

// TestRefusalKeepsWhatWasReached withdraws an option that was refused: what the group has is known as before.
func TestRefusalKeepsWhatWasReached(t *testing.T) {
	t.Parallel()
	g := ended()
	want := g.Record
	for _, to := range []string{"nonsense", "version=v1.0.0", ""} {
		g.Marks.To = to
		v := request.DecideGroup(g)
		g.Marks, g.Record = v.After.Marks, v.After.Record
	}
	if diff := cmp.Diff(want, g.Record); diff != "" || g.Marks.Release != optionA {
		t.Errorf("%+v (-want +got)\n%s", g.Marks, diff)
	}
}

// TestGroupWithoutVersion upgrades a group whose spec has no version.
func TestGroupWithoutVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(true, 1)
	w.marks = request.Marks{To: optionA, Status: request.InProgress}
	w.record = &request.Record{Option: optionA}
	g := w.group()
	g.Spec = request.Group{}.Spec
	if v := request.DecideGroup(g); v.Action != (request.Mark{Member: "m0", To: optionA}) {
		t.Errorf("%+v", v)
	}
}

// TestWithin bounds what an option may turn out to be that names no version.
func TestWithin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit           func(*request.Machine)
		oldest, newest string
	}{
		"control plane alone": {func(f *request.Machine) { f.ControlPlane = true }, "v1.31", "v1.32"},
		"control plane, older peer": {func(f *request.Machine) {
			f.ControlPlane, f.Peers = true, []request.Peer{{Name: "p", Kubelet: at("v1.30.0")}}
		}, "v1.31", "v1.31"},
		"control plane, newer peer": {func(f *request.Machine) {
			f.ControlPlane, f.Peers = true, []request.Peer{{Name: "p", Kubelet: at("v1.32.0")}}
		}, "v1.31", "v1.32"},
		"control plane, old workers": {func(f *request.Machine) { f.ControlPlane, f.OldestWorker = true, at("v1.28.0") }, "v1.31", "v1.31"},
		"worker":                     {func(f *request.Machine) { f.Peers = []request.Peer{{Name: "p", Kubelet: at("v1.31.0")}} }, "v1.31", "v1.31"},
		"worker behind":              {func(f *request.Machine) { f.Peers = []request.Peer{{Name: "p", Kubelet: at("v1.33.0")}} }, "v1.31", "v1.33"},
		"worker behind the older of two": {func(f *request.Machine) {
			f.Peers = []request.Peer{{Name: "p", Kubelet: at("v1.33.0")}, {Name: "q", Kubelet: at("v1.32.0")}}
		}, "v1.31", "v1.32"},
		"worker behind the older of two, in another order": {func(f *request.Machine) {
			f.Peers = []request.Peer{{Name: "p", Kubelet: at("v1.32.0")}, {Name: "q", Kubelet: at("v1.33.0")}}
		}, "v1.31", "v1.32"},
		"worker, control plane unseen": {func(*request.Machine) {}, "v1.31", "v1.31"},
		"topology":                     {func(f *request.Machine) { f.Topology.Cluster, f.ControlPlane = "c", true }, "v1.31", "v1.31"},
	} {
		f := well()
		f.Marks.To = "revision=7"
		tt.edit(&f)
		f.Holder = map[bool]string{true: "m0"}[f.ControlPlane]
		v := request.Planned(f, request.Plan{Steps: []inplace.Step{{Updater: "u", SetsVersion: true}}})
		got := v.After.Record.Progress.Within
		if got == nil || got.Oldest.String() != tt.oldest || got.Newest.String() != tt.newest {
			t.Errorf("%s: %v", name, got)
		}
	}
	// Another minor beside a control plane of which nothing is known has to wait.
	f := well()
	f.Marks.To = "version=v1.32.0"
	if v := request.DecideMachine(f); v.State.Reason != request.ReasonSkew || !v.State.Going {
		t.Errorf("%+v", v.State)
	}
}

// TestRefusalRemembersTheCordon makes a node schedulable that could not be asked for long when the option after its upgrade was refused.
func TestRefusalRemembersTheCordon(t *testing.T) {
	d := drive(t, false, 1)
	m := &d.machines[0]
	m.marks.To = optionA
	d.machineOnce(0, "fails")
	d.now = d.now.Add(time.Hour)
	m.marks.To, m.node.Unknown = "nonsense", "no answer"
	d.machineOnce(0, "done")
	if state, _ := d.machineOnce(0, "done"); state.Reason != request.ReasonBadOption || !m.cordoned {
		t.Fatalf("%+v", state)
	}
	m.node.Unknown = ""
	d.machineOnce(0, "done")
	if m.cordoned || m.upgrade.Cordoned {
		t.Errorf("%+v", m.upgrade)
	}
}

// TestFollowTellsWhatIsSaid shows what the updater says of a change that nobody wants any longer.
func TestFollowTellsWhatIsSaid(t *testing.T) {
	d := timedOut(t, "works")
	d.machines[0].marks.To = ""
	d.machineOnce(0, "works")
	if state, _ := d.machineOnce(0, "works"); !strings.Contains(state.Message, ": working") || !state.Going {
		t.Errorf("%+v", state)
	}
}

// TestTopologyIsTold says that Cluster API's next upgrade waits for a worker that does not run just the version of its spec.
func TestTopologyIsTold(t *testing.T) {
	t.Parallel()
	f := well()
	f.Topology.Cluster, f.Marks.To, f.Node.Kubelet = "c", "version=v1.31.9", at("v1.31.9")
	told := func() bool {
		v := request.Planned(f, request.Plan{})
		if v.Event.Kind != request.Ended {
			t.Fatalf("%+v", v)
		}
		return strings.Contains(v.Event.Message, "spec.topology.version of Cluster c")
	}
	if !told() {
		t.Error("nobody is told")
	}
	if f.Spec = at("v1.31.9"); told() {
		t.Error("told though nothing waits")
	}
	if f.Topology.Cluster, f.Spec = "", current; told() {
		t.Error("told without a topology")
	}
}
