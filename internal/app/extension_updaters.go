package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/internal/updaters/handover"
	"github.com/windlass-dev/windlass/internal/updaters/remote"
	"github.com/windlass-dev/windlass/internal/workload"
)

// updaterPool opens the updaters that Updater objects register, and keeps them while their specs stay the same: they hold
// connections, and what they learnt by discovery. It forgets updaters whose object is deleted. It is safe for concurrent use.
type updaterPool struct {
	live  client.Client
	nodes *workload.Nodes
	// connections are those by SSH, of all updaters.
	connections *ssh.Connections
	// prefix begins the keys of annotations that ask for upgrades in place.
	prefix string

	mu   sync.Mutex
	open map[types.UID]openUpdater
}

type openUpdater struct {
	// spec is a copy of the one that updater was opened from. A generation would not do: an etcd
	// that is restored repeats one. Neither would a resourceVersion, which each write of a status
	// changes.
	spec    v1alpha1.UpdaterSpec
	updater port.Updater
}

// newUpdaterPool returns an empty pool. live reads Machines from the API server.
func newUpdaterPool(live client.Client, prefix string) *updaterPool {
	return &updaterPool{
		live: live, nodes: workload.New(live, time.Now), connections: ssh.NewConnections(),
		prefix: prefix, open: map[types.UID]openUpdater{},
	}
}

// addUpdaterPool is newUpdaterPool for a pool that forgets deleted Updaters while the manager runs.
func addUpdaterPool(mgr manager.Manager, live client.Client, prefix string) (*updaterPool, error) {
	pool := newUpdaterPool(live, prefix)
	if err := mgr.Add(&watchedUpdaters{pool: pool, cache: mgr.GetCache()}); err != nil {
		return nil, fmt.Errorf("adding the watch of Updaters: %w", err)
	}
	return pool, nil
}

// watchedUpdaters is a manager.Runnable that closes the updaters of deleted objects.
type watchedUpdaters struct {
	pool  *updaterPool
	cache cache.Informers
}

// NeedLeaderElection lets Start run in every replica: each has a pool.
func (*watchedUpdaters) NeedLeaderElection() bool { return false }

// Start forgets deleted Updaters until ctx is done.
func (w *watchedUpdaters) Start(ctx context.Context) error {
	informer, err := w.cache.GetInformer(ctx, &v1alpha1.Updater{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching Updaters: %w", err)
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: w.pool.forget})
	if err != nil {
		return fmt.Errorf("watching Updaters: %w", err)
	}
	<-ctx.Done()
	if err := informer.RemoveEventHandler(handler); err != nil {
		return fmt.Errorf("ending the watch of Updaters: %w", err)
	}
	return nil
}

// forget closes the updater of a deleted object. Requests under way are finished.
func (p *updaterPool) forget(deleted any) {
	if last, ok := deleted.(toolscache.DeletedFinalStateUnknown); ok {
		deleted = last.Obj
	}
	object, ok := deleted.(client.Object)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.open[object.GetUID()].updater.(interface{ Close() }); ok {
		old.Close()
	}
	delete(p.open, object.GetUID())
}

// Open returns the updater that is registered under an object.
func (p *updaterPool) Open(_ context.Context, u *v1alpha1.Updater) (port.Updater, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.open[u.UID]; ok && equality.Semantic.DeepEqual(known.spec, u.Spec) {
		return known.updater, nil
	}
	opened, err := p.newUpdater(u)
	if err != nil {
		return nil, err
	}
	// Requests under way are finished with the old one; only its idle connections go.
	if old, ok := p.open[u.UID].updater.(interface{ Close() }); ok {
		old.Close()
	}
	p.open[u.UID] = openUpdater{spec: *u.Spec.DeepCopy(), updater: opened}
	return opened, nil
}

// Check asks whether the updater of that name can be asked.
func (p *updaterPool) Check(ctx context.Context, u *v1alpha1.Updater) error {
	opened, err := p.Open(ctx, u)
	if err != nil {
		return err
	}
	return opened.Check(ctx)
}

func (p *updaterPool) newUpdater(u *v1alpha1.Updater) (port.Updater, error) {
	switch {
	case u.Spec.InProcess != nil && u.Spec.InProcess.Kind == v1alpha1.K8sdUpdater && u.Spec.InProcess.K8sd != nil:
		return p.newK8sd(*u.Spec.InProcess.K8sd)
	case u.Spec.InProcess != nil && u.Spec.InProcess.Kind.ForHosts() && u.Spec.InProcess.Host != nil:
		return p.newHosts(u.Name, u.Spec.InProcess.Kind, *u.Spec.InProcess.Host)
	case u.Spec.Remote != nil:
		return p.newRemote(u.Name, u.Spec.Remote)
	}
	return nil, fmt.Errorf("Updater %q is neither inProcess of a known kind nor remote", u.Name) //nolint:staticcheck // It starts with the name of a kind.
}

func (p *updaterPool) newRemote(name string, r *v1alpha1.RemoteUpdater) (port.Updater, error) {
	url := r.URL
	if r.Service != nil {
		resolved, err := remote.ResolveService(*r.Service)
		if err != nil {
			return nil, fmt.Errorf("the Service of updater %q: %w", name, err)
		}
		url = resolved
	}
	timeout := time.Duration(r.TimeoutSeconds) * time.Second
	client := updaters.ClientOptions{Name: name, URL: url, CABundle: r.CABundle, Timeout: timeout}
	if r.Protocol == v1alpha1.HandOverProtocol {
		return handover.New(handover.Options{
			ClientOptions: client, Machines: p.listMachines, MachineAnnotations: p.machineAnnotations, Owner: p.machineOwner,
		})
	}
	return remote.New(client, time.Now)
}

// listMachines lists the metadata of the Machines with these labels.
func (p *updaterPool) listMachines(
	ctx context.Context, namespace string, labels map[string]string,
) ([]metav1.PartialObjectMetadata, error) {
	machines := &metav1.PartialObjectMetadataList{}
	machines.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
	if err := p.live.List(ctx, machines, client.InNamespace(namespace), client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("listing Machines in namespace %s: %w", namespace, err)
	}
	return machines.Items, nil
}

// machineOwner returns the MachineDeployment of a Machine, or its control plane object.
func (p *updaterPool) machineOwner(ctx context.Context, machine types.NamespacedName) (updatesv1.Owner, error) {
	m := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	if err := p.live.Get(ctx, machine, m); err != nil {
		return updatesv1.Owner{}, fmt.Errorf("reading Machine %s: %w", machine, err)
	}
	owner, ok, err := contract.FetchOwner(ctx, p.live, m)
	if err != nil {
		return updatesv1.Owner{}, fmt.Errorf("finding the owner of Machine %s: %w", machine, err)
	}
	if !ok {
		return updatesv1.Owner{}, nil
	}
	return handover.OwnerFrom(owner), nil
}

// machineAnnotations reads the annotations of a Machine.
func (p *updaterPool) machineAnnotations(ctx context.Context, machine types.NamespacedName) (map[string]string, error) {
	m := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	if err := p.live.Get(ctx, machine, m); err != nil {
		return nil, fmt.Errorf("reading Machine %s: %w", machine, err)
	}
	return m.Annotations, nil
}
