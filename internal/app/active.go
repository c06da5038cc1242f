package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
)

// ActivePod keeps v1alpha1.ActiveLabel on the Pod of the replica that leads, and on no other Pod of its
// component, so that a Service finds it. A manager runs it on the leader alone.
type ActivePod struct {
	// Client reads and writes Pods of one namespace, without a cache.
	Client client.Client
	// Pod is this replica's own.
	Pod types.NamespacedName
	// Serves returns nil while this replica answers requests.
	Serves func() error
	// Now is the clock.
	Now func() time.Time

	labelled atomic.Bool
	// own reports whether this replica's Pod had the label when the API server last answered about it.
	// Only Start uses it.
	own bool
	// unlabelled is nil while this replica does not lead, and while its Pod has the label.
	unlabelled atomic.Pointer[unlabelled]
}

// unlabelled is why the Pod of a leader has no label, and since when.
type unlabelled struct {
	since time.Time
	err   error
}

// Labelled reports whether this replica leads and the last check found or set the labels.
func (a *ActivePod) Labelled() bool { return a.labelled.Load() }

// NewActivePod returns the label's keeper for a Pod, as NAMESPACE/NAME.
func NewActivePod(mgr manager.Manager, pod string, serves func() error) (*ActivePod, error) {
	namespace, name, found := strings.Cut(pod, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("the Pod %q has no namespace or no name. Fix: write NAMESPACE/NAME", pod)
	}
	live, err := client.New(mgr.GetConfig(), client.Options{
		Scheme: mgr.GetScheme(), HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	active := &ActivePod{
		Client: live, Pod: types.NamespacedName{Namespace: namespace, Name: name},
		Serves: serves, Now: time.Now,
	}
	return active, addActive(active.Labelled)
}

// Ready is a healthz.Checker. It returns an error if this replica leads and could not label its Pod
// for activeGrace: no Service finds it. A replica that does not lead is Ready. So is one that only
// fails to read its Pod again or to remove the label of others, because requests still reach it.
func (a *ActivePod) Ready(*http.Request) error {
	u := a.unlabelled.Load()
	if u == nil || a.Now().Sub(u.since) <= activeGrace {
		return nil
	}
	return fmt.Errorf("no Service finds Pod %s, which leads without the label %s since %s: %w. Fix: "+
		"let the extension's ServiceAccount get, list and patch Pods in %s, and set --pod to this Pod",
		a.Pod, v1alpha1.ActiveLabel, u.since.UTC().Format(time.RFC3339), u.err, a.Pod.Namespace)
}

// setUnlabelled records that the Pod has no label, from the first of several errors on.
func (a *ActivePod) setUnlabelled(err error) {
	since := a.Now()
	if before := a.unlabelled.Load(); before != nil {
		since = before.since
	}
	a.own = false
	a.unlabelled.Store(&unlabelled{since: since, err: err})
}

// Synced tells that the caches of a manager have synced, on every replica.
type Synced struct{ is atomic.Bool }

// NeedLeaderElection lets Start run on every replica.
func (*Synced) NeedLeaderElection() bool { return false }

// Start runs once the caches have synced.
func (s *Synced) Start(context.Context) error {
	s.is.Store(true)
	return nil
}

// Ready is a healthz.Checker.
func (s *Synced) Ready(*http.Request) error {
	if !s.is.Load() {
		return errors.New("the caches have not synced")
	}
	return nil
}

const (
	// activeRetry is the first pause after a failure, and activeLongest the longest of the API server's.
	activeRetry   = 100 * time.Millisecond
	activeLongest = 5 * time.Second
	// activeRenew is how often the labels are checked and restored: people may change them.
	activeRenew = 10 * time.Second
	// activeGrace is for how long a leader without the label stays Ready.
	activeGrace = 15 * time.Second
	// activeLast bounds the removal of the label at the end.
	activeLast = 2 * time.Second
	// componentLabel is what the Pods of a component share.
	componentLabel = "app.kubernetes.io/component"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// NeedLeaderElection lets Start run on the leader only.
func (a *ActivePod) NeedLeaderElection() bool { return true }

// Start keeps the label until ctx ends, and then removes it from its own Pod. A process that is killed
// leaves it there; the next leader removes it.
func (a *ActivePod) Start(ctx context.Context) error {
	a.await(ctx, "Waiting until this replica serves", activeRetry, func(context.Context) error { return a.Serves() })
	for ctx.Err() == nil {
		a.await(ctx, "The label of the active Pod is not set", activeLongest, func(ctx context.Context) error {
			err := a.take(ctx)
			a.labelled.Store(err == nil)
			return err
		})
		select {
		case <-ctx.Done():
		case <-time.After(activeRenew):
		}
	}
	a.labelled.Store(false)
	a.unlabelled.Store(nil)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), activeLast)
	defer cancel()
	if err := a.label(last, a.Pod.Name, false); err != nil {
		logf.FromContext(ctx).Error(err, "The label of the active Pod stays until another replica leads", "pod", a.Pod)
	}
	return nil
}

// await calls do until it succeeds or ctx ends, after pauses that grow to longest. It logs each error that
// differs from the one before.
func (a *ActivePod) await(
	ctx context.Context, what string, longest time.Duration, do func(context.Context) error,
) {
	logged, pause := "", activeRetry
	for ctx.Err() == nil {
		err := do(ctx)
		if err == nil {
			return
		}
		if err.Error() != logged {
			logged = err.Error()
			logf.FromContext(ctx).Info(what, "pod", a.Pod, "reason", logged)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longest)
	}
}

// take labels this replica's Pod first, so that requests have somewhere to go, and then removes the
// label from the others. A replica that was stopped meanwhile takes no label from the next leader.
func (a *ActivePod) take(ctx context.Context) error {
	if err := a.Serves(); err != nil {
		return err
	}
	own := capi.MetadataOf(podKind)
	if err := a.Client.Get(ctx, a.Pod, own); err != nil {
		err = fmt.Errorf("reading Pod %s: %w", a.Pod, err)
		if !a.own {
			a.setUnlabelled(err)
		}
		return err
	}
	if own.Labels[v1alpha1.ActiveLabel] != "true" {
		if err := a.label(ctx, a.Pod.Name, true); err != nil {
			a.setUnlabelled(err)
			return err
		}
	}
	a.own = true
	a.unlabelled.Store(nil)
	marked := &metav1.PartialObjectMetadataList{}
	marked.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err := a.Client.List(ctx, marked, client.InNamespace(a.Pod.Namespace), client.HasLabels{v1alpha1.ActiveLabel})
	if err != nil {
		return fmt.Errorf("listing the Pods with the label %s in %s: %w", v1alpha1.ActiveLabel, a.Pod.Namespace, err)
	}
	// The process may have been stopped since the first check, and the list then has the next leader.
	if err := a.Serves(); err != nil {
		return err
	}
	var failed []error
	for i := range marked.Items {
		other := &marked.Items[i]
		if other.Name != a.Pod.Name && other.Labels[componentLabel] == own.Labels[componentLabel] {
			failed = append(failed, a.label(ctx, other.Name, false))
		}
	}
	return errors.Join(failed...)
}

// label sets or removes the label of a Pod. A Pod that is gone has none.
func (a *ActivePod) label(ctx context.Context, name string, active bool) error {
	value := "null"
	if active {
		value = `"true"`
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, v1alpha1.ActiveLabel, value)
	pod := capi.MetadataOf(podKind)
	pod.Namespace, pod.Name = a.Pod.Namespace, name
	err := a.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	if !active {
		err = client.IgnoreNotFound(err)
	}
	if err != nil {
		return fmt.Errorf("labelling Pod %s/%s: %w", a.Pod.Namespace, name, err)
	}
	return nil
}
