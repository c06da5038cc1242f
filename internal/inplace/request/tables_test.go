package request_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestParseOption(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"channel=1.31-classic/stable": "v1.31", "channel=1.31/stable": "v1.31", "channel=latest/edge": "", "channel=1.31": "v1.31", "channel=1.310x/stable": "",
		"revision=123": "", "revision=x3": "", "localPath=/opt/k8s.snap": "", "localPath=/opt/a=b.snap": "", "version=v1.31.2": "v1.31", "version=1.31.2": "v1.31",
	} {
		o, err := request.ParseOption(text)
		minor, known := o.Minor()
		if err != nil || o.String() != text || known != (want != "") || known && minor.String() != want {
			t.Errorf("%s: %v %v %v, error %v", text, o, minor, known, err)
		}
	}
	for _, text := range []string{"", "=", "channel", "channel=", "channel= ", "channel=a/b/c/d", "revision=", "revision=-1", "revision=1.5", "localPath=", "localPath=/", "localPath=/a/../b", "localPath=/a\n", "version=", "version=v1.31", "Channel=1.31", strings.Repeat("x", 5000)} {
		if o, err := request.ParseOption(text); err == nil {
			t.Errorf("%q passes as %v", text, o)
		}
	}
}

func FuzzParseOption(f *testing.F) {
	f.Add("channel=1.31-classic/stable")
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := request.ParseOption(text); err == nil && o.String() != text {
			t.Errorf("%q became %q", text, o)
		}
	})
}

// well is a machine that can be upgraded.
func well() request.Machine {
	return request.Machine{
		Now: start0, FreshID: "u1", Name: "m0", Marks: request.Marks{To: "version=v1.31.2"}, Spec: current,
		Node:   inplace.Node{Exists: true, Ready: true, Kubelet: current},
		Policy: policy.Policy{MaxAttempts: 2, AttemptTimeout: time.Minute},
	}
}

func at(v string) version.Version { return version.MustParse(v) }

// TestBegin holds an upgrade back, or refuses it, for each reason there is.
func TestBegin(t *testing.T) {
	t.Parallel()
	controlPlane := func(f *request.Machine) { f.ControlPlane, f.Holder = true, "m0" }
	peer := func(v string) request.Peer { return request.Peer{Name: "cp1", Kubelet: at(v)} }
	for name, tt := range map[string]struct {
		edit func(*request.Machine)
		// reason is empty where the upgrade may begin; final says that it is refused.
		reason request.Reason
		final  bool
		words  string
	}{
		"patch release":                   {func(*request.Machine) {}, "", false, ""},
		"next minor, control plane there": {func(f *request.Machine) { f.Marks.To, f.Peers = "version=v1.32.0", []request.Peer{peer("v1.32.1")} }, "", false, ""},
		"worker ahead of control plane":   {func(f *request.Machine) { f.Marks.To, f.Peers = "version=v1.32.0", []request.Peer{peer("v1.31.1")} }, request.ReasonControlPlaneFirst, false, "upgrade the control plane to v1.32"},
		"worker, control plane on its way": {func(f *request.Machine) {
			f.Marks.To, f.Peers, f.ControlPlaneFirst = "version=v1.32.0", []request.Peer{peer("v1.31.1")}, "control plane first"
		}, request.ReasonControlPlaneFirst, false, "control plane first"},
		"worker patch, control plane busy":   {func(f *request.Machine) { f.ControlPlaneFirst = "control plane first" }, request.ReasonControlPlaneFirst, false, ""},
		"worker too old for control plane":   {func(f *request.Machine) { f.Peers = []request.Peer{peer("v1.35.0")} }, request.ReasonSkew, true, "too old"},
		"older minor":                        {func(f *request.Machine) { f.Marks.To = "channel=1.30/stable" }, request.ReasonDowngrade, true, "cannot be downgraded"},
		"topology, other minor":              {func(f *request.Machine) { f.Topology.Cluster, f.Marks.To = "c", "version=v1.32.0" }, request.ReasonTopologyOwned, true, "spec.topology.version of the Cluster"},
		"topology, channel of another minor": {func(f *request.Machine) { f.Topology.Cluster, f.Marks.To = "c", "channel=1.32-classic/stable" }, request.ReasonTopologyOwned, true, "Cluster c"},
		"topology that asks for it": {func(f *request.Machine) {
			f.Topology, f.Marks.To = request.Topology{Cluster: "c", Version: version.MustParse("v1.32.4")}, "version=v1.32.4"
		}, request.ReasonTopologyOwned, true, "asks for v1.32.4 already, and Cluster API brings the machines there. Fix: remove the annotation"},
		"topology that asks for it in vain": {func(f *request.Machine) {
			f.Topology = request.Topology{Cluster: "c", Version: version.MustParse("v1.32.4"), Stuck: "KubeadmControlPlane cp is stuck: why. Fix: do"}
			f.Marks.To = "version=v1.32.4"
		}, request.ReasonTopologyOwned, true, "asks for v1.32.4 already, but KubeadmControlPlane cp is stuck: why. Fix: do"},
		"topology, patch release":       {func(f *request.Machine) { f.Topology.Cluster = "c" }, "", false, ""},
		"topology, revision":            {func(f *request.Machine) { f.Topology.Cluster, f.Marks.To = "c", "revision=7" }, "", false, ""},
		"paused":                        {func(f *request.Machine) { f.Paused = true }, request.ReasonPaused, false, ""},
		"up for remediation":            {func(f *request.Machine) { f.Remediation = "its owner replaces it" }, request.ReasonRemediating, false, ""},
		"updated by Cluster API":        {func(f *request.Machine) { f.Busy = "Cluster API updates it" }, request.ReasonBusy, false, "Cluster API updates it"},
		"control plane, single machine": {func(f *request.Machine) { controlPlane(f); f.Marks.To = "version=v1.32.0" }, "", false, ""},
		"control plane, two minors":     {func(f *request.Machine) { controlPlane(f); f.Marks.To = "version=v1.33.0" }, request.ReasonSkew, true, "one minor at a time"},
		"control plane, peer far behind": {func(f *request.Machine) {
			controlPlane(f)
			f.Marks.To, f.Peers = "version=v1.32.0", []request.Peer{peer("v1.30.0")}
		}, request.ReasonSkew, true, "cp1"},
		"control plane, peer far ahead": {func(f *request.Machine) {
			controlPlane(f)
			f.Peers = []request.Peer{peer("v1.33.0")}
		}, request.ReasonSkew, true, "cp1"},
		"control plane, peer of another major": {func(f *request.Machine) {
			controlPlane(f)
			f.Peers = []request.Peer{peer("v2.31.1")}
		}, request.ReasonSkew, true, "cp1"},
		"control plane, workers too old": {func(f *request.Machine) {
			controlPlane(f)
			f.Marks.To, f.OldestWorker = "version=v1.32.0", at("v1.28.3")
		}, request.ReasonSkew, true, "upgrade the workers first"},
		"control plane, locked": {func(f *request.Machine) { controlPlane(f); f.Holder = "m1" }, request.ReasonLocked, false, "m1"},
		"control plane, peer busy": {func(f *request.Machine) {
			controlPlane(f)
			f.Peers = []request.Peer{{Name: "cp1", Kubelet: current, Busy: "is being upgraded"}}
		}, request.ReasonLocked, false, "cp1"},
		"control plane, peer not Ready": {func(f *request.Machine) {
			controlPlane(f)
			f.Peers = []request.Peer{{Name: "cp1", NotReady: "no node"}}
		}, request.ReasonControlPlaneUnhealthy, false, "no node"},
		"control plane, etcd": {func(f *request.Machine) {
			controlPlane(f)
			f.Peers, f.Etcd = []request.Peer{peer("v1.31.1")}, "member cp1 is not healthy"
		}, request.ReasonEtcdUnhealthy, false, "member cp1"},
		"control plane, etcd of the only one": {func(f *request.Machine) { controlPlane(f); f.Etcd = "not healthy" }, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := well()
			tt.edit(&f)
			v := request.DecideMachine(f)
			if _, asks := v.Action.(request.Ask); asks != (tt.reason == "") || tt.reason != "" && v.State.Reason != tt.reason {
				t.Fatalf("%T, %+v", v.Action, v.State)
			}
			refused := v.After.Record.IsFinal()
			if refused != tt.final || refused == v.State.Going || !strings.Contains(v.State.Message, tt.words) {
				t.Errorf("refused %v, %+v", refused, v.State)
			}
			if want := map[bool]request.Status{true: request.Failed}[tt.final]; v.After.Marks.Status != want {
				t.Errorf("status %q", v.After.Marks.Status)
			}
		})
	}
}

// TestLeftAlone does nothing to a machine that is being deleted, and tells of records that nobody can read.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	running := well()
	running.Upgrade = &request.Upgrade{Option: "version=v1.31.2", Progress: &inplace.Progress{ID: "u", Phase: inplace.Updating, Steps: []inplace.Step{{Updater: "u"}}, Operation: "u-1"}}
	for name, edit := range map[string]func(*request.Machine){
		"deleting": func(f *request.Machine) { f.Deleting = true }, "unreadable": func(f *request.Machine) { f.Unreadable = "no JSON" },
		"paused, no change runs": func(f *request.Machine) {
			drains := *f.Upgrade.Progress
			drains.Phase = inplace.Draining
			f.Paused, f.ClusterPaused, f.Upgrade = true, true, &request.Upgrade{Option: "version=v1.31.2", Progress: &drains}
		},
		"paused by a person while a change runs": func(f *request.Machine) { f.Paused = true },
		"up for remediation":                     func(f *request.Machine) { f.Remediation = "its owner replaces it" },
	} {
		f := running
		edit(&f)
		v := request.DecideMachine(f)
		_, rests := v.Action.(request.Rest)
		if _, waits := v.Action.(request.Wait); !rests && !waits {
			t.Errorf("%s: %T", name, v.Action)
		}
		if diff := cmp.Diff(request.Recorded[request.Upgrade]{Marks: f.Marks, Record: f.Upgrade}, v.After); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestPausedWhileChangeRuns follows the change of a machine whose Cluster is paused: the end lifts what keeps its Cluster from being moved.
func TestPausedWhileChangeRuns(t *testing.T) {
	t.Parallel()
	f := well()
	f.Paused, f.ClusterPaused, f.Marks.To = true, true, "version=v1.31.2"
	f.Upgrade = &request.Upgrade{Option: f.Marks.To, Progress: &inplace.Progress{ID: "u", Phase: inplace.Updating, Steps: []inplace.Step{{Updater: "u"}}, Operation: "u-1"}}
	if v := request.DecideMachine(f); v.Action != (request.Run{}) {
		t.Errorf("it is not followed: %#v", v)
	}
	if !f.Facts().Paused {
		t.Error("the next step would begin")
	}
}

// TestStates takes the annotations of section 4, as another controller may have left them, and says what is made of them.
func TestStates(t *testing.T) {
	t.Parallel()
	to, done := optionA, request.Marks{Status: request.Done, Release: optionA}
	for name, tt := range map[string]struct {
		marks request.Marks
		want  request.Marks
		asked bool
	}{
		"nothing":                               {request.Marks{}, request.Marks{}, false},
		"to":                                    {request.Marks{To: to}, done, true},
		"to, other release":                     {request.Marks{To: to, Status: request.Done, Release: "old"}, done, true},
		"done":                                  {request.Marks{Status: request.Done, Release: "old"}, request.Marks{Status: request.Done, Release: "old"}, false},
		"in-progress, before the change id":     {request.Marks{To: to, Status: request.InProgress}, done, true},
		"in-progress, begun by another":         {request.Marks{To: to, Status: request.InProgress, ChangeID: "7"}, done, true},
		"done by another, not tidied up":        {request.Marks{To: to, Status: request.Done, ChangeID: "7"}, done, true},
		"in-progress, to removed, nothing runs": {request.Marks{Status: request.InProgress}, request.Marks{}, false},
		"in-progress, to removed, change runs":  {request.Marks{Status: request.InProgress, ChangeID: "7"}, request.Marks{Status: request.InProgress, ChangeID: "7"}, false},
		"failed by another, to there":           {request.Marks{To: to, Status: request.Failed, LastFailed: "x"}, done, true},
		"failed, to removed":                    {request.Marks{Status: request.Failed, LastFailed: "x"}, request.Marks{Status: request.Failed, LastFailed: "x"}, false},
		"change id without status":              {request.Marks{To: to, ChangeID: "7"}, done, true},
		"a status that nobody knows":            {request.Marks{To: to, Status: "paused"}, done, true},
		"only a leftover time":                  {request.Marks{LastFailed: "x"}, request.Marks{LastFailed: "x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, false, 1)
			m := &d.machines[0]
			m.installed, m.marks = "old", tt.marks
			if tt.marks.To == "" && tt.marks.Release == "" {
				m.installed = ""
			}
			_, asked := d.machineOnce(0, "done")
			if diff := cmp.Diff(tt.want, m.marks); diff != "" || asked != tt.asked {
				t.Errorf("asked %v (-want +got)\n%s", asked, diff)
			}
			if adopted := tt.marks.ChangeID != "" && tt.marks.To != "" && tt.marks.Status != ""; adopted && m.cordoned {
				t.Error("a node whose change runs is drained")
			}
		})
	}
}

// TestGroupRefuses refuses what a group cannot be brought to, before any machine begins.
func TestGroupRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		to, topology string
		want         request.Reason
	}{
		"nonsense": {"nonsense", "", request.ReasonBadOption}, "topology": {"version=v1.32.0", "c", request.ReasonTopologyOwned}, "older": {"version=v1.30.0", "", request.ReasonDowngrade},
	} {
		w := newWorld(false, 2)
		g := w.group()
		g.Marks = request.Marks{To: tt.to, Status: request.Done, Release: "old"}
		g.Topology.Cluster = tt.topology
		v := request.DecideGroup(g)
		if v.State.Reason != tt.want || v.After.Marks != (request.Marks{To: tt.to, Status: request.Failed, Release: "old"}) || v.Event.Kind != request.FailedFinally {
			t.Errorf("%s: %+v", name, v)
		}
		g.Marks, g.Record = v.After.Marks, v.After.Record
		if again := request.DecideGroup(g); again.Event.Kind != request.NoEvent || again.State.Going {
			t.Errorf("%s: again %+v", name, again)
		}
		g.Retry = true
		if retried := request.DecideGroup(g); retried.After.Retry {
			t.Errorf("%s: the wish for a retry stays", name)
		}
	}
}

// ended is a group whose upgrade has ended at v1.31.1.
func ended() request.Group {
	w := newWorld(false, 2)
	g := w.group()
	at := start0.Add(time.Hour)
	g.Now = at.Add(time.Hour)
	g.Marks = request.Marks{Status: request.Done, Release: optionA}
	g.Record = &request.Record{Option: optionA, Ended: &at, Version: current, Spec: current}
	for i := range g.Members {
		g.Members[i].Marks = request.Marks{Status: request.Done, Release: optionA}
	}
	g.Members = append(g.Members, request.Member{Name: "new", Created: at.Add(time.Minute), Kubelet: current, Spec: current})
	return g
}

// TestJoined gives a machine that has joined the release of its group, unless somebody else decides about it.
func TestJoined(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*request.Group)
		want request.GroupAction
	}{
		"joins":                        {func(*request.Group) {}, request.Mark{Member: "new", To: optionA}},
		"no node yet":                  {func(g *request.Group) { g.Members[2].NoNode = true }, request.Rest{}},
		"held":                         {func(g *request.Group) { g.Members[2].Held = "paused" }, request.Rest{}},
		"deleted":                      {func(g *request.Group) { g.Members[2].Deleting = true }, request.Rest{}},
		"upgraded by hand":             {func(g *request.Group) { g.Members[2].Marks.Release = optionB }, request.Rest{}},
		"was there before":             {func(g *request.Group) { g.Members[2].Created = start0 }, request.Rest{}},
		"another joins":                {func(g *request.Group) { g.Members[1].Marks.To = optionA }, request.Rest{}},
		"spec moved on":                {func(g *request.Group) { g.Spec = at("v1.32.0") }, request.Rest{}},
		"control plane":                {func(g *request.Group) { g.ControlPlaneFirst = "first" }, request.Rest{}},
		"paused":                       {func(g *request.Group) { g.Paused = true }, request.Rest{}},
		"of another controller":        {func(g *request.Group) { g.Record = nil }, request.Mark{Member: "new", To: optionA}},
		"of no version":                {func(g *request.Group) { g.Marks.Release, g.Record.Option = optionB, optionB }, request.Mark{Member: "new", To: optionB}},
		"of no version, of another":    {func(g *request.Group) { g.Record, g.Marks.Release = nil, optionB }, request.Rest{}},
		"of another controller, older": {func(g *request.Group) { g.Record, g.Marks.Release = nil, "channel=1.30/stable" }, request.Rest{}},
	} {
		g := ended()
		tt.edit(&g)
		v := request.DecideGroup(g)
		if diff := cmp.Diff(tt.want, v.Action); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if gone := v.After.Marks.Release == ""; gone != (name == "spec moved on" || name == "of another controller, older") {
			t.Errorf("%s: %+v", name, v.After.Marks)
		}
	}
}

// TestEnd raises the version of a group's spec where nothing is replaced for it, and says why it does not.
func TestEnd(t *testing.T) {
	t.Parallel()
	group := func(kubelets ...string) request.Group {
		w := newWorld(false, len(kubelets))
		g := w.group()
		g.CannotRaise = ""
		g.Marks, g.Record = request.Marks{To: optionA, Status: request.InProgress}, &request.Record{Option: optionA}
		for i, k := range kubelets {
			g.Members[i].Kubelet, g.Members[i].Marks = at(k), request.Marks{Status: request.Done, Release: optionA}
		}
		return g
	}
	for name, tt := range map[string]struct {
		group request.Group
		edit  func(*request.Group)
		raise string
		words string
	}{
		"raised":        {group("v1.32.1", "v1.32.1"), func(*request.Group) {}, "v1.32.1", ""},
		"same version":  {group("v1.31.1"), func(*request.Group) {}, "", "upgraded 1 machine in place"},
		"topology":      {group("v1.31.2"), func(g *request.Group) { g.Topology.Cluster = "c" }, "", "upgraded 1 machine in place"},
		"not alike":     {group("v1.32.1", "v1.32.2"), func(*request.Group) {}, "", "different versions"},
		"would replace": {group("v1.32.1"), func(g *request.Group) { g.CannotRaise = "make an UpdatePolicy" }, "", "make an UpdatePolicy"},
		"no machines":   {group(), func(*request.Group) {}, "", "upgraded 0 machines"},
	} {
		tt.edit(&tt.group)
		v := request.DecideGroup(tt.group)
		if raise, ok := v.Action.(request.Raise); ok != (tt.raise != "") || ok && raise.Version != at(tt.raise) {
			t.Errorf("%s: %+v", name, v.Action)
		}
		if !strings.Contains(v.Event.Message, tt.words) || tt.raise == "" && v.After.Marks != (request.Marks{Status: request.Done, Release: optionA}) {
			t.Errorf("%s: %+v %+v", name, v.Event, v.After.Marks)
		}
	}
}

// TestOddOne does not record a revision that one of the machines does not run.
func TestOddOne(t *testing.T) {
	t.Parallel()
	w := newWorld(false, 3)
	g := w.group()
	g.Marks, g.Record = request.Marks{To: optionB, Status: request.InProgress}, &request.Record{Option: optionB}
	for i := range g.Members {
		g.Members[i].Kubelet, g.Members[i].Marks = at("v1.31.7"), request.Marks{Status: request.Done, Release: optionB}
	}
	g.Members[1].Kubelet = at("v1.31.1")
	v := request.DecideGroup(g)
	if v.After.Marks.Release != "" || v.After.Marks.Status != request.Failed || v.Event.Kind != request.FailedFinally || !strings.Contains(v.State.Message, "m1 runs v1.31.1") {
		t.Fatalf("%+v", v)
	}
	g.Marks, g.Record = v.After.Marks, v.After.Record
	if again := request.DecideGroup(g); again.Event.Kind != request.NoEvent || again.State.Going {
		t.Errorf("%+v", again)
	}
	g.Members[1].Kubelet = at("v1.31.7")
	for range 2 {
		v = request.DecideGroup(g)
		g.Marks, g.Record = v.After.Marks, v.After.Record
	}
	if g.Marks != (request.Marks{Status: request.Done, Release: optionB}) {
		t.Errorf("%+v", g.Marks)
	}
}

// TestKubeletUnknown waits at the end of a group for a machine whose version is not known, and a retry
// forgets the versions that were noted where one of them stopped the group.
func TestKubeletUnknown(t *testing.T) {
	t.Parallel()
	ended := func() request.Group {
		w := newWorld(false, 3)
		g := w.group()
		g.Marks, g.Record = request.Marks{To: optionB, Status: request.InProgress}, &request.Record{Option: optionB}
		for i := range g.Members {
			g.Members[i].Kubelet, g.Members[i].Marks = at("v1.31.7"), request.Marks{Status: request.Done, Release: optionB}
		}
		return g
	}
	for name, tt := range map[string]struct {
		edit          func(*request.Group)
		waits, forget bool
	}{
		"known":   {edit: func(*request.Group) {}},
		"unknown": {edit: func(g *request.Group) { g.Members[0].KubeletUnknown = "no network" }, waits: true},
		"unknown and odd": {edit: func(g *request.Group) {
			g.Members[0].KubeletUnknown, g.Members[1].Kubelet = "no network", at("v1.31.1")
		}, waits: true},
		"unknown, going": {edit: func(g *request.Group) { g.Members[0].KubeletUnknown, g.Members[1].Deleting = "no network", true }},
		"unknown, going away": {edit: func(g *request.Group) {
			g.Members[0].KubeletUnknown, g.Members[0].Deleting, g.Replicas = "no network", true, 2
		}},
		"retry":      {edit: func(g *request.Group) { g.Retry = true }},
		"odd":        {edit: func(g *request.Group) { g.Members[1].Kubelet = at("v1.31.1") }},
		"odd, retry": {edit: func(g *request.Group) { g.Members[1].Kubelet, g.Retry = at("v1.31.1"), true }, forget: true},
	} {
		g := ended()
		tt.edit(&g)
		v := request.DecideGroup(g)
		if waits := strings.Contains(v.State.Message, "waiting for the version of Machine m0: no network"); waits != tt.waits {
			t.Errorf("%s: %+v", name, v)
		}
		if v.ForgetKubelets != tt.forget || tt.forget && v.After.Retry {
			t.Errorf("%s: forget %t, retry %t", name, v.ForgetKubelets, v.After.Retry)
		}
	}
}

// TestGroupIsPure decides alike about machines in any order, and changes no input.
func TestGroupIsPure(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Bool().Draw(t, "control plane"), 4)
		for i := range w.machines {
			m := &w.machines[i]
			m.marks.To = rapid.SampledFrom([]string{"", optionA, optionB}).Draw(t, "to")
			m.marks.Release = rapid.SampledFrom([]string{"", optionA}).Draw(t, "release")
			if rapid.Bool().Draw(t, "failed") {
				m.upgrade = &request.Upgrade{Option: optionA, Message: "no"}
			}
		}
		w.marks = request.Marks{To: rapid.SampledFrom([]string{"", optionA, "x"}).Draw(t, "group to"), Release: rapid.SampledFrom([]string{"", optionB}).Draw(t, "group release")}
		if rapid.Bool().Draw(t, "record") {
			w.record = &request.Record{Option: optionA, Superseded: []string{optionB}}
		}
		g := w.group()
		before := w.group()
		want := request.DecideGroup(g)
		if diff := cmp.Diff(before, g); diff != "" {
			t.Fatalf("the input changed: %s", diff)
		}
		g.Members = rapid.Permutation(g.Members).Draw(t, "members")
		if diff := cmp.Diff(want, request.DecideGroup(g)); diff != "" {
			t.Fatalf("the order counts: %s", diff)
		}
	})
}
