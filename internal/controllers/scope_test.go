package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// registered reads the guard's scope from the API server; ok is false where the guard has none.
func (w *world) registered(ctx context.Context, t require) (scope guard.Scope, writer string, ok bool) {
	t.Helper()
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	if err := w.client.Get(ctx, types.NamespacedName{Name: v1alpha1.GuardConfigurationName}, &config); err != nil {
		t.Fatalf("%v", err)
	}
	conditions := config.Webhooks[0].MatchConditions
	if len(conditions) == 0 {
		return nil, "", false
	}
	scope, writer, ok = guard.ParseExpression(conditions[0].Expression)
	if !ok {
		t.Fatalf("nobody can read %q", conditions[0].Expression)
	}
	return scope, writer, true
}

// require is what *testing.T and *rapid.T have in common.
type require interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (w *world) reconcileAll(t require, namespaces ...string) {
	t.Helper()
	for _, namespace := range namespaces {
		if _, err := w.Reconcile(context.Background(), inNamespace(namespace)); err != nil {
			t.Fatalf("reconciling namespace %q: %v", namespace, err)
		}
	}
}

// elsewhere moves an object to another namespace.
func elsewhere[T client.Object](object T) T {
	object.SetNamespace("elsewhere")
	return object
}

func TestScopeIsWhatPoliciesKeep(t *testing.T) {
	t.Parallel()
	replace := func(p *v1alpha1.UpdatePolicy) *v1alpha1.UpdatePolicy {
		p.Spec.Fallback = v1alpha1.FallbackRollingUpdate
		return p
	}
	inCluster := v1alpha1.UpdateTarget{ClusterName: "prod"}
	big := v1alpha1.UpdateTarget{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"hardware": "big"}}}
	for name, tt := range map[string]struct {
		policies []client.Object
		want     guard.Scope
	}{
		"none":               {want: guard.Scope{}},
		"all of a namespace": {policies: []client.Object{newPolicy("a", v1alpha1.UpdateTarget{})}, want: guard.Scope{"ns"}},
		"all of a cluster":   {policies: []client.Object{newPolicy("a", inCluster)}, want: guard.Scope{"ns/prod"}},
		"all of a cluster that does not exist": {
			policies: []client.Object{newPolicy("a", v1alpha1.UpdateTarget{ClusterName: "later"}, inCluster)}, want: guard.Scope{"ns/prod"},
		},
		"by labels":             {policies: []client.Object{newPolicy("a", big)}, want: guard.Scope{"ns/prod/cp"}},
		"by name":               {policies: []client.Object{newPolicy("a", v1alpha1.UpdateTarget{MachineDeployments: []v1alpha1.MachineDeploymentName{"md-0"}})}, want: guard.Scope{"ns/dev/md/dev-md-0-x7k2p", "ns/prod/md/prod-md-0-x7k2p"}},
		"no machines are kept":  {policies: []client.Object{replace(newPolicy("a", v1alpha1.UpdateTarget{}))}, want: guard.Scope{}},
		"but for one":           {policies: []client.Object{newPolicy("a", v1alpha1.UpdateTarget{}), replace(newPolicy("b", inCluster))}, want: guard.Scope{"ns/dev/cp", "ns/dev/md/dev-md-0-x7k2p"}},
		"two in conflict":       {policies: []client.Object{newPolicy("a", inCluster), newPolicy("b", inCluster)}, want: guard.Scope{"ns/prod"}},
		"in conflict, not kept": {policies: []client.Object{replace(newPolicy("a", inCluster)), replace(newPolicy("b", inCluster))}, want: guard.Scope{}},
		"a conflict that may keep": {policies: []client.Object{replace(newPolicy("a", inCluster)), newPolicy("b", inCluster)},
			want: guard.Scope{"ns/prod/cp", "ns/prod/md/prod-md-0-x7k2p"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(tt.policies, newGuard(), newCluster("prod", "KubeadmControlPlane"), newControlPlane("prod", 3),
				newDeployment("prod", "md-0"), newCluster("dev", "OtherControlPlane"), newDeployment("dev", "md-0"))...)
			w.reconcileAll(t, "", "ns")
			got, _, ok := w.registered(t.Context(), t)
			if diff := cmp.Diff(tt.want, got); diff != "" || !ok {
				t.Errorf("known %t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// Without a scope the guard is asked about all Machines. The first scope must not take that from a namespace whose status relies
// on it, whichever is reconciled first.
func TestFirstScope(t *testing.T) {
	t.Parallel()
	was := elsewhere(newPolicy("was", v1alpha1.UpdateTarget{}))
	was.Spec.Strategy = v1alpha1.RollingUpdate
	was.Status.Conditions = []metav1.Condition{conditionOf("Guarding", "True", "GuardInstalled", "")}
	w := newWorld(t, newGuard(), was, newPolicy("a", v1alpha1.UpdateTarget{ControlPlane: true}), newCluster("prod", "KubeadmControlPlane"))
	w.reconcileAll(t, "")
	if got, _, _ := w.registered(t.Context(), t); !cmp.Equal(guard.Scope{"elsewhere", "ns"}, got) {
		t.Errorf("the first scope is %v", got)
	}
	w.reconcileAll(t, "ns", "elsewhere")
	if got, _, _ := w.registered(t.Context(), t); !cmp.Equal(guard.Scope{"ns/prod/cp"}, got) {
		t.Errorf("the scope then is %v", got)
	}
}

// A scope that somebody else wrote has no known meaning, so it is replaced; so is none.
func TestForeignScope(t *testing.T) {
	t.Parallel()
	for _, conditions := range [][]admissionregistrationv1.MatchCondition{nil, {{Name: v1alpha1.GuardScopeCondition, Expression: "false"}}} {
		w := newWorld(t, newGuard(), newPolicy("a", v1alpha1.UpdateTarget{}), newCluster("prod", "KubeadmControlPlane"))
		w.reconcileAll(t, "ns")
		var config admissionregistrationv1.ValidatingWebhookConfiguration
		if err := w.client.Get(t.Context(), types.NamespacedName{Name: v1alpha1.GuardConfigurationName}, &config); err != nil {
			t.Fatal(err)
		}
		config.Webhooks[0].MatchConditions = conditions
		if err := w.client.Update(t.Context(), &config); err != nil {
			t.Fatal(err)
		}
		w.reconcileAll(t, "ns")
		if got, _, ok := w.registered(t.Context(), t); !ok || !cmp.Equal(guard.Scope{"ns"}, got) {
			t.Errorf("%v became %v, %t", conditions, got, ok)
		}
	}
}

// A paused leader wakes up right before a write of the scope, after its successor has reported that a new policy guards.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	for pausedAt := 1; ; pausedAt++ {
		w := newWorld(t, newGuard(), newPolicy("a", v1alpha1.UpdateTarget{}), newCluster("prod", "KubeadmControlPlane"))
		successor := &UpdatePolicyReconciler{Client: w.client, Live: w.client, Mapper: w.Mapper, Now: w.Now, Process: "two"}
		w.reconcileAll(t, "ns")
		if err := w.client.Delete(t.Context(), newPolicy("a")); err != nil {
			t.Fatal(err)
		}
		writes := 0
		w.Client = interceptor.NewClient(fakeWatch(t, w.client), interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if writes++; writes == pausedAt {
					if err := w.client.Create(ctx, newPolicy("a", v1alpha1.UpdateTarget{})); err != nil {
						t.Fatal(err)
					}
					if _, err := successor.Reconcile(ctx, inNamespace("ns")); err != nil {
						t.Fatal(err)
					}
				}
				return c.Apply(ctx, object, opts...)
			},
		})
		if _, err := w.Reconcile(t.Context(), inNamespace("ns")); err != nil {
			t.Fatal(err)
		}
		if writes < pausedAt {
			if pausedAt == 1 {
				t.Fatal("the scope was never written")
			}
			return
		}
		checkPromise(t.Context(), t, w, "ns")
	}
}

// checkPromise fails where a policy reports that it guards, and the API server would not ask the guard about one of its groups.
func checkPromise(ctx context.Context, t require, w *world, namespaces ...string) {
	t.Helper()
	scope, _, known := w.registered(ctx, t)
	for _, namespace := range namespaces {
		var policies v1alpha1.UpdatePolicyList
		if err := w.client.List(ctx, &policies, client.InNamespace(namespace)); err != nil {
			t.Fatalf("%v", err)
		}
		groups, err := w.readGroups(ctx, namespace)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for i := range policies.Items {
			p := &policies.Items[i]
			if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.GuardingCondition) {
				continue
			}
			for _, g := range groups {
				if slices.Contains(p.Status.Groups, g.Group.String()) && known && !(updatepolicy.Guard{Scopes: []guard.Scope{scope}}).Covers(g.Group) {
					t.Fatalf("UpdatePolicy %s/%s reports that it guards the %s; the guard is asked about %v", namespace, p.Name, g.Group, scope)
				}
			}
		}
	}
}

// Policies come, go and change in two namespaces while the scope is written, and so does a Cluster:
// at no moment does a status promise what the scope does not keep, and at rest the scope is exactly
// what policies keep. Every write of the Reconciler is a moment.
func TestScopeInRaces(t *testing.T) {
	t.Parallel()
	// A new API server for each run would take most of the time.
	shared := newWorld(t, newGuard(), newCluster("prod", "KubeadmControlPlane"), newDeployment("prod", "md-0"),
		elsewhere(newCluster("prod", "KubeadmControlPlane")), elsewhere(newDeployment("prod", "md-0")))
	rapid.Check(t, func(rt *rapid.T) {
		w := shared.again(rt)
		namespaces := []string{"ns", "elsewhere"}
		now, passes := time.Unix(1000, 0), rapid.SampledFrom([]time.Duration{0, 30 * time.Second, time.Minute})
		w.Now, w.NarrowEvery = func() time.Time { return now }, rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(rt, "narrows every")
		between := func() {
			now = now.Add(passes.Draw(rt, "passes"))
			for range rapid.IntRange(0, 2).Draw(rt, "changes") {
				w.change(rt, rapid.SampledFrom(namespaces).Draw(rt, "namespace"), rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "policy"))
			}
			checkPromise(t.Context(), rt, w, namespaces...)
		}
		w.Client = interceptor.NewClient(fakeWatch(t, w.client), interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				between()
				err := c.Apply(ctx, object, opts...)
				checkPromise(ctx, rt, w, namespaces...)
				return err
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				between()
				err := c.SubResource(sub).Patch(ctx, object, patch, opts...)
				checkPromise(ctx, rt, w, namespaces...)
				return err
			},
		})
		for range 4 {
			between()
			w.reconcileAll(rt, rapid.SampledFrom([]string{"ns", "elsewhere", ""}).Draw(rt, "reconciled"))
		}
		w.Client = w.client
		// A write that met a newer object is repeated later.
		w.reconcileAll(rt, "ns", "elsewhere", "ns", "elsewhere", "")
		now = now.Add(time.Minute)
		w.reconcileAll(rt, "ns", "elsewhere")
		w.checkExact(rt, namespaces)
	})
}

// again returns the world without policies, with a guard that has no scope and a new Reconciler.
func (w *world) again(t require) *world {
	t.Helper()
	ctx := context.Background()
	for _, namespace := range []string{"ns", "elsewhere"} {
		late := newCluster("late", "KubeadmControlPlane")
		late.Namespace = namespace
		if err := errors.Join(w.client.DeleteAllOf(ctx, &v1alpha1.UpdatePolicy{}, client.InNamespace(namespace)),
			client.IgnoreNotFound(w.client.Delete(ctx, late))); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if err := w.client.Delete(ctx, newGuard()); err != nil {
		t.Fatalf("%v", err)
	}
	if err := w.client.Create(ctx, newGuard()); err != nil {
		t.Fatalf("%v", err)
	}
	return &world{client: w.client, UpdatePolicyReconciler: &UpdatePolicyReconciler{Client: w.client, Live: w.client, Mapper: w.Mapper, Now: w.Now, Process: "one"}}
}

// change creates, changes or deletes a policy, or creates a Cluster.
func (w *world) change(t *rapid.T, namespace, name string) {
	ctx := context.Background()
	if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
		late := newCluster("late", "KubeadmControlPlane")
		late.Namespace = namespace
		if err := client.IgnoreAlreadyExists(w.client.Create(ctx, late)); err != nil {
			t.Fatalf("%v", err)
		}
		return
	}
	p := newPolicy(name, rapid.SampledFrom([]v1alpha1.UpdateTarget{
		{}, {ControlPlane: true}, {ClusterName: "prod"}, {ClusterName: "late"},
	}).Draw(t, "target"))
	p.Namespace, p.UID = namespace, types.UID(fmt.Sprint(rapid.Int().Draw(t, "uid")))
	p.Generation = rapid.Int64Range(1, 100).Draw(t, "generation")
	if rapid.Bool().Draw(t, "replaces") {
		p.Spec.Fallback = v1alpha1.FallbackRollingUpdate
	}
	var known v1alpha1.UpdatePolicy
	err := w.client.Get(ctx, client.ObjectKeyFromObject(p), &known)
	switch {
	case apierrors.IsNotFound(err):
		err = w.client.Create(ctx, p)
	case err == nil && rapid.Bool().Draw(t, "delete"):
		err = w.client.Delete(ctx, &known)
	case err == nil:
		// A status is about the spec that it was computed from, so an edit alone makes no promise.
		known.Spec, known.Generation = p.Spec, known.Generation+1
		err = w.client.Update(ctx, &known)
	}
	if err != nil {
		t.Fatalf("changing UpdatePolicy %s: %v", name, err)
	}
}

func (w *world) checkExact(t require, namespaces []string) {
	t.Helper()
	var want []string
	for _, namespace := range namespaces {
		var policies v1alpha1.UpdatePolicyList
		if err := w.client.List(context.Background(), &policies, client.InNamespace(namespace)); err != nil {
			t.Fatalf("%v", err)
		}
		groups, err := w.readGroups(context.Background(), namespace)
		if err != nil {
			t.Fatalf("%v", err)
		}
		selection, err := updatepolicy.SelectAll(policy.CompileAll(policies.Items), groups, func() error { return nil })
		if err != nil {
			t.Fatalf("%v", err)
		}
		want = append(want, selection.Kept()...)
	}
	if got, _, _ := w.registered(context.Background(), t); !cmp.Equal(guard.NewScope(want...), got) {
		t.Fatalf("at rest the scope is %v, policies keep %v", got, want)
	}
}

// A namespace with more detail than it may have is guarded as a whole. Others keep theirs.
func TestScopeThatIsTooLong(t *testing.T) {
	t.Parallel()
	objects := []client.Object{newGuard(), newCluster("prod", "OtherControlPlane")}
	labels := map[string]string{"pool": "x"}
	for i := range 1500 {
		md := newDeployment("prod", fmt.Sprintf("a-pool-with-a-name-that-is-rather-long-and-a-number-%04d", i))
		md.Labels = maps.Clone(md.Labels)
		maps.Copy(md.Labels, labels)
		objects = append(objects, md)
	}
	w := newWorld(t, append(objects, newPolicy("a", v1alpha1.UpdateTarget{Selector: &metav1.LabelSelector{MatchLabels: labels}}),
		elsewhere(newPolicy("b", v1alpha1.UpdateTarget{ControlPlane: true})), elsewhere(newCluster("prod", "OtherControlPlane")))...)
	w.reconcileAll(t, "elsewhere", "ns", "ns", "elsewhere")
	if got, _, _ := w.registered(t.Context(), t); !cmp.Equal(guard.Scope{"elsewhere/prod/cp", "ns"}, got) {
		t.Errorf("%d entries", len(got))
	}
	if got := meta.FindStatusCondition(w.status(t, "a").Conditions, v1alpha1.GuardingCondition); got.Status != metav1.ConditionTrue {
		t.Errorf("Guarding is %+v", got)
	}
}

// A namespace with more comparisons than are made is guarded as a whole, and its policies report it.
// With fewer policies each group is compared, and the guard covers what policies keep.
func TestScopeOfTooManyComparisons(t *testing.T) {
	t.Parallel()
	// Each label is a term. No group has them.
	const policies, labels, targets, groups = 10, v1alpha1.MaxSelectorTerms, 16, 1000
	target := v1alpha1.UpdateTarget{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{}}}
	for i := range labels {
		target.Selector.MatchLabels[fmt.Sprintf("label-%d", i)] = "x"
	}
	objects := []client.Object{newGuard(), newCluster("prod", "OtherControlPlane")}
	var large []client.Object
	for i := range policies {
		large = append(large, newPolicy(fmt.Sprint("large-", i), slices.Repeat([]v1alpha1.UpdateTarget{target}, targets)...))
	}
	objects = append(objects, large...)
	objects = append(objects, newPolicy("a", v1alpha1.UpdateTarget{ControlPlane: true}))
	for i := range groups {
		objects = append(objects, newDeployment("prod", fmt.Sprint("md-", i)))
	}
	w := newWorld(t, objects...)
	check := func(want guard.Scope, ready, guarding string, status metav1.ConditionStatus) {
		t.Helper()
		w.reconcileAll(t, "ns", "ns")
		if got, _, _ := w.registered(t.Context(), t); !cmp.Equal(want, got) {
			t.Errorf("the scope is %v, want %v", got, want)
		}
		conditions := w.status(t, "a").Conditions
		if got := meta.FindStatusCondition(conditions, v1alpha1.ReadyCondition); got.Reason != ready {
			t.Errorf("Ready is %+v, want %s", got, ready)
		}
		if got := meta.FindStatusCondition(conditions, v1alpha1.GuardingCondition); got.Reason != guarding || got.Status != status {
			t.Errorf("Guarding is %+v, want %s", got, guarding)
		}
	}
	check(guard.Scope{"ns"}, v1alpha1.UpdatePolicyTooManyReason, v1alpha1.UpdatePolicyTooManyReason, metav1.ConditionUnknown)
	for _, p := range large {
		if err := w.client.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	check(guard.Scope{"ns/prod/cp"}, v1alpha1.UpdatePolicyValidReason, v1alpha1.GuardInstalledReason, metav1.ConditionTrue)
}

// Where the scope cannot be written, the status says that the guard does not cover the groups, and the error is returned.
func TestScopeThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newGuard(), newCluster("prod", "KubeadmControlPlane"))
	w.reconcileAll(t, "")
	if err := w.client.Create(t.Context(), newPolicy("a", v1alpha1.UpdateTarget{})); err != nil {
		t.Fatal(err)
	}
	forbidden := apierrors.NewForbidden(admissionregistrationv1.Resource("validatingwebhookconfigurations"), "windlass-guard", errors.New("no rule"))
	w.Client = interceptor.NewClient(fakeWatch(t, w.client), interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return forbidden
		},
	})
	if _, err := w.Reconcile(t.Context(), inNamespace("ns")); !apierrors.IsForbidden(err) {
		t.Errorf("Reconcile = %v", err)
	}
	got := meta.FindStatusCondition(w.status(t, "a").Conditions, v1alpha1.GuardingCondition)
	if got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.GuardNotCoveringReason {
		t.Errorf("Guarding is %+v", got)
	}
}

// API servers learn of a wider scope, and of a new configuration, by a watch. Until then no status relies on it; a scope that only became
// narrower needs no wait.
func TestPropagation(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*world){
		"wider": func(w *world) {
			w.reconcileAll(t, "")
			delete(w.scope.widened, noNamespace)
		},
		"new configuration":                          func(*world) {},
		"new configuration, scope written before it": func(w *world) { w.reconcileAll(t, "") },
		"scope that a predecessor has just written": func(w *world) {
			if err := w.client.Create(t.Context(), newPolicy("a", v1alpha1.UpdateTarget{})); err != nil {
				t.Fatal(err)
			}
			predecessor := &UpdatePolicyReconciler{
				Client: w.client, Live: w.client, Mapper: w.Mapper, Now: w.Now, Process: "zero", Propagation: time.Second,
			}
			if _, err := predecessor.Reconcile(t.Context(), inNamespace("ns")); err != nil {
				t.Fatal(err)
			}
			if scope, _, _ := w.registered(t.Context(), t); !cmp.Equal(guard.Scope{"ns"}, scope) {
				t.Fatalf("the predecessor wrote %v", scope)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testPropagation(t, prepare)
		})
	}
}

func testPropagation(t *testing.T, prepare func(*world)) {
	t.Helper()
	w := newWorld(t, newGuard(), newCluster("prod", "KubeadmControlPlane"))
	now := time.Unix(1000, 0)
	w.Now, w.Propagation = func() time.Time { return now }, time.Second
	prepare(w)
	err := w.client.Create(t.Context(), newPolicy("a", v1alpha1.UpdateTarget{}))
	if client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after, want time.Duration
		reported    bool
	}{{0, time.Second, false}, {900 * time.Millisecond, 100 * time.Millisecond, false}, {100 * time.Millisecond, time.Hour, true}, {0, time.Hour, true}} {
		now = now.Add(step.after)
		result, err := w.Reconcile(t.Context(), inNamespace("ns"))
		if err != nil || result.RequeueAfter != step.want {
			t.Errorf("at %s: Reconcile = %+v, %v, want %s", now, result, err, step.want)
		}
		if reported := len(w.status(t, "a").Conditions) > 0; reported != step.reported {
			t.Errorf("at %s: the status is written: %t", now, reported)
		}
	}
}
