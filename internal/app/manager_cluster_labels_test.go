package app

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool/machinedeployment"
	"github.com/windlass-dev/windlass/internal/pool/machineset"
)

func noPolicies() (bool, error) { return false, nil }

// setUpDeployments and setUpSets add the controllers of pools, with policies or without.
func setUpDeployments(
	ctx context.Context, m manager.Manager, o controller.Options, policies bool,
) error {
	options := machinedeployment.Options{
		Client: m.GetClient(), Recorder: record.NewFakeRecorder(1), Now: time.Now,
	}
	if policies {
		options.PoliciesExist = noPolicies
		options.Keeps = func(
			context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment,
		) (policy.Policy, error) {
			return policy.Policy{}, nil
		}
	}
	return machinedeployment.SetUpController(ctx, m, options, o)
}

func setUpSets(
	ctx context.Context, m manager.Manager, o controller.Options, policies bool,
) error {
	options := machineset.Options{
		Client: m.GetClient(), APIReader: m.GetClient(), Now: time.Now,
		ClusterCache: clustercache.NewFakeEmptyClusterCache(),
	}
	if policies {
		options.PoliciesExist = noPolicies
		options.Policies = func(
			context.Context, *clusterv1.Cluster, *clusterv1.MachineDeployment,
		) (policy.Policy, error) {
			return policy.Policy{}, nil
		}
	}
	return machineset.SetUp(ctx, m, options, o)
}

// TestClusterLabelsWakeGroups: a policy may select a group by the labels of its Cluster. Without
// policies only a pause wakes a group, as in Cluster API.
func TestClusterLabelsWakeGroups(t *testing.T) {
	t.Parallel()
	type setUp func(context.Context, manager.Manager, controller.Options, bool) error
	for name, add := range map[string]setUp{
		"MachineDeployments": setUpDeployments, "MachineSets": setUpSets,
	} {
		for _, policies := range []bool{false, true} {
			md, ms, _ := newGroup()
			w := newWatches(t, []client.Object{md, ms},
				func(_ *machineWatches, m manager.Manager, o controller.Options) error {
					return add(t.Context(), m, o, policies)
				})
			before := &clusterv1.Cluster{}
			before.Namespace, before.Name, before.ResourceVersion = "ns", "c", "1"
			labeled := before.DeepCopy()
			labeled.ResourceVersion, labeled.Labels = "2", map[string]string{"stage": "live"}
			want := map[bool]int{true: 1}[policies]
			if got := w.update(t, before, labeled); got != want {
				t.Errorf("policies %t: a label enqueues %d %s, want %d", policies, got, name, want)
			}
			paused := before.DeepCopy()
			paused.ResourceVersion, paused.Spec.Paused = "2", new(true)
			if got := w.update(t, before, paused); got != 1 {
				t.Errorf("policies %t: a pause enqueues %d %s", policies, got, name)
			}
		}
	}
}
