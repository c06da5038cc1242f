package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

const (
	// pageSize bounds one answer of the API server, so that large clusters are read in pieces.
	pageSize = 500
	// completionTimeout bounds how long a person waits for the names of Clusters after pressing Tab.
	completionTimeout = 3 * time.Second
)

// serverError says what could not be read from the management cluster.
type serverError struct {
	// item is what was read, such as Cluster my-namespace/my-cluster.
	item string
	err  error
}

func (e *serverError) Error() string { return fmt.Sprintf("reading %s: %v", e.item, e.err) }
func (e *serverError) Unwrap() error { return e.err }

// managementCluster is what is needed of one: to read objects, and to find the API version of a control plane's kind.
type managementCluster struct {
	client.Reader
	mapper meta.RESTMapper
	scheme *runtime.Scheme
	config *rest.Config
	// prefix begins the keys of the annotations that ask for upgrades in place; empty means the usual one.
	prefix string
	// cached says that Reader answers from memory, and knows no pages.
	cached bool
}

// errNoCluster says that nothing names a management cluster.
var errNoCluster = errors.New("it names no cluster; choose one with --kubeconfig or KUBECONFIG")

// connectUnlessManifests is connect for commands that read manifests instead.
func connectUnlessManifests(kube *genericclioptions.ConfigFlags) (managementCluster, string, error) {
	m, namespace, err := connect(kube)
	if errors.Is(err, errNoCluster) {
		err = fmt.Errorf("%w, or give manifests with -f", err)
	}
	return m, namespace, err
}

// connect returns the management cluster that the flags choose, and the namespace to look in.
func connect(kube *genericclioptions.ConfigFlags) (managementCluster, string, error) {
	// What goes wrong in the background reaches standard error by way of client-go's log. Without a logger controller-runtime
	// prints the stack of whatever goroutine first has something to log.
	ctrl.SetLogger(klog.Background())
	loader := kube.ToRawKubeConfigLoader()
	namespace, _, err := loader.Namespace()
	if err != nil {
		return managementCluster{}, "", &serverError{item: "the kubeconfig", err: err}
	}
	config, err := loader.ClientConfig()
	if err == nil {
		err = checkKubeconfig(loader, config)
	}
	if err != nil {
		return managementCluster{}, "", &serverError{item: "the kubeconfig", err: err}
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	m, err := newManagementCluster(config)
	return m, namespace, err
}

// newManagementCluster returns the management cluster at the API server that config names.
func newManagementCluster(config *rest.Config) (managementCluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, runtimev1.AddToScheme, v1alpha1.AddToScheme,
		corev1.AddToScheme, appsv1.AddToScheme, admissionregistrationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return managementCluster{}, fmt.Errorf("registering types: %w", err)
		}
	}
	m := managementCluster{scheme: scheme, config: config}
	c, err := m.newClient()
	if err != nil {
		return managementCluster{}, err
	}
	m.Reader, m.mapper = c, c.RESTMapper()
	return m, nil
}

// newClient returns a client that also writes and watches.
func (m managementCluster) newClient() (client.WithWatch, error) {
	c, err := client.NewWithWatch(m.config, client.Options{Scheme: m.scheme, Mapper: m.mapper})
	if err != nil {
		return nil, &serverError{item: "the management cluster", err: err}
	}
	return c, nil
}

// checkKubeconfig refuses to ask localhost, which is where client-go goes when nothing names a cluster: no kubeconfig, and
// no service account of a Pod.
func checkKubeconfig(loader clientcmd.ClientConfig, config *rest.Config) error {
	raw, err := loader.RawConfig()
	if err != nil {
		return fmt.Errorf("loading it: %w", err)
	}
	if api.IsConfigEmpty(&raw) && config.BearerTokenFile == "" {
		return errNoCluster
	}
	return nil
}

// fetchControlPlane reads the control plane object of a Cluster.
func (m managementCluster) fetchControlPlane(ctx context.Context, cluster *clusterv1.Cluster) (*unstructured.Unstructured, error) {
	return m.fetchReferenced(ctx, cluster.Namespace, cluster.Spec.ControlPlaneRef)
}

// fetchReferenced reads an object that a Cluster refers to. The reference has no API version; every version has the
// fields of Cluster API's contract, so the server's preferred one will do.
func (m managementCluster) fetchReferenced(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	mapping, err := m.mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return nil, &serverError{item: ref.Kind + " " + namespace + "/" + ref.Name, err: err}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	key := types.NamespacedName{Namespace: namespace, Name: ref.Name}
	if err := m.get(ctx, ref.Kind, key, object); err != nil {
		return nil, err
	}
	return object, nil
}

func (m managementCluster) get(ctx context.Context, kind string, key types.NamespacedName, into client.Object) error {
	err := m.Get(ctx, key, into)
	if meta.IsNoMatchError(err) {
		err = fmt.Errorf("the server does not serve it; is Cluster API v1.11 or newer installed there? %w", err)
	}
	if err != nil {
		return &serverError{item: kind + " " + key.String(), err: err}
	}
	return nil
}

// scope is where objects are looked for.
type scope struct {
	// where is what messages say of it.
	where   string
	options []client.ListOption
}

func inNamespace(namespace string) scope {
	return scope{
		where: " of namespace " + namespace, options: []client.ListOption{client.InNamespace(namespace)},
	}
}

func inCluster(key types.NamespacedName) scope {
	return scope{
		where: " of Cluster " + key.String(),
		options: []client.ListOption{
			client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name},
		},
	}
}

// listOf is the pointer type of a list of objects.
type listOf[L any] interface {
	*L
	client.ObjectList
}

// list reads all pages of a list L, whose items are of the pointer type T. kinds is what messages
// call them.
func list[T client.Object, L any, P listOf[L]](
	ctx context.Context, m managementCluster, kinds string, in scope,
) ([]T, error) {
	var all []T
	next := ""
	for {
		page := P(new(L))
		paging := []client.ListOption{client.Limit(pageSize), client.Continue(next)}
		if m.cached {
			paging = nil
		}
		err := m.List(ctx, page, append(paging, in.options...)...)
		if err == nil {
			err = meta.EachListItem(page, func(o runtime.Object) error {
				if typed, ok := o.(T); ok {
					all = append(all, typed)
				}
				return nil
			})
		}
		if err != nil {
			return nil, &serverError{item: kinds + in.where, err: err}
		}
		if next = page.GetContinue(); next == "" || m.cached {
			return all, nil
		}
	}
}

// listKnown is list by value, and finds none where the server does not know the kind.
func listKnown[V any, L any, T interface {
	*V
	client.Object
}, P listOf[L]](ctx context.Context, m managementCluster, kinds string, in scope) ([]V, error) {
	found, err := list[T, L, P](ctx, m, kinds, in)
	values := make([]V, 0, len(found))
	for _, o := range found {
		values = append(values, *o)
	}
	return values, ignoreNotFound(err)
}

// liveNames returns the names of the objects in a list L, for completion: what cannot be read is no
// error there.
func liveNames[L any, P listOf[L]](
	ctx context.Context, kube *genericclioptions.ConfigFlags, options ...client.ListOption,
) []string {
	m, namespace, err := connect(kube)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	options = append(options, client.InNamespace(namespace))
	objects, err := list[client.Object, L, P](ctx, m, "objects", scope{options: options})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	return names
}
