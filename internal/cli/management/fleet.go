package management

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/status"
)

// The kinds, beside Clusters, that FleetFacts reads if it may.
const gatesOf, machinesOf = "UpgradeGates", "Machines"

// FleetFacts reads what an overview of the Clusters of a namespace, or of all if it is empty, is
// made from. Only Clusters must be readable.
func (m Cluster) FleetFacts(
	ctx context.Context, namespace string, selector labels.Selector,
) (status.FleetFacts, error) {
	in := inFleet(namespace)
	selected := in
	selected.Options = append([]client.ListOption{
		client.MatchingLabelsSelector{Selector: selector},
	}, in.Options...)
	var f status.FleetFacts
	var err error
	f.Clusters, err = List[*clusterv1.Cluster, clusterv1.ClusterList](ctx, m, "Clusters", selected)
	if err != nil {
		return f, err
	}
	hide := func(kinds string, err error) {
		if err != nil {
			f.Hidden = append(f.Hidden, kinds+in.Where)
		}
	}
	f.Gates, err = ListKnown[v1alpha1.UpgradeGate, v1alpha1.UpgradeGateList](
		ctx, m, gatesOf, in)
	hide(gatesOf, err)
	f.Machines, err = m.machineMetadata(ctx, in)
	hide(machinesOf, err)
	return f, ctx.Err()
}

// machineMetadata reads the metadata of Machines.
func (m Cluster) machineMetadata(
	ctx context.Context, in Scope,
) ([]*metav1.PartialObjectMetadata, error) {
	return m.metadata(ctx, machinesOf, clusterv1.GroupVersion.WithKind("MachineList"), in)
}

// metadata reads the metadata of objects. list is the kind of their list.
func (m Cluster) metadata(
	ctx context.Context, kinds string, list schema.GroupVersionKind, in Scope,
) ([]*metav1.PartialObjectMetadata, error) {
	return listPages[*metav1.PartialObjectMetadata](ctx, m, kinds, in, func() client.ObjectList {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(list)
		return page
	})
}

// ClusterKeys returns the names of the Clusters of a namespace, or of all if it is empty, sorted.
func (m Cluster) ClusterKeys(
	ctx context.Context, namespace string, selector labels.Selector,
) ([]types.NamespacedName, error) {
	in := inFleet(namespace)
	in.Options = append(in.Options, client.MatchingLabelsSelector{Selector: selector})
	found, err := m.metadata(ctx, "Clusters", clusterv1.GroupVersion.WithKind("ClusterList"), in)
	keys := make([]types.NamespacedName, 0, len(found))
	for _, o := range found {
		keys = append(keys, client.ObjectKeyFromObject(o))
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return keys, err
}

// inFleet is a namespace, or all if it is empty.
func inFleet(namespace string) Scope {
	if namespace == "" {
		return Scope{Where: " of all namespaces"}
	}
	return InNamespace(namespace)
}

// fleetQPS is how many requests a second are sent for many Clusters: one takes about 20.
const fleetQPS = 100

// ForFleet returns the same management cluster for commands that look at one Cluster after the
// other. It remembers lists of all namespaces, such as Updaters and ExtensionConfigs, and objects
// without a namespace. It is safe for concurrent use.
func (m Cluster) ForFleet() (Cluster, error) {
	config := rest.CopyConfig(m.Config)
	config.QPS, config.Burst = fleetQPS, fleetQPS
	m.Config = config
	c, err := m.NewClient()
	if err != nil {
		return Cluster{}, err
	}
	m.Reader = &rememberingReader{Reader: c, known: map[string]any{}}
	return m, nil
}

// rememberingReader answers again what it was asked once, if it is the same for all Clusters. Who
// gets an answer must not change it.
type rememberingReader struct {
	client.Reader
	mu    sync.Mutex
	known map[string]any
}

// List implements client.Reader.
func (r *rememberingReader) List(
	ctx context.Context, into client.ObjectList, options ...client.ListOption,
) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	if asked.Namespace != "" {
		return r.Reader.List(ctx, into, options...)
	}
	key := fmt.Sprintf("%T %v %v %v %s", into, into.GetObjectKind().GroupVersionKind(), asked.LabelSelector,
		asked.FieldSelector, asked.Continue)
	return r.remember(key, into, func() error { return r.Reader.List(ctx, into, options...) })
}

// Get implements client.Reader.
func (r *rememberingReader) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	if key.Namespace != "" {
		return r.Reader.Get(ctx, key, into, options...)
	}
	id := fmt.Sprintf("%T %v %s", into, into.GetObjectKind().GroupVersionKind(), key.Name)
	return r.remember(id, into, func() error { return r.Reader.Get(ctx, key, into, options...) })
}

// remember copies the answer that is known into a value, or asks for it. Errors are not remembered.
func (r *rememberingReader) remember(key string, into any, ask func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	value := reflect.ValueOf(into).Elem()
	if known, ok := r.known[key]; ok {
		value.Set(reflect.ValueOf(known))
		return nil
	}
	if err := ask(); err != nil {
		return err
	}
	r.known[key] = value.Interface()
	return nil
}
