package risks

import (
	_ "embed" // The built-in list.
	"sync"

	"github.com/windlass-dev/windlass/pkg/version"
)

// APIVersion and FileKind are those of the files that this release reads.
const (
	APIVersion = "risks.windlass.dev/v1alpha1"
	FileKind   = "KnownRisks"
)

// Set is a list of known risks. The zero value has none.
type Set struct {
	// APIVersion and Kind name the format.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Revision names this list, such as the date of its last change.
	Revision string `json:"revision"`
	// EtcdVersions say which etcd a distribution brings. The first row that holds a version counts.
	EtcdVersions []EtcdVersion `json:"etcdVersions,omitempty"`
	// Risks have different ids.
	Risks []Risk `json:"risks"`
}

// EtcdVersion says which etcd some versions of a distribution bring.
type EtcdVersion struct {
	Distribution Distribution `json:"distribution"`
	// Kubernetes holds the versions that bring it.
	Kubernetes Range `json:"kubernetes"`
	// Etcd is the version, such as v3.5.24.
	Etcd version.Version `json:"etcd"`
}

// Risk is one known risk.
type Risk struct {
	// ID is a stable name in lower case, by which a risk is accepted.
	ID       string   `json:"id"`
	Kind     Kind     `json:"kind"`
	Severity Severity `json:"severity"`
	// Summary says what happens.
	Summary string `json:"summary"`
	// Condition says which clusters are affected, as far as the matchers cannot tell. It may be
	// empty.
	Condition string `json:"condition,omitempty"`
	// Fix says what a person can do.
	Fix string `json:"fix"`
	// FixedIn are the first versions without the fault, one for each minor; none where no version
	// is.
	FixedIn []version.Version `json:"fixedIn,omitempty"`
	// Sources are https URLs that describe it in public. There is at least one.
	Sources []string `json:"sources"`
	// Workers says that steps of workers are affected as well as those of the control plane.
	Workers bool `json:"workers,omitempty"`
	// Match are alternatives: a step is affected if one of them matches it.
	Match []Matcher `json:"match"`
}

// Kind says what a risk is about. An UpgradeGraph can refuse steps with floors and blocks.
type Kind string

// The kinds of risks.
const (
	// Floor: a newer version must be reached before the step.
	Floor Kind = "Floor"
	// Block: the step must not be made at all, such as to a broken release.
	Block Kind = "Block"
	// Warning: the step is safe for some clusters, which Condition tells from others.
	Warning Kind = "Warning"
)

// Severity is how bad it is.
type Severity string

// The severities, the worst first.
const (
	// Critical: data or the quorum of etcd are lost, or machines do not come back.
	Critical Severity = "Critical"
	// Outage: the upgrade ends half-way, or a component or workload fails.
	Outage Severity = "Outage"
	// Degradation: something works worse.
	Degradation Severity = "Degradation"
)

// Matcher selects steps. Each field that is set must match. A fact that is not known matches,
// because a risk that is shown in vain costs less than one that is not.
type Matcher struct {
	// Distributions are those affected; none means all.
	Distributions []Distribution `json:"distributions,omitempty"`
	// From holds the versions that the step starts from; none means all.
	From []Range `json:"from,omitempty"`
	// Oldest holds the versions of the oldest node while the control plane makes the step; none means
	// all. Nodes of unknown versions count as if they had that of the control plane.
	Oldest []Range `json:"oldest,omitempty"`
	// To holds the versions that the step ends at. A step that starts in one of them is no match:
	// it brings nothing new.
	To []Range `json:"to"`
	// Etcd selects by versions of etcd.
	Etcd EtcdMatcher `json:"etcd,omitzero"`
	// ControlPlane selects by topology.
	ControlPlane ControlPlaneMatcher `json:"controlPlane,omitzero"`
	// Machines selects clusters that have such a machine.
	Machines MachineMatcher `json:"machines,omitzero"`
	// Cluster is a fact that must hold; empty for none.
	Cluster ClusterFact `json:"cluster,omitempty"`
}

// MachineMatcher selects machines by what their Nodes report. A pattern that is empty matches all.
type MachineMatcher struct {
	// Kernel is of kernelVersion, Runtime of containerRuntimeVersion, OS of osImage.
	Kernel  Pattern `json:"kernel,omitzero"`
	Runtime Pattern `json:"runtime,omitzero"`
	OS      Pattern `json:"os,omitzero"`
	// SystemVerification selects machines where this check of kubeadm counts. Their configuration may let
	// kubeadm ignore it.
	SystemVerification bool `json:"systemVerification,omitempty"`
}

// EtcdMatcher selects steps by the etcd before and after. A zero Range holds all.
type EtcdMatcher struct {
	From Range `json:"from,omitzero"`
	To   Range `json:"to,omitzero"`
}

// ControlPlaneMatcher selects control planes.
type ControlPlaneMatcher struct {
	// Etcd is where etcd runs; empty means anywhere.
	Etcd EtcdTopology `json:"etcd,omitempty"`
	// MinMachines and MaxMachines bound the number of machines; 0 sets no bound.
	MinMachines int `json:"minMachines,omitempty"`
	MaxMachines int `json:"maxMachines,omitempty"`
}

// EtcdTopology is where etcd runs.
type EtcdTopology string

// The topologies of etcd.
const (
	// Stacked: on the machines of the control plane.
	Stacked EtcdTopology = "Stacked"
	// External: elsewhere.
	External EtcdTopology = "External"
)

//go:embed known.yaml
var builtIn []byte

var parseBuiltIn = sync.OnceValues(func() (*Set, error) { return Parse(builtIn) })

// BuiltIn returns the list of this release. The caller must not change it.
func BuiltIn() *Set {
	set, err := parseBuiltIn()
	if err != nil {
		panic(err) // A test parses it.
	}
	return set
}
