package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/windlass-dev/windlass/pkg/version"
)

// History has every version of every object of the kinds that it follows, since it began. Nothing is
// polled. It is safe for concurrent use.
type History struct {
	// Reader reads the present objects.
	client.Reader

	cache  cache.Cache
	scheme *runtime.Scheme

	mu sync.Mutex
	// changed is closed and replaced whenever something changes.
	changed chan struct{}
	facts   []Fact
	// latest has the last version of each object that there ever was.
	latest  map[types.UID]Fact
	changes []Change
	// heard is called with each fact, one after another.
	heard []func(Fact)
}

// Change is a control plane or a group that was sent to another version.
type Change struct {
	Cluster types.NamespacedName
	// Group is empty for the control plane.
	Group string
	// A version that cannot be parsed is zero. Cluster API's webhooks refuse those.
	From, To version.Version
	Revision int64
	Seen     time.Time
}

// Follow begins a History of Clusters, their control planes, MachineDeployments and Machines in all
// namespaces, and of other kinds. It ends with ctx. The scheme must know the types.
func Follow(
	ctx context.Context, config *rest.Config, scheme *runtime.Scheme, others ...client.Object,
) (*History, error) {
	c, err := cache.New(config, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, fmt.Errorf("preparing to watch: %w", err)
	}
	h := &History{
		Reader: c, cache: c, scheme: scheme, changed: make(chan struct{}), latest: map[types.UID]Fact{},
	}
	go func() { _ = c.Start(ctx) }() // It fails only when it is started twice.
	err = h.Include(ctx, slices.Concat([]client.Object{
		&clusterv1.Cluster{}, &controlplanev1.KubeadmControlPlane{}, &clusterv1.MachineDeployment{}, &clusterv1.Machine{},
	}, others)...)
	return h, err
}

// Include makes the History follow further kinds. It returns once the present objects are in the History.
func (h *History) Include(ctx context.Context, kinds ...client.Object) error {
	var synced []toolscache.InformerSynced
	for _, object := range kinds {
		gvk, err := apiutil.GVKForObject(object, h.scheme)
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		informer, err := h.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", gvk.Kind, err)
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { h.see(gvk.Kind, o, false) },
			UpdateFunc: func(_, o any) { h.see(gvk.Kind, o, false) },
			DeleteFunc: func(o any) { h.see(gvk.Kind, o, true) },
		})
		if err != nil {
			return fmt.Errorf("watching %s: %w", gvk.Kind, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("waiting for the first objects: %w", context.Cause(ctx))
	}
	return nil
}

func (h *History) see(kind string, object any, gone bool) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	o, ok := object.(client.Object)
	if !ok {
		return
	}
	fact := readFact(o, kind)
	fact.Gone, fact.Deleting, fact.Seen = gone, fact.Deleting || gone, time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record(fact)
	for _, hear := range h.heard {
		hear(fact)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *History) record(fact Fact) {
	before, known := h.latest[fact.UID]
	isPart := fact.Kind == KindControlPlane || fact.Kind == KindGroup
	if known && isPart && before.Version != fact.Version {
		from, _ := version.Parse(before.Version)
		to, _ := version.Parse(fact.Version)
		h.changes = append(h.changes, Change{
			Cluster: fact.Cluster, Group: fact.Group, From: from, To: to, Revision: fact.Revision, Seen: fact.Seen,
		})
	}
	h.facts = append(h.facts, fact)
	h.latest[fact.UID] = fact
}

// OnFact makes the History call hear with each further fact, one after another. It must be quick, and must
// not call the History.
func (h *History) OnFact(hear func(Fact)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, hear)
}

// Facts returns the facts so far that match, in order.
func (h *History) Facts(match func(Fact) bool) []Fact {
	h.mu.Lock()
	defer h.mu.Unlock()
	var facts []Fact
	for _, f := range h.facts {
		if match(f) {
			facts = append(facts, f)
		}
	}
	slices.SortStableFunc(facts, func(a, b Fact) int { return cmp.Compare(a.Revision, b.Revision) })
	return facts
}

// Of returns the history of one Cluster so far, in order.
func (h *History) Of(cluster types.NamespacedName) []Fact {
	return h.Facts(func(f Fact) bool { return f.Cluster == cluster })
}

// Changes returns the changes of version of one Cluster's parts so far, in order.
func (h *History) Changes(cluster types.NamespacedName) []Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	var changes []Change
	for _, c := range h.changes {
		if c.Cluster == cluster {
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Revision, b.Revision) })
	return changes
}

// Now returns the objects of one Cluster that exist.
func (h *History) Now(cluster types.NamespacedName) Objects {
	h.mu.Lock()
	defer h.mu.Unlock()
	return newObjects(h.latest, cluster)
}

// Machines returns the last version of each Machine that there ever was in a namespace.
func (h *History) Machines(namespace string) map[types.UID]Fact {
	h.mu.Lock()
	defer h.mu.Unlock()
	machines := map[types.UID]Fact{}
	for uid, f := range h.latest {
		if f.Kind == KindMachine && f.Cluster.Namespace == namespace {
			machines[uid] = f
		}
	}
	return machines
}

// Until waits until check returns "". It calls check now and after every change. When ctx ends first, the
// error has what check returned last.
func (h *History) Until(ctx context.Context, check func() (missing string)) error {
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		missing := check()
		if missing == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s (%w)", missing, context.Cause(ctx))
		}
	}
}
