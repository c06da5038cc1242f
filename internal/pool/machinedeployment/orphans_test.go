package machinedeployment

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// TestUnadopted: a MachineSet that cannot be adopted is not absent. In a group whose Machines are
// kept or handed over no Machine is created in the place of its Machines. Others continue, as with
// Cluster API's controller.
func TestUnadopted(t *testing.T) {
	t.Parallel()
	keep := policy.Policy{Guarded: true, Name: "p"}
	for name, tt := range map[string]struct {
		policy policy.Policy
		// now is the policy that the cache does not show yet.
		now     *policy.Policy
		created int
		// alone says that the Machines have no controller either.
		alone bool
	}{
		"kept":                      {policy: keep},
		"kept, Machines alone":      {policy: keep, alone: true},
		"kept, says the API server": {now: &keep},
		"handed over":               {policy: policy.Policy{HandOver: true, Name: "p"}},
		"replaced":                  {policy: policy.Policy{Name: "p"}, created: 3},
		"no policy":                 {created: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario{begin: func(w *world) { w.policy = tt.policy }, change: nothing}.run(t)
			w.policyNow = tt.now
			orphan := w.sets()[0]
			orphan.OwnerReferences = nil
			if err := w.Inner.Update(t.Context(), orphan); err != nil {
				t.Fatal(err)
			}
			own := func(owners []metav1.OwnerReference) {
				for _, m := range w.machines() {
					m.OwnerReferences, m.Labels = owners, orphan.Spec.Selector.MatchLabels
					if err := w.Inner.Update(t.Context(), m); err != nil {
						t.Fatal(err)
					}
				}
			}
			owners := w.machines()[0].OwnerReferences
			if tt.alone {
				own(nil)
			}
			denied := errors.New("denied")
			w.Fail = func(verb, kind string) (error, bool) {
				if verb == "patch" && kind == "MachineSet" && w.LastName == orphan.Name {
					return denied, false
				}
				return nil, false
			}
			for range 3 {
				if _, err := w.reconcile(); errors.Is(err, denied) != (tt.created == 0) {
					t.Errorf("the error is %v", err)
				}
				if !tt.alone { // The model of MachineSets adopts no Machine.
					w.playSets()
				}
			}
			if held := w.blocked() == string(pool.ReasonNotAdopted); held != (tt.created == 0) {
				t.Errorf("blocked by %q", w.blocked())
			}
			if got, want := [...]int{w.created, w.deleted}, [...]int{tt.created, 0}; got != want {
				t.Errorf("created and deleted are %v, want %v:\n%s", got, want, w.picture())
			}
			w.Fail = nil
			if tt.alone {
				own(owners) // The controller of MachineSets adopts them.
			}
			w.settle()
			if n := len(w.machines()); n != 3 || w.created != tt.created || w.blocked() != "" {
				t.Errorf("%d Machines exist, %d were created:\n%s", n, w.created, w.picture())
			}
		})
	}
}

// TestUnadoptedWithoutMachines: a MachineSet without Machines that cannot be adopted keeps nobody
// from scaling a kept group.
func TestUnadoptedWithoutMachines(t *testing.T) {
	t.Parallel()
	w := scenario{begin: kept(nothing), change: nothing}.run(t)
	empty := w.sets()[0].DeepCopy()
	empty.Name, empty.UID, empty.ResourceVersion, empty.OwnerReferences = "empty", "empty", "", nil
	empty.Spec.Replicas = new(int32)
	if err := w.Inner.Create(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	w.Fail = func(verb, kind string) (error, bool) {
		if verb == "patch" && kind == "MachineSet" && w.LastName == empty.Name {
			return errors.New("denied"), false
		}
		return nil, false
	}
	scale(4)(w)
	for range 3 {
		w.mustReconcile()
		w.playSets()
	}
	if n := len(w.machines()); n != 4 || w.blocked() != "" {
		t.Errorf("%d Machines, blocked by %q:\n%s", n, w.blocked(), w.picture())
	}
}

// TestAdopted: a MachineSet without a controller is adopted, and nothing else happens.
func TestAdopted(t *testing.T) {
	t.Parallel()
	w := scenario{begin: kept(nothing), change: nothing}.run(t)
	set := w.sets()[0]
	set.OwnerReferences = nil
	delete(set.Labels, clusterv1.MachineDeploymentNameLabel)
	if err := w.Inner.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if n := len(w.sets()); n != 1 || w.created+w.deleted > 0 || len(w.sets()[0].OwnerReferences) != 1 {
		t.Errorf("created %d, deleted %d:\n%s", w.created, w.deleted, w.picture())
	}
}

// caching returns MachineSets as a cache does, without copies, and keeps what they were.
type caching struct {
	client.Client
	lists, were []*clusterv1.MachineSetList
	copied      bool
}

func (c *caching) List(
	ctx context.Context, into client.ObjectList, options ...client.ListOption,
) error {
	err := c.Client.List(ctx, into, options...)
	if list, ok := into.(*clusterv1.MachineSetList); ok && err == nil {
		disabled := (&client.ListOptions{}).ApplyOptions(options).UnsafeDisableDeepCopy
		c.copied = c.copied || disabled == nil || !*disabled
		c.lists, c.were = append(c.lists, list), append(c.were, list.DeepCopy())
	}
	return err
}

// TestSetsOfCache: a run copies only the MachineSets of its group, of those of the namespace, and
// changes none that are the cache's own.
func TestSetsOfCache(t *testing.T) {
	t.Parallel()
	w := scenario{begin: nothing, change: (*world).upgrade}.run(t)
	w.mustReconcile()
	orphan := w.sets()[0]
	orphan.OwnerReferences = nil
	delete(orphan.Labels, clusterv1.MachineDeploymentNameLabel)
	if err := w.Inner.Update(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}
	cache := &caching{Client: w.Client}
	w.r.Client = cache
	w.settle()
	if cache.copied || len(cache.lists) == 0 {
		t.Errorf("of %d lists some are copied: %t", len(cache.lists), cache.copied)
	}
	for i, list := range cache.lists {
		if diff := cmp.Diff(cache.were[i], list); diff != "" {
			t.Fatalf("a run changes the cache (-was +is):\n%s", diff)
		}
	}
	if n := len(w.sets()); n != 1 || w.created != 3 {
		t.Errorf("created %d:\n%s", w.created, w.picture())
	}
}
