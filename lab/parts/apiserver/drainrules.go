package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

var machineDrainRules = schema.GroupVersionResource{
	Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinedrainrules",
}

const (
	// ruleRetryFirst and ruleRetryLast bound the wait for the CRD, which is installed after the start.
	ruleRetryFirst, ruleRetryLast = 100 * time.Millisecond, 5 * time.Second
	ruleName                      = "simulated-static-pods"
)

// drainRules keeps a MachineDrainRule in every namespace, with which drains skip the pods of simulated control
// planes. On real machines these are static pods, which drains skip by their mirror annotation. In-memory
// machines have pods without this annotation, and their API server knows no evictions.
type drainRules struct {
	client     dynamic.Interface
	namespaces cache.Store
	queue      workqueue.TypedRateLimitingInterface[string]
}

func newDrainRules(config *rest.Config, namespaces cache.SharedIndexInformer) (*drainRules, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client of drain rules: %w", err)
	}
	r := &drainRules{client: client, namespaces: namespaces.GetStore(), queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](ruleRetryFirst, ruleRetryLast))}
	_, err = namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if namespace, ok := o.(*corev1.Namespace); ok {
			r.queue.Add(namespace.Name)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	return r, nil
}

// run creates rules until ctx ends.
func (r *drainRules) run(ctx context.Context) {
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	for {
		namespace, shutDown := r.queue.Get()
		if shutDown {
			return
		}
		if _, exists, _ := r.namespaces.GetByKey(namespace); !exists { // a store never returns an error
			r.queue.Forget(namespace)
		} else if err := r.create(ctx, namespace); err != nil {
			klog.V(2).InfoS("A drain rule cannot be created yet", "namespace", namespace, "reason", err.Error())
			r.queue.AddRateLimited(namespace)
		}
		r.queue.Done(namespace)
	}
}

func (r *drainRules) create(ctx context.Context, namespace string) error {
	_, err := r.client.Resource(machineDrainRules).Namespace(namespace).Create(ctx, newDrainRule(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func newDrainRule() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": machineDrainRules.GroupVersion().String(), "kind": "MachineDrainRule",
		"metadata": map[string]any{"name": ruleName},
		"spec": map[string]any{
			"drain": map[string]any{"behavior": "Skip"},
			"pods":  []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"tier": "control-plane"}}}},
		},
	}}
}
