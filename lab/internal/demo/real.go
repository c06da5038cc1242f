package demo

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/lab/internal/journal"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Real is what a Scenario adds where machines are hosts that run Kubernetes.
type Real struct {
	// Replaced are the MachineDeployment topologies whose machines are replaced; the control
	// plane's name is empty. All others stay.
	Replaced []string
}

// DefaultRealTarget is where the scenario with a real cluster goes, one minor up.
func DefaultRealTarget() version.Version { return version.MustParse("v1.36.3") }

// DefaultReal returns the scenario with a real cluster: 3 control plane machines with etcd, and two
// MachineDeployments, of which one is replaced.
func DefaultReal() (Scenario, error) {
	s, err := readScenario("real/clusterclass.yaml", "real/cluster.yaml")
	if err != nil {
		return Scenario{}, err
	}
	s.Namespace, s.Target, s.Behind = "real", DefaultRealTarget(), nil
	s.Real = &Real{Replaced: []string{"batch"}}
	return s, nil
}

// RealMachine is a Machine of a real cluster with its Node.
type RealMachine struct {
	Identity
	// Kept says that the machine must be the same after the upgrade.
	Kept bool
	// Node is the Node's UID; empty if there is no Node.
	Node types.UID
	// Kubelet is the version that the kubelet reports.
	Kubelet string
}

// RealMember is a control plane machine: what its member of etcd and its API server returned when
// they were asked directly.
type RealMember struct {
	journal.Member
	// APIServer is the version that the API server reports.
	APIServer string
}

// RealResult is what the upgrade of a real cluster has shown.
type RealResult struct {
	Target version.Version
	// Etcd is the version of etcd that the target's kubeadm installs.
	Etcd string
	// Before and After are the machines when the upgrade began, and at the end.
	Before, After []RealMachine
	Members       []RealMember
	// Attempts are the client's journal.
	Attempts []journal.Attempt
}

// find returns the machine of that name; a zero one if there is none.
func find(machines []RealMachine, name string) RealMachine {
	if i := slices.IndexFunc(machines, func(m RealMachine) bool { return m.Name == name }); i >= 0 {
		return machines[i]
	}
	return RealMachine{}
}
