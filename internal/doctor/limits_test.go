package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestLimits reports what is wrong with the limits of a pool of four machines.
func TestLimits(t *testing.T) {
	var (
		manager = func(f *Facts) { f.Engine = v1alpha1.EngineManager }
		stock   = func(f *Facts) { f.EngineKnown = true }
		with    = func(change func(*v1alpha1.UpdatePolicySpec)) func(*Facts) {
			return func(f *Facts) { change(&f.Policies[0].Spec) }
		}
		partition = func(s *v1alpha1.UpdatePolicySpec) { s.Partition = new(intstr.FromString("80%")) }
		pause     = func(s *v1alpha1.UpdatePolicySpec) { s.OnFailure = v1alpha1.FailurePause }
		canary    = func(n intstr.IntOrString) func(*v1alpha1.UpdatePolicySpec) {
			return func(s *v1alpha1.UpdatePolicySpec) { s.Canary = &n }
		}
		failures = func(most, inFlight int32) func(*v1alpha1.UpdatePolicySpec) {
			return func(s *v1alpha1.UpdatePolicySpec) {
				s.OnFailure, s.MaxFailures, s.MaxInFlight = v1alpha1.FailurePause, most, inFlight
			}
		}
		deadline = func(seconds int32) func(*v1alpha1.UpdatePolicySpec) {
			return func(s *v1alpha1.UpdatePolicySpec) {
				s.MachineDeadlineSeconds, s.MaxAttempts, s.AttemptTimeoutSeconds, s.SoakSeconds = seconds, 2, 600, 60
			}
		}
		groupDeadline = func(seconds, machine int32) func(*v1alpha1.UpdatePolicySpec) {
			return func(s *v1alpha1.UpdatePolicySpec) {
				s.MaxAttempts, s.AttemptTimeoutSeconds, s.SoakSeconds = 2, 600, 60
				s.GroupDeadlineSeconds, s.MachineDeadlineSeconds = seconds, machine
			}
		}
		replicas = func(n int32) func(*Facts) {
			return func(f *Facts) { f.Objects.MachineDeployments[0].Spec.Replicas = new(n) }
		}
		replace = func(s *v1alpha1.UpdatePolicySpec) {
			s.Strategy, s.Fallback = v1alpha1.RollingUpdate,
				""
		}
	)
	const prefix = "Warning Limits " + workers + ": "
	for name, test := range map[string]struct {
		changes []func(*Facts)
		want    []string
	}{
		"partition keeps all": {
			changes: []func(*Facts){manager, with(partition)},
			want:    []string{prefix + `partition 80% of UpdatePolicy "all" keeps all 4 machines at the old template`},
		},
		"partition keeps all machines that would be replaced": {
			changes: []func(*Facts){manager, with(partition), with(replace)},
			want:    []string{prefix + `partition 80% of UpdatePolicy "all" keeps all 4 machines at the old template`},
		},
		"partition of less":          {changes: []func(*Facts){manager, with(partition), replicas(5)}},
		"partition of an empty pool": {changes: []func(*Facts){manager, with(partition), replicas(0)}},
		"canary covers all": {
			changes: []func(*Facts){manager, with(canary(intstr.FromInt32(9)))},
			want:    []string{prefix + `canary 9 of UpdatePolicy "all" covers all 4 machines`},
		},
		"more failures than places": {
			changes: []func(*Facts){manager, with(failures(3, 2))},
			want: []string{prefix + `maxFailures 3 of UpdatePolicy "all" has no effect: a machine whose update ` +
				`failed keeps its place in maxInFlight, so no other machine begins after 2 failures`},
		},
		"as many failures as places":         {changes: []func(*Facts){manager, with(failures(2, 2))}},
		"more failures of replaced machines": {changes: []func(*Facts){manager, with(failures(3, 2)), with(replace)}},
		"canary of a pool of one":            {changes: []func(*Facts){manager, replicas(1)}},
		"no canary":                          {changes: []func(*Facts){manager, with(canary(intstr.FromInt32(0)))}},
		"deadline before the last attempt": {
			changes: []func(*Facts){manager, with(deadline(1199))},
			want: []string{prefix + `machineDeadlineSeconds of UpdatePolicy "all" is 19m59s, ` +
				`and an updater may take 20m0s (maxAttempts 2, each 10m0s)`},
		},
		"deadline before the soak time ends": {changes: []func(*Facts){manager, with(deadline(1200))}},
		"deadline of replaced machines": {changes: []func(*Facts){manager, with(deadline(60)),
			with(replace)}},
		"deadline of the group before that of a machine": {
			changes: []func(*Facts){manager, with(groupDeadline(1799, 1800))},
			want: []string{prefix + `groupDeadlineSeconds of UpdatePolicy "all" is 29m59s, ` +
				`and machineDeadlineSeconds lets one machine take 30m0s`},
		},
		"deadline of the group within the soak time": {
			changes: []func(*Facts){manager, with(groupDeadline(60, 0))},
			want: []string{prefix + `groupDeadlineSeconds of UpdatePolicy "all" is 1m0s, ` +
				`and a machine counts as done only after 1m0s (soakSeconds)`},
		},
		"deadline of the group after the soak time": {
			changes: []func(*Facts){manager, with(groupDeadline(61, 0))},
		},
		"deadline of a group of one": {
			changes: []func(*Facts){manager, with(groupDeadline(60, 0)), replicas(1)},
		},
		"deadlines of equal length": {
			changes: []func(*Facts){manager, with(groupDeadline(1800, 1800))},
		},
		"beside stock": {
			changes: []func(*Facts){stock, with(partition), with(pause), with(deadline(60)),
				with(canary(intstr.FromInt32(2)))},
			want: []string{
				prefix + `stock Cluster API drives the Cluster, and only windlass manager reads these fields of ` +
					`UpdatePolicy "all": canary, partition, machineDeadlineSeconds`,
				prefix + `stock Cluster API drives the Cluster: onFailure Pause of UpdatePolicy "all" holds no other machine`,
			},
		},
		"beside stock, a canary of one": {changes: []func(*Facts){stock,
			with(canary(intstr.FromString("25%")))}},
		"engine unknown": {
			changes: []func(*Facts){with(pause)},
			want: []string{prefix + `only windlass manager reads these fields of UpdatePolicy "all", ` +
				`and it is unknown whether it drives the Cluster: onFailure Pause`},
		},
		"people delete the machines": {
			changes: []func(*Facts){manager, with(partition), func(f *Facts) {
				strategy := &f.Objects.MachineDeployments[0].Spec.Rollout.Strategy
				strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			for _, change := range test.changes {
				change(&f)
			}
			all, _ := Examine(f)
			var got []string
			for _, line := range bad(all) {
				if !strings.Contains(line, " Limits ") {
					continue
				}
				for _, want := range test.want {
					if strings.HasPrefix(line, want) {
						line = want
					}
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for _, found := range all {
				if found.ID == CheckLimits && found.Unknown != (name == "engine unknown") {
					t.Errorf("%+v: Unknown is wrong", found)
				}
			}
		})
	}
}
