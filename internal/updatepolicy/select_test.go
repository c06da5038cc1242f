package updatepolicy_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/pool"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

var (
	controlPlane = updatepolicy.Group{
		Namespace: "ns", Cluster: "prod", ClusterLabels: map[string]string{"tier": "gold"}, ControlPlane: true,
		Topology: "prod-cp", Object: "prod-cp", Labels: map[string]string{"hardware": "big"},
	}
	workers = updatepolicy.Group{
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

func policy(name string, targets ...v1alpha1.UpdateTarget) v1alpha1.UpdatePolicy {
	return v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 3},
		Spec:       v1alpha1.UpdatePolicySpec{Targets: targets, Strategy: v1alpha1.ExternalUpdate},
	}
}

type target = v1alpha1.UpdateTarget

func names(items ...v1alpha1.MachineDeploymentName) []v1alpha1.MachineDeploymentName { return items }

func TestSelect(t *testing.T) {
	t.Parallel()
	anyone := policy("anyone", target{})
	byClusterLabels := policy("by-cluster-labels", target{ClusterSelector: labelled("tier", "gold")})
	byCluster := policy("by-cluster", target{ClusterName: "prod"})
	byLabels := policy("by-labels", target{Selector: labelled("hardware", "gpu")})
	byName := policy("by-name", target{MachineDeployments: names("md-0")})
	byBoth := policy("by-both", target{ClusterName: "prod", MachineDeployments: names("md-0")})
	elsewhere := policy("elsewhere", target{MachineDeployments: names("md-0")})
	elsewhere.Namespace = "other"
	tests := map[string]struct {
		policies []v1alpha1.UpdatePolicy
		group    updatepolicy.Group
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
			group: controlPlane, policies: []v1alpha1.UpdatePolicy{byName, byCluster, policy("cp", target{ControlPlane: true})}, want: "cp",
		},
		"a MachineDeployment is no control plane": {group: workers, policies: []v1alpha1.UpdatePolicy{policy("cp", target{ControlPlane: true})}},
		"a control plane is no MachineDeployment": {group: controlPlane, policies: []v1alpha1.UpdatePolicy{policy("md", target{MachineDeployments: names("prod-cp")})}},
		"either of both": {group: workers, policies: []v1alpha1.UpdatePolicy{policy("either", target{ControlPlane: true, MachineDeployments: names("md-1", "md-0")})}, want: "either"},
		"not by the object's name where a topology has one": {group: workers, policies: []v1alpha1.UpdatePolicy{policy("md", target{MachineDeployments: names("prod-md-0-x7k2p")})}},
		"all fields must match": {group: workers, policies: []v1alpha1.UpdatePolicy{
			policy("a", target{MachineDeployments: names("md-0"), ClusterName: "test"}), policy("b", target{MachineDeployments: names("md-0"), Selector: labelled("hardware", "big")}),
			policy("c", target{ClusterName: "prod", Selector: labelled("hardware", "big")}), policy("d", target{Selector: labelled("hardware", "gpu"), ClusterSelector: labelled("tier", "tin")}),
		}},
		"the most precise target counts": {group: workers, policies: []v1alpha1.UpdatePolicy{byLabels, policy("several", target{}, target{MachineDeployments: names("md-0")}, target{ClusterName: "prod"})}, want: "several"},
		"two targets of one policy":      {group: workers, policies: []v1alpha1.UpdatePolicy{policy("twice", target{}, target{})}, want: "twice"},
		"an empty selector names nothing": {
			group: workers, policies: []v1alpha1.UpdatePolicy{policy("empty", target{Selector: &metav1.LabelSelector{}, ClusterSelector: &metav1.LabelSelector{}}), byClusterLabels}, want: "by-cluster-labels",
		},
		"two that name it": {
			group: workers, policies: []v1alpha1.UpdatePolicy{byName, policy("again", target{MachineDeployments: names("md-0"), Selector: labelled("hardware", "gpu")}), anyone},
			wantError: `UpdatePolicies "again", "by-name" select the MachineDeployment ns/prod-md-0-x7k2p (topology md-0) with the same precision (by name of the group); ` +
				`let only one of them select it, or let one name it more precisely`,
		},
		"two of the cluster": {
			group: controlPlane, policies: []v1alpha1.UpdatePolicy{byCluster, policy("x", target{ClusterName: "prod"})},
			wantError: `UpdatePolicies "by-cluster", "x" select the control plane of ns/prod with the same precision (by name of the cluster); let only one of them select it, or let one name it more precisely`,
		},
		"two of any": {
			group: controlPlane, policies: []v1alpha1.UpdatePolicy{anyone, policy("x", target{})},
			wantError: `UpdatePolicies "anyone", "x" select the control plane of ns/prod with the same precision (any group of the namespace); let only one of them select it, or let one name it more precisely`,
		},
		"two by labels of both": {
			group: workers, policies: []v1alpha1.UpdatePolicy{
				policy("x", target{Selector: labelled("hardware", "gpu"), ClusterSelector: labelled("tier", "gold")}), policy("y", target{Selector: labelled("hardware", "gpu"), ClusterSelector: labelled("tier", "gold")}),
			},
			wantError: `UpdatePolicies "x", "y" select the MachineDeployment ns/prod-md-0-x7k2p (topology md-0) with the same precision (by labels of the group and by labels of the cluster); ` +
				`let only one of them select it, or let one name it more precisely`,
		},
		"a conflict of less precise ones does not matter": {group: workers, policies: []v1alpha1.UpdatePolicy{byCluster, policy("x", target{ClusterName: "prod"}), byName}, want: "by-name"},
		"a selector that does not parse": {
			group: workers, policies: []v1alpha1.UpdatePolicy{anyone, policy("x", target{Selector: broken()})},
			wantError: `UpdatePolicy "ns/x" cannot be used: spec.targets[0].selector: Invalid value: "Is" is not a valid label selector operator`,
		},
		"a selector that does not parse, of another group":     {group: controlPlane, policies: []v1alpha1.UpdatePolicy{policy("x", target{MachineDeployments: names("md-0"), Selector: broken()})}},
		"a selector that does not parse, in less precise ones": {group: workers, policies: []v1alpha1.UpdatePolicy{byName, policy("x", target{Selector: broken()})}, want: "by-name"},
		"a selector that does not parse, in another cluster":   {group: workers, policies: []v1alpha1.UpdatePolicy{policy("x", target{Selector: broken(), ClusterName: "test"})}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reversed := slices.Clone(tt.policies)
			slices.Reverse(reversed)
			for _, list := range [][]v1alpha1.UpdatePolicy{tt.policies, reversed} {
				got, err := updatepolicy.Select(list, tt.group)
				if tt.wantError == "" {
					if err != nil || got.Name != tt.want {
						t.Fatalf("Select = %q, %v, want %q", got.Name, err, tt.want)
					}
					continue
				}
				if err == nil || err.Error() != tt.wantError {
					t.Fatalf("error is\n%v, want\n%s", err, tt.wantError)
				}
				var conflict *updatepolicy.ConflictError
				var invalid *updatepolicy.InvalidError
				if errors.As(err, &conflict) == errors.As(err, &invalid) {
					t.Errorf("error is a %T, want exactly one of the types documented", err)
				}
			}
		})
	}
}

func TestSelected(t *testing.T) {
	t.Parallel()
	bare := v1alpha1.UpdatePolicySpec{Targets: []target{{}}, Strategy: v1alpha1.ExternalUpdate}
	usual := inplace.Policy{MaxInFlight: 1, Canary: 1, MaxAttempts: 3, AttemptTimeout: 30 * time.Minute}
	replace, full, rolling := *bare.DeepCopy(), *bare.DeepCopy(), *bare.DeepCopy()
	replace.Fallback = v1alpha1.FallbackRollingUpdate
	rolling.Strategy = v1alpha1.RollingUpdate
	full.Fallback, full.OnFailure = v1alpha1.FallbackNone, v1alpha1.FailureRemediate
	full.Canary = new(intstr.FromInt32(0))
	full.MaxInFlight, full.Drain, full.SoakSeconds, full.MaxAttempts, full.AttemptTimeoutSeconds = 7, true, 60, 2, 90
	full.IgnorePaths = []v1alpha1.IgnorePath{
		{Object: v1alpha1.IgnoreMachine, Path: "/spec/b"}, {Object: v1alpha1.IgnoreMachine, Path: "/spec/a~1b"}, {Object: v1alpha1.IgnoreInfrastructure, Path: "/spec/z"},
	}
	one := pool.Limits{MaxInFlight: 1, Canary: intstr.FromInt32(1)}
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
	for name, tt := range map[string]struct {
		spec v1alpha1.UpdatePolicySpec
		want updatepolicy.Selected
	}{
		"limits": {spec: batches, want: updatepolicy.Selected{
			Name: "p", Generation: 3, InPlace: true, Guarded: true, Policy: usual,
			Limits: pool.Limits{
				MaxInFlight: 1, Canary: intstr.FromString("10%"), Partition: intstr.FromInt32(2), Batches: batches.Batches,
				MaxFailures: 1, MachineDeadline: time.Minute, GroupDeadline: time.Hour,
			},
		}},
		"an order": {spec: ordered, want: updatepolicy.Selected{
			Name: "p", Generation: 3, InPlace: true, Guarded: true, UpdateOnDelete: true, Policy: usual,
			Limits: pool.Limits{
				MaxInFlight: 1, Canary: intstr.FromInt32(1), Order: pool.Order{
					Labels: []string{"rack"}, OneAtATime: true, Last: labels.SelectorFromSet(labels.Set{"tier": "gold"}),
				},
			},
		}},
		"handed over": {spec: groups, want: updatepolicy.Selected{
			Name: "p", Generation: 3, InPlace: true, Guarded: true, HandOver: true, Policy: usual, Limits: one,
		}},
		"in place or not at all, what is open is filled in": {spec: bare, want: updatepolicy.Selected{Name: "p", Generation: 3, InPlace: true, Guarded: true, Policy: usual, Limits: one}},
		"in place or replaced":                              {spec: replace, want: updatepolicy.Selected{Name: "p", Generation: 3, InPlace: true, FallbackReplace: true, Policy: usual, Limits: one}},
		"replaced":                                          {spec: rolling, want: updatepolicy.Selected{Name: "p", Generation: 3, FallbackReplace: true, Policy: usual, Limits: one}},
		"everything": {spec: full, want: updatepolicy.Selected{
			Name: "p", Generation: 3, InPlace: true, Guarded: true,
			Policy: inplace.Policy{MaxInFlight: 7, Drain: true, Soak: time.Minute, MaxAttempts: 2, AttemptTimeout: 90 * time.Second, Remediate: true},
			Limits: pool.Limits{MaxInFlight: 7, Soak: time.Minute},
			Ignore: []cover.Ignore{{Part: cover.PartInfrastructure, Path: "/spec/z"}, {Part: cover.PartMachine, Path: "/spec/a~1b"}, {Part: cover.PartMachine, Path: "/spec/b"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy("p")
			p.Spec = tt.spec
			before := p.DeepCopy()
			got, err := updatepolicy.Select([]v1alpha1.UpdatePolicy{p}, workers)
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
	if diff := cmp.Diff(updatepolicy.Selected{FallbackReplace: true, Policy: usual}, updatepolicy.Default()); diff != "" {
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

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*v1alpha1.UpdatePolicySpec)
		want string
	}{
		"no targets":            {edit: func(s *v1alpha1.UpdatePolicySpec) { s.Targets = nil }, want: "spec.targets: Required value: say which groups of machines the policy is for"},
		"a cluster named twice": {edit: func(s *v1alpha1.UpdatePolicySpec) { s.Targets[0].ClusterName = "prod" }, want: "spec.targets[0].clusterSelector: Forbidden: set clusterName or clusterSelector, not both"},
		"no strategy":           {edit: func(s *v1alpha1.UpdatePolicySpec) { s.Strategy = "" }, want: `spec.strategy: Unsupported value: "": supported values: "ExternalUpdate", "RollingUpdate"`},
		"an unknown fallback":   {edit: func(s *v1alpha1.UpdatePolicySpec) { s.Fallback = "Some" }, want: `spec.fallback: Unsupported value: "Some": supported values: "RollingUpdate", "None"`},
		"a fallback that has no effect": {
			edit: func(s *v1alpha1.UpdatePolicySpec) {
				s.Strategy, s.Fallback = v1alpha1.RollingUpdate, v1alpha1.FallbackNone
			},
			want: "spec.fallback: Forbidden: fallback goes with strategy ExternalUpdate only: with RollingUpdate machines are always replaced",
		},
		"an unknown action": {edit: func(s *v1alpha1.UpdatePolicySpec) { s.OnFailure = "Cry" }, want: `spec.onFailure: Unsupported value: "Cry": supported values: "Wait", "Remediate", "Pause"`},
		"a canary that is no percentage": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Canary = new(intstr.FromString("2")) }, want: `spec.canary: Invalid value: "2": must be a number or a percentage between 0% and 100%`,
		},
		"a canary below zero": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Canary = new(intstr.FromInt32(-1)) }, want: "spec.canary: Invalid value: -1: must be at least 0",
		},
		"an empty batch": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Batches = []intstr.IntOrString{intstr.FromString("0%")} },
			want: `spec.batches[0]: Invalid value: "0%": must be a number or a percentage between 1% and 100%`,
		},
		"a partition of more than all": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Partition = new(intstr.FromString("101%")) },
			want: `spec.partition: Invalid value: "101%": must be a number or a percentage between 0% and 100%`,
		},
		"failures that nobody counts": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.MaxFailures = 2 },
			want: "spec.maxFailures: Forbidden: maxFailures goes with onFailure Pause only",
		},
		"a label that is none": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Order.Labels = []string{"rack", "a b"} },
			want: `spec.order.labels[1]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', ` +
				`and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', ` +
				`regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		},
		"too many labels": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Order.Labels = []string{"a", "b", "c", "d", "e"} },
			want: "spec.order.labels: Too many: 5: must have at most 4 items",
		},
		"one of nothing": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Order.OneAtATime = true },
			want: "spec.order.oneAtATime: Forbidden: oneAtATime needs labels",
		},
		"the last ones of a broken selector": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Order.Last = broken() },
			want: `spec.order.last: Invalid value: "Is" is not a valid label selector operator`,
		},
		"in place and replaced": {
			edit: func(s *v1alpha1.UpdatePolicySpec) {
				s.Strategy, s.OnDelete = v1alpha1.RollingUpdate, v1alpha1.OnDeleteInPlace
			},
			want: "spec.onDelete: Forbidden: onDelete goes with strategy ExternalUpdate only",
		},
		"an unknown word for onDelete": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.OnDelete = "Never" },
			want: `spec.onDelete: Unsupported value: "Never": supported values: "Wait", "InPlace"`,
		},
		"a replaced group that is handed over": {
			edit: func(s *v1alpha1.UpdatePolicySpec) {
				s.Strategy, s.HandOver = v1alpha1.RollingUpdate, v1alpha1.HandOverMachine
			},
			want: "spec.handOver: Forbidden: handOver goes with strategy ExternalUpdate only",
		},
		"an unknown word for handOver": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.HandOver = "All" },
			want: `spec.handOver: Unsupported value: "All": supported values: "Machine", "Group"`,
		},
		"what a hand-over of a group leaves to the updater": {
			edit: func(s *v1alpha1.UpdatePolicySpec) {
				s.HandOver, s.Drain, s.SoakSeconds = v1alpha1.HandOverGroup, true, 1
				s.Order.Labels = []string{"rack"}
				s.Batches = []intstr.IntOrString{intstr.FromInt32(1)}
			},
			want: "spec.handOver: Forbidden: handOver Group goes without drain; spec.handOver: Forbidden: handOver Group goes without batches; " +
				"spec.handOver: Forbidden: handOver Group goes without order; spec.handOver: Forbidden: handOver Group goes without ignorePaths; " +
				"spec.handOver: Forbidden: handOver Group goes without soakSeconds",
		},
		"what nobody does for a group that is handed over": {
			edit: func(s *v1alpha1.UpdatePolicySpec) {
				s.HandOver, s.IgnorePaths, s.MachineDeadlineSeconds = v1alpha1.HandOverGroup, nil, 1
				s.OnDelete, s.OnFailure = v1alpha1.OnDeleteInPlace, v1alpha1.FailureRemediate
			},
			want: "spec.handOver: Forbidden: handOver Group goes without machineDeadlineSeconds; spec.handOver: Forbidden: handOver Group goes without onDelete InPlace; " +
				"spec.handOver: Forbidden: handOver Group goes without onFailure Remediate",
		},
		"a negative number":  {edit: func(s *v1alpha1.UpdatePolicySpec) { s.MaxInFlight = -1 }, want: "spec.maxInFlight: Invalid value: -1: must not be negative"},
		"an unknown object":  {edit: func(s *v1alpha1.UpdatePolicySpec) { s.IgnorePaths[0].Object = "Cluster" }, want: `spec.ignorePaths[0].object: Unsupported value: "Cluster": supported values: "Machine", "InfrastructureMachine", "BootstrapConfig"`},
		"a path of a status": {edit: func(s *v1alpha1.UpdatePolicySpec) { s.IgnorePaths[0].Path = "/status/x" }, want: `spec.ignorePaths[0].path: Invalid value: "/status/x": must be a JSON pointer to a field below /spec, such as /spec/image; a ~ in a name is written ~0, a / is written ~1`},
		"the whole spec":     {edit: func(s *v1alpha1.UpdatePolicySpec) { s.IgnorePaths[0].Path = "/spec/" }, want: `spec.ignorePaths[0].path: Invalid value: "/spec/": must be a JSON pointer to a field below /spec, such as /spec/image; a ~ in a name is written ~0, a / is written ~1`},
		"the version":        {edit: func(s *v1alpha1.UpdatePolicySpec) { s.IgnorePaths[0].Path = "/spec/version" }, want: "spec.ignorePaths[0].path: Forbidden: the Kubernetes version of a Machine cannot be ignored: an update is done when the node runs that version"},
		"a cluster's selector": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Targets[0].ClusterSelector = broken() },
			want: `spec.targets[0].clusterSelector: Invalid value: "Is" is not a valid label selector operator`,
		},
		"many": {
			edit: func(s *v1alpha1.UpdatePolicySpec) {
				s.Targets, s.MaxInFlight, s.SoakSeconds, s.MaxAttempts, s.AttemptTimeoutSeconds, s.IgnorePaths[0].Path = nil, -1, -1, -1, -1, ""
			},
			want: "spec.targets: Required value: say which groups of machines the policy is for; spec.maxInFlight: Invalid value: -1: must not be negative; spec.soakSeconds: Invalid value: -1: must not be negative; " +
				"spec.maxAttempts: Invalid value: -1: must not be negative; spec.attemptTimeoutSeconds: Invalid value: -1: must not be negative; and 1 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy("p", target{ClusterSelector: labelled("tier", "gold")})
			p.Spec.IgnorePaths = []v1alpha1.IgnorePath{{Object: v1alpha1.IgnoreMachine, Path: "/spec/failureDomain"}}
			if err := updatepolicy.Check(&p); err != nil {
				t.Fatalf("before the edit: %v", err)
			}
			tt.edit(&p.Spec)
			var invalid *updatepolicy.InvalidError
			if err := updatepolicy.Check(&p); !errors.As(err, &invalid) || invalid.Detail() != tt.want || err.Error() != `UpdatePolicy "ns/p" cannot be used: `+tt.want {
				t.Errorf("error is\n%v, want\n%s", err, tt.want)
			}
		})
	}
}

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
			return policy("p"+string(rune('a'+count)), targets.Draw(t, "targets")...)
		}), 0, 5).Draw(t, "policies")
		group := updatepolicy.Group{
			Namespace: "ns", Cluster: name.Draw(t, "cluster"), ClusterLabels: set.Draw(t, "clusterLabels"), ControlPlane: rapid.Bool().Draw(t, "controlPlane"),
			Topology: name.Draw(t, "topology"), Object: "object", Labels: set.Draw(t, "labels"),
		}
		want, wantErr := updatepolicy.Select(policies, group)
		same := func(what string, list []v1alpha1.UpdatePolicy) {
			got, err := updatepolicy.Select(list, group)
			if diff := cmp.Diff(want, got); diff != "" || errorText(err) != errorText(wantErr) {
				t.Fatalf("%s, Select gives %v, not %v (-want +got):\n%s", what, err, wantErr, diff)
			}
		}
		same("in another order", rapid.Permutation(policies).Draw(t, "shuffled"))
		for i, p := range policies {
			alone, err := updatepolicy.Select(policies[i:i+1], group)
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
	plain := updatepolicy.Group{Namespace: "ns", Cluster: "c", Topology: "workers", Object: "workers"}
	file := updatepolicy.Group{Cluster: "c", ControlPlane: true}
	groups := []updatepolicy.Group{workers, plain, controlPlane, file}
	slices.SortFunc(groups, updatepolicy.Compare)
	texts := make([]string, 0, len(groups))
	for _, g := range groups {
		texts = append(texts, g.String())
	}
	want := []string{"control plane of c", "MachineDeployment ns/workers", "control plane of ns/prod", "MachineDeployment ns/prod-md-0-x7k2p (topology md-0)"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}
