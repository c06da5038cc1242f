package gatehooks_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/gate/gatehooks"
	"github.com/windlass-dev/windlass/pkg/version"
)

const needsApproval = `needs approval: windlass approve prod -n ns --gate g --step "before workers v1.32.4"`

var (
	workers = gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: version.MustParse("v1.32.4")}
	start   = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	gateKey = types.NamespacedName{Namespace: "ns", Name: "g"}
)

// world is a management cluster with the Cluster ns/prod, and what a workload cluster says.
type world struct {
	client.Client

	engine *gatehooks.Engine
	now    time.Time
	writes int
	// conflicts is how many writes still fail as if somebody else had been faster.
	conflicts int

	mu    sync.Mutex
	asked map[string]int
	nodes func(context.Context) ([]gate.Node, error)
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[what]++
}

func (w *world) Nodes(ctx context.Context, _ types.NamespacedName) ([]gate.Node, error) {
	w.count("nodes")
	return w.nodes(ctx)
}

func (w *world) DeprecatedAPIs(context.Context, types.NamespacedName) ([]gate.API, error) {
	w.count("apis")
	return []gate.API{{Version: "v1", Resource: "old", Removed: workers.Version.Minor()}}, nil
}

func (w *world) Budgets(context.Context, types.NamespacedName) ([]gate.Budget, error) {
	w.count("budgets")
	return nil, errors.New("the API server of Cluster ns/prod serves no PodDisruptionBudgets")
}

func cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prod", UID: "u1"},
		Spec:       clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "cp"}},
	}
}

func controlPlane(path []string, conditions ...any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"})
	o.SetNamespace("ns")
	o.SetName("cp")
	if len(path) == 0 {
		return o
	}
	if err := unstructured.SetNestedSlice(o.Object, conditions, path...); err != nil {
		panic(err)
	}
	return o
}

// show makes the live objects show that a step is due, as Cluster API writes them.
func (w *world) show(t *testing.T, step gate.Step) {
	t.Helper()
	var live clusterv1.Cluster
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(cluster()), &live); err != nil {
		t.Fatal(err)
	}
	at, pending := step.Version, []string{"AfterClusterUpgrade"}
	switch step.Hook {
	case gate.BeforeClusterUpgrade:
		at, pending = version.MustParse("v1.30.1"), nil
	case gate.BeforeControlPlaneUpgrade:
		at = version.MustParse("v1.30.1")
	case gate.AfterControlPlaneUpgrade, gate.BeforeWorkersUpgrade, gate.AfterWorkersUpgrade:
		pending = append(pending, string(step.Hook))
	case gate.AfterClusterUpgrade:
	}
	live.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: strings.Join(pending, ",")}
	live.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: step.Version.String()}
	if err := w.Update(t.Context(), &live); err != nil {
		t.Fatal(err)
	}
	cp := controlPlane(nil)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(cp), cp); err != nil {
		t.Fatal(err)
	}
	cp.Object["spec"] = map[string]any{"version": at.String()}
	if err := w.Update(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
}

func newGate(edit func(*v1alpha1.UpgradeGate)) *v1alpha1.UpgradeGate {
	g := &v1alpha1.UpgradeGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"},
		Spec:       v1alpha1.UpgradeGateSpec{Steps: []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}}},
	}
	edit(g)
	return g
}

func checks(names ...v1alpha1.GateCheck) func(*v1alpha1.UpgradeGate) {
	return func(g *v1alpha1.UpgradeGate) { g.Spec.Requires.Checks = names }
}

func approval(g *v1alpha1.UpgradeGate) { g.Spec.Requires.Approval = &v1alpha1.GateApproval{} }

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{now: start, asked: map[string]int{}, nodes: func(context.Context) ([]gate.Node, error) { return []gate.Node{{Name: "n1"}}, nil }}
	kubeadm := schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{kubeadm})
	mapper.Add(kubeadm.WithKind("KubeadmControlPlane"), meta.RESTScopeNamespace)
	if !slices.ContainsFunc(objects, func(o client.Object) bool { return o.GetName() == "cp" }) {
		objects = append(objects, controlPlane(nil))
	}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, cluster())...).WithStatusSubresource(&v1alpha1.UpgradeGate{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if w.conflicts > 0 {
					w.conflicts--
					return apierrors.NewConflict(schema.GroupResource{Resource: "upgradegates"}, o.GetName(), errors.New("it has changed"))
				}
				w.writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	w.engine = gatehooks.New(gatehooks.Options{Client: w, Live: w, Mapper: mapper, Workload: w, Now: func() time.Time { return w.now }})
	return w
}

// ask asks about a step that is due.
func (w *world) ask(t *testing.T, step gate.Step) gate.Verdict {
	t.Helper()
	w.show(t, step)
	return w.askAgain(t, step)
}

func (w *world) askAgain(t *testing.T, step gate.Step) gate.Verdict {
	t.Helper()
	verdict, err := w.engine.Ask(t.Context(), cluster(), step)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

func (w *world) status(t *testing.T) v1alpha1.UpgradeGateStatus {
	t.Helper()
	var g v1alpha1.UpgradeGate
	if err := w.Get(t.Context(), gateKey, &g); err != nil {
		t.Fatal(err)
	}
	return g.Status
}

// A step waits, is recorded once, is approved while others write, goes on, and is not recorded any more.
func TestLifeOfAGate(t *testing.T) {
	w := newWorld(t, newGate(approval))
	first := w.ask(t, workers)
	if got := first.Message(workers); got != "gate g: before workers v1.32.4: "+needsApproval {
		t.Errorf("it says %q", got)
	}
	w.now = w.now.Add(time.Hour)
	if diff := cmp.Diff(first, w.ask(t, workers)); diff != "" || w.writes != 1 {
		t.Errorf("%d writes; asked again it answers (-first +then):\n%s", w.writes, diff)
	}
	if !meta.IsStatusConditionTrue(w.status(t).Conditions, v1alpha1.WaitingCondition) || !meta.IsStatusConditionTrue(w.status(t).Conditions, v1alpha1.ReadyCondition) {
		t.Errorf("the gate that holds a Cluster has the conditions %+v", w.status(t).Conditions)
	}
	waiting := w.status(t).Waiting
	want := []v1alpha1.GateWaiting{{
		Cluster: "prod", ClusterUID: "u1", At: "BeforeWorkersUpgrade", Version: "v1.32.4", Since: metav1.NewTime(start), Message: needsApproval,
	}}
	if diff := cmp.Diff(want, waiting, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	var g v1alpha1.UpgradeGate
	if err := w.Get(t.Context(), gateKey, &g); err != nil {
		t.Fatal(err)
	}
	c := gate.Cluster{Namespace: "ns", Name: "prod", UID: "u1"}
	g.Status.Approvals = gate.ComputeApproved(&g, c, workers, "jane", w.now)
	if err := w.Status().Update(t.Context(), &g); err != nil {
		t.Fatal(err)
	}
	w.conflicts = 2
	if got := w.ask(t, workers); len(got.Findings) > 0 || got.RetryAfter != 0 {
		t.Errorf("approved, and held: %+v", got)
	}
	if !meta.IsStatusConditionFalse(w.status(t).Conditions, v1alpha1.WaitingCondition) {
		t.Errorf("the gate that holds nothing any longer has the conditions %+v", w.status(t).Conditions)
	}
	if got := w.status(t); len(got.Waiting) != 0 || got.WaitingCount != 0 || len(got.Approvals) != 1 {
		t.Errorf("recorded: %+v", got)
	}
	passed := []v1alpha1.GatePassed{{
		Cluster: "prod", ClusterUID: "u1", At: "BeforeWorkersUpgrade", Version: "v1.32.4", Since: metav1.NewTime(start),
		Time: metav1.NewTime(w.now), ApprovedBy: "jane", ApprovedTime: metav1.NewTime(w.now),
	}}
	if diff := cmp.Diff(passed, w.status(t).Passed, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Errorf("recorded as passed (-want +got):\n%s", diff)
	}
	later := gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: version.MustParse("v1.33.1")}
	if got := w.ask(t, later); len(got.Findings) != 1 {
		t.Errorf("the next step needs no approval: %+v", got)
	}
	// The upgrade has gone on by another way, so that the Cluster waits elsewhere, or nowhere.
	if got := w.ask(t, gate.Step{Hook: gate.AfterClusterUpgrade, Version: later.Version}); len(got.Findings) != 0 || w.status(t).WaitingCount != 0 {
		t.Errorf("it waits at %+v, and is recorded as %+v", got, w.status(t))
	}
}

// At the end of an upgrade its approvals are dropped at all gates, also at those that are not asked about the end. While they cannot
// be, the upgrade does not end.
func TestEndOfAnUpgrade(t *testing.T) {
	g := newGate(approval)
	c := gate.Cluster{Namespace: "ns", Name: "prod", UID: "u1"}
	g.Status.Approvals = gate.ComputeApproved(g, c, workers, "jane", start)
	gone := gate.Cluster{Namespace: "ns", Name: "gone", UID: "u0"}
	g.Status.Approvals = gate.ComputeApproved(g, gone, workers, "jane", start.Add(-time.Hour))
	w := newWorld(t, g)
	after := gate.Step{Hook: gate.AfterWorkersUpgrade, Version: workers.Version}
	if w.ask(t, after); len(w.status(t).Approvals) != 1 || w.status(t).Approvals[0].Cluster != "prod" {
		t.Errorf("before the end: %+v", w.status(t).Approvals)
	}
	last := gate.Step{Hook: gate.AfterClusterUpgrade, Version: workers.Version}
	w.show(t, last)
	w.conflicts = 100
	if _, err := w.engine.Ask(t.Context(), cluster(), last); err == nil || len(w.status(t).Approvals) != 1 {
		t.Errorf("%v, and approvals %+v", err, w.status(t).Approvals)
	}
	w.conflicts = 0
	if got := w.ask(t, last); len(got.Findings) != 0 || len(w.status(t).Approvals) != 0 {
		t.Errorf("%+v, and approvals %+v", got, w.status(t).Approvals)
	}
	// A report tells who approved a step that the gate never held.
	passed := []v1alpha1.GatePassed{{
		Cluster: "prod", ClusterUID: "u1", At: "BeforeWorkersUpgrade", Version: "v1.32.4", ApprovedBy: "jane", ApprovedTime: metav1.NewTime(start),
	}}
	if diff := cmp.Diff(passed, w.status(t).Passed, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Errorf("recorded as passed (-want +got):\n%s", diff)
	}
}

func TestChecks(t *testing.T) {
	etcd := func(status string) map[string]any {
		return map[string]any{"type": "EtcdClusterHealthy", "status": status, "reason": "NotHealthy", "message": "* Machine m:\n  * member is down"}
	}
	conditions := []string{"status", "conditions"}
	for name, test := range map[string]struct {
		gate   func(*v1alpha1.UpgradeGate)
		object client.Object
		nodes  error
		want   string
		asked  map[string]int
	}{
		"nodes are ready":     {gate: checks("NodesReady"), asked: map[string]int{"nodes": 1}},
		"nodes are not known": {gate: checks("NodesReady"), nodes: errors.New("Cluster ns/prod cannot be asked"), want: "cannot check NodesReady: Cluster ns/prod cannot be asked. Fix:", asked: map[string]int{"nodes": 1}},
		"apis":                {gate: checks("NoDeprecatedAPIs"), want: "old.v1 (removed in v1.32)", asked: map[string]int{"apis": 1}},
		"budgets that are not served": {gate: checks("BudgetsCanBeSatisfied"), want: "cannot check BudgetsCanBeSatisfied: the API server of Cluster ns/prod serves no PodDisruptionBudgets. Fix: if it can never be checked here, remove the check from the gate",
			asked: map[string]int{"budgets": 1}},
		"a healthy etcd":                      {gate: checks("EtcdHealthy"), object: controlPlane(conditions, map[string]any{"type": "Available"}, etcd("True"))},
		"a healthy etcd, told as it was once": {gate: checks("EtcdHealthy"), object: controlPlane([]string{"status", "v1beta2", "conditions"}, etcd("True"))},
		"an etcd that is not":                 {gate: checks("EtcdHealthy"), object: controlPlane(conditions, etcd("False")), want: "etcd is not healthy: KubeadmControlPlane cp reports NotHealthy: * Machine m:   * member is down"},
		"an etcd that is not known":           {gate: checks("EtcdHealthy"), object: controlPlane(conditions, etcd("Unknown")), want: "etcd is not healthy: "},
		"an etcd that nobody tells of":        {gate: checks("EtcdHealthy"), object: controlPlane(conditions), want: "cannot check EtcdHealthy: KubeadmControlPlane cp has no condition EtcdClusterHealthy"},
		"nothing is looked at before the approval": {gate: func(g *v1alpha1.UpgradeGate) { approval(g); checks("NodesReady")(g) },
			want: "needs approval"},
		"a zone that is none": {gate: func(g *v1alpha1.UpgradeGate) {
			g.Spec.Requires.Windows = []v1alpha1.GateWindow{{TimeZone: "Europe/Atlantis", From: "22:00", To: "04:00"}}
		}, want: `cannot evaluate it, so it holds: spec.requires.windows[0]: timeZone: "Europe/Atlantis"`},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{newGate(test.gate)}
			if test.object != nil {
				objects = append(objects, test.object)
			}
			w := newWorld(t, objects...)
			if test.nodes != nil {
				w.nodes = func(context.Context) ([]gate.Node, error) { return nil, test.nodes }
			}
			got := w.ask(t, workers)
			if test.want == "" && len(got.Findings) > 0 || !strings.Contains(got.Message(workers), test.want) {
				t.Errorf("it says %q, want %q", got.Message(workers), test.want)
			}
			if test.asked == nil {
				test.asked = map[string]int{}
			}
			if diff := cmp.Diff(test.asked, w.asked); diff != "" {
				t.Errorf("looked at (-want +got):\n%s", diff)
			}
		})
	}
}

// A cluster that does not answer holds the step, and the answer comes before Cluster API gives up.
func TestSlowCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newGate(checks("NodesReady")))
		var running, most atomic.Int32
		w.nodes = func(ctx context.Context) ([]gate.Node, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-ctx.Done()
			return nil, errors.New("no answer in time")
		}
		var answered sync.WaitGroup
		w.show(t, workers)
		begin := time.Now()
		for range 100 {
			answered.Go(func() {
				got := w.askAgain(t, workers)
				if len(got.Findings) != 1 || got.Findings[0].Reason != gate.CheckUnknown {
					t.Errorf("got %+v", got)
				}
			})
		}
		answered.Wait()
		if took := time.Since(begin); took > 8*time.Second {
			t.Errorf("it took %s", took)
		}
		if got := most.Load(); got != 8 {
			t.Errorf("%d requests at once for one namespace, want 8", got)
		}
	})
}

// TestCallsThatAreNotDue checks that a call which the live objects do not ask for reads no workload cluster and changes no record.
func TestCallsThatAreNotDue(t *testing.T) {
	approved := func() *v1alpha1.UpgradeGate {
		g := newGate(func(g *v1alpha1.UpgradeGate) {
			g.Spec.Steps, g.Spec.Requires.Checks = []v1alpha1.GateStep{{At: "BeforeClusterUpgrade"}, {At: "BeforeWorkersUpgrade"}}, []v1alpha1.GateCheck{"NodesReady"}
		})
		approval(g)
		g.Status.Approvals = gate.ComputeApproved(g, gate.Cluster{Namespace: "ns", Name: "prod", UID: "u1"}, workers, "jane", start)
		return g
	}
	at := func(hook gate.Hook, v string) gate.Step { return gate.Step{Hook: hook, Version: version.MustParse(v)} }
	for name, test := range map[string]struct {
		request func(*clusterv1.Cluster)
		shown   gate.Step
		step    gate.Step
		why     string
	}{
		"the end, in the middle":     {shown: workers, step: at(gate.AfterClusterUpgrade, "v1.32.4"), why: "BeforeWorkersUpgrade is called first"},
		"the beginning, at the end":  {shown: at(gate.AfterClusterUpgrade, "v1.32.4"), step: at(gate.BeforeClusterUpgrade, "v1.32.4"), why: "at the target"},
		"another target":             {shown: at(gate.BeforeClusterUpgrade, "v1.32.4"), step: at(gate.BeforeClusterUpgrade, "v1.33.1"), why: "the Cluster's target is v1.32.4"},
		"a step that is passed":      {shown: at(gate.AfterWorkersUpgrade, "v1.32.4"), step: workers, why: "not record that the hook is pending"},
		"another Cluster's UID":      {request: func(c *clusterv1.Cluster) { c.UID = "u2" }, shown: workers, step: workers, why: "no Cluster has this name and UID"},
		"no UID":                     {request: func(c *clusterv1.Cluster) { c.UID = "" }, shown: workers, step: workers, why: "no Cluster has this name and UID"},
		"a Cluster that is made up":  {request: func(c *clusterv1.Cluster) { c.Name = "made-up" }, shown: workers, step: workers, why: "no Cluster has this name and UID"},
		"a hook that does not exist": {shown: at(gate.AfterClusterUpgrade, "v1.32.4"), step: at("AfterLunch", "v1.32.4"), why: "no such hook"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, approved())
			w.show(t, test.shown)
			request, before := cluster(), w.status(t)
			if test.request != nil {
				test.request(request)
			}
			verdict, err := w.engine.Ask(t.Context(), request, test.step)
			notDue, ok := errors.AsType[*gate.NotDueError](err)
			if !ok || !strings.Contains(notDue.Why, test.why) || len(verdict.Findings) > 0 {
				t.Errorf("%+v, %v, want an error that says %q", verdict, err, test.why)
			}
			if diff := cmp.Diff(before, w.status(t)); diff != "" || w.writes != 0 || len(w.asked) > 0 {
				t.Errorf("%d writes; asked of the cluster: %v; status (-before +after):\n%s", w.writes, w.asked, diff)
			}
		})
	}
}

// TestTakenOver checks that an engine which takes over gets an answer that is not recorded.
func TestTakenOver(t *testing.T) {
	w := newWorld(t, newGate(func(g *v1alpha1.UpgradeGate) { approval(g); g.Spec.Steps[0].At = "BeforeClusterUpgrade" }))
	w.show(t, gate.Step{Hook: gate.BeforeControlPlaneUpgrade, Version: workers.Version})
	got := w.askAgain(t, gate.Step{Hook: gate.BeforeClusterUpgrade, Version: workers.Version})
	if len(got.Findings) != 1 || w.writes != 0 {
		t.Errorf("%+v, %d writes", got, w.writes)
	}
}

// TestLabelsOfTheRequestDoNotCount checks that a gate selects the live Cluster.
func TestLabelsOfTheRequestDoNotCount(t *testing.T) {
	w := newWorld(t, newGate(func(g *v1alpha1.UpgradeGate) {
		approval(g)
		g.Spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "free", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}))
	w.show(t, workers)
	request := cluster()
	request.Labels = map[string]string{"free": "yes"}
	if verdict, err := w.engine.Ask(t.Context(), request, workers); err != nil || len(verdict.Findings) != 1 {
		t.Errorf("%+v, %v, want the gate to hold", verdict, err)
	}
}

// TestControlPlaneThatCannotBeRead checks that nothing goes on where it is not known how far the upgrade is.
func TestControlPlaneThatCannotBeRead(t *testing.T) {
	w := newWorld(t, newGate(approval))
	w.show(t, workers)
	if err := w.Delete(t.Context(), controlPlane(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.Ask(t.Context(), cluster(), workers); err == nil || !strings.Contains(err.Error(), "reading KubeadmControlPlane cp") {
		t.Errorf("got %v", err)
	}
}

// TestRecordingIsNoCondition checks that a status that cannot be written changes no answer.
func TestRecordingIsNoCondition(t *testing.T) {
	w := newWorld(t, newGate(approval))
	w.conflicts = 100
	if got := w.ask(t, workers); len(got.Findings) != 1 || w.writes != 0 {
		t.Errorf("%+v, %d writes", got, w.writes)
	}
}
