package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// fieldOwner owns what Apply applies.
const fieldOwner = client.FieldOwner("windlass-lab")

// Connect returns a client of a plane, without a limit of requests. Its scheme has Kubernetes' types,
// Cluster API's and the project's.
func Connect(plane *devplane.Plane) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme,
		runtimev1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	config := plane.RESTConfig()
	if config == nil {
		return nil, errors.New("the plane is not up")
	}
	config.WarningHandlerWithContext, config.QPS = rest.NoWarnings{}, -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the plane: %w", err)
	}
	return c, nil
}

// Apply creates an object, or changes it to what it should be. It does not write the status.
func Apply(ctx context.Context, c client.Client, object client.Object) error {
	gvk, err := c.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("applying %T: %w", object, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object.DeepCopyObject())
	if err != nil {
		return fmt.Errorf("encoding %T: %w", object, err)
	}
	applied := &unstructured.Unstructured{Object: content}
	applied.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(content, "status")
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), fieldOwner, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", gvk.Kind, object.GetName(), err)
	}
	return nil
}

// ApplyAll applies objects in order, those that have a namespace in this one, which it creates if there is
// none. It returns once Clusters can be made from the ClusterClasses among them.
func ApplyAll(ctx context.Context, c client.WithWatch, namespace string, objects []*unstructured.Unstructured) error {
	err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	for _, object := range objects {
		namespaced, err := c.IsObjectNamespaced(object)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if namespaced {
			object = object.DeepCopy()
			object.SetNamespace(namespace)
		}
		if err := Apply(ctx, c, object); err != nil {
			return err
		}
		if object.GetKind() != "ClusterClass" {
			continue
		}
		// A Cluster that is created before its class is ready is looked at again only half a minute later.
		_, err = Await(ctx, c, &clusterv1.ClusterClassList{}, func(class *clusterv1.ClusterClass) string {
			return NotTrue(class.Status.Conditions, clusterv1.ClusterClassVariablesReadyCondition)
		}, Named(object.GetName()), client.InNamespace(namespace))
		if err != nil {
			return err
		}
	}
	return nil
}

// Named selects the objects of a name.
func Named(name string) client.ListOption { return client.MatchingFields{"metadata.name": name} }

// NotTrue returns what is missing until a condition is True: its message, for example.
func NotTrue(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	switch {
	case c == nil:
		return "it has no condition " + kind
	case c.Status != metav1.ConditionTrue:
		return fmt.Sprintf("%s is %s, %s: %s", kind, c.Status, c.Reason, c.Message)
	}
	return ""
}

// watchAgain is how long after the end of a watch the next one begins.
const watchAgain = 100 * time.Millisecond

// Await watches objects until check returns "" for one of them, and returns that object. When ctx ends
// first, the error has what check returned last.
func Await[T client.Object](
	ctx context.Context, c client.WithWatch, list client.ObjectList, check func(T) (missing string), options ...client.ListOption,
) (T, error) {
	var none T
	missing := "there is none"
	for {
		// Without a resource version, a watch begins with the objects as they are.
		w, err := c.Watch(ctx, list, options...)
		if err != nil {
			return none, fmt.Errorf("waiting for %T: %s: %w", none, missing, err)
		}
		for event := range w.ResultChan() {
			object, ok := event.Object.(T)
			if !ok {
				break // An error: the watch has to begin again.
			}
			if missing = check(object); missing == "" && event.Type != watch.Deleted {
				w.Stop()
				return object, nil
			}
		}
		w.Stop()
		// A server that ends watches at once is not asked in a busy loop.
		select {
		case <-time.After(watchAgain):
		case <-ctx.Done():
			return none, fmt.Errorf("waiting for %T: %s (%w)", none, missing, context.Cause(ctx))
		}
	}
}
