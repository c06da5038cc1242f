package pool_test

import (
	"encoding/json"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// handedOver is a record in the form in which releases write it.
const handedOver = `{"operation":"op","decision":"d","updater":"u","state":"Accepted","budget":{"atOnce":1}}`

// TestHandedOver pins the form of the record, and holds that one which nobody can read counts as an
// updater at work.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	full := pool.HandedOver{
		Operation: "op", Decision: "d", Updater: "u", State: pool.HandOverAccepted,
		Budget: pool.HandOverBudget{AtOnce: 2, First: 1, Stay: 3},
	}
	encoded, err := json.Marshal(full)
	const form = `{"operation":"op","decision":"d","updater":"u","state":"Accepted",` +
		`"budget":{"atOnce":2,"first":1,"stay":3}}`
	if err != nil || string(encoded) != form {
		t.Errorf("the form is %s, %v", encoded, err)
	}
	for name, test := range map[string]struct {
		record string
		want   *pool.HandedOver
		fails  string
	}{
		"none":                  {},
		"all fields":            {record: form, want: &full},
		"a field of the future": {record: strings.Replace(form, "{", `{"x":1,`, 1), want: &full},
		"no JSON":               {record: "yes", fails: "remove the annotation"},
		"a state of the future": {record: strings.Replace(form, "Accepted", "Half", 1), fails: `"Half" is unknown`},
		"no operation":          {record: strings.Replace(form, `"op"`, `""`, 1), fails: "no operation"},
	} {
		set := &clusterv1.MachineSet{}
		if test.record != "" {
			set.Annotations = map[string]string{v1alpha1.HandedOverAnnotation: test.record}
		}
		got, err := pool.HandedOverOf(set)
		if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: error %v, want %q", name, err, test.fails)
		}
		if diff := gocmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNextHandOver: an operation is repeated until it has ended, and never continued afterwards.
func TestNextHandOver(t *testing.T) {
	t.Parallel()
	budget := pool.HandOverBudget{AtOnce: 1}
	record := func(operation string, state pool.HandOverState) pool.HandedOver {
		return pool.HandedOver{Operation: operation, Decision: "d", Updater: "u", State: state, Budget: budget}
	}
	wider := record("op", pool.HandOverAccepted)
	wider.Budget.AtOnce = 2
	first := record("op", pool.HandOverAccepted)
	first.Budget.First = 1
	accepted, asked, ended := record("op", pool.HandOverAccepted), record("op", pool.HandOverAsked), record("op", pool.HandOverEnded)
	for name, test := range map[string]struct {
		before *pool.HandedOver
		want   pool.HandedOver
	}{
		"the first one":          {nil, record("new", pool.HandOverAsked)},
		"nobody knows":           {&asked, asked},
		"accepted":               {&accepted, accepted},
		"with another budget":    {&wider, asked},
		"the first have arrived": {&first, first},
		"one has ended before":   {&ended, record("new", pool.HandOverAsked)},
		"the zero value is none": {&pool.HandedOver{State: pool.HandOverEnded}, record("new", pool.HandOverAsked)},
	} {
		if diff := gocmp.Diff(test.want, test.before.Next("new", "d", "u", budget)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// handed is a kept group of three Machines whose template has another version, and whose old MachineSet
// was handed over.
func handed(t *testing.T, unavailable int32) (w *world, old string) {
	t.Helper()
	w = settledGroup(t, true)
	w.md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(unavailable))
	for name := range w.sets {
		old = name
	}
	toVersion("v1.31.0")(w.md)
	w.covered["v1.31.0"] = pool.AnswerNo
	w.settle(t)
	w.sets[old].Annotations[v1alpha1.HandedOverAnnotation] = handedOver
	for _, m := range w.machines {
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "Test"})
	}
	return w, old
}

// write is what an updater does that has a Machine: the host and the Machine.
func write(m *clusterv1.Machine) {
	m.Spec.Version, m.Status.NodeInfo = "v1.31.0", kubelet("v1.31.0")
}

// decide plans with what an updater that has the Machines has done.
func (w *world) decide(t *testing.T, old string, c pool.Coverage) (plan pool.Plan, decisions []string) {
	t.Helper()
	c.Answer, c.Updater = pool.AnswerHandedOver, "u"
	plan, err := pool.Decide(w.group(), map[string]pool.Coverage{old: c})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range plan.Decisions {
		decisions = append(decisions, string(d.Action)+" "+string(d.Reason))
	}
	return plan, decisions
}

// TestHandOverDecisions: Machines that were handed over stay until they have arrived, and then go within
// maxUnavailable, without an update. Nothing is created or deleted.
func TestHandOverDecisions(t *testing.T) {
	t.Parallel()
	const waits, arrives = "wait HandedOver", "update Arrived"
	for name, test := range map[string]struct {
		unavailable int32
		arrived     []int
		held        string
		change      func(w *world)
		want        []string
	}{
		"none has arrived":            {unavailable: 1, want: []string{waits, waits, waits}},
		"one has arrived":             {unavailable: 1, arrived: []int{1}, want: []string{waits, arrives, waits}},
		"more than maxUnavailable":    {unavailable: 1, arrived: []int{0, 1, 2}, want: []string{arrives, "wait Budget", "wait Budget"}},
		"all at once":                 {unavailable: 3, arrived: []int{0, 1, 2}, want: []string{arrives, arrives, arrives}},
		"maxUnavailable is 0":         {unavailable: 0, arrived: []int{0}, want: []string{arrives, waits, waits}},
		"arrived before it was held":  {unavailable: 1, arrived: []int{0}, held: "why", want: []string{arrives, waits, waits}},
		"another one is unavailable":  {unavailable: 1, arrived: []int{0}, change: func(w *world) { w.set(w.third(), false) }, want: []string{arrives, waits, waits}},
		"the group is paused":         {unavailable: 1, arrived: []int{0}, change: func(w *world) { w.md.Spec.Paused = new(true) }, want: []string{"wait Paused", "wait Paused", "wait Paused"}},
		"one is marked for an update": {unavailable: 1, arrived: []int{2}, change: func(w *world) { hasMoved(w.third(), "x", "y") }, want: []string{waits, waits, "update Updating"}},
		"a kubelet is ahead":          {unavailable: 1, arrived: []int{2}, change: func(w *world) { w.third().Status.NodeInfo = kubelet("v1.32.0") }, want: []string{waits, waits, "wait KubeletAhead"}},
		"one has failed":              {unavailable: 1, change: func(w *world) { failsAt("op")(w.third()) }, want: []string{waits, waits, "wait HandOverFailed"}},
		"another operation failed":    {unavailable: 1, change: func(w *world) { failsAt("o")(w.third()) }, want: []string{waits, waits, waits}},
		"one is too many":             {unavailable: 1, arrived: []int{0}, change: func(w *world) { w.md.Spec.Replicas = new(int32(2)) }, want: []string{"delete Surplus", waits, waits}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, old := handed(t, test.unavailable)
			c := pool.Coverage{Reason: test.held}
			for _, i := range test.arrived {
				c.Arrived = append(c.Arrived, w.names()[i])
				write(w.machines[w.names()[i]])
			}
			if test.change != nil {
				test.change(w)
			}
			plan, got := w.decide(t, old, c)
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
			var replicas int32
			for _, s := range plan.Sets() {
				replicas += *s.Desired.Spec.Replicas
			}
			if arriving := strings.Count(strings.Join(got, " "), "Arrived"); int(replicas) > 3-arriving {
				t.Errorf("%d replicas, and %d Machines arrive:\n%s", replicas, arriving, w)
			}
		})
	}
}

func (w *world) third() *clusterv1.Machine { return w.machines[w.names()[2]] }

func failsAt(operation string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{v1alpha1.UpdateFailedAnnotation: operation + ": disk\nfull"}
	}
}

// TestArrivals: the MachineSet gives away the Machines that the plan names, if they still show the
// template's version, and no others in their place.
func TestArrivals(t *testing.T) {
	t.Parallel()
	const arrives = " Return"
	for name, test := range map[string]struct {
		change func(w *world, set *clusterv1.MachineSet, m *clusterv1.Machine)
		want   string
	}{
		"it goes":                 {func(*world, *clusterv1.MachineSet, *clusterv1.Machine) {}, arrives},
		"it has an older kubelet": {func(_ *world, _ *clusterv1.MachineSet, m *clusterv1.Machine) { m.Status.NodeInfo = kubelet("v1.30.0") }, ""},
		"it has a newer kubelet":  {func(_ *world, _ *clusterv1.MachineSet, m *clusterv1.Machine) { m.Status.NodeInfo = kubelet("v1.32.0") }, ""},
		"no kubelet is known":     {func(_ *world, _ *clusterv1.MachineSet, m *clusterv1.Machine) { m.Status.NodeInfo = nil }, ""},
		"its spec is old":         {func(_ *world, _ *clusterv1.MachineSet, m *clusterv1.Machine) { m.Spec.Version = "v1.30.0" }, ""},
		"its Node is not ready": {func(_ *world, _ *clusterv1.MachineSet, m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionFalse, Reason: "Test"})
		}, ""},
		"it is deleted": {func(_ *world, _ *clusterv1.MachineSet, m *clusterv1.Machine) {
			m.DeletionTimestamp = new(metav1.NewTime(epoch))
		}, ""},
		"it is marked for an update": {func(_ *world, _ *clusterv1.MachineSet, m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
		}, ""},
		"nobody handed it over": {func(_ *world, set *clusterv1.MachineSet, _ *clusterv1.Machine) {
			delete(set.Annotations, v1alpha1.HandedOverAnnotation)
		}, ""},
		"the template has changed": {func(w *world, _ *clusterv1.MachineSet, _ *clusterv1.Machine) { toVersion("v1.33.0")(w.md) }, ""},
	} {
		w, old := handed(t, 1)
		m := w.machines[w.names()[1]]
		write(m)
		plan, _ := w.decide(t, old, pool.Coverage{Arrived: []string{m.Name}})
		set := plan.Old[0].Desired
		set.Annotations[v1alpha1.HandedOverAnnotation] = handedOver
		test.change(w, set, m)
		f := pool.SetFacts{MachineSet: set, Deployment: w.md, Machines: w.owned(set), Policy: policy.Policy{HandOver: true}}
		departures, err := f.Departures(1)
		var got string
		for _, d := range departures {
			got += strings.TrimPrefix(d.Machine.Name, m.Name) + " " + string(d.Reason)
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %q leaves, want %q, %v", name, got, test.want, err)
		}
	}
}

// arrives has a Machine of the old MachineSet arrive in the new one.
func (w *world) arrives() {
	newest := w.setOf("v1.31.0")
	for _, name := range w.names() {
		if m := w.machines[name]; w.owner(m) != newest {
			write(m)
			w.own(m, newest)
			w.set(m, true)
			return
		}
	}
}

// TestHandOverLimits: what an updater is given, and what holds a hand-over back or ends it.
func TestHandOverLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits *pool.Limits
		change func(*world)
		want   pool.HandOverBudget
		held   string
	}{
		"without a policy": {want: pool.HandOverBudget{AtOnce: 2}},
		"all": {
			limits: &pool.Limits{MaxInFlight: 1, Canary: intstr.FromString("34%"), Partition: intstr.FromInt32(1)},
			want:   pool.HandOverBudget{AtOnce: 1, First: 2, Stay: 1},
		},
		"the first have arrived": {
			limits: &pool.Limits{Canary: intstr.FromInt32(2)}, change: (*world).arrives,
			want: pool.HandOverBudget{AtOnce: 2, First: 1},
		},
		"more than the first have arrived": {
			limits: &pool.Limits{Canary: intstr.FromInt32(1)}, change: func(w *world) {
				w.arrives()
				w.arrives()
			},
			want: pool.HandOverBudget{AtOnce: 2},
		},
		"maxInFlight is larger": {limits: &pool.Limits{MaxInFlight: 9}, want: pool.HandOverBudget{AtOnce: 2}},
		"paused": {
			change: func(w *world) { w.md.Spec.Paused = new(true) },
			want:   pool.HandOverBudget{AtOnce: 2}, held: "paused",
		},
		"the policy is unknown": {limits: &pool.Limits{Unknown: "two"}, want: pool.HandOverBudget{AtOnce: 2}, held: "two"},
		"too many have failed": {
			limits: &pool.Limits{MaxFailures: 1}, change: func(w *world) { failsAt("op")(w.third()) },
			want: pool.HandOverBudget{AtOnce: 2}, held: "maxFailures 1",
		},
		"failures do not hold": {
			limits: &pool.Limits{}, change: func(w *world) { failsAt("op")(w.third()) }, want: pool.HandOverBudget{AtOnce: 2},
		},
	} {
		w, _ := handed(t, 2)
		w.limits = test.limits
		if test.change != nil {
			test.change(w)
		}
		got, held, err := w.group().HandOver()
		if err != nil || !strings.Contains(held, test.held) || (held == "") != (test.held == "") {
			t.Errorf("%s: held %q, %v", name, held, err)
		}
		if diff := gocmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRevertOfHandOver: a Machine that was updated before its template was reverted has a newer kubelet
// than the template asks, and the group says so.
func TestRevertOfHandOver(t *testing.T) {
	t.Parallel()
	w, old := handed(t, 1)
	write(w.third())
	toVersion("v1.30.0")(w.md)
	_, got := w.decide(t, old, pool.Coverage{})
	if diff := gocmp.Diff([]string{"keep UpToDate", "keep UpToDate", "wait KubeletAhead"}, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// TestKubeletHasArrived: a build counts if the template has one. What a distribution adds to the
// version that its kubelets report does not.
func TestKubeletHasArrived(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		wanted, kubelet string
		arrived         bool
	}{
		{"v1.31.4", "v1.31.4", true},
		{"v1.31.4+rke2r2", "v1.31.4+rke2r1", false},
		{"v1.31.4+rke2r2", "v1.31.4+rke2r2", true},
		{"v1.31.4+rke2r2", "v1.31.4", false},
		{"v1.31.4", "v1.31.4+k3s1", true},
		{"v1.31.2", "v1.31.2-eks-7f9249a", true},
		{"v1.31.2", "v1.31.2-rc.1", false},
		{"v1.31.2", "v1.31.1-eks-7f9249a", false},
		{"v1.31.2", "", false},
		{"", "v1.30.0", true},
	} {
		md := &clusterv1.MachineDeployment{}
		md.Spec.Template.Spec.Version = test.wanted
		m := msMachine("a", reports(clusterv1.MachineNodeReadyCondition, metav1.ConditionTrue, "R", ""))
		m.Spec.Version, m.Status.NodeInfo = test.wanted, kubelet(test.kubelet)
		if gap := pool.HandOverGap(md, m); (gap == "") != test.arrived {
			t.Errorf("%s runs %s: the gap is %q", test.wanted, test.kubelet, gap)
		}
	}
}
