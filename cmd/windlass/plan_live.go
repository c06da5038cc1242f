package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/snapshot"
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
}

// connect returns the management cluster that the flags choose, and the namespace to look in.
func (o *planOptions) connect() (managementCluster, string, error) {
	loader := o.kube.ToRawKubeConfigLoader()
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
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return managementCluster{}, "", fmt.Errorf("registering types: %w", err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return managementCluster{}, "", &serverError{item: "the management cluster", err: err}
	}
	return managementCluster{Reader: c, mapper: c.RESTMapper()}, namespace, nil
}

// checkKubeconfig refuses to ask localhost, which is where client-go goes when nothing names a cluster: no kubeconfig, and
// no service account of a Pod.
func checkKubeconfig(loader clientcmd.ClientConfig, config *rest.Config) error {
	raw, err := loader.RawConfig()
	if err != nil {
		return fmt.Errorf("loading it: %w", err)
	}
	if api.IsConfigEmpty(&raw) && config.BearerTokenFile == "" {
		return errors.New("it names no cluster; choose one with --kubeconfig or KUBECONFIG, or give manifests with -f")
	}
	return nil
}

// resolveLive makes a request from a Cluster of the management cluster.
func (o *planOptions) resolveLive(ctx context.Context, name string, in planInput) (planRequest, error) {
	if in.noWorkers || in.unnamed {
		return planRequest{}, &flagError{flag: "--no-workers, --workers-from", problem: "they are for plans from flags alone; use --group NAME=VERSION to override a group of the Cluster"}
	}
	m, namespace, err := o.connect()
	if err != nil {
		return planRequest{}, err
	}
	objects, err := m.fetchObjects(ctx, types.NamespacedName{Namespace: namespace, Name: name}, in.from.IsZero())
	if err != nil {
		return planRequest{}, err
	}
	live := origins{}
	r, _, err := resolveState(objects, in, live)
	if err != nil {
		return planRequest{}, err
	}
	if in.versions != nil {
		r.request.Source = in.versions
		return r, nil
	}
	class, graphs, err := m.fetchSource(ctx, objects.Cluster)
	if err != nil {
		return planRequest{}, err
	}
	var ref snapshot.Ref
	if r.request.Source, ref, err = snapshot.Source(class, graphs); err != nil {
		return planRequest{}, live.describe(err)
	}
	r.source = live.locate(ref)
	if ref.Kind == "UpgradeGraph" {
		r.notes = append(r.notes, fmt.Sprintf("the extension %q was not called; the plan is made from the UpgradeGraph that serves the class",
			class.Spec.Upgrade.External.GenerateUpgradePlanExtension))
	}
	return r, nil
}

// fetchObjects reads a Cluster and what belongs to it. Machines are read only where groups do not list their versions.
func (m managementCluster) fetchObjects(ctx context.Context, key types.NamespacedName, withControlPlane bool) (snapshot.Objects, error) {
	o := snapshot.Objects{Cluster: &clusterv1.Cluster{}}
	if err := m.get(ctx, "Cluster", key, o.Cluster); err != nil {
		return snapshot.Objects{}, err
	}
	var err error
	if withControlPlane && o.Cluster.Spec.ControlPlaneRef.IsDefined() {
		if o.ControlPlane, err = m.fetchControlPlane(ctx, o.Cluster); err != nil {
			return snapshot.Objects{}, err
		}
	}
	item := func(kind string) string { return fmt.Sprintf("%s of Cluster %s", kind, key) }
	ofCluster := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}}
	o.MachineDeployments, err = list[*clusterv1.MachineDeployment](ctx, m, item("MachineDeployments"), func() client.ObjectList { return &clusterv1.MachineDeploymentList{} }, ofCluster)
	if err != nil {
		return snapshot.Objects{}, err
	}
	o.MachinePools, err = list[*clusterv1.MachinePool](ctx, m, item("MachinePools"), func() client.ObjectList { return &clusterv1.MachinePoolList{} }, ofCluster)
	if err != nil || !snapshot.NeedsMachines(o) {
		return o, err
	}
	o.Machines, err = list[*clusterv1.Machine](ctx, m, item("Machines"), func() client.ObjectList { return &clusterv1.MachineList{} }, ofCluster)
	return o, err
}

// fetchControlPlane reads the object that the Cluster refers to. The reference has no API version; every version has the
// fields of Cluster API's contract, so the server's preferred one will do.
func (m managementCluster) fetchControlPlane(ctx context.Context, cluster *clusterv1.Cluster) (*unstructured.Unstructured, error) {
	ref := cluster.Spec.ControlPlaneRef
	mapping, err := m.mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return nil, &serverError{item: ref.Kind + " " + cluster.Namespace + "/" + ref.Name, err: err}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	return object, m.get(ctx, ref.Kind, types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name}, object)
}

// fetchSource reads the Cluster's class, and where that leaves plans to an extension the UpgradeGraphs, if there are any.
func (m managementCluster) fetchSource(ctx context.Context, cluster *clusterv1.Cluster) (*clusterv1.ClusterClass, []*v1alpha1.UpgradeGraph, error) {
	namespace, name, _ := snapshot.Class(cluster)
	class := &clusterv1.ClusterClass{}
	if err := m.get(ctx, "ClusterClass", types.NamespacedName{Namespace: namespace, Name: name}, class); err != nil {
		return nil, nil, err
	}
	if class.Spec.Upgrade.External.GenerateUpgradePlanExtension == "" {
		return class, nil, nil
	}
	graphs, err := list[*v1alpha1.UpgradeGraph](ctx, m, "UpgradeGraphs", func() client.ObjectList { return &v1alpha1.UpgradeGraphList{} }, nil)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		// Another extension than ours serves this class.
		return class, nil, nil
	}
	return class, graphs, err
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
		if err := m.List(ctx, page, append([]client.ListOption{client.Limit(pageSize), client.Continue(next)}, options...)...); err != nil {
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
		if next = page.GetContinue(); next == "" {
			return all, nil
		}
	}
}

// liveClusterNames is for completion: what cannot be read is no error there.
func (o *planOptions) liveClusterNames(ctx context.Context) []string {
	m, namespace, err := o.connect()
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
