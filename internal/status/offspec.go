package status

import (
	"cmp"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/pkg/version"
)

// OffSpec is a Machine at rest whose node runs another version than its spec says, because an annotation brought it there.
type OffSpec struct {
	Machine string          `json:"machine"`
	Group   string          `json:"group"`
	Runs    version.Version `json:"runs"`
	Spec    version.Version `json:"spec"`
	// Blocks says that Cluster API takes the Machine for being upgraded, and therefore refuses another spec.topology.version.
	Blocks bool `json:"blocksTopology"`
	// Message says what a person should know of it.
	Message string `json:"message"`
}

// listOffSpecs finds such Machines, by name.
func listOffSpecs(f Facts, groups groupsByKey) map[string]OffSpec {
	found := map[string]OffSpec{}
	for _, m := range f.Machines {
		if off, is := computeOffSpec(f, m); is {
			off.Group = groups.of(m).Name
			found[m.Name] = off
		}
	}
	return found
}

// computeOffSpec finds a Machine of that kind. While something is done to it, or may be, it is none.
func computeOffSpec(f Facts, m *clusterv1.Machine) (OffSpec, bool) {
	a := readAsked("Machine", m, m.Status.Conditions, cmp.Or(f.Prefix, v1alpha1.DefaultInPlaceUpgradePrefix), checkUpgrade)
	if !isInstalled(a) || isTouched(m) || m.Status.NodeInfo == nil {
		return OffSpec{}, false
	}
	spec, errSpec := version.Parse(m.Spec.Version)
	runs, errRuns := version.Parse(m.Status.NodeInfo.KubeletVersion)
	if errSpec != nil || errRuns != nil || spec.RunBy(runs) || !brings(a.marks.Release, runs) {
		return OffSpec{}, false
	}
	controlPlane := capi.IsControlPlane(m)
	_, owned := m.Labels[clusterv1.ClusterTopologyOwnedLabel]
	off := OffSpec{
		Machine: m.Name, Runs: runs, Spec: spec, Blocks: owned && !controlPlane && f.Cluster.Spec.Topology.IsDefined(),
		Message: fmt.Sprintf("runs %s by annotation, its spec says %s", runs, spec),
	}
	if off.Blocks {
		off.Message += fmt.Sprintf("; Cluster API treats it as upgrading, and refuses another spec.topology.version until it runs %s again: "+
			"windlass upgrade machine %s -n %s --to with a release of that version", spec, m.Name, f.Cluster.Namespace)
	}
	return off, true
}

// isInstalled reports whether a Machine has a release, and no annotation's upgrade may be changing that.
func isInstalled(a asked[request.Upgrade]) bool {
	return a.marks.Release != "" && a.problem == nil && !a.record.IsRunning() && !a.isAbandoned()
}

// isTouched reports whether a Machine goes, or Cluster API updates it.
func isTouched(m *clusterv1.Machine) bool {
	_, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	_, recorded := m.Annotations[v1alpha1.UpdateProgressAnnotation]
	return marked || recorded || !m.DeletionTimestamp.IsZero() || updating(m) != nil
}

// brings reports whether a release may have brought a node to a version: one that names no version may.
func brings(release string, runs version.Version) bool {
	o, err := request.ParseOption(release)
	if err != nil {
		return false
	}
	exact, named := o.Exact()
	return !named || exact.RunBy(runs)
}

// atRest returns the facts with the Machines that annotations brought to another version as if they ran that of their spec, and how many there are.
func (f Facts) atRest() (rested Facts, offSpec int) {
	machines := make([]*clusterv1.Machine, 0, len(f.Machines))
	for _, m := range f.Machines {
		if _, off := computeOffSpec(f, m); off {
			m = m.DeepCopy()
			m.Status.NodeInfo.KubeletVersion = m.Spec.Version
			offSpec++
		}
		machines = append(machines, m)
	}
	f.Machines = machines
	return f, offSpec
}
