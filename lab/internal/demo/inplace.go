package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// InPlace is what a Scenario adds where machines are updated in place.
type InPlace struct {
	// Updaters are registered with the extension.
	Updaters []setup.SimulatedUpdater
	// Group is the MachineDeployment topology that, after the upgrade, gets Variable, a change that no updater covers.
	Group    string
	Variable clusterv1.ClusterVariable
}

// How long the simulated updaters take for a machine.
const (
	filesDuration   = time.Second
	kubeletDuration = time.Second
)

// DefaultInPlace returns the default scenario with machines that stay. Each upgrade changes two things on a machine, its Kubernetes
// version and a file, and each of two updaters covers one of them.
func DefaultInPlace() (Scenario, error) {
	s, err := readScenario("upgradegraph.yaml", "inplace/clusterclass.yaml", "inplace/updatepolicy.yaml", "inplace/cluster.yaml")
	if err != nil {
		return Scenario{}, err
	}
	s.InPlace = &InPlace{
		Updaters: []setup.SimulatedUpdater{
			// From Kubernetes v1.31 on, Cluster API also turns on a feature gate of kubeadm on control plane machines.
			{Name: "node-files", Order: 10, Duration: filesDuration, Claims: []string{"bootstrap:/spec/files", "bootstrap:/spec/clusterConfiguration"}},
			{Name: "kubelet", Order: 20, Duration: kubeletDuration, Claims: []string{"machine:/spec/version"}},
		},
		Group:    "edge",
		Variable: clusterv1.ClusterVariable{Name: "startup", Value: apiextensionsv1.JSON{Raw: []byte(`"5s"`)}},
	}
	return s, nil
}

// withUncovered returns the upgraded Cluster with the change that no updater covers.
func (s Scenario) withUncovered() *clusterv1.Cluster {
	c := s.upgraded()
	for i := range c.Spec.Topology.Workers.MachineDeployments {
		md := &c.Spec.Topology.Workers.MachineDeployments[i]
		if md.Name == s.InPlace.Group {
			md.Variables.Overrides = append(slices.Clone(md.Variables.Overrides), s.InPlace.Variable)
		}
	}
	return c
}

// MachineUpdate is an update in place that has ended.
type MachineUpdate struct {
	// Group is empty for the control plane.
	Group   string
	Machine string
	UID     types.UID
	inplace.Summary
}

// String says what was updated, and how long each updater took.
func (u MachineUpdate) String() string {
	steps := make([]string, 0, len(u.Done))
	for _, d := range u.Done {
		steps = append(steps, fmt.Sprintf("%s %ds", d.Updater, d.Seconds))
	}
	return fmt.Sprintf("%s is at %s after %s (%s)", u.Machine, u.To, u.Ended.Sub(u.Began), strings.Join(steps, ", "))
}

// updateLog collects the updates in place that have ended. It is not safe for concurrent use.
type updateLog struct {
	seen map[string]struct{}
	list []MachineUpdate
}

func newUpdateLog() *updateLog { return &updateLog{seen: map[string]struct{}{}} }

// observe takes the next objects and returns the updates that are new in them.
func (l *updateLog) observe(o history.Objects) []MachineUpdate {
	before := len(l.list)
	for _, p := range o.Parts() {
		for _, m := range p.Machines {
			var last inplace.Summary
			text, updated := m.Object.GetAnnotations()[v1alpha1.LastUpdateAnnotation]
			if !updated || json.Unmarshal([]byte(text), &last) != nil {
				continue // The report counts an update whose record cannot be read as missing.
			}
			if _, known := l.seen[last.ID]; known {
				continue
			}
			l.seen[last.ID] = struct{}{}
			l.list = append(l.list, MachineUpdate{Group: p.Group, Machine: m.Name, UID: m.UID, Summary: last})
		}
	}
	return l.list[before:]
}

// Identity is a Machine as it can be told from one that took its place.
type Identity struct {
	// Group is empty for the control plane.
	Group, Name string
	UID         types.UID
}

// identities lists the Machines, those of the control plane first.
func identities(o history.Objects) []Identity {
	var list []Identity
	for _, p := range o.Parts() {
		for _, m := range p.Machines {
			list = append(list, Identity{Group: p.Group, Name: m.Name, UID: m.UID})
		}
	}
	return list
}

// InPlaceResult is what a run in place has shown.
type InPlaceResult struct {
	// Before and After are the Machines when the upgrade began, and at the very end.
	Before, After []Identity
	// Updates are those of the upgrade, in the order in which they were seen to have ended.
	Updates []MachineUpdate
	// Created and Deleted are the Machines that came and went from the beginning of the upgrade to the very end.
	Created, Deleted []string
	// Blocked is what the owner's condition said about the change that no updater covers; Refused what the guard said about a
	// deletion by hand. Empty where it has not come to that.
	Blocked, Refused string
}

// machineUpdates is how many machines would have been replaced: each operation's machines.
func machineUpdates(operations []plan.Operation, controlPlane int, workers map[string]int) int {
	n := 0
	for _, o := range operations {
		if o.Kind == plan.ControlPlaneUpgrade {
			n += controlPlane
			continue
		}
		for _, g := range o.Groups {
			n += workers[g]
		}
	}
	return n
}
