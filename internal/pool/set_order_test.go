package pool_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestDeletionOrder: first what is going anyway, then what a person asks for, what is being updated,
// what is unhealthy, and then by age.
func TestDeletionOrder(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	machines := []*clusterv1.Machine{
		msMachine("young", old(day)), msMachine("old", old(30*day)), msMachine("future", old(-day)),
		msMachine("eternal", func(m *clusterv1.Machine) { m.CreationTimestamp = metav1.Time{} }),
		msMachine("nodeless", withoutNode), msMachine("broken", nodeUnhealthy), msMachine("failed", checkFailed),
		msMachine("moving", updateMarked), msMachine("hooked", hookPending),
		msMachine("asked", deleteAsked, updateMarked), msMachine("going", inDeletion(time.Hour), deleteAsked),
		msMachine("unknown", old(2*day),
			reports(clusterv1.MachineNodeHealthyCondition, metav1.ConditionUnknown, "Lost", ""),
			reports(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionUnknown, "Lost", "")),
	}
	first := []string{
		"going Deleting", "asked DeleteRequested", "hooked Updating", "moving Updating",
		"broken Unhealthy", "failed Unhealthy", "nodeless Unhealthy",
	}
	for order, then := range map[clusterv1.MachineSetDeletionOrder][]string{
		"":       {"eternal Age", "future Age", "old Age", "unknown Age", "young Age"},
		"Random": {"eternal Age", "future Age", "old Age", "unknown Age", "young Age"},
		"Oldest": {"old Age", "unknown Age", "young Age", "eternal Age", "future Age"},
		// Unhealthy Machines and the newest have the same priority.
		"Newest": {
			"broken Unhealthy", "eternal Age", "failed Unhealthy", "future Age", "nodeless Unhealthy",
			"young Age", "unknown Age", "old Age",
		},
	} {
		t.Run(cmp.Or(string(order), "none"), func(t *testing.T) {
			t.Parallel()
			candidates, err := factsOf(msSet(1, orderedBy(order)), machines...).DeletionOrder()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range candidates {
				got = append(got, c.Machine.Name+" "+string(c.Reason))
			}
			want := append(slices.Clone(first), then...)
			if order == "Newest" {
				want = append(slices.Clone(first[:4]), then...)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("the order differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnknownDeletionOrder: every rule that needs the order fails, and the error says how to fix it.
func TestUnknownDeletionOrder(t *testing.T) {
	t.Parallel()
	f := factsOf(msSet(0, orderedBy("Tallest")), msMachine("a"))
	const want = `reading spec.deletion.order of MachineSet ns/set: "Tallest" is unknown. ` +
		"Fix: set it to Random, Newest or Oldest"
	for name, do := range map[string]func() error{
		"Deletions":  func() error { _, err := f.Deletions(1); return err },
		"Departures": func() error { _, err := f.Departures(1); return err },
	} {
		if err := do(); err == nil || err.Error() != want {
			t.Errorf("%s returns %v, want %s", name, err, want)
		}
	}
}

// TestDeletionOrderProperties: the order holds each Machine once, does not depend on the order of
// its input, and changes nothing.
func TestDeletionOrderProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set, machines := setOf(t), machinesOf(t)
		before := deepCopies(machines)
		order, err := factsOf(set, machines...).DeletionOrder()
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(before, machines); diff != "" {
			t.Fatalf("Machines were changed (-before +after):\n%s", diff)
		}
		again, err := factsOf(set, rapid.Permutation(machines).Draw(t, "permutation")...).DeletionOrder()
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(order, again); diff != "" {
			t.Fatalf("the order depends on that of the input:\n%s", diff)
		}
		if len(order) != len(machines) {
			t.Fatalf("%d Machines became %d", len(machines), len(order))
		}
		for i := 1; i < len(order); i++ {
			a, b := order[i-1], order[i]
			if a.Priority < b.Priority || (a.Priority == b.Priority && a.Machine.Name >= b.Machine.Name) {
				t.Fatalf("%s before %s", a.Machine.Name, b.Machine.Name)
			}
		}
	})
}

// TestPriorityByAge: healthy Machines never come before unhealthy ones, and older ones come before
// or after younger ones, by order.
func TestPriorityByAge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		age := rapid.Float64Range(0, 1e8)
		a, b := age.Draw(t, "a"), age.Draw(t, "b")
		younger, older := min(a, b), max(a, b)
		if pool.OldestFirst(younger) > pool.OldestFirst(older) {
			t.Error("Oldest prefers a younger Machine")
		}
		if pool.NewestFirst(younger) < pool.NewestFirst(older) {
			t.Error("Newest prefers an older Machine")
		}
		for _, rule := range []pool.PriorityByAge{pool.RandomFirst, pool.OldestFirst, pool.NewestFirst} {
			if p := rule(a); p < 0 || p > 50 || math.IsNaN(p) {
				t.Errorf("priority %f", p)
			}
		}
	})
}

func deepCopies(machines []*clusterv1.Machine) []*clusterv1.Machine {
	var copies []*clusterv1.Machine
	for _, m := range machines {
		copies = append(copies, m.DeepCopy())
	}
	return copies
}
