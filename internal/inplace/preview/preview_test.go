package preview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// fakeUpdater answers with merge patches, and remembers what it was asked about.
type fakeUpdater struct {
	port.Updater
	// covers says whether it sets the version that is desired.
	covers bool
	err    error
	asked  []string
	// warnings are those about what it covers.
	warnings []string
	// seen are the infrastructure objects that it was shown.
	seen []string
}

func (f *fakeUpdater) CanUpdateMachine(_ context.Context, r *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error) {
	f.note("Machine", r.Current.Machine.Name, r.Current.Machine.Spec.Version, r.Desired.Machine.Spec.Version, r.Current.InfrastructureMachine.Raw)
	return f.answer(fmt.Sprintf(`{"spec":{"version":%q}}`, r.Desired.Machine.Spec.Version))
}

func (f *fakeUpdater) CanUpdateMachineSet(_ context.Context, r *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error) {
	f.note("MachineSet", r.Current.MachineSet.Name, r.Current.MachineSet.Spec.Template.Spec.Version, r.Desired.MachineSet.Spec.Template.Spec.Version, r.Current.InfrastructureMachineTemplate.Raw)
	return f.answer(fmt.Sprintf(`{"spec":{"template":{"spec":{"version":%q}}}}`, r.Desired.MachineSet.Spec.Template.Spec.Version))
}

func (f *fakeUpdater) note(kind, name, from, to string, infrastructure []byte) {
	f.asked = append(f.asked, fmt.Sprintf("%s %s %s -> %s", kind, name, from, to))
	f.seen = append(f.seen, string(infrastructure))
}

func (f *fakeUpdater) answer(patch string) (cover.Patches, error) {
	if f.err != nil || !f.covers {
		return cover.Patches{}, f.err
	}
	return cover.Patches{
		Machine: cover.Patch{Type: cover.JSONMergePatch, Data: []byte(patch)}, Warnings: f.warnings,
	}, nil
}

type declined struct{}

func (declined) Error() string  { return "declines: too busy" }
func (declined) Declined() bool { return true }

func updater(name string, maxMinors int32) v1alpha1.Updater {
	return v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{Channel: "{minor}-classic/stable"}}, Transitions: v1alpha1.Transitions{MaxMinors: maxMinors}},
	}
}

func newPolicy(name string, strategy v1alpha1.UpdateStrategy, fallback v1alpha1.UpdateFallback) v1alpha1.UpdatePolicy {
	return v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team-a"},
		Spec:       v1alpha1.UpdatePolicySpec{Strategy: strategy, Fallback: fallback, Targets: []v1alpha1.UpdateTarget{{ClusterName: "prod"}}},
	}
}

func steps(texts ...string) []Step {
	var list []Step
	for i := 1; i < len(texts); i++ {
		list = append(list, Step{From: version.MustParse(texts[i-1]), To: version.MustParse(texts[i])})
	}
	return list
}

func workers(versions ...string) Group {
	return Group{
		UpdateGroup: snapshot.UpdateGroup{
			Group: policy.Group{Namespace: "team-a", Cluster: "prod", Topology: "md-0", Object: "prod-md-0"}, Name: "md-0",
			MachineLabels: map[string]string{"pool": "md-0"},
		},
		Steps: steps(versions...),
	}
}

func controlPlane(versions ...string) Group {
	return Group{
		UpdateGroup: snapshot.UpdateGroup{Group: policy.Group{Namespace: "team-a", Cluster: "prod", ControlPlane: true, Object: "prod-cp"}},
		Steps:       steps(versions...),
	}
}

func TestPreview(t *testing.T) {
	inPlace, fallback := newPolicy("all", v1alpha1.ExternalUpdate, v1alpha1.FallbackNone), newPolicy("all", v1alpha1.ExternalUpdate, v1alpha1.FallbackRollingUpdate)
	field := cover.Pointer{Part: cover.PartMachine, Path: "/spec/template/spec/version"}
	for _, test := range []struct {
		name     string
		group    Group
		policies []v1alpha1.UpdatePolicy
		// updaters are by name; a nil one cannot be opened.
		updaters map[string]*fakeUpdater
		specs    []v1alpha1.Updater
		want     cover.Update
	}{
		{name: "no policy", group: workers("v1.31.2", "v1.32.1"), want: cover.Update{Outcome: cover.Replace, Message: "replaced: no UpdatePolicy selects it"}},
		{name: "replaced on purpose", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{newPolicy("all", v1alpha1.RollingUpdate, "")},
			want: cover.Update{Outcome: cover.Replace, Policy: "all", Message: `replaced: as UpdatePolicy "all" says`}},
		{name: "conflict", group: controlPlane("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{inPlace, newPolicy("too", v1alpha1.RollingUpdate, "")},
			want: cover.Update{Outcome: cover.Blocked, Message: `blocked: UpdatePolicies "all", "too" select the control plane of team-a/prod with the same precision (by name of the cluster); let only one of them select it, or let one name it more precisely`}},
		{name: "in place", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{inPlace},
			specs: []v1alpha1.Updater{updater("kubeadm", 1)}, updaters: map[string]*fakeUpdater{"kubeadm": {covers: true}},
			want: cover.Update{Outcome: cover.InPlace, Policy: "all", Updaters: []string{"kubeadm"}, Message: "in place by kubeadm"}},
		{name: "a control plane, in several steps", group: controlPlane("v1.30.0", "v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{fallback},
			specs: []v1alpha1.Updater{updater("a-nothing", 0), updater("kubeadm", 1)}, updaters: map[string]*fakeUpdater{"a-nothing": {}, "kubeadm": {covers: true}},
			want: cover.Update{Outcome: cover.InPlace, Policy: "all", Updaters: []string{"kubeadm"}, Message: "in place by kubeadm"}},
		{name: "with a warning, in several steps", group: workers("v1.30.0", "v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{inPlace},
			specs: []v1alpha1.Updater{updater("kubeadm", 1)}, updaters: map[string]*fakeUpdater{"kubeadm": {covers: true, warnings: []string{"nobody knows. Fix: look"}}},
			want: cover.Update{Outcome: cover.InPlace, Policy: "all", Updaters: []string{"kubeadm"}, Message: "in place by kubeadm; nobody knows. Fix: look"}},
		{name: "what KubeadmControlPlane changes with a version", group: func() Group {
			g := controlPlane("v1.29.0", "v1.30.0", "v1.31.2", "v1.32.1", "v1.33.0", "v1.34.0", "v1.35.2", "v1.36.0")
			g.Kubeadm = true
			return g
		}(),
			policies: []v1alpha1.UpdatePolicy{inPlace}, specs: []v1alpha1.Updater{updater("kubeadm", 1)}, updaters: map[string]*fakeUpdater{"kubeadm": {covers: true}},
			want: cover.Update{Outcome: cover.InPlace, Policy: "all", Updaters: []string{"kubeadm"}, Message: "in place by kubeadm"}},
		{name: "and does not with others", group: func() Group {
			g := controlPlane("v1.31.2", "v1.32.0", "v1.33.0", "v1.34.0")
			g.Kubeadm = true
			return g
		}(),
			policies: []v1alpha1.UpdatePolicy{inPlace}, specs: []v1alpha1.Updater{updater("kubeadm", 1)}, updaters: map[string]*fakeUpdater{"kubeadm": {covers: true}},
			want: cover.Update{Outcome: cover.InPlace, Policy: "all", Updaters: []string{"kubeadm"}, Message: "in place by kubeadm"}},
		{name: "nothing to do", group: workers("v1.32.1"), policies: []v1alpha1.UpdatePolicy{inPlace},
			want: cover.Update{Outcome: cover.InPlace, Policy: "all", Message: "in place: nothing to do in this plan"}},
		{name: "not covered, replaced", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{fallback},
			specs: []v1alpha1.Updater{updater("os", 0)}, updaters: map[string]*fakeUpdater{"os": {}},
			want: cover.Update{Outcome: cover.Replace, Policy: "all", Uncovered: []cover.Pointer{field}, Message: "replace: not covered: MachineSet /spec/template/spec/version"}},
		{name: "no updaters, blocked", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{inPlace},
			want: cover.Update{Outcome: cover.Blocked, Policy: "all", Uncovered: []cover.Pointer{field}, Message: "blocked: no Updater is registered"}},
		{name: "no updaters, replaced", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{fallback},
			want: cover.Update{Outcome: cover.Replace, Policy: "all", Uncovered: []cover.Pointer{field}, Message: "replace: no Updater is registered"}},
		{name: "updaters of others", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{inPlace},
			specs: []v1alpha1.Updater{func() v1alpha1.Updater {
				u := updater("other", 0)
				u.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "other"}}
				return u
			}()},
			want: cover.Update{Outcome: cover.Blocked, Policy: "all", Uncovered: []cover.Pointer{field}, Message: "blocked: no Updater is for its machines"}},
		{name: "only from elsewhere", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{inPlace},
			specs: []v1alpha1.Updater{updater("kubeadm", 0)}, updaters: map[string]*fakeUpdater{"kubeadm": {err: fmt.Errorf("asking: %w", &ElsewhereError{Reason: "it is a Service"})}},
			want: cover.Update{Outcome: cover.Unknown, Policy: "all", Message: `unknown: updater "kubeadm" cannot be asked from this machine: it is a Service`}},
		{name: "more may change than the version", group: func() Group { g := workers("v1.31.2", "v1.32.1"); g.More = "a patch"; return g }(), policies: []v1alpha1.UpdatePolicy{inPlace},
			specs: []v1alpha1.Updater{updater("kubeadm", 1)}, updaters: map[string]*fakeUpdater{"kubeadm": {covers: true}},
			want: cover.Update{Outcome: cover.Unknown, Policy: "all", Updaters: []string{"kubeadm"}, Message: "version: in place by kubeadm; other changes not known: a patch"}},
		{name: "more may change, in no step", group: func() Group { g := workers("v1.32.1"); g.More = "a patch"; return g }(), policies: []v1alpha1.UpdatePolicy{inPlace},
			want: cover.Update{Outcome: cover.InPlace, Policy: "all", Message: "in place: nothing to do in this plan"}},
		{name: "a step too far", group: workers("v1.30.0", "v1.31.2", "v1.33.0"), policies: []v1alpha1.UpdatePolicy{inPlace},
			specs: []v1alpha1.Updater{updater("kubeadm", 1)}, updaters: map[string]*fakeUpdater{"kubeadm": {covers: true}},
			want: cover.Update{Outcome: cover.Blocked, Policy: "all", Uncovered: []cover.Pointer{field}, Message: "blocked: not covered: MachineSet /spec/template/spec/version; " +
				`updater "kubeadm": Machine /spec/template/spec/version: it moves a kubelet at most 1 minor at once; from v1.31.2 to v1.33.0 are 2 (v1.31.2 -> v1.33.0)`}},
		{name: "declined", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{fallback},
			specs: []v1alpha1.Updater{updater("handover", 0)}, updaters: map[string]*fakeUpdater{"handover": {err: declined{}}},
			want: cover.Update{Outcome: cover.Replace, Policy: "all", Uncovered: []cover.Pointer{field},
				Message: `replace: not covered: MachineSet /spec/template/spec/version; updater "handover": covers nothing: declines: too busy`}},
		{name: "cannot be opened", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{fallback},
			specs: []v1alpha1.Updater{updater("far", 0), updater("kubeadm", 0)}, updaters: map[string]*fakeUpdater{"far": nil, "kubeadm": {covers: true}},
			want: cover.Update{Outcome: cover.Unknown, Policy: "all", Message: `unknown: updater "far" cannot be asked: only from inside`}},
		{name: "does not answer", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{inPlace},
			specs: []v1alpha1.Updater{updater("kubeadm", 0)}, updaters: map[string]*fakeUpdater{"kubeadm": {err: context.DeadlineExceeded}},
			want: cover.Update{Outcome: cover.Unknown, Policy: "all", Message: `unknown: updater "kubeadm" cannot be asked: context deadline exceeded`}},
		{name: "an Updater that cannot be used", group: workers("v1.31.2", "v1.32.1"), policies: []v1alpha1.UpdatePolicy{inPlace},
			specs: []v1alpha1.Updater{{ObjectMeta: metav1.ObjectMeta{Name: "none"}}},
			want:  cover.Update{Outcome: cover.Blocked, Policy: "all", Message: `blocked: Updater "none" cannot be used: spec: Required value: set exactly one of inProcess and remote`}},
		{name: "Cluster API would not ask, blocked", group: func() Group { g := workers("v1.31.2", "v1.32.1"); g.Obstacle = "maxSurge is 1"; return g }(),
			policies: []v1alpha1.UpdatePolicy{inPlace}, want: cover.Update{Outcome: cover.Blocked, Policy: "all", Message: "blocked: maxSurge is 1"}},
		{name: "it cannot be told whether Cluster API asks", group: func() Group { g := workers("v1.31.2", "v1.32.1"); g.Doubt = "maxSurge cannot be told"; return g }(),
			policies: []v1alpha1.UpdatePolicy{inPlace}, specs: []v1alpha1.Updater{updater("kubeadm", 1)}, updaters: map[string]*fakeUpdater{"kubeadm": {covers: true}},
			want: cover.Update{Outcome: cover.Unknown, Policy: "all", Updaters: []string{"kubeadm"}, Message: "unknown: in place by kubeadm, but maxSurge cannot be told"}},
		{name: "Cluster API would not ask, replaced", group: func() Group { g := workers("v1.31.2", "v1.32.1"); g.Obstacle = "maxSurge is 1"; return g }(),
			policies: []v1alpha1.UpdatePolicy{fallback}, want: cover.Update{Outcome: cover.Replace, Policy: "all", Message: "replaced: maxSurge is 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Request{
				Groups: []Group{test.group}, Policies: test.policies, Updaters: test.specs,
				Ask: func(_ context.Context, u v1alpha1.Updater) (port.Updater, error) {
					if f := test.updaters[u.Name]; f != nil {
						return f, nil
					}
					return nil, errors.New("only from inside")
				},
			}
			if diff := cmp.Diff([]cover.Update{test.want}, Preview(t.Context(), r)); diff != "" {
				t.Errorf("Preview (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuestions checks what updaters are asked about: each step, with the objects that there are.
func TestQuestions(t *testing.T) {
	fake := &fakeUpdater{covers: true}
	live := workers("v1.30.0", "v1.31.2", "v1.32.1")
	live.MachineDeployment = &clusterv1.MachineDeployment{}
	live.MachineDeployment.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachineTemplate", Name: "t"}
	cp := controlPlane("v1.30.0", "v1.31.2")
	cp.Machine = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Namespace: "team-a"}}
	r := Request{
		Groups: []Group{cp, workers("v1.30.0", "v1.31.2"), live}, Policies: []v1alpha1.UpdatePolicy{newPolicy("all", v1alpha1.ExternalUpdate, "")},
		Updaters: []v1alpha1.Updater{updater("kubeadm", 0)},
		Ask:      func(context.Context, v1alpha1.Updater) (port.Updater, error) { return fake, nil },
		Fetch: func(_ context.Context, ref clusterv1.ContractVersionedObjectReference) (map[string]any, error) {
			return map[string]any{"kind": ref.Kind, "status": "left out", "spec": map[string]any{"template": map[string]any{"spec": map[string]any{"image": "x"}}}}, nil
		},
	}
	Preview(t.Context(), r)
	want := []string{
		"Machine cp-1 v1.30.0 -> v1.31.2", "MachineSet prod-md-0 v1.30.0 -> v1.31.2",
		"MachineSet prod-md-0 v1.30.0 -> v1.31.2", "MachineSet prod-md-0 v1.31.2 -> v1.32.1",
	}
	if diff := cmp.Diff(want, fake.asked); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	for i, seen := range fake.seen {
		if !json.Valid([]byte(seen)) || strings.Contains(seen, "left out") || strings.Contains(seen, `"image":"x"`) != (i >= 2) {
			t.Errorf("question %d shows the infrastructure object %s", i, seen)
		}
	}
	r.Fetch = func(context.Context, clusterv1.ContractVersionedObjectReference) (map[string]any, error) {
		return nil, errors.New("not found")
	}
	if got := Preview(t.Context(), r)[2]; got.Outcome != cover.Unknown || !strings.Contains(got.Message, "reading DevMachineTemplate t") {
		t.Errorf("a template that cannot be read gives %+v", got)
	}
}

// TestLocalMode checks what KubeadmControlPlane makes of a KubeadmConfig.
func TestLocalMode(t *testing.T) {
	config := func(gates string) map[string]any {
		var object map[string]any
		if err := json.Unmarshal([]byte(`{"spec":{"clusterConfiguration":`+gates+`}}`), &object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	for _, test := range []struct {
		name, before, minor, after string
	}{
		{"too old", `{}`, "v1.30", `{}`},
		{"the user's own stays to the end", `{"featureGates":{"ControlPlaneKubeletLocalMode":false}}`, "v1.36", `{"featureGates":{"ControlPlaneKubeletLocalMode":false}}`},
		{"set", `{}`, "v1.31", `{"featureGates":{"ControlPlaneKubeletLocalMode":true}}`},
		{"beside others", `{"featureGates":{"A":true}}`, "v1.35", `{"featureGates":{"A":true,"ControlPlaneKubeletLocalMode":true}}`},
		{"the user's own stays", `{"featureGates":{"ControlPlaneKubeletLocalMode":false}}`, "v1.33", `{"featureGates":{"ControlPlaneKubeletLocalMode":false}}`},
		{"dropped", `{"featureGates":{"A":true,"ControlPlaneKubeletLocalMode":true}}`, "v1.36", `{"featureGates":{"A":true}}`},
		{"of another shape", `{"featureGates":[]}`, "v1.33", `{"featureGates":[]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			minor, err := version.ParseMinor(test.minor)
			if err != nil {
				t.Fatal(err)
			}
			before := config(test.before)
			if diff := cmp.Diff(config(test.after), withLocalMode(&unstructured.Unstructured{Object: before}, minor).Object); diff != "" {
				t.Errorf("withLocalMode (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(config(test.before), before); diff != "" {
				t.Errorf("its input has changed:\n%s", diff)
			}
		})
	}
}

// TestTimeoutIsWaitedForOnce: an updater that does not answer holds up one group, not each.
func TestTimeoutIsWaitedForOnce(t *testing.T) {
	fake := &fakeUpdater{err: context.DeadlineExceeded}
	got := Preview(t.Context(), Request{
		Groups: []Group{workers("v1.30.0", "v1.31.2"), workers("v1.30.0", "v1.31.2")}, Policies: []v1alpha1.UpdatePolicy{newPolicy("all", v1alpha1.ExternalUpdate, "")},
		Updaters: []v1alpha1.Updater{updater("kubeadm", 0)},
		Ask:      func(context.Context, v1alpha1.Updater) (port.Updater, error) { return fake, nil },
	})
	if len(fake.asked) != 1 || got[0].Outcome != cover.Unknown || got[1].Outcome != cover.Unknown {
		t.Errorf("it was asked %d times: %+v", len(fake.asked), got)
	}
}

func TestMinorLimits(t *testing.T) {
	selective := updater("slow", 1)
	selective.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "md-0"}}
	byNamespace := updater("namespaced", 1)
	byNamespace.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	inPlace := newPolicy("all", v1alpha1.ExternalUpdate, "")
	for _, test := range []struct {
		name    string
		request Request
		want    []int
	}{
		{"by the updaters of each group", Request{Policies: []v1alpha1.UpdatePolicy{inPlace}, Updaters: []v1alpha1.Updater{selective}}, []int{0, 1}},
		{"the fastest counts", Request{Policies: []v1alpha1.UpdatePolicy{inPlace}, Updaters: []v1alpha1.Updater{selective, updater("fast", 2)}}, []int{2, 2}},
		{"no policy", Request{Updaters: []v1alpha1.Updater{selective}}, []int{0, 0}},
		{"labels of the namespace", Request{Policies: []v1alpha1.UpdatePolicy{inPlace}, Updaters: []v1alpha1.Updater{byNamespace}, NamespaceLabelsKnown: true, NamespaceLabels: map[string]string{"team": "a"}}, []int{1, 1}},
		{"labels that are not known", Request{Policies: []v1alpha1.UpdatePolicy{inPlace}, Updaters: []v1alpha1.Updater{byNamespace}}, []int{0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.request.Groups = []Group{controlPlane(), workers()}
			if diff := cmp.Diff(test.want, MinorLimits(test.request)); diff != "" {
				t.Errorf("MinorLimits (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLimitsAreNamed: a plan names the limits of MachineDeployments' rollouts where windlass manager
// applies them.
func TestLimitsAreNamed(t *testing.T) {
	p := newPolicy("all", v1alpha1.RollingUpdate, "")
	p.Spec.MaxFailures, p.Spec.OnFailure = 2, v1alpha1.FailurePause
	for engine, suffix := range map[string]string{"": "", v1alpha1.EngineManager: " (maxFailures 2)"} {
		var limits *pool.LimitFields
		if engine == v1alpha1.EngineManager {
			limits = &pool.LimitFields{Canary: intstr.FromInt32(1), MaxFailures: 2}
		}
		got := Preview(t.Context(), Request{
			Groups:   []Group{controlPlane("v1.31.2", "v1.32.1"), workers("v1.31.2", "v1.32.1")},
			Policies: []v1alpha1.UpdatePolicy{p}, Engine: engine,
		})
		const says = `replaced: as UpdatePolicy "all" says`
		want := []cover.Update{
			{Outcome: cover.Replace, Policy: "all", Message: says},
			{Outcome: cover.Replace, Policy: "all", Message: says + suffix, Limits: limits},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("engine %q (-want +got):\n%s", engine, diff)
		}
	}
}
