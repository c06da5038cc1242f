//go:build linux

package real_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// podWatch records the pods of an app as watches show them.
type podWatch struct {
	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod
	// gone are pods that were deleted, as they were last.
	gone []*corev1.Pod
	// fewest is the smallest number of pods that were Ready at the same time since awaitReady
	// returned. It is negative before.
	fewest int
	// changed is closed at the next change.
	changed chan struct{}
	// stop ends the watches.
	stop func()
}

// watchPods records until the test ends, or stop is called.
func (c *realCluster) watchPods(ctx context.Context, t *testing.T, app string) *podWatch {
	t.Helper()
	clients, err := kubernetes.NewForConfig(c.config(ctx, t))
	if err != nil {
		t.Fatal(err)
	}
	w := &podWatch{pods: map[types.UID]*corev1.Pod{}, fewest: -1, changed: make(chan struct{})}
	selected := func(o *metav1.ListOptions) { o.LabelSelector = "app=" + app }
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0,
		informers.WithNamespace(metav1.NamespaceDefault), informers.WithTweakListOptions(selected))
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(sees(w.see)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w.stop = func() {
		cancel()
		factory.Shutdown()
	}
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		w.stop()
		if t.Failed() {
			w.log(t)
		}
	})
	return w
}

// sees is called with each version of an object, and with the last one when the object is gone.
type sees func(object any, gone bool)

// OnAdd implements cache.ResourceEventHandler.
func (f sees) OnAdd(object any, _ bool) { f(object, false) }

// OnUpdate implements cache.ResourceEventHandler.
func (f sees) OnUpdate(_, object any) { f(object, false) }

// OnDelete implements cache.ResourceEventHandler.
func (f sees) OnDelete(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	f(object, true)
}

func (w *podWatch) see(object any, gone bool) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[pod.UID] = pod
	if gone {
		delete(w.pods, pod.UID)
		w.gone = append(w.gone, pod)
	}
	if w.fewest >= 0 {
		w.fewest = min(w.fewest, len(w.ready()))
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// ready returns the pods that a PodDisruptionBudget counts, in the order of their names.
func (w *podWatch) ready() []*corev1.Pod {
	var ready []*corev1.Pod
	for _, pod := range w.pods {
		isReady := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if isReady && pod.DeletionTimestamp.IsZero() {
			ready = append(ready, pod)
		}
	}
	slices.SortFunc(ready, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return ready
}

// awaitReady waits until exactly n pods exist and are Ready. It returns them, and the smallest
// number of pods that were Ready at the same time since it returned the last time.
func (w *podWatch) awaitReady(
	ctx context.Context, t *testing.T, n int,
) (ready []*corev1.Pod, fewest int) {
	t.Helper()
	w.await(ctx, t, func() string {
		ready = w.ready()
		if len(ready) != n || len(w.pods) != n {
			return fmt.Sprintf("%d of %d pods are Ready, want %d", len(ready), len(w.pods), n)
		}
		fewest, w.fewest = w.fewest, n
		return ""
	})
	return ready, fewest
}

// awaitGone waits until a pod does not exist.
func (w *podWatch) awaitGone(ctx context.Context, t *testing.T, uid types.UID) {
	t.Helper()
	w.await(ctx, t, func() string {
		if pod := w.pods[uid]; pod != nil {
			return fmt.Sprintf("pod %s exists: %+v", pod.Name, pod.Status)
		}
		return ""
	})
}

// await waits until check returns nothing.
func (w *podWatch) await(ctx context.Context, t *testing.T, check func() string) {
	t.Helper()
	for {
		w.mu.Lock()
		missing, changed := check(), w.changed
		w.mu.Unlock()
		if missing == "" {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: %v", missing, context.Cause(ctx))
		}
	}
}

// fewestReady returns the smallest number of pods that were Ready at the same time since awaitReady
// returned.
func (w *podWatch) fewestReady() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fewest
}

// checkMoved sees that a pod was evicted, not only deleted, and that the pod that was created next
// is on another node.
func (w *podWatch) checkMoved(t *testing.T, uid types.UID) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.IndexFunc(w.gone, func(p *corev1.Pod) bool { return p.UID == uid })
	if at < 0 {
		t.Errorf("the pod is not gone: %+v", w.pods[uid])
		return
	}
	pod := w.gone[at]
	at = slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Reason == "EvictionByEvictionAPI"
	})
	if at < 0 {
		t.Errorf("pod %s was deleted without an eviction: %+v", pod.Name, pod.Status.Conditions)
		return
	}
	evicted := pod.Status.Conditions[at].LastTransitionTime
	var next *corev1.Pod
	for _, other := range slices.Concat(w.gone, slices.Collect(maps.Values(w.pods))) {
		created := other.CreationTimestamp
		if !created.Before(&evicted) && (next == nil || created.Before(&next.CreationTimestamp)) {
			next = other
		}
	}
	if next == nil || next.Spec.NodeName == "" || next.Spec.NodeName == pod.Spec.NodeName {
		t.Errorf("pod %s was evicted from %s at %s, and the next one is %+v",
			pod.Name, pod.Spec.NodeName, evicted, next)
	}
}

// log shows all pods.
func (w *podWatch) log(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pod := range slices.Concat(w.gone, slices.Collect(maps.Values(w.pods))) {
		t.Logf("pod %s on %s, %s: deleted %v, %+v", pod.Name, pod.Spec.NodeName,
			pod.Status.Phase, pod.DeletionTimestamp, pod.Status.Conditions)
	}
}
