package policy_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

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
		"a replaced group that is prepared": {
			edit: func(s *v1alpha1.UpdatePolicySpec) {
				s.Strategy, s.Prefetch.MaxInFlight = v1alpha1.RollingUpdate, 1
			},
			want: "spec.prefetch: Forbidden: prefetch goes with strategy ExternalUpdate only",
		},
		"a group that is prepared and handed over": {
			edit: func(s *v1alpha1.UpdatePolicySpec) {
				s.HandOver, s.Prefetch.MaxInFlight, s.IgnorePaths = v1alpha1.HandOverGroup, 1, nil
			},
			want: "spec.prefetch: Forbidden: prefetch goes without handOver Group",
		},
		"fewer than one machine": {
			edit: func(s *v1alpha1.UpdatePolicySpec) { s.Prefetch.MaxInFlight = -1 },
			want: "spec.prefetch.maxInFlight: Invalid value: -1: must be at least 1",
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
			p := newPolicy("p", target{ClusterSelector: labelled("tier", "gold")})
			p.Spec.IgnorePaths = []v1alpha1.IgnorePath{{Object: v1alpha1.IgnoreMachine, Path: "/spec/failureDomain"}}
			if err := policy.Check(&p); err != nil {
				t.Fatalf("before the edit: %v", err)
			}
			tt.edit(&p.Spec)
			var invalid *policy.InvalidError
			if err := policy.Check(&p); !errors.As(err, &invalid) || invalid.Detail() != tt.want || err.Error() != `UpdatePolicy "ns/p" cannot be used: `+tt.want {
				t.Errorf("error is\n%v, want\n%s", err, tt.want)
			}
		})
	}
}
