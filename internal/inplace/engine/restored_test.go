package engine

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// backup is what an API server had at a time, with its resourceVersions.
type backup []client.Object

// restorable is an API server whose etcd a test restores from a backup while the engine lives.
type restorable struct{ client.WithWatch }

// save reads all objects that a test has.
func (s *restorable) save(t *testing.T) backup {
	t.Helper()
	hosted := unstructuredOf(hostedKind)
	if err := s.Get(t.Context(), keyNamed("hosted"), hosted); err != nil {
		t.Fatal(err)
	}
	saved := backup{hosted}
	for _, list := range []client.ObjectList{
		&clusterv1.MachineList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.ClusterList{},
		&v1alpha1.UpdaterList{}, &v1alpha1.UpdatePolicyList{}, &corev1.NamespaceList{}, &corev1.ConfigMapList{},
		&apiextensionsv1.CustomResourceDefinitionList{},
	} {
		if err := s.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		saved = append(saved, objectsOf(t, list)...)
	}
	return saved
}

// restore has the API server return to a backup.
func (s *restorable) restore(t *testing.T, saved backup) {
	t.Helper()
	// A fake client adds the kinds that it meets to its scheme, as metadata only.
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, corev1.AddToScheme,
		apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects := make([]client.Object, 0, len(saved))
	for _, object := range saved {
		copied, _ := object.DeepCopyObject().(client.Object)
		objects = append(objects, copied)
	}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&clusterv1.Machine{}, InFlightIndex, IndexInFlight).
		WithStatusSubresource(&v1alpha1.Updater{}, &clusterv1.Machine{}, &clusterv1.MachineDeployment{}, &controlplanev1.KubeadmControlPlane{}).
		Build()
}

// hostRecords are what hosts know of operations, as the updaters for hosts keep it there: whatever
// operation is asked for, a host runs one job at a time, and none for what it is at already.
type hostRecords struct {
	w *upgradeWorld
	// running are the polls that a host's job has left, and runs counts jobs.
	running, runs map[string]int
	most          int
}

func (h *hostRecords) update(r *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
	m := &r.Desired.Machine
	node := h.w.nodes.Node(h.w.Context(), inCluster, m.Name)
	switch left, isRunning := h.running[m.Name]; {
	case isRunning && left > 0:
		h.running[m.Name]--
		return inplace.Answer{Outcome: inplace.InProgress, RetryAfter: time.Second}
	case isRunning:
		delete(h.running, m.Name)
		h.w.nodes.Edit(inCluster, m.Name, func(n *inplace.Node) { n.Kubelet = installs(m) })
		return inplace.Answer{Outcome: inplace.Finishes}
	case installs(m).RunBy(node.Kubelet):
		return inplace.Answer{Outcome: inplace.Finishes}
	}
	h.running[m.Name] = 2
	h.runs[m.Name]++
	h.most = max(h.most, len(h.running))
	return inplace.Answer{Outcome: inplace.InProgress, RetryAfter: time.Second}
}

// newRestoredWorld has a group of two machines whose upgrade is asked for.
func newRestoredWorld(t *testing.T) (*upgradeWorld, *restorable, *hostRecords) {
	t.Helper()
	w := newUpgradeWorld(t, withoutCanary(inPlaceOnly(1)))
	store := &restorable{w.client}
	w.client = store
	w.api = w.intercepted()
	w.restart()
	updater, _ := w.register()
	records := &hostRecords{w: w, running: map[string]int{}, runs: map[string]int{}}
	updater.answer = records.update
	w.addGroup(deploymentKind, "md", "w-0", "w-1")
	w.askGroup(deploymentKind, "md", toVersion)
	return w, store, records
}

// isRestoredWorldDone reports whether the group and its machines have the release.
func isRestoredWorldDone(w *upgradeWorld) bool {
	md := &clusterv1.MachineDeployment{}
	if err := w.client.Get(w.Context(), keyNamed("md"), md); err != nil {
		w.Fatal(err)
	}
	done := request.Marks{Status: request.Done, Release: toVersion}
	return keys.marks(md.Annotations) == done && w.marks("w-0") == done && w.marks("w-1") == done
}

// TestRestoredUpgrade restores etcd to each state of a group's upgrade, from a later one, while the
// process lives. No host runs a job twice, no two run at once, and the upgrade ends.
func TestRestoredUpgrade(t *testing.T) {
	t.Parallel()
	const most = 60
	total := 0
	for w, _, _ := newRestoredWorld(t); !isRestoredWorldDone(w) && total < most; total++ {
		w.step()
	}
	if total == most {
		t.Fatalf("the upgrade has not ended after %d steps", most)
	}
	for from := range total {
		for _, to := range []int{min(from+3, total), total} {
			t.Run(fmt.Sprintf("from step %d to %d", to, from), func(t *testing.T) {
				t.Parallel()
				w, store, records := newRestoredWorld(t)
				var saved backup
				for step := range to {
					if step == from {
						saved = store.save(t)
					}
					w.step()
				}
				store.restore(t, saved)
				w.now = w.now.Add(10 * time.Minute)
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
	}
}

func objectsOf(t *testing.T, list client.ObjectList) (objects []client.Object) {
	t.Helper()
	err := meta.EachListItem(list, func(o runtime.Object) error {
		object, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", o)
		}
		copied, _ := object.DeepCopyObject().(client.Object)
		objects = append(objects, copied)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}
