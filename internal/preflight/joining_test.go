package preflight_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/preflight"
)

// TestCheckJoining: a machine that a rollout adds needs a range of the pod network
// (aws/eks-anywhere#5215) and a Node name that is free (harvester/harvester#11682).
func TestCheckJoining(t *testing.T) {
	t.Parallel()
	nodes := func(count int, format string) []corev1.Node {
		list := make([]corev1.Node, count)
		for i := range list {
			list[i].Spec.PodCIDR = fmt.Sprintf(format, i)
		}
		return list
	}
	const free = "Passed : machines that a rollout adds find a Node name and a range of the pod network"
	eight := []string{"10.244.0.0/21"}
	surging := preflight.JoiningGroup{Subject: "MachineDeployment a", Surge: true, Replicas: 5}
	still := preflight.JoiningGroup{Subject: "MachineDeployment b", Replicas: 5}
	named := func(replicas int, surge bool) []preflight.JoiningGroup {
		return []preflight.JoiningGroup{{
			Subject: "MachineDeployment c", Config: "RKE2ConfigTemplate c", NodeName: "historian-0", Replicas: replicas, Surge: surge,
		}}
	}
	const full = "Warned the pod network 10.244.0.0/21: it has 8 ranges of /24, one for each Node, and none is free; " +
		"these add a machine before they remove one: MachineDeployment a"
	for name, tt := range map[string]struct {
		networks []string
		groups   []preflight.JoiningGroup
		nodes    []corev1.Node
		want     string
	}{
		"full":                     {eight, []preflight.JoiningGroup{surging, still}, nodes(8, "10.244.%d.0/24"), full},
		"room for one":             {eight, []preflight.JoiningGroup{surging}, nodes(7, "10.244.%d.0/24"), free},
		"a larger network":         {[]string{"10.244.0.0/20"}, []preflight.JoiningGroup{surging}, nodes(8, "10.244.%d.0/24"), free},
		"no surge":                 {eight, []preflight.JoiningGroup{still}, nodes(8, "10.244.%d.0/24"), free},
		"smaller ranges":           {eight, []preflight.JoiningGroup{surging}, nodes(8, "10.244.%d.0/25"), free},
		"another network":          {eight, []preflight.JoiningGroup{surging}, nodes(8, "192.168.%d.0/24"), free},
		"sizes that differ":        {eight, []preflight.JoiningGroup{surging}, append(nodes(7, "10.244.%d.0/24"), nodes(1, "10.244.7.%d/25")...), free},
		"ranges of something else": {eight, []preflight.JoiningGroup{surging}, append(nodes(7, "10.244.%d.0/24"), corev1.Node{}), free},
		"no network":               {nil, []preflight.JoiningGroup{surging}, nodes(8, "10.244.%d.0/24"), free},
		"nonsense":                 {[]string{"x"}, []preflight.JoiningGroup{surging}, nodes(8, "10.244.%d.0/24"), free},
		"one name, surge": {nil, named(1, true), nil, "Failed MachineDeployment c: RKE2ConfigTemplate c gives each machine the Node name historian-0, " +
			"and the rollout adds a machine while the old one has it"},
		"one name, no surge": {nil, named(1, false), nil, free},
		"one name for two":   {nil, named(2, false), nil, "Failed MachineDeployment c: RKE2ConfigTemplate c gives its 2 machines one Node name, historian-0"},
	} {
		got := preflight.CheckJoining(preflight.Joining{PodNetworks: tt.networks, Groups: tt.groups}, tt.nodes)
		if len(got) != 1 {
			t.Fatalf("%s: %v", name, got)
		}
		text := fmt.Sprintf("%s %s: %s", got[0].Outcome, got[0].Subject, got[0].Message)
		if diff := cmp.Diff(tt.want, text); diff != "" || got[0].ID != preflight.NewMachinesCanJoin {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
