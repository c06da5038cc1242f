package pool_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/internal/pool"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// failer is *testing.T or *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func kubelet(version string) *corev1.NodeSystemInfo {
	return &corev1.NodeSystemInfo{KubeletVersion: version}
}

// world has a group's objects, and plays the MachineSet controller, the Machine controller, hosts
// and people.
type world struct {
	md       *clusterv1.MachineDeployment
	sets     map[string]*clusterv1.MachineSet
	machines map[string]*clusterv1.Machine
	// covered says to which versions updates in place are possible.
	covered map[string]pool.Answer
	keep    bool
	// onDelete says that the policy has groups with the strategy OnDelete updated in place.
	onDelete bool
	clock    int
	// created and deleted are the Machines that MachineSets have made and removed.
	created, deleted []string
	// begun are the updates that have touched their host.
	begun map[string]bool
	plan  pool.Plan
	// limits are those of the policy. fails is the version that no Machine reaches.
	limits *pool.Limits
	fails  string
}

func newWorld(replicas, surge, unavailable int32) *world {
	w := &world{
		md:   &clusterv1.MachineDeployment{},
		sets: map[string]*clusterv1.MachineSet{}, machines: map[string]*clusterv1.Machine{},
		covered: map[string]pool.Answer{}, begun: map[string]bool{},
	}
	w.md.Namespace, w.md.Name, w.md.UID = "ns", "md", "md"
	w.md.Spec.Replicas = &replicas
	w.md.Spec.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
	limits := &w.md.Spec.Rollout.Strategy.RollingUpdate
	limits.MaxSurge = new(intstr.FromInt32(surge))
	limits.MaxUnavailable = new(intstr.FromInt32(unavailable))
	w.md.Spec.Template.Spec.Version = "v1.30.0"
	return w
}

// group returns copies, so that a change by the rules is a change of nothing.
func (w *world) group() pool.Group {
	g := pool.Group{
		MachineDeployment: w.md.DeepCopy(),
		TemplatesExist:    true,
		InPlaceUpdates:    true,
		Keep:              w.keep,
		Limits:            w.limits,
		UpdateOnDelete:    w.onDelete,
		Now:               epoch.Add(time.Duration(w.clock) * time.Second),
		Suffix:            fmt.Sprintf("%05d", w.clock),
	}
	for _, name := range slices.Sorted(maps.Keys(w.sets)) {
		g.MachineSets = append(g.MachineSets, w.sets[name].DeepCopy())
	}
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		g.Machines = append(g.Machines, w.machines[name].DeepCopy())
	}
	return g
}

// reconcile is the MachineDeployment controller.
func (w *world) reconcile(t failer) {
	t.Helper()
	w.clock++
	questions, err := pool.Needs(w.group())
	if err != nil {
		t.Fatalf("Needs: %v", err)
	}
	coverage := map[string]pool.Coverage{}
	for _, q := range questions {
		coverage[q.Old.Name] = pool.Coverage{
			Answer: w.covered[q.New.Spec.Template.Spec.Version], Reason: "as the test says",
		}
	}
	w.plan, err = pool.Decide(w.group(), coverage)
	if err != nil {
		t.Fatalf("Decide: %v", err)
	}
	if n := len(w.sets); n > 20 {
		t.Fatalf("%d MachineSets were created:\n%s", n, w)
	}
	for _, s := range w.plan.Sets() {
		w.apply(s.Desired)
	}
}

func (w *world) apply(desired *clusterv1.MachineSet) {
	set := desired.DeepCopy()
	if set.UID == "" {
		set.UID = types.UID(set.Name)
	}
	w.sets[set.Name] = set
	w.report(set)
}

func (w *world) owned(set *clusterv1.MachineSet) []*clusterv1.Machine {
	var list []*clusterv1.Machine
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		if pool.Owns(set, w.machines[name]) {
			list = append(list, w.machines[name])
		}
	}
	return list
}

// report is the status of a MachineSet.
func (w *world) report(set *clusterv1.MachineSet) {
	c := pool.MachineCounts(set, w.owned(set))
	set.Status.Replicas = new(c.Machines)
	set.Status.AvailableReplicas = new(c.Available)
	set.Status.UpToDateReplicas = new(c.UpToDate)
}

// scale is one step of the MachineSet controller. pick chooses the Machine to delete.
func (w *world) scale(set *clusterv1.MachineSet, pick func(int) int) {
	defer w.report(set)
	if f := w.facts(set); len(f.Policy.Order.Labels) > 0 {
		pick = func(int) int { return w.firstOf(f) }
	}
	acknowledged := strings.Split(set.Annotations[clusterv1.AcknowledgedMoveAnnotation], ",")
	list := w.owned(set)
	pending := 0
	for _, m := range list {
		if slices.Contains(acknowledged, m.Name) {
			delete(m.Annotations, clusterv1.PendingAcknowledgeMoveAnnotation)
		}
		if _, ok := m.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation]; ok &&
			set.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] != "" {
			pending++
		}
	}
	surplus := len(list) - int(*set.Spec.Replicas)
	switch {
	case surplus < 0 && set.Annotations[clusterv1.DisableMachineCreateAnnotation] != "true":
		w.create(set)
	case surplus-pending > 0:
		target := set.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
		if target != "" {
			w.move(set, w.sets[target], list)
		} else {
			w.delete(list[pick(len(list))])
		}
	}
}

// facts are what the rules of a MachineSet read.
func (w *world) facts(set *clusterv1.MachineSet) pool.SetFacts {
	f := pool.SetFacts{MachineSet: set, Deployment: w.md, Machines: w.owned(set)}
	if w.limits != nil {
		f.Policy.Order = w.limits.Order
	}
	return f
}

// firstOf returns the place in the list of the Machine that is deleted first.
func (w *world) firstOf(f pool.SetFacts) int {
	return slices.Index(f.Machines, f.Order(pool.OldestFirst)[0].Machine)
}

func (w *world) create(set *clusterv1.MachineSet) {
	w.clock++
	m := &clusterv1.Machine{Spec: *set.Spec.Template.Spec.DeepCopy()}
	m.Namespace, m.Name = "ns", fmt.Sprintf("m%03d", w.clock)
	m.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(w.clock) * time.Second))
	w.own(m, set)
	w.created = append(w.created, m.Name)
	w.machines[m.Name] = m
}

func (w *world) own(m *clusterv1.Machine, set *clusterv1.MachineSet) {
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: set.Name,
		Controller: new(true),
	}}
}

func (w *world) delete(m *clusterv1.Machine) {
	w.deleted = append(w.deleted, m.Name)
	delete(w.machines, m.Name)
}

// move moves one Machine, as the MachineSet controller does.
func (w *world) move(set, target *clusterv1.MachineSet, list []*clusterv1.Machine) {
	from := strings.Split(
		target.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation], ",")
	if !slices.Contains(from, set.Name) {
		return
	}
	if w.keep {
		list = pool.MoveOrder(w.group(), list)
	} else if f := w.facts(set); len(f.Policy.Order.Labels) > 0 {
		departures, _ := f.Departures(1)
		list = nil
		for _, d := range departures {
			list = append(list, w.machines[d.Machine.Name])
		}
	}
	for _, m := range list {
		if !w.keep && (pool.IsUpdating(m) || !m.Status.NodeRef.IsDefined()) {
			continue
		}
		w.own(m, target)
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.UpdateInProgressAnnotation, "")
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.PendingAcknowledgeMoveAnnotation, "")
		return
	}
}

// work is one step of a Machine: it joins, begins its update, or ends it.
func (w *world) work(m *clusterv1.Machine) {
	switch {
	case w.fails != "" && m.Spec.Version == w.fails:
	case !m.Status.NodeRef.IsDefined():
		m.Status.NodeRef.Name = m.Name
		m.Status.NodeInfo = kubelet(m.Spec.Version)
		w.set(m, true)
	case pool.IsUpdating(m) && !w.begun[m.Name]:
		if _, waits := m.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation]; !waits {
			w.begun[m.Name] = true
			m.Spec = *w.owner(m).Spec.Template.Spec.DeepCopy()
		}
	case pool.IsUpdating(m):
		delete(m.Annotations, clusterv1.UpdateInProgressAnnotation)
		delete(w.begun, m.Name)
		m.Status.NodeInfo = kubelet(m.Spec.Version)
		w.set(m, true)
	default:
		w.set(m, true)
	}
}

func (w *world) owner(m *clusterv1.Machine) *clusterv1.MachineSet {
	return w.sets[m.OwnerReferences[0].Name]
}

func (w *world) set(m *clusterv1.Machine, available bool) {
	status := metav1.ConditionFalse
	if available {
		status = metav1.ConditionTrue
	}
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineAvailableCondition, Status: status, Reason: "Test",
	})
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue, Reason: "Test",
	})
}

// settle runs all controllers in turn until nothing changes.
func (w *world) settle(t failer) {
	t.Helper()
	for range 200 {
		before := w.String()
		w.reconcile(t)
		for _, name := range slices.Sorted(maps.Keys(w.sets)) {
			w.scale(w.sets[name], func(int) int { return 0 })
		}
		for _, name := range slices.Sorted(maps.Keys(w.machines)) {
			w.work(w.machines[name])
		}
		for _, set := range w.sets {
			w.report(set)
		}
		if w.String() == before {
			return
		}
	}
	t.Fatalf("the group does not settle:\n%s", w)
}

// String shows the group.
func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"replicas %d, version %s\n",
		*w.md.Spec.Replicas,
		w.md.Spec.Template.Spec.Version,
	)
	for _, name := range slices.Sorted(maps.Keys(w.sets)) {
		set := w.sets[name]
		fmt.Fprintf(&b, "%s %s: %d replicas %+v %v\n", name, set.Spec.Template.Spec.Version,
			*set.Spec.Replicas, pool.StatusCounts(set), set.Annotations)
		for _, m := range w.owned(set) {
			version := ""
			if m.Status.NodeInfo != nil {
				version = m.Status.NodeInfo.KubeletVersion
			}
			fmt.Fprintf(&b, "  %s kubelet %s updating %t begun %t available %t\n", m.Name, version,
				pool.IsUpdating(m), w.begun[m.Name],
				conditions.IsTrue(m, clusterv1.MachineAvailableCondition))
		}
	}
	return b.String()
}

// available is how many Machines can work now.
func (w *world) available() int {
	n := 0
	for _, m := range w.machines {
		if !pool.IsUpdating(m) && conditions.IsTrue(m, clusterv1.MachineAvailableCondition) {
			n++
		}
	}
	return n
}

// names returns the names of the Machines.
func (w *world) names() []string { return slices.Sorted(maps.Keys(w.machines)) }

// random runs one step of a randomly chosen actor.
func (w *world) random(t *rapid.T) {
	actors := []string{"md"}
	actors = append(actors, slices.Sorted(maps.Keys(w.sets))...)
	actors = append(actors, w.names()...)
	switch actor := rapid.SampledFrom(actors).Draw(t, "actor"); {
	case actor == "md":
		w.reconcile(t)
	case w.sets[actor] != nil:
		w.scale(w.sets[actor], func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "deleted") })
	default:
		w.work(w.machines[actor])
	}
}
