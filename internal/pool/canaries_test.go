package pool_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// recorded is a record of failed canaries as an annotation.
func recorded(t *testing.T, c pool.FailedCanaries) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFailedCanaries: before a MachineSet deletes Machines in their update, it records those that
// are canaries.
func TestFailedCanaries(t *testing.T) {
	t.Parallel()
	begun := machineMark(v1alpha1.UpdateProgressAnnotation, "{}")
	updating := func(reason string) machineOption {
		return reports(clusterv1.MachineUpdatingCondition, metav1.ConditionTrue, reason, "")
	}
	failing := func(name string, options ...machineOption) *clusterv1.Machine {
		return msMachine(name, append([]machineOption{toRemediate, updateMarked, begun}, options...)...)
	}
	done := func() []*clusterv1.Machine {
		isAvailable := reports(clusterv1.MachineAvailableCondition, metav1.ConditionTrue, "R", "")
		return []*clusterv1.Machine{msMachine("done", isAvailable)}
	}
	asked := failing("asked")
	asked.Annotations[clusterv1.DeleteMachineAnnotation] = ""
	of := func(machines ...string) *pool.FailedCanaries {
		return &pool.FailedCanaries{MachineSet: "set", Machines: machines}
	}
	one, two := intstr.FromInt32(1), intstr.FromInt32(2)
	for name, tt := range map[string]struct {
		canary  intstr.IntOrString
		unknown string
		others  []*clusterv1.Machine
		going   []*clusterv1.Machine
		record  *pool.FailedCanaries
		text    string
		version string
		// foreign says that another engine updates the Machines.
		foreign bool
		want    *pool.FailedCanaries
	}{
		"a canary": {canary: one, going: []*clusterv1.Machine{failing("a")}, want: of("a")},
		"two canaries": {
			canary: two, going: []*clusterv1.Machine{failing("a"), failing("b")}, want: of("a", "b"),
		},
		"one of two is done": {
			canary: two, others: done(), going: []*clusterv1.Machine{failing("a")},
			want: of("a"),
		},
		"the canary is done": {
			canary: one, others: done(), going: []*clusterv1.Machine{failing("a")},
		},
		"no canary":         {going: []*clusterv1.Machine{failing("a")}},
		"an unknown policy": {unknown: "two", going: []*clusterv1.Machine{failing("a")}, want: of("a")},
		"its update has not begun": {
			canary: one, going: []*clusterv1.Machine{msMachine("a", toRemediate, updateMarked)},
		},
		"it waits for its turn": {
			canary: two, going: []*clusterv1.Machine{
				msMachine("a", toRemediate, updateMarked, updating(clusterv1.MachineInPlaceUpdatingReason)),
			},
		},
		"another engine updates it": {
			canary: one, foreign: true, want: of("a"), going: []*clusterv1.Machine{
				msMachine("a", toRemediate, updateMarked, updating(clusterv1.MachineInPlaceUpdatingReason)),
			},
		},
		"another engine has not begun": {
			canary: one, foreign: true,
			going: []*clusterv1.Machine{msMachine("a", toRemediate, updateMarked)},
		},
		"another engine's update failed": {
			canary: one, foreign: true, want: of("a"), going: []*clusterv1.Machine{
				msMachine("a", toRemediate, updateMarked, updating(clusterv1.MachineInPlaceUpdateFailedReason)),
			},
		},
		"no update":       {canary: one, going: []*clusterv1.Machine{msMachine("a", toRemediate)}},
		"a person's wish": {canary: one, going: []*clusterv1.Machine{asked}},
		"another template": {
			canary: one, version: "v1.35.0", going: []*clusterv1.Machine{failing("a")},
		},
		"recorded": {canary: one, record: of("a"), going: []*clusterv1.Machine{failing("a")}},
		"after a retry": {
			canary: one, others: done(), going: []*clusterv1.Machine{failing("b")},
			record: &pool.FailedCanaries{MachineSet: "set", Machines: []string{"a"}, Retried: true},
			want:   of("a", "b"),
		},
		"another MachineSet's record": {
			canary: one, going: []*clusterv1.Machine{failing("b")},
			record: &pool.FailedCanaries{MachineSet: "other", Machines: []string{"a"}}, want: of("b"),
		},
		"a broken record": {canary: one, text: "?", going: []*clusterv1.Machine{failing("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := ofVersion(msDeployment(nil), tt.version)
			set := msSet(1, setMark(clusterv1.RevisionAnnotation, "2"))
			if tt.record != nil {
				tt.text = recorded(t, *tt.record)
			}
			if tt.text != "" {
				md.Annotations[v1alpha1.FailedCanariesAnnotation] = tt.text
			}
			for _, m := range append(tt.others, tt.going...) {
				m.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set",
					Controller: new(true),
				}}
			}
			f := pool.SetFacts{
				MachineSet: set, Deployment: md, Machines: append(tt.others, tt.going...), MachinesRead: true,
				Now: msNow, Decided: !tt.foreign,
				Policy: policy.Policy{Name: "p", Canary: tt.canary, Unknown: tt.unknown},
			}
			if diff := cmp.Diff(tt.want, f.FailedCanaries(tt.going)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			f.Policy = policy.Policy{}
			if got := f.FailedCanaries(tt.going); got != nil {
				t.Errorf("without a policy %+v is recorded", got)
			}
		})
	}
}

// TestRecordOfCanaries: the record holds the rollout to its MachineSet as long as its Machines are
// gone and nobody asks for a retry. Another template, the end of the rollout and a retry change it.
func TestRecordOfCanaries(t *testing.T) {
	t.Parallel()
	w := newWorld(3, 0, 1)
	w.keep, w.limits = true, &pool.Limits{Canary: intstr.FromInt32(1)}
	w.settle(t)
	w.md.Spec.Template.Spec.Version = "v1.31.0"
	w.covered["v1.31.0"] = pool.AnswerNo
	w.reconcile(t)
	newest := w.setOf("v1.31.0").Name
	record := pool.FailedCanaries{MachineSet: newest, Machines: []string{"gone"}}
	for name, tt := range map[string]struct {
		text    string
		retry   bool
		held    bool
		changed bool
		want    *pool.FailedCanaries
	}{
		"held":         {text: recorded(t, record), held: true, want: &record},
		"unreadable":   {text: "?", held: true},
		"names nobody": {text: `{"machineSet":"x"}`, held: true},
		"another MachineSet": {
			text: recorded(t, pool.FailedCanaries{MachineSet: "x", Machines: []string{"gone"}}), changed: true,
		},
		"a retry": {
			text: recorded(t, record), retry: true, held: true, changed: true,
			want: &pool.FailedCanaries{MachineSet: newest, Machines: []string{"gone"}, Retried: true},
		},
		"retried": {
			text: recorded(t, pool.FailedCanaries{MachineSet: newest, Machines: []string{"gone"},
				Retried: true}), retry: true,
			want: &pool.FailedCanaries{MachineSet: newest, Machines: []string{"gone"}, Retried: true},
		},
		"none": {retry: true},
	} {
		g := w.group()
		g.MachineDeployment = g.MachineDeployment.DeepCopy()
		g.MachineDeployment.Annotations = map[string]string{}
		if tt.text != "" {
			g.MachineDeployment.Annotations[v1alpha1.FailedCanariesAnnotation] = tt.text
		}
		if tt.retry {
			g.MachineDeployment.Annotations[v1alpha1.UpdateRetryAnnotation] = ""
		}
		p, err := pool.ProgressOf(g)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Held != ""; got != tt.held {
			t.Errorf("%s: held is %v (%q), want %v", name, got, p.Held, tt.held)
		}
		got, changed := g.FailedCanaries()
		if diff := cmp.Diff(tt.want, got); diff != "" || changed != tt.changed {
			t.Errorf("%s: changed is %v, want %v (-want +got):\n%s", name, changed, tt.changed, diff)
		}
	}
	// A rollout that is complete needs no record.
	w.covered["v1.31.0"] = pool.AnswerYes
	w.settle(t)
	g := w.group()
	g.MachineDeployment.Annotations = map[string]string{}
	g.MachineDeployment.Annotations[v1alpha1.FailedCanariesAnnotation] = recorded(t, record)
	g.MachineDeployment.Status.Replicas = new(int32(3))
	g.MachineDeployment.Status.UpToDateReplicas = new(int32(3))
	g.MachineDeployment.Status.AvailableReplicas = new(int32(3))
	g.MachineDeployment.Status.ObservedGeneration = g.MachineDeployment.Generation
	if got, changed := g.FailedCanaries(); got != nil || !changed {
		t.Errorf("the rollout is complete, and the record is %+v, changed %v", got, changed)
	}
	// A Machine of the record that exists speaks for itself.
	c := pool.FailedCanaries{MachineSet: newest, Machines: []string{g.Machines[0].Name}}
	g.MachineDeployment.Annotations[v1alpha1.FailedCanariesAnnotation] = recorded(t, c)
	p, err := pool.ProgressOf(g)
	if err != nil || p.Held != "" || p.Replaced != 0 {
		t.Errorf("the Machine exists, and the progress is %+v, %v", p, err)
	}
	// Machines that are counted without names are gone.
	c.Others = 1
	g.MachineDeployment.Annotations[v1alpha1.FailedCanariesAnnotation] = recorded(t, c)
	p, err = pool.ProgressOf(g)
	if err != nil || p.Held == "" {
		t.Errorf("another Machine is counted, and the progress is %+v, %v", p, err)
	}
	p.Recall(c, []string{"gone"}, 2)
	if p.Replaced != 2 {
		t.Errorf("one Machine is gone and one counted, and %d are replaced", p.Replaced)
	}
	c.Others = 0
	g.MachineDeployment.Annotations[v1alpha1.FailedCanariesAnnotation] = recorded(t, c)
	g.Machines[0].DeletionTimestamp = new(metav1.NewTime(msNow))
	p, err = pool.ProgressOf(g)
	if err != nil || p.Held == "" || p.Replaced != 1 {
		t.Errorf("the Machine is being deleted, and the progress is %+v, %v", p, err)
	}
}
