package engine

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// Records of upgrades that annotations ask for.
const (
	runningRecord    = `{"option":"revision=7","progress":{"id":"x","policy":"keep","phase":"Updating","steps":[{"updater":"k8sd"}],"operation":"x-1"}}`
	refusedRecord    = `{"option":"revision=x","reason":"BadOption","message":"no"}`
	failedRecord     = `{"option":"revision=7","progress":{"id":"x","policy":"keep","phase":"Failed","steps":[{"updater":"k8sd"}],"operation":"x-1"}}`
	unreadableRecord = `{"opt`
)

// TestWaitsForAnnotatedUpgrade begins no update of a machine that an annotation has upgraded at the moment, and goes on after it.
func TestWaitsForAnnotatedUpgrade(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	for _, record := range []string{runningRecord, `{"opt`} {
		w.annotate("a", v1alpha1.InPlaceUpgradeAnnotation, &record)
		reply, err := w.update("a")
		if err != nil || reply.Done || reply.RetryAfter == 0 || !strings.Contains(reply.Message, "not started") || len(s.updates) > 0 || w.progress("a") != nil {
			t.Errorf("%s: reply %+v, error %v, calls %v", record, reply, err, s.updates)
		}
	}
	record := refusedRecord
	w.annotate("a", v1alpha1.InPlaceUpgradeAnnotation, &record)
	if reply, err := w.update("a"); err != nil || len(s.updates) == 0 {
		t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
	}
}

// recordedOn makes a Machine carry a record of an upgrade; an empty one is none.
func recordedOn(m *clusterv1.Machine, record string) *clusterv1.Machine {
	m.Annotations = map[string]string{}
	if record != "" {
		m.Annotations[v1alpha1.InPlaceUpgradeAnnotation] = record
	}
	return m
}

// lockOf is a lock of the control plane that Machine name holds.
func lockOf(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "c" + v1alpha1.InPlaceUpgradeLockSuffix,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "c-uid"}},
		},
		Data: map[string]string{v1alpha1.InPlaceUpgradeLockKey: `{"machineName":"` + name + `","machineNamespace":"` + namespace + `"}`},
	}
}

// markedControlPlane is a control plane whose machine cp is to be updated, beside other objects.
func markedControlPlane(t *testing.T, objects ...client.Object) (*world, *scripted) {
	t.Helper()
	w, s := newControlPlane(t)
	s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.InProgress} }
	if _, err := w.engine.CanUpdateMachine(t.Context(), canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))); err != nil {
		t.Fatal(err)
	}
	w.mark("cp", to)
	for _, o := range objects {
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return w, s
}

// TestOneControlPlaneMachineAtATime begins no update of a control plane machine while an annotation has another one upgraded.
func TestOneControlPlaneMachineAtATime(t *testing.T) {
	t.Parallel()
	peer := func(record string) *clusterv1.Machine { return recordedOn(controlPlaneMachine("cp-1", from), record) }
	elsewhere := peer(runningRecord)
	elsewhere.Labels[clusterv1.ClusterNameLabel] = "d"
	unreadable := lockOf("")
	unreadable.Data[v1alpha1.InPlaceUpgradeLockKey] = "{"
	for name, tt := range map[string]struct {
		objects []client.Object
		// waits is what the reply says; empty where the update begins.
		waits string
	}{
		"alone":                           {},
		"beside one at rest":              {objects: []client.Object{peer("")}},
		"another holds the lock":          {objects: []client.Object{peer(""), lockOf("cp-1")}, waits: "is held by cp-1"},
		"nobody knows who holds the lock": {objects: []client.Object{unreadable}, waits: "is held by unknown"},
		"who held the lock is gone":       {objects: []client.Object{lockOf("gone")}},
		"it holds the lock itself":        {objects: []client.Object{lockOf("cp")}},
		"another is being upgraded":       {objects: []client.Object{peer(runningRecord)}, waits: "Machine cp-1 is being upgraded in place to revision=7, as its annotation asks for"},
		"another may be":                  {objects: []client.Object{peer(unreadableRecord)}, waits: "cannot be read"},
		"the upgrade of another failed":   {objects: []client.Object{peer(failedRecord)}},
		"a worker is being upgraded":      {objects: []client.Object{recordedOn(machine("worker", "set", from), runningRecord)}},
		"a machine of another cluster is": {objects: []client.Object{elsewhere}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := markedControlPlane(t, tt.objects...)
			reply, err := w.updateControlPlane(bootstrapStored)
			if err != nil || reply.Done || reply.RetryAfter == 0 {
				t.Fatalf("reply %+v, error %v", reply, err)
			}
			if waits := w.progress("cp") == nil && len(s.updates) == 0; waits != (tt.waits != "") {
				t.Errorf("it waits: %v; reply %+v, calls %v", waits, reply, s.updates)
			}
			if tt.waits != "" && (!strings.HasPrefix(reply.Message, "not started") || !strings.Contains(reply.Message, tt.waits)) {
				t.Errorf("the message is %q", reply.Message)
			}
			if tt.waits != "" && w.writes.Load() != 0 {
				t.Errorf("%d writes for waiting", w.writes.Load())
			}
		})
	}
}

// TestBegunControlPlaneMachineGoesOn: an update that has begun ends, whoever takes the lock, and one that waited begins once the lock is free.
func TestBegunControlPlaneMachineGoesOn(t *testing.T) {
	t.Parallel()
	w, s := markedControlPlane(t, recordedOn(controlPlaneMachine("cp-1", from), ""), lockOf("cp-1"))
	for _, want := range []int{0, 0} {
		if _, err := w.updateControlPlane(bootstrapStored); err != nil || len(s.updates) != want {
			t.Fatalf("error %v, calls %v", err, s.updates)
		}
	}
	if err := w.client.Delete(t.Context(), lockOf("cp-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.updateControlPlane(bootstrapStored); err != nil || len(s.updates) != 1 {
		t.Fatalf("error %v, calls %v", err, s.updates)
	}
	if err := w.client.Create(t.Context(), lockOf("cp-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.updateControlPlane(bootstrapStored); err != nil || len(s.updates) != 2 {
		t.Errorf("error %v, calls %v", err, s.updates)
	}
}

// deafReader fails where the lock is read.
type deafReader struct{ client.Reader }

func (r deafReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*corev1.ConfigMap); ok {
		return errDied
	}
	return r.Reader.Get(ctx, key, object, options...)
}

// TestLockThatCannotBeRead begins no update of a control plane machine, and keeps none of a worker.
func TestLockThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w, s := markedControlPlane(t)
	w.engine.Live = deafReader{w.engine.Live}
	w.engine = New(w.engine.Options)
	if _, err := w.updateControlPlane(bootstrapStored); err == nil || w.progress("cp") != nil || len(s.updates) > 0 {
		t.Errorf("error %v, calls %v", err, s.updates)
	}
	w, s = moving(t, external(nil))
	w.engine.Live = deafReader{w.engine.Live}
	w.engine = New(w.engine.Options)
	if _, err := w.update("a"); err != nil || len(s.updates) != 1 {
		t.Errorf("error %v, calls %v", err, s.updates)
	}
}

// TestReleaseIsWithdrawn: an update with a step brings another release than the one that is recorded.
func TestReleaseIsWithdrawn(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{"done": "", "failed": "failed"} {
		w, s := moving(t, external(nil))
		s.answer = func(string) inplace.Answer {
			if _, left := w.machine("a").Annotations[releaseKey]; left {
				t.Error("the updater is called while the old release is recorded")
			}
			return inplace.Answer{Outcome: inplace.InProgress}
		}
		release := "revision=7"
		w.annotate("a", releaseKey, &release)
		w.annotate("a", statusKey, &status)
		if _, err := w.update("a"); err != nil || len(s.updates) != 1 {
			t.Fatalf("error %v, calls %v", err, s.updates)
		}
		if got := w.machine("a").Annotations[statusKey]; got != want {
			t.Errorf("the status %q became %q", status, got)
		}
	}
}

// TestReleaseStays where no step of the update brings another version.
func TestReleaseStays(t *testing.T) {
	t.Parallel()
	moved := machine("a", "new", to)
	moved.Spec.FailureDomain = "z2"
	w := newWorld(t, external(nil), deployment(), machineSet("old", to), moved)
	s := w.updater("zone", 0, `{"spec":{"failureDomain":"z2"}}`)
	w.node("a", to)
	desired := machineSet("new", to)
	desired.Spec.Template.Spec.FailureDomain = "z2"
	if _, err := w.canUpdateSet(machineSet("old", to), desired); err != nil {
		t.Fatal(err)
	}
	release := "revision=7"
	w.annotate("a", releaseKey, &release)
	if _, err := w.update("a"); err != nil || len(s.updates) != 1 || w.machine("a").Annotations[releaseKey] != release {
		t.Errorf("error %v, calls %v, annotations %v", err, s.updates, w.machine("a").Annotations)
	}
}

// TestUpgradesHoldPlaces counts the machines that annotations have upgraded by the same policy.
func TestUpgradesHoldPlaces(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		record string
		edit   func(*clusterv1.Machine)
		holds  bool
	}{
		"running":           {record: runningRecord, holds: true},
		"of another policy": {record: strings.Replace(runningRecord, "keep", "other", 1)},
		"unreadable":        {record: unreadableRecord, holds: true},
		"refused":           {record: refusedRecord},
		"failed":            {record: failedRecord},
		"failed, may go on": {record: strings.Replace(failedRecord, `"id"`, `"unended":true,"id"`, 1), holds: true},
		"of a control plane": {record: runningRecord, edit: func(m *clusterv1.Machine) {
			m.OwnerReferences = controlPlaneMachine("cp", from).OwnerReferences
		}},
		"being deleted": {record: runningRecord, edit: func(m *clusterv1.Machine) {
			now := metav1.Now()
			m.Finalizers, m.DeletionTimestamp = []string{"x/y"}, &now
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := recordedOn(machine("b", "old", from), tt.record)
			if tt.edit != nil {
				tt.edit(other)
			}
			keep := external(func(p *v1alpha1.UpdatePolicySpec) { p.Canary = new(intstr.FromInt32(0)) })
			w := newWorld(t, keep, deployment(), machineSet("old", from), machine("a", "new", to), other)
			s := w.updater("kubelet", 0, versionPatch)
			s.answer = func(string) inplace.Answer { return inplace.Answer{Outcome: inplace.InProgress} }
			w.node("a", from)
			if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err != nil {
				t.Fatal(err)
			}
			reply, err := w.update("a")
			if err != nil || strings.Contains(reply.Message, "maxInFlight") != tt.holds || (len(s.updates) == 0) != tt.holds {
				t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
			}
		})
	}
}

// TestUpgradeAfterUpdateHoldsAPlace: what this process remembers of an update that has just ended does not hide the upgrade that follows it.
func TestUpgradeAfterUpdateHoldsAPlace(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answer = func(string) inplace.Answer {
		w.node("a", to)
		return inplace.Answer{Outcome: inplace.Finishes}
	}
	if reply, err := w.update("a"); err != nil || !reply.Done {
		t.Fatalf("reply %+v, error %v", reply, err)
	}
	record := runningRecord
	w.annotate("a", v1alpha1.InPlaceUpgradeAnnotation, &record)
	for range 2 {
		if reply, err := w.update("b"); err != nil || !strings.Contains(reply.Message, "maxInFlight") || len(s.updates) != 1 {
			t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
		}
	}
	w.annotate("a", v1alpha1.InPlaceUpgradeAnnotation, nil)
	if _, err := w.update("b"); err != nil || len(s.updates) != 2 {
		t.Errorf("error %v, calls %v", err, s.updates)
	}
}
