package devplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	fieldManager     = "windlass-dev"
	clientQPS        = 1000
	parallelApplies  = 8
	servedPollPeriod = 50 * time.Millisecond
)

var (
	crdResource        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	mutatingResource   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	validatingResource = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
)

// bringUp starts everything, in the order of dependence and at the same time where there is none.
func (s *supervisor) bringUp(ctx context.Context) error {
	built, err := readAssets(s.config.AssetsDir)
	if err != nil {
		return err
	}
	if err := s.startAPIServer(ctx, built.KubernetesVersion); err != nil {
		return err
	}
	api, err := s.newAPI()
	if err != nil {
		return err
	}
	s.step("crds", "installing the CRDs of Cluster API "+built.ClusterAPIVersion)
	if err := api.installCRDs(ctx, built); err != nil {
		return err
	}
	s.step("managers", "starting the managers")
	if err := s.startManagers(ctx, api, built); err != nil {
		return err
	}
	core := computePlacement(s.config, CoreManager)
	if core == placeStock {
		s.step("webhooks", "waiting for the webhooks")
		if err := api.awaitWebhooks(ctx); err != nil {
			return err
		}
	}
	for _, child := range s.config.Children {
		s.step(child.Name, "starting "+child.Name)
		if _, err := s.addChild(ctx, child); err != nil {
			return err
		}
	}
	if core == placeReplaced {
		s.step("webhooks", "waiting for the webhooks")
		return api.awaitWebhooks(ctx)
	}
	return nil
}

func (s *supervisor) startAPIServer(ctx context.Context, version string) error {
	s.step(APIServer, "starting etcd and kube-apiserver "+version)
	port, err := s.ports.pick(apiServerPort)
	if err != nil {
		return err
	}
	inside := endpoint(s.config.BindAddress, port)
	creds, err := newCredentials(s.layout, s.config, "https://"+inside)
	if err != nil {
		return err
	}
	if s.children.tls, err = creds.tlsConfig(); err != nil {
		return err
	}
	if _, err := creds.serving(APIServer); err != nil {
		return err
	}
	err = errors.Join(
		creds.serviceAccountKey(),
		creds.client(s.layout.clientKubeconfig(APIServer), creds.server, "windlass-dev-controllers"),
		creds.client(s.layout.insideKubeconfig(), creds.server, "windlass-dev-admin"),
		creds.client(s.layout.kubeconfig(), s.status.Server, "windlass-dev-admin"),
	)
	if err != nil {
		return err
	}
	child := computeAPIServer(s.config, s.layout, port, os.Getenv("GOGC"))
	if s.config.Audit || s.config.AuditAll {
		audit, err := enableAudit(s.config, s.layout)
		if err != nil {
			return err
		}
		child.Args = append(child.Args, audit...)
	}
	child.Env = s.environment(child)
	_, err = s.children.add(ctx, child, ChildStatus{Ports: map[string]uint16{"https": port}, CertDir: s.layout.certDir(APIServer)})
	if err != nil {
		return err
	}
	// Only now: connections are let through and children accepted once there is something to talk to.
	s.mu.Lock()
	s.creds, s.server = creds, inside
	s.status.Inside = Inside{Server: creds.server, Kubeconfig: s.layout.insideKubeconfig(), CAFile: s.layout.ca()}
	s.mu.Unlock()
	s.notify()
	return nil
}

// startManagers starts those that are wanted at the same time, and waits until they are ready and all webhooks are installed.
func (s *supervisor) startManagers(ctx context.Context, api *api, built assets) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, manager := range built.Managers {
		placement := computePlacement(s.config, manager.Name)
		if placement == placeEmpty {
			continue
		}
		child, status, err := s.preparePlace(ctx, manager)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		// One that is replaced is there to be started in its place's turn.
		registered, err := s.children.register(child, status)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		if placement == placeStock {
			group.Go(func() error {
				_, err := s.children.start(ctx, registered)
				return err
			})
		}
		// While the managers start; nothing writes what the webhooks are about until they serve.
		group.Go(func() error {
			return api.installWebhooks(ctx, manager, "https://"+loopback(status.Ports[portWebhook]), s.creds.ca.PEM())
		})
	}
	return group.Wait()
}

// preparePlace makes what a manager needs: ports, a serving certificate for its webhooks, a kubeconfig. It returns the manager's process.
func (s *supervisor) preparePlace(ctx context.Context, manager managerAssets) (Child, ChildStatus, error) {
	ports, err := s.ports.managerPorts()
	if err != nil {
		return Child{}, ChildStatus{}, err
	}
	dir, err := s.creds.serving(manager.Name)
	if err != nil {
		return Child{}, ChildStatus{}, err
	}
	account, err := s.preparePlaceLogin(ctx, manager)
	if err != nil {
		return Child{}, ChildStatus{}, err
	}
	child := computeManager(manager, s.config, s.layout, ports)
	s.mu.Lock()
	s.places[manager.Name] = place{ports: ports, certDir: dir, args: child.Args, account: account}
	s.mu.Unlock()
	child.Env = s.environment(child)
	return child, ChildStatus{Ports: ports, CertDir: dir}, nil
}

// preparePlaceLogin makes the kubeconfig of a stock manager: with a token for its ServiceAccount, which it
// returns, or with all rights.
func (s *supervisor) preparePlaceLogin(ctx context.Context, manager managerAssets) (account types.NamespacedName, err error) {
	if len(manager.Access) == 0 {
		return account, s.creds.client(s.layout.clientKubeconfig(manager.Name), s.creds.server, manager.Name)
	}
	if account, err = computeAccount(manager.Access); err != nil {
		return account, fmt.Errorf("reading the ServiceAccount of %s: %w", manager.Name, err)
	}
	_, err = s.authenticate(ctx, manager.Name, account, manager.Access)
	return account, err
}

// api is the API server as the supervisor uses it.
type api struct {
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
}

// adminConfig leads to the API server with all rights.
func (s *supervisor) adminConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.layout.insideKubeconfig())
	if err != nil {
		return nil, fmt.Errorf("loading the supervisor's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = clientQPS, clientQPS
	config.UserAgent = fieldManager
	return config, nil
}

func (s *supervisor) newAPI() (*api, error) {
	config, err := s.adminConfig()
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	return &api{dynamic: dynamicClient, discovery: discoveryClient}, nil
}

// apply is a server-side apply of an encoded object.
func (a *api) apply(ctx context.Context, resource schema.GroupVersionResource, name string, object []byte) error {
	force := true
	_, err := a.dynamic.Resource(resource).Patch(ctx, name, types.ApplyPatchType, object, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", resource.Resource, name, err)
	}
	return nil
}

// installCRDs applies all CRDs and waits until every one is served: managers that look for their types too early give up.
func (a *api) installCRDs(ctx context.Context, built assets) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelApplies)
	wanted := map[schema.GroupVersionResource]bool{}
	for _, manager := range built.Managers {
		for _, crd := range manager.CRDs {
			wanted[schema.GroupVersionResource{Group: crd.Group, Version: crd.Version, Resource: crd.Resource}] = true
			group.Go(func() error { return a.apply(groupCtx, crdResource, crd.Name, crd.Object) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var missing []string
	err := wait.PollUntilContextCancel(ctx, servedPollPeriod, true, func(context.Context) (bool, error) {
		_, lists, err := a.discovery.ServerGroupsAndResources()
		if err != nil {
			return false, nil //nolint:nilerr // groups come and go while CRDs are installed; what is missing is asked for again
		}
		missing = computeMissing(wanted, lists)
		return len(missing) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the CRDs are served, missing %s: %w", strings.Join(missing, ", "), context.Cause(ctx))
	}
	return nil
}

// computeMissing lists the wanted resources that discovery does not name, sorted.
func computeMissing(wanted map[schema.GroupVersionResource]bool, lists []*metav1.APIResourceList) []string {
	served := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			served[gv.WithResource(resource.Name)] = true
		}
	}
	var missing []string
	for gvr := range wanted {
		if !served[gvr] {
			missing = append(missing, gvr.GroupResource().String())
		}
	}
	slices.Sort(missing)
	return missing
}

func (a *api) installWebhooks(ctx context.Context, manager managerAssets, base string, ca []byte) error {
	webhooks := manager.Webhooks.At(base, ca)
	for _, w := range []struct {
		resource schema.GroupVersionResource
		present  bool
		object   any
	}{
		{mutatingResource, webhooks.Mutating != nil, webhooks.Mutating},
		{validatingResource, webhooks.Validating != nil, webhooks.Validating},
	} {
		if !w.present {
			continue
		}
		data, err := json.Marshal(w.object)
		if err != nil {
			return fmt.Errorf("encoding the webhooks of %s: %w", manager.Name, err)
		}
		if err := a.apply(ctx, w.resource, manager.Name, data); err != nil {
			return err
		}
	}
	return nil
}

// awaitWebhooks waits until the API server calls the webhooks, which it does a moment after their configuration was written. The core
// manager's stand for all: the API server learns of configurations in the order in which they were written or later, and each
// manager is ready only when its own webhook server answers. The defaulted field shows the mutating, the refusal the
// validating webhooks.
func (a *api) awaitWebhooks(ctx context.Context) error {
	var lastErr error
	err := wait.PollUntilContextCancel(ctx, servedPollPeriod, true, func(ctx context.Context) (bool, error) {
		var defaulted *unstructured.Unstructured
		defaulted, lastErr = a.tryClusterResourceSet(ctx, map[string]any{"probe": "webhooks"})
		if lastErr != nil {
			return false, nil //nolint:nilerr // asked again until ctx ends, and told then
		}
		if strategy, _, _ := unstructured.NestedString(defaulted.Object, "spec", "strategy"); strategy == "" {
			lastErr = errors.New("the mutating webhooks are not called yet")
			return false, nil
		}
		_, err := a.tryClusterResourceSet(ctx, map[string]any{})
		if err == nil {
			lastErr = errors.New("the validating webhooks are not called yet")
		} else if !apierrors.IsInvalid(err) {
			lastErr = err
		}
		return lastErr == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the webhooks: %w", errors.Join(context.Cause(ctx), lastErr))
	}
	return nil
}

func (a *api) tryClusterResourceSet(ctx context.Context, selector map[string]any) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "addons.cluster.x-k8s.io/v1beta2",
		"kind":       "ClusterResourceSet",
		"metadata":   map[string]any{"generateName": "windlass-probe-", "namespace": metav1.NamespaceDefault},
		"spec": map[string]any{
			"clusterSelector": map[string]any{"matchLabels": selector},
			"resources":       []any{map[string]any{"kind": "ConfigMap", "name": "none"}},
		},
	}}
	resource := schema.GroupVersionResource{Group: "addons.cluster.x-k8s.io", Version: "v1beta2", Resource: "clusterresourcesets"}
	return a.dynamic.Resource(resource).Namespace(metav1.NamespaceDefault).
		Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
