package policy_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

var (
	controlPlane = policy.Group{
		Namespace: "ns", Cluster: "prod", ClusterLabels: map[string]string{"tier": "gold"}, ControlPlane: true,
		Topology: "prod-cp", Object: "prod-cp", Labels: map[string]string{"hardware": "big"},
	}
	workers = policy.Group{
		Namespace: "ns", Cluster: "prod", ClusterLabels: map[string]string{"tier": "gold"},
		Topology: "md-0", Object: "prod-md-0-x7k2p", Labels: map[string]string{"hardware": "gpu"},
	}
)

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// broken is a selector that the CRD's schema accepts and that does not parse.
func broken() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hardware", Operator: "Is"}}}
}

func newPolicy(name string, targets ...v1alpha1.UpdateTarget) v1alpha1.UpdatePolicy {
	return v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 3},
		Spec:       v1alpha1.UpdatePolicySpec{Targets: targets, Strategy: v1alpha1.ExternalUpdate},
	}
}

type target = v1alpha1.UpdateTarget

func names(items ...v1alpha1.MachineDeploymentName) []v1alpha1.MachineDeploymentName { return items }

func TestSelect(t *testing.T) {
	t.Parallel()
	anyone := newPolicy("anyone", target{})
	byClusterLabels := newPolicy("by-cluster-labels", target{ClusterSelector: labelled("tier", "gold")})
	byCluster := newPolicy("by-cluster", target{ClusterName: "prod"})
	byLabels := newPolicy("by-labels", target{Selector: labelled("hardware", "gpu")})
	byName := newPolicy("by-name", target{MachineDeployments: names("md-0")})
	byBoth := newPolicy("by-both", target{ClusterName: "prod", MachineDeployments: names("md-0")})
	elsewhere := newPolicy("elsewhere", target{MachineDeployments: names("md-0")})
	elsewhere.Namespace = "other"
	tests := map[string]struct {
		policies []v1alpha1.UpdatePolicy
		group    policy.Group
		// want is the name of the policy, wantError the whole message.
		want, wantError string
	}{
		"none":                                     {group: workers},
		"of another namespace":                     {group: workers, policies: []v1alpha1.UpdatePolicy{elsewhere}},
		"any":                                      {group: workers, policies: []v1alpha1.UpdatePolicy{anyone}, want: "anyone"},
		"labels of the cluster before any":         {group: workers, policies: []v1alpha1.UpdatePolicy{anyone, byClusterLabels}, want: "by-cluster-labels"},
		"name of the cluster before its labels":    {group: workers, policies: []v1alpha1.UpdatePolicy{anyone, byClusterLabels, byCluster}, want: "by-cluster"},
		"labels of the group before the cluster":   {group: workers, policies: []v1alpha1.UpdatePolicy{byCluster, byLabels}, want: "by-labels"},
		"name of the group before its labels":      {group: workers, policies: []v1alpha1.UpdatePolicy{byLabels, byName, byCluster}, want: "by-name"},
		"name of the group and cluster before all": {group: workers, policies: []v1alpha1.UpdatePolicy{byLabels, byName, byBoth, byCluster}, want: "by-both"},
		"the control plane has its own name": {
			group: controlPlane, policies: []v1alpha1.UpdatePolicy{byName, byCluster, newPolicy("cp", target{ControlPlane: true})}, want: "cp",
		},
		"a MachineDeployment is no control plane": {group: workers, policies: []v1alpha1.UpdatePolicy{newPolicy("cp", target{ControlPlane: true})}},
		"a control plane is no MachineDeployment": {group: controlPlane, policies: []v1alpha1.UpdatePolicy{newPolicy("md", target{MachineDeployments: names("prod-cp")})}},
		"either of both": {group: workers, policies: []v1alpha1.UpdatePolicy{newPolicy("either", target{ControlPlane: true, MachineDeployments: names("md-1", "md-0")})}, want: "either"},
		"not by the object's name where a topology has one": {group: workers, policies: []v1alpha1.UpdatePolicy{newPolicy("md", target{MachineDeployments: names("prod-md-0-x7k2p")})}},
		"all fields must match": {group: workers, policies: []v1alpha1.UpdatePolicy{
			newPolicy("a", target{MachineDeployments: names("md-0"), ClusterName: "test"}), newPolicy("b", target{MachineDeployments: names("md-0"), Selector: labelled("hardware", "big")}),
			newPolicy("c", target{ClusterName: "prod", Selector: labelled("hardware", "big")}), newPolicy("d", target{Selector: labelled("hardware", "gpu"), ClusterSelector: labelled("tier", "tin")}),
		}},
		"the most precise target counts": {group: workers, policies: []v1alpha1.UpdatePolicy{byLabels, newPolicy("several", target{}, target{MachineDeployments: names("md-0")}, target{ClusterName: "prod"})}, want: "several"},
		"two targets of one policy":      {group: workers, policies: []v1alpha1.UpdatePolicy{newPolicy("twice", target{}, target{})}, want: "twice"},
		"an empty selector names nothing": {
			group: workers, policies: []v1alpha1.UpdatePolicy{newPolicy("empty", target{Selector: &metav1.LabelSelector{}, ClusterSelector: &metav1.LabelSelector{}}), byClusterLabels}, want: "by-cluster-labels",
		},
		"two that name it": {
			group: workers, policies: []v1alpha1.UpdatePolicy{byName, newPolicy("again", target{MachineDeployments: names("md-0"), Selector: labelled("hardware", "gpu")}), anyone},
			wantError: `UpdatePolicies "again", "by-name" select the MachineDeployment ns/prod-md-0-x7k2p (topology md-0) with the same precision (by name of the group); ` +
				`let only one of them select it, or let one name it more precisely`,
		},
		"two of the cluster": {
			group: controlPlane, policies: []v1alpha1.UpdatePolicy{byCluster, newPolicy("x", target{ClusterName: "prod"})},
			wantError: `UpdatePolicies "by-cluster", "x" select the control plane of ns/prod with the same precision (by name of the cluster); let only one of them select it, or let one name it more precisely`,
		},
		"two of any": {
			group: controlPlane, policies: []v1alpha1.UpdatePolicy{anyone, newPolicy("x", target{})},
			wantError: `UpdatePolicies "anyone", "x" select the control plane of ns/prod with the same precision (any group of the namespace); let only one of them select it, or let one name it more precisely`,
		},
		"two by labels of both": {
			group: workers, policies: []v1alpha1.UpdatePolicy{
				newPolicy("x", target{Selector: labelled("hardware", "gpu"), ClusterSelector: labelled("tier", "gold")}), newPolicy("y", target{Selector: labelled("hardware", "gpu"), ClusterSelector: labelled("tier", "gold")}),
			},
			wantError: `UpdatePolicies "x", "y" select the MachineDeployment ns/prod-md-0-x7k2p (topology md-0) with the same precision (by labels of the group and by labels of the cluster); ` +
				`let only one of them select it, or let one name it more precisely`,
		},
		"a conflict of less precise ones does not matter": {group: workers, policies: []v1alpha1.UpdatePolicy{byCluster, newPolicy("x", target{ClusterName: "prod"}), byName}, want: "by-name"},
		"a selector that does not parse": {
			group: workers, policies: []v1alpha1.UpdatePolicy{anyone, newPolicy("x", target{Selector: broken()})},
			wantError: `UpdatePolicy "ns/x" cannot be used: spec.targets[0].selector: Invalid value: "Is" is not a valid label selector operator`,
		},
		"a selector that does not parse, of another group":     {group: controlPlane, policies: []v1alpha1.UpdatePolicy{newPolicy("x", target{MachineDeployments: names("md-0"), Selector: broken()})}},
		"a selector that does not parse, in less precise ones": {group: workers, policies: []v1alpha1.UpdatePolicy{byName, newPolicy("x", target{Selector: broken()})}, want: "by-name"},
		"a selector that does not parse, in another cluster":   {group: workers, policies: []v1alpha1.UpdatePolicy{newPolicy("x", target{Selector: broken(), ClusterName: "test"})}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reversed := slices.Clone(tt.policies)
			slices.Reverse(reversed)
			for _, list := range [][]v1alpha1.UpdatePolicy{tt.policies, reversed} {
				got, err := policy.CompileAll(list).Select(tt.group)
				if tt.wantError == "" {
					if err != nil || got.Name != tt.want {
						t.Fatalf("Select = %q, %v, want %q", got.Name, err, tt.want)
					}
					continue
				}
				if err == nil || err.Error() != tt.wantError {
					t.Fatalf("error is\n%v, want\n%s", err, tt.wantError)
				}
				var conflict *policy.ConflictError
				var invalid *policy.InvalidError
				if errors.As(err, &conflict) == errors.As(err, &invalid) {
					t.Errorf("error is a %T, want exactly one of the types documented", err)
				}
			}
		})
	}
}

// TestOthers: the owner of a policy reads of three others, also if the error does not name its own.
func TestOthers(t *testing.T) {
	t.Parallel()
	policies := make([]v1alpha1.UpdatePolicy, 0, 6)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		policies = append(policies, newPolicy(name, target{}))
	}
	for _, tt := range []struct {
		count      int
		name, want string
	}{
		{2, "a", `"b"`}, {2, "b", `"a"`}, {4, "c", `"a", "b", "d"`},
		{6, "b", `"a", "c", "d", and 2 more`}, {6, "f", `"a", "b", "c", and 2 more`},
	} {
		_, err := policy.CompileAll(policies[:tt.count]).Select(controlPlane)
		conflict, ok := errors.AsType[*policy.ConflictError](err)
		if !ok {
			t.Fatalf("%d policies: %v", tt.count, err)
		}
		want := "the control plane of ns/prod is also selected by " + tt.want +
			" with the same precision (any group of the namespace)"
		if diff := cmp.Diff(want, conflict.Others(tt.name)); diff != "" {
			t.Errorf("%s of %d (-want +got):\n%s", tt.name, tt.count, diff)
		}
	}
}

func TestSelected(t *testing.T) {
	t.Parallel()
	bare := v1alpha1.UpdatePolicySpec{Targets: []target{{}}, Strategy: v1alpha1.ExternalUpdate}
	replace, full, rolling := *bare.DeepCopy(), *bare.DeepCopy(), *bare.DeepCopy()
	replace.Fallback = v1alpha1.FallbackRollingUpdate
	rolling.Strategy = v1alpha1.RollingUpdate
	full.Fallback, full.OnFailure = v1alpha1.FallbackNone, v1alpha1.FailureRemediate
	full.Canary = new(intstr.FromInt32(0))
	full.MaxInFlight, full.Drain, full.SoakSeconds, full.MaxAttempts, full.AttemptTimeoutSeconds = 7, true, 60, 2, 90
	full.IgnorePaths = []v1alpha1.IgnorePath{
		{Object: v1alpha1.IgnoreMachine, Path: "/spec/b"}, {Object: v1alpha1.IgnoreMachine, Path: "/spec/a~1b"}, {Object: v1alpha1.IgnoreInfrastructure, Path: "/spec/z"},
	}
	ordered := *bare.DeepCopy()
	ordered.Order = v1alpha1.UpdateOrder{
		Labels: []string{"rack"}, OneAtATime: true, Last: labelled("tier", "gold"),
	}
	ordered.OnDelete = v1alpha1.OnDeleteInPlace
	groups := *bare.DeepCopy()
	groups.HandOver = v1alpha1.HandOverGroup
	batches := *bare.DeepCopy()
	batches.Canary, batches.Partition = new(intstr.FromString("10%")), new(intstr.FromInt32(2))
	batches.Batches = []intstr.IntOrString{intstr.FromInt32(2), intstr.FromString("50%")}
	batches.OnFailure, batches.MachineDeadlineSeconds, batches.GroupDeadlineSeconds = v1alpha1.FailurePause, 60, 3600
	// usual is what a policy without fields asks for, with what an edit changes.
	usual := func(edit func(*policy.Policy)) policy.Policy {
		p := policy.Policy{
			Name: "p", Generation: 3, InPlace: true, Guarded: true,
			MaxInFlight: 1, Alone: 1, Canary: intstr.FromInt32(1), MaxAttempts: 3, AttemptTimeout: 30 * time.Minute,
		}
		edit(&p)
		return p
	}
	for name, tt := range map[string]struct {
		spec v1alpha1.UpdatePolicySpec
		want policy.Policy
	}{
		"limits": {spec: batches, want: usual(func(p *policy.Policy) {
			p.Canary, p.Partition, p.Batches = intstr.FromString("10%"), intstr.FromInt32(2), batches.Batches
			p.MaxFailures, p.MachineDeadline, p.GroupDeadline = 1, time.Minute, time.Hour
		})},
		"an order": {spec: ordered, want: usual(func(p *policy.Policy) {
			p.UpdateOnDelete = true
			p.Order = policy.Order{
				Labels: []string{"rack"}, OneAtATime: true, Last: labels.SelectorFromSet(labels.Set{"tier": "gold"}),
			}
		})},
		"handed over": {spec: groups, want: usual(func(p *policy.Policy) { p.HandOver = true })},
		"in place or not at all, what is open is filled in": {spec: bare, want: usual(func(*policy.Policy) {})},
		"in place or replaced": {spec: replace, want: usual(func(p *policy.Policy) {
			p.Guarded, p.FallbackReplace = false, true
		})},
		"replaced": {spec: rolling, want: usual(func(p *policy.Policy) {
			p.InPlace, p.Guarded, p.FallbackReplace = false, false, true
		})},
		"everything": {spec: full, want: policy.Policy{
			Name: "p", Generation: 3, InPlace: true, Guarded: true, MaxInFlight: 7,
			Drain: true, Soak: time.Minute, MaxAttempts: 2, AttemptTimeout: 90 * time.Second, Remediate: true,
			Ignore: []v1alpha1.IgnorePath{
				{Object: v1alpha1.IgnoreInfrastructure, Path: "/spec/z"}, {Object: v1alpha1.IgnoreMachine, Path: "/spec/a~1b"}, {Object: v1alpha1.IgnoreMachine, Path: "/spec/b"},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPolicy("p")
			p.Spec = tt.spec
			before := p.DeepCopy()
			got, err := policy.CompileAll([]v1alpha1.UpdatePolicy{p}).Select(workers)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, bySelectorText); diff != "" {
				t.Errorf("Select (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, p); diff != "" {
				t.Errorf("Select changed its input (-before +after):\n%s", diff)
			}
		})
	}
	want := usual(func(p *policy.Policy) {
		p.Name, p.Generation, p.InPlace, p.Guarded, p.FallbackReplace = "", 0, false, false, true
	})
	if diff := cmp.Diff(want, policy.Default()); diff != "" {
		t.Errorf("Default (-want +got):\n%s", diff)
	}
}

// bySelectorText compares selectors, whose fields are not exported, by their texts.
var bySelectorText = cmp.Transformer("text", func(s labels.Selector) string {
	if s == nil {
		return ""
	}
	return s.String()
})

// TestProperties draws policies and groups from few names, so that they meet.
func TestProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		selector := rapid.OneOf(
			rapid.Just[*metav1.LabelSelector](nil),
			rapid.Just(&metav1.LabelSelector{}),
			rapid.Custom(func(t *rapid.T) *metav1.LabelSelector {
				return labelled(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value"))
			}),
			rapid.Just(broken()),
		)
		set := rapid.MapOf(rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"1", "2"}))
		name := rapid.SampledFrom([]string{"x", "y"})
		targets := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) target {
			return target{
				ClusterName:        rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "cluster"),
				ClusterSelector:    selector.Draw(t, "clusterSelector"),
				ControlPlane:       rapid.Bool().Draw(t, "controlPlane"),
				MachineDeployments: rapid.SliceOfN(rapid.SampledFrom(names("x", "y")), 0, 2).Draw(t, "machineDeployments"),
				Selector:           selector.Draw(t, "selector"),
			}
		}), 1, 3)
		count := 0
		policies := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1alpha1.UpdatePolicy {
			count++
			return newPolicy("p"+string(rune('a'+count)), targets.Draw(t, "targets")...)
		}), 0, 5).Draw(t, "policies")
		group := policy.Group{
			Namespace: "ns", Cluster: name.Draw(t, "cluster"), ClusterLabels: set.Draw(t, "clusterLabels"), ControlPlane: rapid.Bool().Draw(t, "controlPlane"),
			Topology: name.Draw(t, "topology"), Object: "object", Labels: set.Draw(t, "labels"),
		}
		want, wantErr := policy.CompileAll(policies).Select(group)
		same := func(what string, list []v1alpha1.UpdatePolicy) {
			got, err := policy.CompileAll(list).Select(group)
			if diff := cmp.Diff(want, got); diff != "" || errorText(err) != errorText(wantErr) {
				t.Fatalf("%s, Select gives %v, not %v (-want +got):\n%s", what, err, wantErr, diff)
			}
		}
		same("in another order", rapid.Permutation(policies).Draw(t, "shuffled"))
		for i, p := range policies {
			alone, err := policy.CompileAll(policies[i : i+1]).Select(group)
			if err == nil && alone.Name == "" {
				same("without "+p.Name+", which does not select the group", slices.Concat(policies[:i], policies[i+1:]))
			}
		}
		if wantErr == nil && want.Name != "" {
			// A policy that counts selects the group by itself.
			i := slices.IndexFunc(policies, func(p v1alpha1.UpdatePolicy) bool { return p.Name == want.Name })
			same("alone", policies[i:i+1])
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestGroup(t *testing.T) {
	t.Parallel()
	plain := policy.Group{Namespace: "ns", Cluster: "c", Topology: "workers", Object: "workers"}
	file := policy.Group{Cluster: "c", ControlPlane: true}
	groups := []policy.Group{workers, plain, controlPlane, file}
	slices.SortFunc(groups, policy.Compare)
	texts := make([]string, 0, len(groups))
	for _, g := range groups {
		texts = append(texts, g.String())
	}
	want := []string{"control plane of c", "MachineDeployment ns/workers", "control plane of ns/prod", "MachineDeployment ns/prod-md-0-x7k2p (topology md-0)"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}
