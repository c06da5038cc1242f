package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

const (
	controllerWorkers = 10
	// Until the next look at discovery, instances of a new CRD are unknown to the garbage collector; kube-controller-manager
	// looks every 30 seconds, which is too long for a cluster that lives for minutes.
	discoveryPeriod = 5 * time.Second
	informerResync  = 12 * time.Hour
	namespaceResync = 5 * time.Minute
	readyPollPeriod = 50 * time.Millisecond
)

// runControllers waits for the API server and then runs the garbage collector, the namespace controller and the
// aggregation of ClusterRoles until ctx ends.
func runControllers(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("loading the controllers' kubeconfig: %w", err)
	}
	config.UserAgent = "windlass-dev-controllers"
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the controllers' client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the controllers' metadata client: %w", err)
	}
	// Errors are not kept: until the server listens, there is nothing but connections refused.
	err = wait.PollUntilContextCancel(ctx, readyPollPeriod, true, func(ctx context.Context) (bool, error) {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
	if err != nil {
		return nil //nolint:nilerr // the only error is the end of ctx, which is an orderly stop
	}

	shared := informers.NewSharedInformerFactory(client, informerResync)
	metadataInformers := metadatainformer.NewSharedInformerFactory(metadataClient, informerResync)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	started := make(chan struct{})
	collector, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper,
		garbagecollector.DefaultIgnoredResources(), informerfactory.NewInformerFactory(shared, metadataInformers), started)
	if err != nil {
		return fmt.Errorf("making the garbage collector: %w", err)
	}
	namespaces := namespace.NewNamespaceController(ctx, client, metadataClient, client.Discovery().ServerPreferredNamespacedResources,
		shared.Core().V1().Namespaces(), namespaceResync, corev1.FinalizerKubernetes)
	roles := clusterroleaggregation.NewClusterRoleAggregation(shared.Rbac().V1().ClusterRoles(), client.RbacV1())
	rules, err := newDrainRules(config, shared.Core().V1().Namespaces().Informer())
	if err != nil {
		return err
	}
	shared.Start(ctx.Done())
	metadataInformers.Start(ctx.Done())
	close(started)

	klog.InfoS("Running the garbage collector, the namespace controller, the aggregation of roles and the drain rules")
	var group sync.WaitGroup
	group.Go(func() { rules.run(ctx) })
	group.Go(func() { roles.Run(ctx, 1) })
	group.Go(func() { namespaces.Run(ctx, controllerWorkers) })
	group.Go(func() { collector.Sync(ctx, client.Discovery(), discoveryPeriod) })
	group.Go(func() { collector.Run(ctx, controllerWorkers, discoveryPeriod) })
	group.Wait()
	return nil
}
