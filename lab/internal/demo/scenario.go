package demo

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

//go:embed manifests/*.yaml manifests/inplace/*.yaml manifests/real/*.yaml
var manifests embed.FS

// Scenario is a cluster, and the upgrade that the demo puts it through.
type Scenario struct {
	// Namespace holds all objects but the cluster-scoped ones.
	Namespace string
	// Objects are what the Cluster needs, in the order in which they are applied: UpgradeGraphs, templates, the ClusterClass.
	Objects []*unstructured.Unstructured
	// Cluster is applied at its own spec.topology.version first.
	Cluster *clusterv1.Cluster
	// Target is the version to upgrade to.
	Target version.Version
	// Behind names MachineDeployment topologies that are at BehindVersion when the upgrade begins. They get there as in
	// real life: the Cluster is created at that version and goes on without them, their own upgrades deferred.
	Behind        []string
	BehindVersion version.Version
	// Notices tell what was changed to make the manifests run on simulated machines.
	Notices []string
	// InPlace is set where machines are updated in place; nil where they are replaced.
	InPlace *InPlace
	// Real is set where machines are hosts; nil where they are simulated.
	Real *Real
}

// DefaultTarget is where the default scenario goes, four minors up.
func DefaultTarget() version.Version { return version.MustParse("v1.33.6") }

// Default returns the scenario that needs no manifests: 3 control plane machines and three MachineDeployments, one of them
// a minor ahead of the others.
func Default() (Scenario, error) {
	return readScenario("upgradegraph.yaml", "clusterclass.yaml", "cluster.yaml")
}

// readScenario reads the objects of a scenario, the last of which is the Cluster.
func readScenario(files ...string) (Scenario, error) {
	s := Scenario{
		Namespace: "demo", Target: DefaultTarget(),
		Behind: []string{"general", "batch"}, BehindVersion: version.MustParse("v1.28.15"),
	}
	for _, name := range files {
		objects, err := readManifest(name)
		if err != nil {
			return Scenario{}, err
		}
		s.Objects = append(s.Objects, objects...)
	}
	last := s.Objects[len(s.Objects)-1]
	s.Objects = s.Objects[:len(s.Objects)-1]
	s.Cluster = &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(last.Object, s.Cluster); err != nil {
		return Scenario{}, fmt.Errorf("decoding the demo's Cluster: %w", err)
	}
	return s, nil
}

func readManifest(name string) ([]*unstructured.Unstructured, error) {
	data, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return nil, fmt.Errorf("reading the demo's %s: %w", name, err)
	}
	return manifest.ReadObjects([]string{manifest.Stdin}, bytes.NewReader(data))
}

// Request is what there will be to plan when the upgrade begins. It needs nothing but the scenario, so that a plan that
// cannot exist is found before anything is started.
func (s Scenario) Request() (plan.Request, error) {
	class := &clusterv1.ClusterClass{}
	var graphs []*v1alpha1.UpgradeGraph
	for _, o := range s.Objects {
		var err error
		switch o.GetKind() {
		case "ClusterClass":
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, class)
			class.Namespace = s.Namespace
		case "UpgradeGraph":
			graph := &v1alpha1.UpgradeGraph{}
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, graph)
			graphs = append(graphs, graph)
		}
		if err != nil {
			return plan.Request{}, fmt.Errorf("reading %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	source, _, err := snapshot.Source(nil, class, graphs)
	if err != nil {
		return plan.Request{}, err
	}
	start, err := version.Parse(s.Cluster.Spec.Topology.Version)
	if err != nil {
		return plan.Request{}, fmt.Errorf("reading the Cluster's spec.topology.version: %w", err)
	}
	request := plan.Request{Inventory: plan.Inventory{ControlPlane: start}, Target: s.Target, Source: source}
	for _, md := range s.Cluster.Spec.Topology.Workers.MachineDeployments {
		g := plan.Group{Name: md.Name, Kind: plan.MachineDeployment, Version: start}
		if slices.Contains(s.Behind, md.Name) {
			g.Version = s.BehindVersion
		}
		request.Inventory.Groups = append(request.Inventory.Groups, g)
	}
	return request, nil
}

// stage is a form of the Cluster that is applied, after which the demo waits until all machines are ready.
type stage struct {
	// what says what the stage is for.
	what    string
	cluster *clusterv1.Cluster
	// versions has the version of each part that must exist; the control plane's name is "".
	versions map[string]version.Version
	// finished says that Cluster API must take the upgrade for ended as well.
	finished bool
	// narrated says that changes of versions are shown.
	narrated bool
}

// missing returns what is missing until exactly the stage's parts are ready at their versions; "" if
// nothing is missing.
func (s stage) missing(o history.Objects) string {
	if len(o.Groups)+1 != len(s.versions) {
		return fmt.Sprintf("the Cluster has %d groups, not %d", len(o.Groups), len(s.versions)-1)
	}
	for _, name := range slices.Sorted(maps.Keys(s.versions)) {
		if missing := o.NotReady(name, s.versions[name].String()); missing != "" {
			return missing
		}
	}
	if s.finished {
		return o.Pending()
	}
	return ""
}

// finalStage is where the upgrade ends.
func (s Scenario) finalStage(what string, narrated bool) stage {
	return stage{what: what, cluster: s.upgraded(), versions: s.versions(s.Target), finished: true, narrated: narrated}
}

// controlPlaneName stands for the control plane where groups have names.
const controlPlaneName = ""

// computeStages returns what is applied before the upgrade begins.
func (s Scenario) computeStages() ([]stage, error) {
	start, err := version.Parse(s.Cluster.Spec.Topology.Version)
	if err != nil {
		return nil, fmt.Errorf("reading the Cluster's spec.topology.version: %w", err)
	}
	if len(s.Behind) == 0 {
		return []stage{{
			what:    fmt.Sprintf("Creating Cluster %s at %s", s.Cluster.Name, start),
			cluster: s.Cluster.DeepCopy(), versions: s.versions(start),
		}}, nil
	}
	old := s.deferred()
	keepGroups(old, s.Behind)
	old.Spec.Topology.Version = s.BehindVersion.String()
	rest := "Adding a pool that starts a minor ahead"
	if s.InPlace == nil {
		// One control plane machine is enough until the pools are where they should be; that saves most of the time. Machines
		// that stay need at least three: Cluster API refuses a control plane without surge below that.
		one := int32(1)
		old.Spec.Topology.ControlPlane.Replicas = &one
		rest = "Adding the remaining control plane machines, and a pool that starts a minor ahead"
	}
	ahead := old.DeepCopy()
	ahead.Spec.Topology.Version = start.String()
	atOld := map[string]version.Version{controlPlaneName: s.BehindVersion}
	between := map[string]version.Version{controlPlaneName: start}
	all := s.versions(start)
	for _, name := range s.Behind {
		atOld[name], between[name], all[name] = s.BehindVersion, s.BehindVersion, s.BehindVersion
	}
	return []stage{
		{what: fmt.Sprintf("Creating Cluster %s at %s", s.Cluster.Name, s.BehindVersion), cluster: old, versions: atOld},
		{what: fmt.Sprintf("Upgrading its control plane to %s, workers deferred, so that pools differ by a minor", start), cluster: ahead, versions: between},
		{what: rest, cluster: s.deferred(), versions: all},
	}, nil
}

// upgraded returns the Cluster that starts the upgrade: the target's version, nothing deferred any more.
func (s Scenario) upgraded() *clusterv1.Cluster {
	c := s.Cluster.DeepCopy()
	c.Spec.Topology.Version = s.Target.String()
	s.allowChange(c)
	return c
}

// deferred returns the Cluster with the upgrades of the pools in Behind deferred.
func (s Scenario) deferred() *clusterv1.Cluster {
	c := s.Cluster.DeepCopy()
	s.allowChange(c)
	for i := range c.Spec.Topology.Workers.MachineDeployments {
		md := &c.Spec.Topology.Workers.MachineDeployments[i]
		for _, name := range s.Behind {
			if md.Name == name {
				md.Metadata.Annotations = map[string]string{clusterv1.ClusterTopologyDeferUpgradeAnnotation: ""}
			}
		}
	}
	return c
}

// allowChange turns off the check with which stock Cluster API refuses a new version while pools are behind the present one.
func (s Scenario) allowChange(c *clusterv1.Cluster) {
	if len(s.Behind) == 0 {
		return
	}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation] = ""
}

func keepGroups(c *clusterv1.Cluster, names []string) {
	var kept []clusterv1.MachineDeploymentTopology
	for _, md := range c.Spec.Topology.Workers.MachineDeployments {
		for _, name := range names {
			if md.Name == name {
				kept = append(kept, md)
			}
		}
	}
	c.Spec.Topology.Workers.MachineDeployments = kept
}

// versions maps the control plane and every group to v.
func (s Scenario) versions(v version.Version) map[string]version.Version {
	all := map[string]version.Version{controlPlaneName: v}
	for _, md := range s.Cluster.Spec.Topology.Workers.MachineDeployments {
		all[md.Name] = v
	}
	return all
}
