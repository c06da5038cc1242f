package metrics

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/keyed"
)

// readTimeout bounds the reads of a scrape. A cache answers them once it has synced.
const readTimeout = 5 * time.Second

// Options are what a Collector works with.
type Options struct {
	// Reader reads Clusters from a cache, and what Upgrades, Gates, Machines and Deployments are
	// about.
	Reader client.Reader
	// Serves is the value of the label serves of windlass_leader.
	Serves Role
	// Elected is closed once this process leads. Before, it serves no series of a Cluster, so no
	// two replicas serve the same one.
	Elected <-chan struct{}
	// Upgrades reports whether this process serves upgrades, gates and machines in flight.
	Upgrades func(context.Context) bool
	// Gates and Machines report whether Reader has UpgradeGates, and the metadata of Machines.
	Gates, Machines bool
	// Deployments reports whether Reader has whole MachineDeployments. If so, this process serves
	// those that are blocked, whatever Upgrades returns.
	Deployments bool
	// Filter is the value of the label clusterv1.WatchLabel of the Clusters that gauges show; empty
	// means all. Updates count for all Clusters: a hook may ask about any Machine.
	Filter string
	// Updates is what this process has counted.
	Updates *Updates
	Now     func() time.Time
	Log     logr.Logger
	// Most bounds the label sets of each family.
	Most int
}

// Collector reads a cache at each scrape, so the series of an object end with the object. It is safe
// for concurrent use.
type Collector struct {
	Options
	// holding has the time at which this process first saw a hold that no object records.
	holding *keyed.Once[holdKey]
}

type holdKey struct {
	cluster types.UID
	reason  string
}

// NewCollector returns a Collector.
func NewCollector(o Options) *Collector {
	return &Collector{Options: o, holding: keyed.NewOnce[holdKey](keyed.Forever, 0)}
}

// Describe lists the families.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, g := range gauges() {
		descs <- g.desc
	}
	descs <- leaderDesc
	descs <- omittedDesc
	c.Updates.Describe(descs)
}

// Collect serves the series of this moment. A process that does not lead, or cannot read its cache,
// serves none but windlass_leader.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	leader := func(value float64) {
		metrics <- prometheus.MustNewConstMetric(
			leaderDesc, prometheus.GaugeValue, value, string(c.Serves))
	}
	select {
	case <-c.Elected:
	default:
		leader(0)
		return
	}
	leader(1)
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	f, err := c.read(ctx)
	if err != nil {
		c.Log.Error(err, "Reading the objects of metrics")
		return
	}
	c.Updates.prune(func(cluster types.NamespacedName) bool { return f.exists[cluster] })
	c.Updates.Collect(metrics)
	samples := c.compute(f)
	for _, g := range gauges() {
		own := samples[g.name]
		for _, s := range limit(own, c.Most) {
			metrics <- prometheus.MustNewConstMetric(
				g.desc, prometheus.GaugeValue, s.value, s.labels...)
		}
		metrics <- omitted(g.name, max(0, len(own)-c.Most))
	}
	metrics <- omitted(durationFamily, c.Updates.omitted(durationFamily))
	metrics <- omitted(attemptsFamily, c.Updates.omitted(attemptsFamily))
}

func omitted(family string, sets int) prometheus.Metric {
	return prometheus.MustNewConstMetric(omittedDesc, prometheus.GaugeValue, float64(sets), family)
}

// facts are the objects of one scrape. They belong to the cache and are not changed.
type facts struct {
	upgrades bool
	// exists has all Clusters, clusters those that the filter selects.
	exists   map[types.NamespacedName]bool
	clusters []*clusterv1.Cluster
	gates    map[string][]*v1alpha1.UpgradeGate
	machines []metav1.PartialObjectMetadata

	deployments []clusterv1.MachineDeployment
}

func (c *Collector) read(ctx context.Context) (facts, error) {
	f := facts{
		upgrades: c.Upgrades(ctx), exists: map[types.NamespacedName]bool{},
		gates: map[string][]*v1alpha1.UpgradeGate{},
	}
	clusters := &clusterv1.ClusterList{}
	if err := c.Reader.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return f, err
	}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		f.exists[client.ObjectKeyFromObject(cluster)] = true
		if c.Filter == "" || cluster.Labels[clusterv1.WatchLabel] == c.Filter {
			f.clusters = append(f.clusters, cluster)
		}
	}
	if f.upgrades && c.Gates {
		gates := &v1alpha1.UpgradeGateList{}
		if err := c.Reader.List(ctx, gates, client.UnsafeDisableDeepCopy); err != nil {
			return f, err
		}
		for i := range gates.Items {
			g := &gates.Items[i]
			f.gates[g.Namespace] = append(f.gates[g.Namespace], g)
		}
	}
	if err := c.readWorkers(ctx, &f); err != nil {
		return f, err
	}
	slices.SortFunc(f.clusters, func(a, b *clusterv1.Cluster) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return f, nil
}

// readWorkers adds the Machines and the MachineDeployments to f.
func (c *Collector) readWorkers(ctx context.Context, f *facts) error {
	if f.upgrades && c.Machines {
		machines := &metav1.PartialObjectMetadataList{}
		machines.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
		if err := c.Reader.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		f.machines = machines.Items
	}
	if c.Deployments {
		deployments := &clusterv1.MachineDeploymentList{}
		if err := c.Reader.List(ctx, deployments, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		f.deployments = deployments.Items
	}
	return nil
}
