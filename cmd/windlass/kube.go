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
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, runtimev1.AddToScheme, v1alpha1.AddToScheme,
		corev1.AddToScheme, appsv1.AddToScheme, admissionregistrationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return managementCluster{}, "", fmt.Errorf("registering types: %w", err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return managementCluster{}, "", &serverError{item: "the management cluster", err: err}
	}
	return managementCluster{Reader: c, mapper: c.RESTMapper(), scheme: scheme, config: config}, namespace, nil
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
	return object, m.get(ctx, ref.Kind, types.NamespacedName{Namespace: namespace, Name: ref.Name}, object)
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

// list reads all pages of a list. T is the pointer type of the list's items.
func list[T client.Object](ctx context.Context, m managementCluster, item string, newList func() client.ObjectList, options []client.ListOption) ([]T, error) {
	var all []T
	next := ""
	for {
		page := newList()
		paging := []client.ListOption{client.Limit(pageSize), client.Continue(next)}
		if m.cached {
			paging = nil
		}
		if err := m.List(ctx, page, append(paging, options...)...); err != nil {
			return nil, &serverError{item: item, err: err}
		}
		err := meta.EachListItem(page, func(o runtime.Object) error {
			if typed, ok := o.(T); ok {
				all = append(all, typed)
			}
			return nil
		})
		if err != nil {
			return nil, &serverError{item: item, err: err}
		}
		if next = page.GetContinue(); next == "" || m.cached {
			return all, nil
		}
	}
}

// liveClusterNames is for completion: what cannot be read is no error there.
func liveClusterNames(ctx context.Context, kube *genericclioptions.ConfigFlags) []string {
	m, namespace, err := connect(kube)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	clusters, err := list[*clusterv1.Cluster](ctx, m, "Clusters", func() client.ObjectList { return &clusterv1.ClusterList{} }, []client.ListOption{client.InNamespace(namespace)})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(clusters))
	for _, c := range clusters {
		names = append(names, c.Name)
	}
	return names
}
