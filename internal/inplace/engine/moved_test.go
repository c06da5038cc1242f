package engine

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// moved returns what `clusterctl move` leaves of objects on another management cluster: they have other
// uids, to which owner references lead, and no status. Cluster API's controllers have written those of
// Machines and their owners again.
func moved(saved backup) backup {
	uid := func(before types.UID) types.UID { return "moved-" + before }
	var objects backup
	for _, object := range saved {
		there, is := object.DeepCopyObject().(client.Object)
		if !is {
			continue
		}
		there.SetUID(uid(object.GetUID()))
		there.SetGeneration(1)
		owners := there.GetOwnerReferences()
		for i := range owners {
			owners[i].UID = uid(owners[i].UID)
		}
		there.SetOwnerReferences(owners)
		switch there := there.(type) {
		case *v1alpha1.Updater:
			there.Status = v1alpha1.UpdaterStatus{}
		case *v1alpha1.UpdatePolicy:
			there.Status = v1alpha1.UpdatePolicyStatus{}
		case *clusterv1.Machine:
			there.Status.Conditions = nil
		case *clusterv1.MachineDeployment:
			there.Status.Conditions = nil
		}
		objects = append(objects, there)
	}
	return objects
}

// TestMovedUpgrade moves the Cluster with clusterctl at each step of a group's upgrade at which nothing
// blocks the move. Another process continues on the other management cluster. No host runs a job twice,
// no two run at once, and the upgrade ends.
func TestMovedUpgrade(t *testing.T) {
	t.Parallel()
	const most = 60
	states := 0
	for at := range most {
		w, store, records := newRestoredWorld(t)
		for range at {
			w.step()
		}
		if isRestoredWorldDone(w) {
			break
		}
		if blocksMove(w.machine("w-0").Annotations) || blocksMove(w.machine("w-1").Annotations) {
			continue
		}
		states++
		t.Run(fmt.Sprintf("after step %d", at), func(t *testing.T) {
			t.Parallel()
			store.restore(t, moved(store.save(t)))
			w.restart()
			w.now = w.now.Add(time.Minute)
			w.until("the group is upgraded", func() bool { return isRestoredWorldDone(w) })
			w.step()
			want := map[string]int{"w-0": 1, "w-1": 1}
			if !maps.Equal(records.runs, want) || records.most != 1 {
				t.Errorf("hosts ran %v jobs, %d at once, want %v and 1", records.runs, records.most, want)
			}
			if holder := w.lockHolder(); holder != "" {
				t.Errorf("%s holds the lock", holder)
			}
		})
	}
	if states < 3 {
		t.Errorf("the Cluster was moved in %d states", states)
	}
}

// move moves all objects with clusterctl; see moved.
func (w *world) move() {
	w.Helper()
	infrastructure := &unstructured.UnstructuredList{}
	infrastructure.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "XList",
	})
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&v1alpha1.UpdatePolicyList{}, &v1alpha1.UpdaterList{}, infrastructure,
	} {
		w.must(w.client.List(w.Context(), list))
		for _, object := range moved(objectsOf(w.T, list)) {
			w.must(w.client.Delete(w.Context(), object))
			object.SetResourceVersion("")
			again, err := copyOf(object)
			w.must(err)
			w.must(w.client.Create(w.Context(), object))
			again.SetResourceVersion(object.GetResourceVersion())
			if _, is := again.(*clusterv1.Machine); is {
				w.must(w.client.Status().Update(w.Context(), again))
			}
		}
	}
	w.restart()
}

// TestMovedUpdate moves the Cluster before each call of UpdateMachine at which nothing blocks the move.
// Each updater does its work once.
func TestMovedUpdate(t *testing.T) {
	t.Parallel()
	policy := external(func(p *v1alpha1.UpdatePolicySpec) { p.Drain, p.SoakSeconds = true, 10 })
	phases := make(map[inplace.Phase]int)
	done := false
	for at := 0; !done; at++ {
		w, files, kubelet := halves(t, policy)
		w.nodes.SetDrain(inCluster, "a", 1)
		w.must(w.decideHalves())
		for range at {
			reply, err := w.update("a")
			w.must(err)
			done = done || reply.Done
			w.now = w.now.Add(max(time.Second, reply.RetryAfter))
		}
		if blocksMove(w.machine("a").Annotations) {
			continue
		}
		if p := w.progress("a"); p != nil {
			phases[p.Phase]++
		}
		w.move()
		if err := w.finishHalves(); err != nil {
			t.Fatalf("moved after %d calls: %v", at, err)
		}
		if w.checkHalves(t, files, kubelet); t.Failed() {
			t.Fatalf("moved after %d calls", at)
		}
	}
	for _, phase := range []inplace.Phase{inplace.Draining, inplace.Soaking} {
		if phases[phase] == 0 {
			t.Errorf("the Cluster was not moved in the phase %s: %v", phase, phases)
		}
	}
}
