package machinedeployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// taker is a model of the engine and of one updater that takes groups over.
type taker struct {
	w *world
	// declined and later are the reasons of an updater that declines, or takes nothing now.
	declined, later string
	// fails is the error of each hand-over, and takes is how long a request takes.
	fails error
	takes time.Duration
	// stays says that the updater does not stop.
	stays bool
	// operations counts hand-overs, asked counts requests, and ended has why operations ended.
	operations, asked int
	ended             []string
	budget            pool.HandOverBudget
}

func (k *taker) HandOver(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, b pool.HandOverBudget,
) (pool.Coverage, error) {
	k.asked++
	k.budget, k.w.now = b, k.w.now.Add(k.takes)
	switch {
	case k.declined != "":
		return pool.Coverage{Answer: pool.AnswerNo, Reason: k.declined}, nil
	case k.later != "":
		return pool.Coverage{Reason: k.later}, nil
	case k.fails != nil:
		return pool.Coverage{}, k.fails
	}
	set := k.set(request.Current.MachineSet.Name) //nolint:contextcheck // A test reads with its own.
	h, err := pool.HandedOverOf(set)
	if err != nil {
		return pool.Coverage{}, err
	}
	if !h.IsActive() {
		k.operations++
	}
	next := h.Next(fmt.Sprintf("op%d", k.operations), "d", "u", b)
	next.State = pool.HandOverAccepted
	return pool.Coverage{Answer: pool.AnswerHandedOver, Updater: "u"}, k.record(ctx, set, next)
}

func (k *taker) EndHandOver(ctx context.Context, set *clusterv1.MachineSet, why string) error {
	live := k.set(set.Name) //nolint:contextcheck // A test reads with its own.
	h, err := pool.HandedOverOf(live)
	switch {
	case err != nil || !h.IsActive():
		return err
	case k.stays:
		return errors.New("the updater does not stop")
	}
	k.ended = append(k.ended, why)
	h.State = pool.HandOverEnded
	return k.record(ctx, live, *h)
}

func (k *taker) set(name string) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{}
	if err := k.w.Inner.Get(k.w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, set); err != nil {
		k.w.t.Fatal(err)
	}
	return set
}

func (k *taker) record(ctx context.Context, set *clusterv1.MachineSet, h pool.HandedOver) error {
	before := set.DeepCopy()
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.HandedOverAnnotation, string(text))
	return k.w.Client.Patch(ctx, set, client.MergeFrom(before))
}

// object reads or makes an object of a Machine.
func (w *world) object(group, kind, name string) *unstructured.Unstructured {
	w.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	o.SetAPIVersion(group + ".cluster.x-k8s.io/v1beta2")
	o.SetKind(kind)
	o.SetNamespace("default")
	o.SetName(name)
	return o
}

// change replaces a field of a spec.
func (w *world) change(o *unstructured.Unstructured, key string, value any) {
	w.t.Helper()
	if err := w.Inner.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
	if err := unstructured.SetNestedField(o.Object, value, "spec", key); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Inner.Update(w.t.Context(), o, client.FieldOwner("updater")); err != nil {
		w.t.Fatal(err)
	}
}

// newHandedWorld has a group of three Machines with their objects, and a policy that hands it over. The
// change is one of the version and of the infrastructure.
func newHandedWorld(t *testing.T, keep bool) *world {
	t.Helper()
	w := newWorld(t)
	w.edit(func(md *clusterv1.MachineDeployment) {
		md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	})
	w.settle()
	for _, m := range w.machines() {
		infrastructure := w.object("infrastructure", "DevMachine", m.Name)
		infrastructure.Object["spec"] = map[string]any{"size": "small", "providerID": "x://" + m.Name}
		config := w.object("bootstrap", "KubeadmConfig", m.Name)
		config.Object["spec"] = map[string]any{"joinConfiguration": map[string]any{"nodeRegistration": map[string]any{"name": "node"}}}
		w.Put(infrastructure)
		w.Put(config)
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachine", Name: m.Name}
		m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: m.Name}
		w.update(m)
		w.runs(m, "v1.33.0")
	}
	w.created, w.policy = 0, policy.Policy{Guarded: keep, Name: "p", HandOver: true}
	w.edit(func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.Version, md.Spec.Template.Spec.InfrastructureRef.Name = "v1.34.0", "large"
	})
	return w
}

// runs makes the Node of a Machine ready with a kubelet.
func (w *world) runs(m *clusterv1.Machine, version string) {
	w.t.Helper()
	m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: version}
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "Test"})
	if err := w.Inner.Status().Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// write is the work of an updater on one Machine: the host, the infrastructure machine, the Machine.
func (w *world) write(m *clusterv1.Machine) { w.writeVersion(m, "v1.34.0") }

func (w *world) writeVersion(m *clusterv1.Machine, version string) {
	w.t.Helper()
	w.runs(m, version)
	w.change(w.object("infrastructure", "DevMachine", m.Name), "size", "large")
	m = w.machine(m.Name)
	m.Spec.Version = version
	w.update(m)
}

func (w *world) machine(name string) *clusterv1.Machine {
	w.t.Helper()
	m := &clusterv1.Machine{}
	if err := w.Inner.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// later lets answers be asked again.
func (w *world) later() {
	w.t.Helper()
	w.now = w.now.Add(answerLifetime)
	w.settle()
}

// checkMoved checks how many Machines have left the old MachineSet, and that none was created or deleted.
func (w *world) checkMoved(t *testing.T, when string, want int) {
	t.Helper()
	if got, want := [...]int{w.created, w.deleted, w.moved}, [...]int{0, 0, want}; got != want {
		t.Fatalf("%s: created, deleted and moved are %v, want %v:\n%s", when, got, want, w.picture())
	}
}

// TestHandOver tells the whole story: the group is handed over once, nothing happens to Machines whose
// objects are half written, and each Machine goes to the new MachineSet when all of it is there.
func TestHandOver(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		w := newHandedWorld(t, keep)
		w.limit(pool.Limits{MaxInFlight: 2, Canary: intstr.FromInt32(1), Partition: intstr.FromInt32(0)})
		w.settle()
		w.checkMoved(t, "handed over", 0)
		if diff := cmp.Diff(pool.HandOverBudget{AtOnce: 1, First: 1}, w.taker.budget); diff != "" {
			t.Errorf("budget (-want +got):\n%s", diff)
		}
		result, err := w.reconcile()
		if err != nil || result.RequeueAfter != answerLifetime || w.blocked() != "" {
			t.Errorf("a group that was handed over: %v, %v, blocked %q", result, err, w.blocked())
		}
		machines := w.machines()
		first := machines[0]
		w.runs(first, "v1.34.0")
		first.Spec.Version = "v1.34.0"
		w.update(first)
		w.later()
		w.checkMoved(t, "half written", 0)
		w.change(w.object("infrastructure", "DevMachine", first.Name), "size", "large")
		w.later()
		w.checkMoved(t, "written", 1)
		// A Machine whose objects are written before its host has changed does not go.
		second := machines[1]
		w.change(w.object("infrastructure", "DevMachine", second.Name), "size", "large")
		second.Spec.Version = "v1.34.0"
		w.update(second)
		w.later()
		w.checkMoved(t, "written too early", 1)
		w.runs(w.machine(second.Name), "v1.34.0")
		w.write(machines[2])
		w.later()
		w.checkMoved(t, "in the end", 3)
		if n := len(w.sets()); n != 1 || w.taker.operations != 1 || len(w.taker.ended) > 0 {
			t.Errorf("%d operations, ended %v:\n%s", w.taker.operations, w.taker.ended, w.picture())
		}
	}
}

// TestHandOverCrashes kills the process at each of its writes while an updater works.
func TestHandOverCrashes(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		w := newHandedWorld(t, false)
		w.crashAlways(after)
		w.settleWithCrashes()
		for _, m := range w.machines() {
			w.write(m)
			w.now = w.now.Add(answerLifetime)
			w.settleWithCrashes()
		}
		w.Fail = nil
		w.later()
		w.checkMoved(t, fmt.Sprintf("killed, after %t", after), 3)
		if n := len(w.sets()); n != 1 {
			t.Errorf("%d MachineSets are left:\n%s", n, w.picture())
		}
	}
}

// TestHandOverDeclined: without a fallback nothing happens, with one the Machines are replaced. An
// updater that takes nothing now, or does not answer, has nothing replaced.
func TestHandOverDeclined(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keep            bool
		declined, later string
		blocked         string
		replaced        bool
	}{
		"kept, declined":     {keep: true, declined: "no power", blocked: "NotCovered"},
		"kept, later":        {keep: true, later: "night", blocked: "CoverageUnknown"},
		"replaced, declined": {declined: "no power", replaced: true},
		"replaced, later":    {later: "night", blocked: "CoverageUnknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHandedWorld(t, test.keep)
			w.taker.declined, w.taker.later = test.declined, test.later
			w.settle()
			if replaced := w.created == 3 && w.deleted == 3 && w.moved == 0; replaced != test.replaced || !replaced && w.created+w.deleted > 0 {
				t.Errorf("created %d, deleted %d, moved %d:\n%s", w.created, w.deleted, w.moved, w.picture())
			}
			c := conditions.Get(w.md(), v1alpha1.UpdateBlockedCondition)
			if w.blocked() != test.blocked || c != nil && !strings.Contains(c.Message, test.declined+test.later) {
				t.Errorf("the condition is %+v, want %s", c, test.blocked)
			}
			if test.later != "" {
				w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(4)) })
				w.settle()
				if got := len(w.machines()); got != 4 {
					t.Errorf("a group that waits for its updater was scaled to %d Machines, want 4", got)
				}
			}
		})
	}
}

// TestHandOverEnds: the updater is told to stop when its Machines must not change any more, and nothing
// moves before it has stopped. What it has done stays.
func TestHandOverEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(w *world)
		why    string
	}{
		"paused": {func(w *world) { w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) }) }, "paused"},
		"reverted": {func(w *world) {
			w.edit(func(md *clusterv1.MachineDeployment) {
				md.Spec.Template.Spec.Version, md.Spec.Template.Spec.InfrastructureRef.Name = "v1.33.0", "small"
			})
		}, "reverted"},
		"the strategy is OnDelete": {func(w *world) {
			w.edit(func(md *clusterv1.MachineDeployment) {
				md.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{Type: clusterv1.OnDeleteMachineDeploymentStrategyType}
			})
		}, "OnDelete"},
		"the change is refused": {func(w *world) {
			w.edit(func(md *clusterv1.MachineDeployment) {
				md.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("s")}
			})
		}, "no bootstrap config"},
		"the policy has changed": {func(w *world) { w.policy.HandOver = false }, "no UpdatePolicy"},
		"held":                   {func(w *world) { w.limit(pool.Limits{Unknown: "two policies"}) }, "two policies"},
		"failed": {func(w *world) {
			w.limit(pool.Limits{MaxFailures: 1})
			m := w.machines()[1]
			m.Annotations = map[string]string{v1alpha1.UpdateFailedAnnotation: "op1: disk full"}
			w.update(m)
		}, "maxFailures"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHandedWorld(t, true)
			w.settle()
			w.write(w.machines()[0])
			w.taker.stays = true
			w.extension = coverAll
			test.change(w)
			w.later()
			w.checkMoved(t, "the updater does not stop", 0)
			w.taker.stays = false
			w.now = w.now.Add(time.Minute)
			w.mustReconcile()
			if len(w.taker.ended) != 1 || !strings.Contains(w.taker.ended[0], test.why) {
				t.Errorf("ended %q, want %q", w.taker.ended, test.why)
			}
			w.later()
			if n := len(w.taker.ended); n != 1 || w.created+w.deleted > 0 {
				t.Errorf("ended %d times, created %d, deleted %d", n, w.created, w.deleted)
			}
			if m := w.machines()[0]; m.Spec.Version != "v1.34.0" {
				t.Errorf("the version of Machine %s was lowered", m.Name)
			}
		})
	}
}

// TestHandOverAgain: after a pause another operation begins, and a Machine that an unreadable record is
// about does not move.
func TestHandOverAgain(t *testing.T) {
	t.Parallel()
	w := newHandedWorld(t, true)
	w.settle()
	w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) })
	w.later()
	w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Paused = nil })
	w.later()
	if w.taker.operations != 2 {
		t.Errorf("%d operations, want 2", w.taker.operations)
	}
	old := w.sets()[slices.IndexFunc(w.sets(), func(s *clusterv1.MachineSet) bool { return s.Annotations[v1alpha1.HandedOverAnnotation] != "" })]
	metav1.SetMetaDataAnnotation(&old.ObjectMeta, v1alpha1.HandedOverAnnotation, "?")
	if err := w.Inner.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.machines() {
		w.write(m)
	}
	w.later()
	w.checkMoved(t, "with a record that nobody can read", 0)
	if got := w.blocked(); got != "CoverageUnknown" {
		t.Errorf("blocked by %q", got)
	}
}

// TestUpdaterThatDoesNotStop: with the fallback RollingUpdate, too, the group is scaled, and nothing is
// replaced before the updater has stopped.
func TestUpdaterThatDoesNotStop(t *testing.T) {
	t.Parallel()
	w := newHandedWorld(t, false)
	w.settle()
	w.taker.stays = true
	w.policy.HandOver = false
	w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(4)) })
	w.later()
	if w.created != 1 || w.deleted != 0 || w.blocked() != "CoverageUnknown" {
		t.Errorf("created %d, deleted %d, blocked %q", w.created, w.deleted, w.blocked())
	}
}

// TestOneMachineSetAtATime: after another change the Machines of the older MachineSet are handed over
// first, with the whole budget, and those of the next one when all of them have arrived.
func TestOneMachineSetAtATime(t *testing.T) {
	t.Parallel()
	w := newHandedWorld(t, true)
	w.settle()
	first := w.machines()[0]
	w.write(first)
	w.later()
	w.checkMoved(t, "before the next change", 1)
	w.limit(pool.Limits{Canary: intstr.FromInt32(1), Partition: intstr.FromInt32(1)})
	w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.35.0" })
	w.later()
	active := func() (names []string) {
		for _, s := range w.sets() {
			if h, err := pool.HandedOverOf(s); err == nil && h.IsActive() {
				names = append(names, s.Name)
			}
		}
		return names
	}
	of := func(m *clusterv1.Machine) string { return metav1.GetControllerOf(w.machine(m.Name)).Name }
	old, half := of(w.machines()[1]), of(first)
	if diff := cmp.Diff([]string{old}, active()); diff != "" {
		t.Errorf("active hand-overs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pool.HandOverBudget{AtOnce: 1, First: 1}, w.taker.budget); diff != "" {
		t.Errorf("budget of the first MachineSet (-want +got):\n%s", diff)
	}
	for _, m := range w.machines()[1:] {
		w.writeVersion(m, "v1.35.0")
		w.later()
	}
	if diff := cmp.Diff([]string{half}, active()); diff != "" {
		t.Errorf("active hand-overs in the end (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pool.HandOverBudget{AtOnce: 1, Stay: 1}, w.taker.budget); diff != "" {
		t.Errorf("budget of the last MachineSet (-want +got):\n%s", diff)
	}
}

// TestFailedMachineIsTriedAgain: what the message about a failed Machine tells people to do begins another
// hand-over of it.
func TestFailedMachineIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newHandedWorld(t, true)
	w.settle()
	failed := w.machines()[0]
	failed.Annotations = map[string]string{v1alpha1.UpdateFailedAnnotation: "op1: disk full"}
	w.update(failed)
	w.later()
	c := conditions.Get(w.md(), v1alpha1.UpdateBlockedCondition)
	if w.blocked() != "HandOverFailed" || !strings.Contains(c.Message, "pause and resume the MachineDeployment") {
		t.Fatalf("the condition is %+v", c)
	}
	failed = w.machine(failed.Name)
	failed.Annotations = nil
	w.update(failed)
	w.later()
	if w.taker.operations != 1 {
		t.Errorf("%d operations before the pause, want 1", w.taker.operations)
	}
	for _, paused := range []*bool{new(true), nil} {
		w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Paused = paused })
		w.later()
	}
	if w.taker.operations != 2 || w.blocked() != "" {
		t.Errorf("%d operations, want 2; blocked %q", w.taker.operations, w.blocked())
	}
	w.write(w.machine(failed.Name))
	w.later()
	w.checkMoved(t, "updated at last", 1)
}
