package machineset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/test/fakeapi"
)

const namespace = "default"

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// world is a management cluster with a Cluster and templates. MachineSets are reconciled in it
// until nothing is left to write.
type world struct {
	*fakeapi.API
	t      *testing.T
	r      *Reconciler
	events *record.FakeRecorder
	names  int
	// policy is what the UpdatePolicy changes.
	policy policy.Policy
	// now is the time of the next run.
	now time.Time
	// results are those of the last runs.
	result ctrl.Result
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		API: fakeapi.New(t, "", &clusterv1.MachineSet{}, &clusterv1.Machine{}, &clusterv1.MachineDeployment{}),
		t:   t, now: start,
	}
	w.Put(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: namespace}})
	w.Put(testTemplate("Test", "infrastructure", "MachineTemplate", "a"))
	w.Put(testTemplate("Test", "bootstrap", "ConfigTemplate", "a"))
	w.Put(testTemplate("Test", "infrastructure", "MachineTemplate", "b"))
	w.Put(testTemplate("Test", "bootstrap", "ConfigTemplate", "b"))
	w.restart()
	return w
}

// restart replaces the process: nothing is remembered.
func (w *world) restart() {
	w.t.Helper()
	w.events = record.NewFakeRecorder(100)
	r := New(Options{
		Client: w.Client, APIReader: w.Inner, Now: func() time.Time { return w.now },
		ClusterCache: clustercache.NewFakeClusterCache(w.Client, client.ObjectKey{Namespace: namespace, Name: "c"}),
	}, Parts{
		Controller: capicontroller.NewFakeController(), Recorder: w.events,
		Deleter: capicontroller.NewClientWithDeleteResponseFromClient(w.Client),
	})
	r.random = func(length int) string {
		w.names++
		return fmt.Sprintf("%0*d", length, w.names)
	}
	r.Policies = func(context.Context, *clusterv1.Cluster,
		*clusterv1.MachineDeployment) (policy.Policy, error) {
		return w.policy, nil
	}
	w.r = r
}

func testTemplate(prefix, group, kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + ".cluster.x-k8s.io/v1beta2", "kind": prefix + kind,
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"of": name}}},
	}}
}

// set returns a MachineSet whose templates, version and unique label are of the template a or b.
func set(name, of string, replicas int32) *clusterv1.MachineSet {
	ref := func(group, kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: group + ".cluster.x-k8s.io", Kind: kind, Name: of}
	}
	labels := map[string]string{clusterv1.MachineDeploymentUniqueLabel: of, clusterv1.ClusterNameLabel: "c"}
	s := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels, Annotations: map[string]string{}},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: "c", Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: labels},
		},
	}
	s.Spec.Template.Labels = map[string]string{clusterv1.MachineDeploymentUniqueLabel: of, "l": "1"}
	s.Spec.Template.Annotations = map[string]string{"note": "1"}
	s.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: "c", Deletion: clusterv1.MachineDeletionSpec{NodeDeletionTimeoutSeconds: new(int32(10))}, Version: map[string]string{"a": "v1.33.0", "b": "v1.34.0"}[of],
		InfrastructureRef: ref("infrastructure", "TestMachineTemplate"),
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: ref("bootstrap", "TestConfigTemplate")},
	}
	return s
}

// reconcile reconciles a MachineSet once.
func (w *world) reconcile(name string) error {
	w.t.Helper()
	var err error
	w.result, err = w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}})
	return err
}

// settle reconciles MachineSets until nothing is written, and returns the writes.
func (w *world) settle(sets ...string) []string {
	w.t.Helper()
	var writes []string
	for range 20 {
		for _, s := range sets {
			if err := w.reconcile(s); err != nil {
				w.t.Fatalf("reconciling MachineSet %s: %v", s, err)
			}
		}
		taken := w.Take()
		writes = append(writes, taken...)
		if len(taken) == 0 {
			return writes
		}
	}
	w.t.Fatalf("the writes never end: %s", writes)
	return nil
}

// errKilled is what each request gets after the process was killed.
var errKilled = errors.New("killed")

// settleWithCrash is settle with a process that is killed at the write number at, before or after
// the API server carries it out, and started again. killed is false if there were fewer writes.
func (w *world) settleWithCrash(at int, carriedOut bool, sets ...string) (killed bool) {
	w.t.Helper()
	writes := 0
	w.Fail = func(string, string) (error, bool) {
		writes++
		if writes < at {
			return nil, false
		}
		killed = true
		return errKilled, writes == at && carriedOut
	}
	for range 5 {
		for _, s := range sets {
			if err := w.reconcile(s); err != nil && !killed {
				w.t.Fatalf("reconciling MachineSet %s: %v", s, err)
			}
			if killed {
				w.Fail = nil
				w.restart()
				w.settle(sets...)
				return true
			}
		}
	}
	w.Fail = nil
	return false
}

// get reads an object.
func get[T client.Object](w *world, name string, object T) T {
	w.t.Helper()
	if err := w.Inner.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		w.t.Fatal(err)
	}
	return object
}

func (w *world) set(name string) *clusterv1.MachineSet { return get(w, name, &clusterv1.MachineSet{}) }

func (w *world) machines() []clusterv1.Machine {
	w.t.Helper()
	var list clusterv1.MachineList
	if err := w.Inner.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// edit changes an object as somebody else does.
func edit[T client.Object](w *world, object T, change func(T)) {
	w.t.Helper()
	change(object)
	if err := w.Inner.Update(w.t.Context(), object, client.FieldOwner("somebody")); err != nil {
		w.t.Fatal(err)
	}
}

// editStatus changes the status of an object as somebody else does.
func editStatus[T client.Object](w *world, object T, change func(T)) {
	w.t.Helper()
	change(object)
	if err := w.Inner.Status().Update(w.t.Context(), object, client.FieldOwner("somebody")); err != nil {
		w.t.Fatal(err)
	}
}

// state describes all objects but templates without what a crash may change: versions, times, and
// the random part of names, which becomes the number of the Machine.
func (w *world) state() string {
	w.t.Helper()
	var lines []string
	for _, kind := range []struct{ group, kind string }{
		{"cluster", "Machine"}, {"cluster", "MachineSet"}, {"infrastructure.cluster", "TestMachine"}, {"bootstrap.cluster", "TestConfig"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(kind.group + ".x-k8s.io/v1beta2")
		list.SetKind(kind.kind + "List")
		if err := w.Inner.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		for i := range list.Items {
			object := list.Items[i].Object
			for _, field := range []string{"resourceVersion", "managedFields", "uid", "creationTimestamp", "generation"} {
				unstructured.RemoveNestedField(object, "metadata", field)
			}
			if list.Items[i].GetDeletionTimestamp() != nil {
				list.Items[i].SetAnnotations(map[string]string{"deleted": "true"})
				unstructured.RemoveNestedField(object, "metadata", "deletionTimestamp")
			}
			// Deprecated conditions depend on what was there before.
			unstructured.RemoveNestedField(object, "status", "deprecated")
			if kind.kind == "Machine" {
				dropPaused(w.t, object)
			}
			encoded, err := json.Marshal(dropTimes(object))
			if err != nil {
				w.t.Fatal(err)
			}
			lines = append(lines, string(encoded))
		}
	}
	slices.Sort(lines)
	all := strings.Join(lines, "\n")
	machines := w.machines()
	slices.SortFunc(machines, func(a, b clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	for i, m := range machines {
		all = strings.ReplaceAll(all, m.Name, fmt.Sprintf("machine-%d", i))
	}
	return all
}

// dropPaused removes the condition Paused, which the Machine controller writes where the MachineSet
// has not.
func dropPaused(t *testing.T, machine map[string]any) {
	t.Helper()
	all, _, err := unstructured.NestedSlice(machine, "status", "conditions")
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(c any) bool {
		return c.(map[string]any)["type"] == clusterv1.PausedCondition //nolint:errcheck // It is a condition.
	})
	if len(all) > 0 {
		err = unstructured.SetNestedSlice(machine, all, "status", "conditions")
	} else {
		unstructured.RemoveNestedField(machine, "status")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func dropTimes(value any) any {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "lastTransitionTime")
		delete(v, "uid")
		delete(v, "observedGeneration")
		for _, inner := range v {
			dropTimes(inner)
		}
	case []any:
		for _, inner := range v {
			dropTimes(inner)
		}
	}
	return value
}

// checkCrashes runs a scenario once for each write, kills the process there, and compares the end
// with that of a run that nobody kills.
func checkCrashes(t *testing.T, scenario func(w *world) (sets []string)) {
	t.Helper()
	calm := newWorld(t)
	calm.settle(scenario(calm)...)
	want := calm.state()
	for _, carriedOut := range []bool{false, true} {
		for at := 1; ; at++ {
			w := newWorld(t)
			sets := scenario(w)
			w.Take()
			if !w.settleWithCrash(at, carriedOut, sets...) {
				if at == 1 {
					t.Error("the scenario writes nothing")
				}
				break
			}
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(w.state(), "\n")); diff != "" {
				t.Errorf("killed at write %d, carried out %t (-want +got):\n%s", at, carriedOut, diff)
			}
		}
	}
}

func policies(
	p policy.Policy, err error,
) func(context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment) (policy.Policy, error) {
	return func(context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment) (policy.Policy, error) {
		return p, err
	}
}

// belongs gives the MachineSet a MachineDeployment.
func (w *world) belongs() {
	w.t.Helper()
	w.Put(&clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: namespace}})
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
		s.Labels = with(s.Labels, clusterv1.MachineDeploymentNameLabel, "d")
	})
}
