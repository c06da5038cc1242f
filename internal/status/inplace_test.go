package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

const (
	patch  = "version=v1.32.4"
	other  = "version=v1.32.5"
	prefix = v1alpha1.DefaultInPlaceUpgradePrefix
)

// mark sets annotations of the wire format: pairs of what follows the prefix, and the value.
func mark(pairs ...string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		for i := 0; i < len(pairs); i += 2 {
			m.Annotations[prefix+pairs[i]] = pairs[i+1]
		}
	}
}

func upgrading(t *testing.T, option string, phase inplace.Phase) func(*clusterv1.Machine) {
	t.Helper()
	p := progress(func(p *inplace.Progress) { p.Phase, p.LastError = phase, "the disk is full" })
	return withAnnotation(t, v1alpha1.InPlaceUpgradeAnnotation, request.Upgrade{Option: option, Progress: &p})
}

func told(state metav1.ConditionStatus, reason request.Reason, message string) func(*clusterv1.Machine) {
	return condition(v1alpha1.InPlaceUpgradeCondition, state, string(reason), message)
}

func refusedUpgrade(t *testing.T) func(*clusterv1.Machine) {
	t.Helper()
	return withAnnotation(t, v1alpha1.InPlaceUpgradeAnnotation, request.Upgrade{Option: patch, Reason: request.ReasonSkew, Message: "too far"})
}

var retry = raw(v1alpha1.UpdateRetryAnnotation, "")

// TestMachineUpgrade checks how the upgrade of a machine is described for everything that can stand on it.
func TestMachineUpgrade(t *testing.T) {
	const abandoned = "Held (RecordUnreadable): change 12 may run on the node, but the annotation with its target is gone. Fix: " +
		"set the annotation again to have the change followed, or remove the status after the change has ended"
	for _, test := range []struct {
		name   string
		change []func(*clusterv1.Machine)
		want   string
	}{
		{"nothing", nil, ""},
		{"asked", []func(*clusterv1.Machine){mark("to", patch)}, "Asked, version=v1.32.4: "},
		{"held", []func(*clusterv1.Machine){mark("to", patch), told("True", request.ReasonLocked, "not started: m-2 is busy")},
			"Held (Locked), version=v1.32.4: not started: m-2 is busy"},
		{"draining", []func(*clusterv1.Machine){mark("to", patch, "status", "in-progress"), upgrading(t, patch, inplace.Draining), told("True", "Draining", "draining the node")},
			"Upgrading (Draining), version=v1.32.4, by kubeadm (2 of 2), attempt 1: draining the node"},
		{"updating a change", []func(*clusterv1.Machine){mark("to", patch, "status", "in-progress", "change-id", "12"), upgrading(t, patch, inplace.Updating)},
			"Upgrading, version=v1.32.4, by kubeadm (2 of 2), attempt 1, change 12: "},
		{"another attempt follows", []func(*clusterv1.Machine){mark("to", patch, "status", "in-progress"), upgrading(t, patch, inplace.BackingOff), told("True", "BackingOff", "waiting")},
			"Upgrading (BackingOff), version=v1.32.4, by kubeadm (2 of 2), attempt 1: the disk is full"},
		{"paused", []func(*clusterv1.Machine){mark("to", patch), upgrading(t, patch, inplace.Updating), told("True", request.ReasonPaused, "it is paused")},
			"Upgrading, Paused, version=v1.32.4, by kubeadm (2 of 2), attempt 1: it is paused"},
		{"superseded", []func(*clusterv1.Machine){mark("to", other), upgrading(t, patch, inplace.Updating)},
			"Upgrading, version=v1.32.4, then version=v1.32.5, by kubeadm (2 of 2), attempt 1: "},
		{"cancelled", []func(*clusterv1.Machine){mark("status", "in-progress"), upgrading(t, patch, inplace.Verifying), told("True", request.ReasonCancelled, "cancelled")},
			"Cancelling (Verifying), version=v1.32.4, by kubeadm (2 of 2), attempt 1: cancelled"},
		{"failed", []func(*clusterv1.Machine){mark("to", patch, "status", "failed"), upgrading(t, patch, inplace.Failed), told("False", request.ReasonFailed, "long")},
			"Failed, version=v1.32.4: the disk is full"},
		{"refused", []func(*clusterv1.Machine){mark("to", patch, "status", "failed"), refusedUpgrade(t)}, "Failed, version=v1.32.4: too far"},
		{"retried", []func(*clusterv1.Machine){mark("to", patch, "status", "failed"), upgrading(t, patch, inplace.Failed), told("False", request.ReasonFailed, "long"), retry},
			"Asked, version=v1.32.4: "},
		{"retried and held", []func(*clusterv1.Machine){mark("to", patch, "status", "failed"), upgrading(t, patch, inplace.Failed), told("True", request.ReasonBusy, "not started"), retry},
			"Held (Busy), version=v1.32.4: not started"},
		{"failed, then another", []func(*clusterv1.Machine){mark("to", other, "status", "failed"), upgrading(t, patch, inplace.Failed), told("False", request.ReasonFailed, "long")},
			"Asked, version=v1.32.5: "},
		{"failed, then withdrawn", []func(*clusterv1.Machine){mark("status", "failed"), upgrading(t, patch, inplace.Failed)},
			"Cancelling (Failed), version=v1.32.4, by kubeadm (2 of 2), attempt 1: "},
		{"given up", []func(*clusterv1.Machine){mark("status", "failed", "last-failed-attempt-at", "x")}, "Idle: "},
		{"done", []func(*clusterv1.Machine){mark("status", "done", "release", patch)}, "Done, version=v1.32.4: "},
		{"a change that nobody knows", []func(*clusterv1.Machine){mark("status", "in-progress", "change-id", "12")}, abandoned},
		{"a change that nobody knows, after a release", []func(*clusterv1.Machine){mark("status", "in-progress", "change-id", "12", "release", patch),
			told("False", request.ReasonRecordUnreadable, "set the annotation again")}, abandoned},
		{"unreadable", []func(*clusterv1.Machine){mark("to", patch), raw(v1alpha1.InPlaceUpgradeAnnotation, `{"option":"x"}`)}, "Unreadable, version=v1.32.4: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if found, _ := ComputeInPlace(facts(machine("m-1", test.change...)), start); found != nil {
				got = found.Machines[0].Describe() + ": " + found.Machines[0].Text()
			}
			if got != test.want {
				t.Errorf("it is described as %q, want %q", got, test.want)
			}
		})
	}
}

// TestGroupUpgrade checks how the upgrade of a group is described for everything that can stand on it.
func TestGroupUpgrade(t *testing.T) {
	ended := start
	running := request.Record{Option: patch, Began: start}
	failed := request.Record{Option: patch, Began: start, Reason: request.ReasonFailed, Message: "Machine m-3: the disk is full"}
	done := request.Record{Option: patch, Began: start, Ended: &ended}
	type marks = map[string]string
	for _, test := range []struct {
		name      string
		marks     marks
		record    *request.Record
		condition *metav1.Condition
		want      string
	}{
		{"nothing", nil, nil, nil, ""},
		{"asked", marks{"to": patch}, nil, nil, "Asked, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: "},
		{"held", marks{"to": patch}, nil, going(request.ReasonPaused, "not started"), "Held (Paused), version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: not started"},
		{"under way", marks{"to": patch, "status": "in-progress"}, &running, going(request.ReasonMachines, "1 of 4"), "Upgrading, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: "},
		{"under way, and the others wait for the first", marks{"to": patch, "status": "in-progress"}, &running,
			going(request.ReasonMachines, "0 of 4 machines have version=v1.32.4, 1 in flight; the others begin when a machine has it (canary 1)"),
			"Upgrading, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: the others begin when a machine has it (canary 1)"},
		{"under way, and no other can begin", marks{"to": patch, "status": "in-progress"}, &running, going(request.ReasonControlPlaneFirst, "the control plane"),
			"Upgrading, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: the control plane"},
		{"failed", marks{"to": patch, "status": "failed"}, &failed, nil, "Failed, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: Machine m-3: the disk is full"},
		{"retried", marks{"to": patch, "status": "failed", "retry": ""}, &failed, &metav1.Condition{Status: "False", Reason: "UpgradeFailed", Message: "old"},
			"Asked, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: "},
		{"superseded", marks{"to": other, "status": "in-progress"}, &running, going(request.ReasonMachines, "1 of 4"),
			"Asked, version=v1.32.4, then version=v1.32.5, machines 1 of 4, 1 in flight, 1 failed: "},
		{"cancelled", marks{"status": "in-progress"}, &running, nil, "Cancelling, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: "},
		{"done", marks{"status": "done", "release": patch}, &done, nil, "Done, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: "},
		{"done, then another", marks{"to": other, "status": "done", "release": patch}, &done, nil, "Asked, version=v1.32.5, machines 0 of 4, 1 in flight: "},
		{"cancelled long ago", marks{"release": patch}, nil, nil, "Idle, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: "},
		{"unreadable", marks{"to": patch}, &request.Record{}, nil, "Unreadable, version=v1.32.4, machines 1 of 4, 1 in flight, 1 failed: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := facts(
				machine("m-1", mark("status", "done", "release", patch)), machine("m-2", mark("to", patch)),
				machine("m-3", mark("to", patch, "status", "failed"), upgrading(t, patch, inplace.Failed)),
				machine("m-4", mark("to", patch), deleting),
			)
			md := f.MachineDeployments[0]
			md.Spec.Replicas, md.Annotations = new(int32(4)), map[string]string{}
			for key, value := range test.marks {
				if key == "retry" {
					md.Annotations[v1alpha1.UpdateRetryAnnotation] = value
					continue
				}
				md.Annotations[prefix+key] = value
			}
			if test.record != nil {
				m := machine("record", withAnnotation(t, v1alpha1.InPlaceUpgradeAnnotation, test.record))
				md.Annotations[v1alpha1.InPlaceUpgradeAnnotation] = m.Annotations[v1alpha1.InPlaceUpgradeAnnotation]
			}
			if test.condition != nil {
				md.Status.Conditions = []metav1.Condition{*test.condition}
				md.Status.Conditions[0].Type = v1alpha1.InPlaceUpgradeCondition
			}
			got := ""
			if found, _ := ComputeInPlace(f, start); len(found.Groups) > 0 {
				got = found.Groups[0].Describe() + ": " + found.Groups[0].Text()
			}
			if got != test.want {
				t.Errorf("it is described as %q, want %q", got, test.want)
			}
		})
	}
}

func going(reason request.Reason, message string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionTrue, Reason: string(reason), Message: message}
}

// TestByHand checks which machines count as marked by hand.
func TestByHand(t *testing.T) {
	f := facts(
		machine("of-group", mark("to", patch)), machine("earlier", upgrading(t, other, inplace.Updating)), machine("joined", mark("to", "revision=1")),
		machine("by-hand", mark("to", "revision=7")), machine("ended", mark("release", "revision=7", "status", "done")),
		machine("loose", mark("to", patch), func(m *clusterv1.Machine) { m.Labels = nil }),
	)
	record := machine("x", withAnnotation(t, v1alpha1.InPlaceUpgradeAnnotation, request.Record{Option: patch, Superseded: []string{other}}))
	f.MachineDeployments[0].Annotations = map[string]string{
		v1alpha1.InPlaceUpgradeAnnotation: record.Annotations[v1alpha1.InPlaceUpgradeAnnotation], prefix + "to": patch, prefix + "release": "revision=1",
	}
	found, problems := ComputeInPlace(f, start)
	got := map[string]bool{}
	for _, m := range found.Machines {
		got[m.Machine] = m.ByHand
	}
	want := map[string]bool{"of-group": false, "earlier": false, "joined": false, "by-hand": true, "ended": false, "loose": true}
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Errorf("by hand (-want +got), problems %v:\n%s", problems, diff)
	}
}

// TestPrefix checks that annotations with another prefix than the chosen one do not count.
func TestPrefix(t *testing.T) {
	f := facts(machine("m-1", mark("to", patch)), machine("m-2", raw("example.com/up-to", other)))
	f.Prefix = "example.com/up-"
	found, _ := ComputeInPlace(f, start)
	if len(found.Machines) != 1 || found.Machines[0].Option != other {
		t.Errorf("found are %+v, want m-2 alone", found.Machines)
	}
}

// TestLock checks who is said to hold the control plane's lock.
func TestLock(t *testing.T) {
	at := metav1.ObjectMeta{Name: "prod" + v1alpha1.InPlaceUpgradeLockSuffix, CreationTimestamp: metav1.NewTime(start)}
	for _, test := range []struct {
		name, data string
		want       *Lock
	}{
		{"held", `{"machineName":"cp-1","machineNamespace":"team-a"}`, &Lock{Machine: "cp-1", Since: start}},
		{"nobody", `{}`, &Lock{Problem: "ConfigMap prod-cp-inplace-upgrade-lock does not name the holder", Since: start}},
		{"unreadable", `{`, &Lock{Problem: "ConfigMap prod-cp-inplace-upgrade-lock does not name the holder: unexpected end of JSON input", Since: start}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := facts(machine("m-1", mark("to", patch)))
			f.Lock = &corev1.ConfigMap{ObjectMeta: at, Data: map[string]string{v1alpha1.InPlaceUpgradeLockKey: test.data}}
			found, _ := ComputeInPlace(f, start)
			if diff := cmp.Diff(test.want, found.Lock); diff != "" {
				t.Errorf("the lock (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInPlaceChanges checks what is said while upgrades go on.
func TestInPlaceChanges(t *testing.T) {
	one := Compute(facts(machine("m-1", mark("to", patch)), machine("m-2", mark("to", patch))), start)
	lock := facts(machine("m-1", mark("release", patch, "status", "done")))
	lock.Lock = &corev1.ConfigMap{Data: map[string]string{v1alpha1.InPlaceUpgradeLockKey: `{"machineName":"cp-1"}`}}
	two := Compute(lock, start)
	var got []string
	for _, step := range [][2]Report{{{}, one}, {one, one}, {one, two}, {two, {}}} {
		for _, c := range Changes(step[0], step[1]) {
			if rest, ok := strings.CutPrefix(c, "in-place upgrade of "); ok {
				got = append(got, rest)
			}
		}
		got = append(got, "")
	}
	want := []string{
		"Machine m-1: Asked, version=v1.32.4", "Machine m-2: Asked, version=v1.32.4", "", "",
		"Machine m-1: Done, version=v1.32.4", "lock of the control plane: held by Machine cp-1", "Machine m-2: nothing is asked for any more", "",
		"Machine m-1: nothing is asked for any more", "lock of the control plane: released", "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestInPlaceGarbage checks that whatever stands in annotations is reported on, the same each time, and never a panic.
func TestInPlaceGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Just(""), rapid.Just(patch), rapid.Just("in-progress"), rapid.Just("null"), rapid.Just(`{"option":"a","progress":{"phase":"Failed"}}`), rapid.String())
		keys := rapid.SampledFrom([]string{prefix + "to", prefix + "status", prefix + "release", prefix + "change-id", v1alpha1.InPlaceUpgradeAnnotation, v1alpha1.UpdateRetryAnnotation})
		f := facts(machine("m-1"))
		f.Machines[0].Annotations = rapid.MapOf(keys, value).Draw(t, "machine")
		f.MachineDeployments[0].Annotations = rapid.MapOf(keys, value).Draw(t, "group")
		if diff := cmp.Diff(Compute(f, start), Compute(f, start.Add(time.Nanosecond))); diff != "" {
			t.Fatalf("two reports on the same facts differ:\n%s", diff)
		}
	})
}
