package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/text"
)

const (
	// prefetchEvery is when the machines of a Cluster are looked at again of which none is being
	// prepared: one may have been added, and one that failed may be due.
	prefetchEvery = time.Minute
	// mostUnprepared is how many machines an Event names.
	mostUnprepared = 5
)

// prefetching is what this process knows of the machines that are prepared before their update may
// begin. It is memory only: a question that is asked again finds what is on the machine already, so
// a record would cost a write for each machine, and save nothing but that question after a restart.
type prefetching struct {
	planning, asking *sweeper

	mu       sync.Mutex
	clusters map[types.UID]*prefetchedCluster
}

// prefetchedCluster is a Cluster with machines to prepare. Only one sweep at a time uses it.
type prefetchedCluster struct {
	// plan is the plan that was followed last, and looked when.
	plan   string
	looked time.Time
	// running says that some machine is being prepared, or was not asked about yet.
	running bool

	mu       sync.Mutex
	machines map[string]inplace.Prefetch
}

func newPrefetching(now func() time.Time) *prefetching {
	return &prefetching{
		planning: newSweeper("Finding machines to prepare", now),
		asking:   newSweeper("Preparing machines", now),
		clusters: map[types.UID]*prefetchedCluster{},
	}
}

// open returns what is known of these Clusters, and forgets all others.
func (p *prefetching) open(clusters []*clusterv1.Cluster) []*prefetchedCluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept, found := map[types.UID]*prefetchedCluster{}, make([]*prefetchedCluster, 0, len(clusters))
	for _, c := range clusters {
		known := p.clusters[c.UID]
		if known == nil {
			known = &prefetchedCluster{machines: map[string]inplace.Prefetch{}}
		}
		kept[c.UID] = known
		found = append(found, known)
	}
	p.clusters = kept
	return found
}

// isDue reports whether the machines of a Cluster are looked at now.
func (c *prefetchedCluster) isDue(plan string, now time.Time) bool {
	passed := now.Sub(c.looked)
	return c.running || c.plan != plan || passed < 0 || passed >= prefetchEvery
}

// Prefetch asks updaters about machines whose update may not begin yet, where an UpdatePolicy has
// them prepared for their next version. An updater that can prepare a machine does so. The engine
// itself writes nothing but Events: the machine gets no lock and no record, and its node is not
// drained. It works on a bounded number of machines of each namespace, and logs what fails. Calls
// must not overlap. The error is that of a list, or of ctx.
func (e *Engine) Prefetch(ctx context.Context) error {
	clusters, err := e.waitingClusters(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var planning, asking []task
	var looked []int
	known := e.prefetching.open(clusters)
	for i, cluster := range clusters {
		plan := describePlan(cluster)
		if !known[i].isDue(plan, e.Now()) {
			continue
		}
		looked = append(looked, i)
		key := client.ObjectKeyFromObject(cluster)
		planning = append(planning, task{key, func(ctx context.Context) error {
			questions, err := e.planPrefetch(ctx, cluster, known[i])
			known[i].plan, known[i].looked = plan, e.Now()
			mu.Lock()
			defer mu.Unlock()
			for _, q := range questions {
				asking = append(asking, task{q.key, func(ctx context.Context) error {
					return e.prefetch(ctx, known[i], q)
				}})
			}
			return err
		}})
	}
	e.prefetching.planning.sweep(ctx, planning)
	e.prefetching.asking.sweep(ctx, asking)
	for _, i := range looked {
		e.reportPrefetched(ctx, clusters[i], known[i])
	}
	return ctx.Err()
}

// waitingClusters returns the Clusters that have a plan, in namespaces in which an UpdatePolicy has
// machines prepared. They must not be changed.
func (e *Engine) waitingClusters(ctx context.Context) ([]*clusterv1.Cluster, error) {
	var policies v1alpha1.UpdatePolicyList
	if err := e.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing UpdatePolicies: %w", err)
	}
	namespaces := map[string]struct{}{}
	for i := range policies.Items {
		if policies.Items[i].Spec.Prefetch.MaxInFlight > 0 {
			namespaces[policies.Items[i].Namespace] = struct{}{}
		}
	}
	var waiting []*clusterv1.Cluster
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		var clusters clusterv1.ClusterList
		inNamespace := client.InNamespace(namespace)
		err := e.Client.List(ctx, &clusters, inNamespace, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing the Clusters of namespace %q: %w", namespace, err)
		}
		for i := range clusters.Items {
			if c := &clusters.Items[i]; e.selects(c) && waits(c) {
				waiting = append(waiting, c)
			}
		}
	}
	return waiting, nil
}

// waits reports whether a Cluster has a plan that Cluster API follows.
func waits(c *clusterv1.Cluster) bool {
	managed := c.Spec.Topology.IsDefined() && c.Spec.ControlPlaneRef.IsDefined()
	return managed && c.DeletionTimestamp.IsZero() && !isPaused(c, c) && describePlan(c) != ""
}

// describePlan returns the target of a Cluster and the plan in its status; empty if nothing is
// planned.
func describePlan(c *clusterv1.Cluster) string {
	var words []string
	if status := c.Status.ControlPlane; status != nil {
		for _, v := range status.UpgradePlan {
			words = append(words, v.Version)
		}
	}
	if status := c.Status.Workers; status != nil {
		for _, v := range status.UpgradePlan {
			words = append(words, "workers "+v.Version)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(append(words, "target "+c.Spec.Topology.Version), ", ")
}

// prefetch asks about one machine, and notes the answer.
func (e *Engine) prefetch(ctx context.Context, known *prefetchedCluster, q prefetchQuestion) error {
	known.mu.Lock()
	before := known.machines[q.key.Name].Begin(q.to, e.NewID(), e.Now())
	known.machines[q.key.Name] = before
	known.mu.Unlock()
	machine, readiness, err := e.askAhead(ctx, q, before.Operation)
	after := before.Postponed()
	switch {
	case err != nil:
		unknown := inplace.Readiness{Unknown: cut(err.Error())}
		after = before.Answered(unknown, q.timeout, e.Now())
	case readiness != nil:
		after = before.Answered(*readiness, q.timeout, e.Now())
	}
	known.mu.Lock()
	known.machines[q.key.Name] = after
	known.mu.Unlock()
	if machine != nil {
		e.reportPreparation(ctx, machine, q, after)
	}
	return err
}

// reportPreparation says that a machine is prepared, or once per change why it is not.
func (e *Engine) reportPreparation(
	ctx context.Context, machine *clusterv1.Machine, q prefetchQuestion, p inplace.Prefetch,
) {
	logger := logFor(ctx).WithValues("machine", q.key.String(), "to", q.to.String())
	switch about := (saidOf{machine.UID, PrefetchFailedReason}); {
	case p.Prepared:
		e.said.Forget(about)
		logger.Info("A machine is prepared for its next version")
	case p.Problem != "" && e.said.Changed(about, p.Problem, e.Now()):
		message := cut(fmt.Sprintf("The machine is not prepared for %s: %s", q.to, p.Problem))
		logger.Info("A machine is not prepared for its next version", "message", message)
		e.Events.Eventf(
			machine, nil, corev1.EventTypeWarning, PrefetchFailedReason, action, "%s", message)
	}
}

// reportPrefetched says how many machines are prepared, once no attempt is under way.
func (e *Engine) reportPrefetched(
	ctx context.Context, cluster *clusterv1.Cluster, known *prefetchedCluster,
) {
	prepared, left := 0, []string(nil)
	known.running = false
	for _, name := range slices.Sorted(maps.Keys(known.machines)) {
		switch p := known.machines[name]; {
		case p.Prepared:
			prepared++
		case p.Operation != "" || p.Asked.IsZero():
			known.running = true
		default:
			left = append(left, name)
		}
	}
	if known.running || len(known.machines) == 0 {
		return
	}
	message := fmt.Sprintf("%d of %d machines are prepared for their next version",
		prepared, len(known.machines))
	kind := corev1.EventTypeNormal
	if len(left) > 0 {
		kind = corev1.EventTypeWarning
		message += ". Not prepared: " + text.JoinSome(left, mostUnprepared, ", ") +
			". Fix: see the Events of these Machines"
	}
	if e.said.Changed(saidOf{cluster.UID, PrefetchedReason}, known.plan+message, e.Now()) {
		logFor(ctx).Info("Prepared machines for their next version",
			"cluster", client.ObjectKeyFromObject(cluster).String(), "message", message)
		e.Events.Eventf(cluster, nil, kind, PrefetchedReason, action, "%s", cut(message))
	}
}
