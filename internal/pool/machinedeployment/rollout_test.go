package machinedeployment

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestCreate checks the writes of a new MachineDeployment, one reconcile after the other.
func TestCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var got [][]string
	for range 4 {
		got = append(got, w.mustReconcile())
	}
	want := [][]string{
		{"patch MachineDeployment"},        // finalizer
		{"patch-status MachineDeployment"}, // Paused
		{
			"patch DevMachineTemplate", "patch KubeadmConfigTemplate", "apply MachineSet",
			"patch-status MachineDeployment", "patch MachineDeployment",
		},
		nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.settle()
	if writes := w.mustReconcile(); len(writes) != 0 {
		t.Errorf("a settled group is written: %v", writes)
	}
	w.restart()
	if diff := cmp.Diff([]string{"apply MachineSet"}, w.mustReconcile()); diff != "" {
		t.Errorf("writes of a new process (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("v1.33.0 small: 3 of 3, map[v1.33.0:3], revision 1", w.picture()); diff != "" {
		t.Errorf("MachineSets (-want +got):\n%s", diff)
	}
	md := w.md()
	phase, revision := md.Status.Phase, md.Annotations[clusterv1.RevisionAnnotation]
	if phase != "Running" || revision != "1" {
		t.Errorf("the MachineDeployment is %s, revision %q", phase, revision)
	}
}

// scenario is something that happens to a settled group.
type scenario struct {
	// begin prepares the group, and change is what happens then.
	begin, change func(*world)
	// want is the end, and created, deleted and moved are the Machines on the way.
	want                    string
	created, deleted, moved int
}

func onDelete(w *world) {
	w.edit(func(md *clusterv1.MachineDeployment) {
		md.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{
			Type: clusterv1.OnDeleteMachineDeploymentStrategyType,
		}
	})
}

func inPlace(w *world) { w.extension = coverAll }

// withBudget returns what sets maxSurge and maxUnavailable.
func withBudget(surge, unavailable int32, then func(*world)) func(*world) {
	return func(w *world) {
		w.edit(func(md *clusterv1.MachineDeployment) {
			limits := &md.Spec.Rollout.Strategy.RollingUpdate
			limits.MaxSurge = new(intstr.FromInt32(surge))
			limits.MaxUnavailable = new(intstr.FromInt32(unavailable))
		})
		then(w)
	}
}

func scale(to int32) func(*world) {
	return func(w *world) {
		w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &to })
	}
}

func nothing(*world) {}

var scenarios = map[string]scenario{
	"scale up": {
		begin: nothing, change: scale(5),
		want: "v1.33.0 small: 5 of 5, map[v1.33.0:5], revision 1", created: 2,
	},
	"scale down": {
		begin: nothing, change: scale(1),
		want: "v1.33.0 small: 1 of 1, map[v1.33.0:1], revision 1", deleted: 2,
	},
	"replace": {
		begin: nothing, change: (*world).upgrade,
		want: "v1.34.0 small: 3 of 3, map[v1.34.0:3], revision 2", created: 3, deleted: 3,
	},
	"replace without surge": {
		begin: withBudget(0, 1, nothing), change: (*world).upgrade,
		want: "v1.34.0 small: 3 of 3, map[v1.34.0:3], revision 2", created: 3, deleted: 3,
	},
	"replace templates": {
		begin: nothing, change: func(w *world) {
			w.edit(func(md *clusterv1.MachineDeployment) {
				md.Spec.Template.Spec.InfrastructureRef.Name = "large"
			})
		},
		want: "v1.33.0 large: 3 of 3, map[v1.33.0:3], revision 2", created: 3, deleted: 3,
	},
	"in place": {
		begin: withBudget(0, 1, inPlace), change: (*world).upgrade,
		want: "v1.34.0 small: 3 of 3, map[v1.34.0:3], revision 2", moved: 3,
	},
	"in place, two at once": {
		begin: withBudget(0, 2, inPlace), change: (*world).upgrade,
		want: "v1.34.0 small: 3 of 3, map[v1.34.0:3], revision 2", moved: 3,
	},
	"in place with a spare Machine": {
		begin: inPlace, change: (*world).upgrade,
		want: "v1.34.0 small: 3 of 3, map[v1.34.0:3], revision 2", created: 1, moved: 2, deleted: 1,
	},
	"kept": {
		begin: withBudget(0, 1, kept(inPlace)), change: (*world).upgrade,
		want: "v1.34.0 small: 3 of 3, map[v1.34.0:3], revision 2", moved: 3,
	},
	"kept, blocked": {
		begin: kept(nothing), change: func(w *world) {
			w.upgrade()
			scale(4)(w)
		},
		want: "v1.33.0 small: 3 of 3, map[v1.33.0:3], revision 1, moves to v1.33.0, " +
			"receives from v1.34.0\n" +
			"v1.34.0 small: 1 of 1, map[v1.34.0:1], revision 2, receives from v1.33.0",
		created: 1,
	},
	"on delete": {
		begin: onDelete, change: (*world).upgrade,
		want: "v1.33.0 small: 3 of 3, map[v1.33.0:3], revision 1\n" +
			"v1.34.0 small: 0 of 0, map[], revision 2",
	},
	"paused": {
		begin: func(w *world) {
			w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) })
		},
		change: func(w *world) {
			w.upgrade()
			scale(4)(w)
		},
		want: "v1.33.0 small: 4 of 4, map[v1.33.0:4], revision 1", created: 1,
	},
	"delete": {
		begin: nothing, change: func(w *world) {
			if err := w.Inner.Delete(w.t.Context(), w.md()); err != nil {
				w.t.Fatal(err)
			}
		},
		want: "", deleted: 3,
	},
	"label": {
		begin: nothing, change: func(w *world) {
			w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Labels["zone"] = "a" })
		},
		want: "v1.33.0 small: 3 of 3, map[v1.33.0:3], revision 1",
	},
}

// begin settles a new group, and begins a scenario.
func (s scenario) run(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.settle()
	s.begin(w)
	w.settle()
	w.created, w.deleted, w.moved = 0, 0, 0
	w.Take()
	w.events()
	s.change(w)
	return w
}

// TestScenarios checks what scenarios end with, and how many Machines they cost.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := s.run(t)
			w.settle()
			s.check(w, "no crash")
		})
	}
}

// TestCrashes kills the process at each write, before or after it is carried out, and starts it
// anew. The end is the same, and no Machine is created, deleted or moved more than without.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after the write %t", name, after), func(t *testing.T) {
				t.Parallel()
				w := s.run(t)
				w.crashAlways(after)
				w.settleWithCrashes()
				s.check(w, "crashes at all writes")
			})
		}
	}
}

// TestOneCrash kills the process at one write, for each write of each scenario.
func TestOneCrash(t *testing.T) {
	t.Parallel()
	if os.Getenv("WINDLASS_LONG") == "" {
		t.Skip("minutes of fake requests; set WINDLASS_LONG=1")
	}
	for name, s := range scenarios {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after the write %t", name, after), func(t *testing.T) {
				t.Parallel()
				for n, crashed := 1, new(true); *crashed && !t.Failed(); n++ {
					w := s.run(t)
					crashed = w.crashAt(n, after)
					w.settleWithCrashes()
					s.check(w, fmt.Sprintf("a crash at write %d", n))
				}
			})
		}
	}
}

// check compares the end of a scenario with what it should be.
func (s scenario) check(w *world, after string) {
	w.t.Helper()
	if diff := cmp.Diff(s.want, w.picture()); diff != "" {
		w.t.Errorf("MachineSets after %s (-want +got):\n%s", after, diff)
	}
	got, want := [...]int{w.created, w.deleted, w.moved}, [...]int{s.created, s.deleted, s.moved}
	if got != want {
		w.t.Errorf("created, deleted and moved are %v after %s, want %v", got, after, want)
	}
}

// TestWrites pins how many writes of each kind the controller makes from a change to its end.
func TestWrites(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]int{
		"scale up": {"apply MachineSet": 1, "patch-status MachineDeployment": 2},
		"replace": {
			"apply MachineSet": 7, "delete MachineSet": 1, "patch MachineDeployment": 1,
			"patch-status MachineDeployment": 7,
		},
		"in place": {
			"apply MachineSet": 9, "delete MachineSet": 1, "patch MachineDeployment": 1,
			"patch-status MachineDeployment": 7,
		},
		"delete": {
			"delete MachineSet": 1, "patch MachineDeployment": 1, "patch-status MachineDeployment": 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenarios[name].run(t)
			w.settle()
			got := map[string]int{}
			for _, write := range w.Take() {
				got[write]++
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEvents checks the Events of a rollout, which have the reasons of Cluster API's controller.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := scenarios["replace without surge"]
	w := s.run(t)
	w.settle()
	want := []string{
		"Normal SuccessfulCreate Created MachineSet default/md-00006 with 0 replicas",
		"Normal SuccessfulScale Scaled down MachineSet md-00001: 3 -> 2",
		"Normal SuccessfulScale Scaled up MachineSet md-00006: 0 -> 1",
		"Normal SuccessfulScale Scaled down MachineSet md-00001: 2 -> 1",
		"Normal SuccessfulScale Scaled up MachineSet md-00006: 1 -> 2",
		"Normal SuccessfulScale Scaled down MachineSet md-00001: 1 -> 0",
		"Normal SuccessfulScale Scaled up MachineSet md-00006: 2 -> 3",
		`Normal SuccessfulDelete Deleted MachineSet "md-00001"`,
	}
	if diff := cmp.Diff(want, w.events()); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// TestRevert turns a rollout around in its middle.
func TestRevert(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*world){
		"replace": nothing, "in place": withBudget(0, 1, inPlace),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario{begin: begin, change: (*world).upgrade}.run(t)
			for range 3 {
				w.mustReconcile()
				w.playSets()
			}
			w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.33.0" })
			w.settle()
			want := "v1.33.0 small: 3 of 3, map[v1.33.0:3], revision 3"
			if diff := cmp.Diff(want, w.picture()); diff != "" {
				t.Errorf("MachineSets (-want +got):\n%s", diff)
			}
		})
	}
}
