package judge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/judge"
)

const (
	v31 = "v1.31.0"
	v32 = "v1.32.0"
	v33 = "v1.33.0"
)

var (
	key   = types.NamespacedName{Namespace: "ns", Name: "c"}
	began = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
)

// machine is one at some time of a story.
type machine struct {
	name, group, asks, runs string
	joining, leaving        bool
	// phase is that of an update in place; empty for none.
	phase string
}

// scene is what there is from a second of a story on, until the next one. The objects follow from
// the first fields; done, shown as steps, follows from nothing but the author.
type scene struct {
	at                     int
	target, controlPlane   string
	workers                string
	machines               []machine
	hooks, reason, message string
	// waits is since when a gate that needs approval holds the Cluster; 0 for no gate.
	waits int
	// done are the steps that are done; upgrading says that the upgrade has not ended.
	done      []string
	upgrading bool
	// atTarget is how many machines have arrived.
	atTarget int
}

func rest(name, group, at string) machine {
	return machine{name: name, group: group, asks: at, runs: at}
}

// story upgrades a control plane machine by replacement from v1.31 to v1.32; a gate holds the
// workers until a person approves; the workers follow in place, of which the second fails and is
// tried again.
func story() []scene {
	const hooksLeft = "AfterClusterUpgrade,AfterWorkersUpgrade"
	old := []machine{rest("cp-0", "", v31), rest("w-0", "md", v31), rest("w-1", "md", v31)}
	base := scene{target: v31, controlPlane: v31, workers: v31, machines: old, atTarget: 3}
	moving := scene{
		target: v32, controlPlane: v32, workers: v31, hooks: "AfterClusterUpgrade,BeforeWorkersUpgrade",
		reason: clusterv1.ClusterTopologyReconciledClusterUpgradingReason, message: "it moves", upgrading: true,
	}
	from := func(at int, s scene, change func(*scene)) scene {
		s.at = at
		s.machines = slices.Clone(s.machines)
		change(&s)
		return s
	}
	begun := from(10, moving, func(s *scene) {
		s.machines = append(slices.Clone(old), machine{name: "cp-1", asks: v32, joining: true})
	})
	joined := from(30, begun, func(s *scene) {
		s.machines[0].leaving = true
		s.machines[3] = rest("cp-1", "", v32)
		s.atTarget, s.done = 1, []string{"control plane " + v32}
	})
	held := from(40, joined, func(s *scene) {
		s.machines = s.machines[1:]
		s.message = "Cluster is upgrading\n  * hook BeforeWorkersUpgrade for v1.32.0 is blocking: approval"
		s.waits = 40
	})
	working := from(60, held, func(s *scene) {
		s.message, s.waits, s.hooks, s.workers = "it moves", 0, hooksLeft, v32
		s.machines[0] = machine{name: "w-0", group: "md", asks: v32, runs: v31, phase: "Updating"}
	})
	soaking := from(75, working, func(s *scene) { s.machines[0].runs, s.machines[0].phase = v32, "Soaking" })
	second := from(90, soaking, func(s *scene) {
		s.machines[0], s.atTarget = rest("w-0", "md", v32), 2
		s.machines[1] = machine{name: "w-1", group: "md", asks: v32, runs: v31, phase: "Updating"}
	})
	failed := from(105, second, func(s *scene) { s.machines[1].runs, s.machines[1].phase = v32, "Failed" })
	again := from(120, failed, func(s *scene) { s.machines[1].phase = "Updating" })
	hooked := from(135, again, func(s *scene) {
		s.machines[1], s.atTarget = rest("w-1", "md", v32), 3
		s.done = append(slices.Clone(s.done), "workers "+v32)
	})
	end := from(145, hooked, func(s *scene) {
		s.hooks, s.reason, s.message, s.done, s.upgrading = "", "", "", nil, false
	})
	return []scene{base, begun, joined, held, working, soaking, second, failed, again, hooked, end}
}

const storySeconds = 160

func at(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }

func meta(name string, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: key.Namespace, Name: name, UID: types.UID(name), Annotations: annotations,
		Labels: map[string]string{clusterv1.ClusterNameLabel: key.Name},
	}
}

// facts are those of a story: all objects of each scene, and those that are gone. The manager
// renews its lease each second while it is alive.
func facts(scenes []scene, alive int) []history.Fact {
	var all, before []history.Fact
	for _, s := range scenes {
		var now []history.Fact
		s.addObjects(func(f history.Fact, o client.Object) {
			f.Seen, f.Name, f.UID, f.Object, f.Cluster = at(s.at), o.GetName(), o.GetUID(), o, key
			f.Deleting = o.GetDeletionTimestamp() != nil
			now = append(now, f)
		})
		for _, f := range before {
			if !slices.ContainsFunc(now, func(o history.Fact) bool { return o.UID == f.UID }) {
				f.Gone, f.Deleting, f.Seen = true, true, at(s.at)
				all = append(all, f)
			}
		}
		all, before = append(all, now...), now
	}
	for second := range alive {
		lease := &coordinationv1.Lease{ObjectMeta: meta("controller-leader-election-capi", nil)}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: at(second)}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new("windlass-manager_a_1"), new(int32(15))
		all = append(all, history.Fact{
			Kind: "Lease", Name: lease.Name, UID: lease.UID, Object: lease, Seen: at(second), Cluster: key,
		})
	}
	return all
}

func (s scene) addObjects(add func(history.Fact, client.Object)) {
	cluster := &clusterv1.Cluster{ObjectMeta: meta(key.Name, map[string]string{runtimev1.PendingHooksAnnotation: s.hooks})}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: s.target}
	if s.reason != "" {
		cluster.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse, Reason: s.reason, Message: s.message,
		}}
	}
	add(history.Fact{Kind: history.KindCluster, Version: s.target}, cluster)
	add(history.Fact{Kind: history.KindControlPlane, Version: s.controlPlane, Reported: s.controlPlane, Replicas: 1},
		&controlplanev1.KubeadmControlPlane{ObjectMeta: meta("cp", nil)})
	add(history.Fact{Kind: history.KindGroup, Group: "md", Version: s.workers, Replicas: 2},
		&clusterv1.MachineDeployment{ObjectMeta: meta("md", nil)})
	gate := &v1alpha1.UpgradeGate{ObjectMeta: meta("board", nil)}
	gate.Spec.Requires.Approval = &v1alpha1.GateApproval{}
	if s.waits > 0 {
		gate.Status.Waiting = []v1alpha1.GateWaiting{{
			Cluster: key.Name, ClusterUID: key.Name, At: "BeforeWorkersUpgrade", Version: v32,
		}}
	}
	add(history.Fact{Kind: "UpgradeGate"}, gate)
	for _, m := range s.machines {
		add(history.Fact{Kind: history.KindMachine, Group: m.group, Version: m.asks, Reported: m.runs}, m.object())
	}
}

func (m machine) object() *clusterv1.Machine {
	o := &clusterv1.Machine{ObjectMeta: meta(m.name, map[string]string{})}
	if m.phase != "" {
		o.Annotations[v1alpha1.UpdateProgressAnnotation] = fmt.Sprintf(`{"phase": %q}`, m.phase)
	}
	if m.leaving {
		o.DeletionTimestamp = &metav1.Time{Time: began}
	}
	ready := metav1.ConditionTrue
	if m.joining {
		ready = metav1.ConditionFalse
	} else {
		o.Status.NodeRef.Name = m.name
		o.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: m.runs}
	}
	o.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: ready}}
	return o
}

// status is the JSON of windlass status, as far as a judge reads it.
type (
	status struct {
		Silent   time.Time `json:"managerSilentSince,omitzero"`
		Upgrade  upgrade   `json:"upgrade"`
		Machines []shown   `json:"machines"`
	}
	upgrade struct {
		State      string    `json:"state"`
		EngineSeen time.Time `json:"engineSeen,omitzero"`
		AtTarget   int       `json:"machinesAtTarget"`
		Machines   int       `json:"machines"`
		Steps      []step    `json:"steps"`
		HeldBy     []hold    `json:"heldBy"`
		NotKnown   []string  `json:"notKnown"`
	}
	shown struct {
		Name   string `json:"name"`
		State  string `json:"state"`
		Runs   string `json:"runs"`
		Motion string `json:"motion"`
	}
	step struct {
		State     string `json:"state"`
		Operation string `json:"operation"`
		To        string `json:"to"`
	}
	hold struct {
		Kind    string    `json:"kind"`
		By      string    `json:"by"`
		Message string    `json:"message"`
		Since   time.Time `json:"since"`
	}
)

// show is what windlass status should show of a scene, a second after it has begun.
func (s scene) show() (int, status) {
	d := status{Upgrade: upgrade{State: "UpToDate", AtTarget: s.atTarget, Machines: 3, EngineSeen: at(s.at)}}
	if s.upgrading {
		d.Upgrade.State = "Upgrading"
	}
	for _, name := range s.done {
		operation, to := "WorkersUpgrade", name[len("workers "):]
		if name[0] == 'c' {
			operation, to = "ControlPlaneUpgrade", name[len("control plane "):]
		}
		d.Upgrade.Steps = append(d.Upgrade.Steps, step{"Done", operation, to})
	}
	if s.waits > 0 {
		d.Upgrade.State = "Held"
		d.Upgrade.HeldBy = []hold{
			{Kind: "Hook", By: "BeforeWorkersUpgrade", Since: at(s.waits)},
			{Kind: "UpgradeGate", By: "board", Since: at(s.waits), Message: "needs approval: windlass approve"},
		}
	}
	for _, m := range s.machines {
		d.Machines = append(d.Machines, m.show())
	}
	return s.at + 1, d
}

func (m machine) show() shown {
	switch {
	case m.leaving:
		return shown{m.name, "Deleting", m.runs, "Removal"}
	case m.joining:
		return shown{m.name, "UpToDate", m.runs, "Creation"}
	case m.phase == "Failed":
		return shown{m.name, "Failed", m.runs, ""}
	case m.phase != "":
		return shown{m.name, "Updating", m.runs, "InPlaceUpdate"}
	}
	return shown{m.name, "UpToDate", m.runs, ""}
}

// judged compares a story with its statuses, which change may change. The manager is alive all the
// time.
func judged(t *testing.T, change func(second int, s *status)) []judge.Fault {
	t.Helper()
	return judgedAlive(t, storySeconds, change)
}

func judgedAlive(t *testing.T, alive int, change func(second int, s *status)) []judge.Fault {
	t.Helper()
	var statuses []judge.Moment
	for _, s := range story() {
		second, d := s.show()
		change(second, &d)
		line, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		moment, err := judge.ReadStatus(line)
		if err != nil {
			t.Fatal(err)
		}
		moment.At = at(second)
		statuses = append(statuses, moment)
	}
	var seconds []time.Time
	for second := range storySeconds {
		seconds = append(seconds, at(second).Add(500*time.Millisecond))
	}
	return judge.Compare(judge.Truth(facts(story(), alive), key, at(storySeconds)), statuses, seconds, judge.Lag)
}
