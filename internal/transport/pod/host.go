package pod

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/exec"

	"github.com/windlass-dev/windlass/internal/peer"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport"
)

// Options is what New needs.
type Options struct {
	// Config reaches the API server of the workload cluster.
	Config *rest.Config
	// Namespace is where the Pod is made; empty means kube-system.
	Namespace string
	// Node is the node's name.
	Node string
	// Image holds sleep and nsenter.
	Image string
	// StartTimeout bounds how long one Exec waits for the Pod to run; 0 means 30 s.
	StartTimeout time.Duration
	// Lifetime is when the Pod ends by itself, counted from its start, in whole seconds; 0 means an hour. A script that runs then is lost.
	Lifetime time.Duration
}

const (
	defaultNamespace    = metav1.NamespaceSystem
	defaultStartTimeout = 30 * time.Second
	defaultLifetime     = time.Hour
	// requestTimeout bounds one request about the Pod. Streams have no bound but their context.
	requestTimeout = 10 * time.Second
	// pollEvery is how often a Pod is looked at that does not run yet. A watch would need one more permission.
	pollEvery = 250 * time.Millisecond
)

// host is a port.Host through a Pod.
type host struct {
	options Options
	client  kubernetes.Interface

	mu     sync.Mutex
	closed bool
	// seen is the UID of the Pod that was there last, and used that of the Pod that ran the first script.
	seen, used types.UID
}

// New checks the options; it calls nobody. Its errors, and those of Exec, are *port.HostError.
func New(o Options) (port.Host, error) {
	if o.Namespace == "" {
		o.Namespace = defaultNamespace
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.Lifetime <= 0 {
		o.Lifetime = defaultLifetime
	}
	fail := func(problem error) (port.Host, error) {
		return nil, &port.HostError{Reason: port.HostSetup, Host: o.Node, Err: problem}
	}
	switch {
	case o.Config == nil:
		return fail(errors.New("nothing says how to reach the API server"))
	case o.Node == "":
		return fail(errors.New("no node is given"))
	case o.Image == "":
		return fail(errors.New("no image for the Pod is given"))
	case o.Lifetime < time.Second:
		return fail(fmt.Errorf("the Pod cannot live for %s; a second is the least", o.Lifetime))
	}
	limits := peer.Limits{Timeout: requestTimeout}
	o.Config = peer.Bound(o.Config, limits)
	transport, err := peer.NewAPIServerTransport(o.Config, limits)
	if err != nil {
		return fail(fmt.Errorf("the configuration of the API server's client: %w", err))
	}
	client, err := kubernetes.NewForConfigAndClient(o.Config, peer.NewClient(transport, limits))
	if err != nil {
		return fail(fmt.Errorf("the configuration of the API server's client: %w", err))
	}
	return &host{options: o, client: client}, nil
}

func (h *host) fail(reason port.HostReason, err error) error {
	return &port.HostError{Reason: reason, Host: h.options.Node, Err: err}
}

var errClosed = errors.New("the host was closed by its user")

// Exec runs a script. A connection that is dead without a sign is noticed after a minute only; ctx should end before.
func (h *host) Exec(ctx context.Context, c port.HostCommand) (port.HostResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run, err := transport.NewRun(h.options.Node, rand.Text(), c, func() { cancel(errors.New("stdin cannot be read")) })
	if err != nil {
		return port.HostResult{}, err
	}
	if err := h.ensure(ctx); err != nil {
		return port.HostResult{}, err
	}
	streamed := make(chan struct{})
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	var status error
	go func() {
		status = h.stream(streaming, run)
		close(streamed)
	}()
	if !run.WaitEnd(streamed) {
		<-streamed
	}
	result, known, inputErr := run.Result()
	switch {
	case inputErr != nil:
		return port.HostResult{}, h.fail(port.HostLost, inputErr)
	case known:
		return result, nil
	}
	return port.HostResult{}, h.unknown(ctx, run, status)
}

// unknown says why a script's end is not known.
func (h *host) unknown(ctx context.Context, run *transport.Run, status error) error {
	var exit exec.CodeExitError
	switch {
	case ctx.Err() != nil && run.Sent():
		return h.fail(port.HostLost, context.Cause(ctx))
	case ctx.Err() != nil:
		return h.fail(port.HostUnreachable, fmt.Errorf("connecting to the Pod %s: %w", h.name(), context.Cause(ctx)))
	case run.Started() && status == nil:
		return h.fail(port.HostLost, fmt.Errorf("the connection to the Pod %s ended before the script was seen to end", h.name()))
	case run.Started():
		return h.fail(port.HostLost, fmt.Errorf("the connection to the Pod %s ended before the script was seen to end: %w", h.name(), status))
	case errors.As(status, &exit):
		reason, err := run.NotStarted(exit.Code)
		return h.fail(reason, fmt.Errorf("the Pod %s does not get onto its host: %w", h.name(), err))
	case status == nil:
		return h.fail(port.HostLost, fmt.Errorf("the connection to the Pod %s ended before the script was seen to start", h.name()))
	case run.Sent():
		return h.fail(port.HostLost, fmt.Errorf("running a script in the Pod %s: %w", h.name(), status))
	}
	return h.refused("run a script in the Pod", "get and create of pods/exec", status)
}

func (h *host) name() string { return h.options.Namespace + "/" + podName(h.options.Node) }

// refused tells what an API server forbids from one that is not reached.
func (h *host) refused(doing, permission string, err error) error {
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || errors.Is(err, errForbidden):
		return h.fail(port.HostLoginRefused, fmt.Errorf("the workload cluster does not let us %s %s: %w; RBAC must allow %s in namespace %s, and the namespace privileged Pods",
			doing, h.name(), err, permission, h.options.Namespace))
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return h.fail(port.HostSetup, fmt.Errorf("the workload cluster does not let us %s %s: %w", doing, h.name(), err))
	}
	return h.fail(port.HostUnreachable, fmt.Errorf("trying to %s %s: %w", doing, h.name(), err))
}

// ensure makes the Pod run.
func (h *host) ensure(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, h.options.StartTimeout, fmt.Errorf("not within %s", h.options.StartTimeout))
	defer cancel()
	ticks := time.NewTicker(pollEvery)
	defer ticks.Stop()
	for {
		words, err := h.step(waiting)
		if err != nil || words == "" {
			return err
		}
		select {
		case <-ticks.C:
		case <-waiting.Done():
		}
		// Both may have happened. Another request would fail, and its error not name the words.
		if waiting.Err() != nil {
			return h.fail(port.HostUnreachable, fmt.Errorf("the Pod %s does not run: %s: %w", h.name(), words, context.Cause(waiting)))
		}
	}
}

// step does the next thing that brings the Pod nearer to running. It says what it is waiting for; nothing when the Pod runs.
func (h *host) step(ctx context.Context) (words string, err error) {
	if h.isClosed() {
		return "", h.fail(port.HostSetup, errClosed)
	}
	pod, err := h.readOrCreate(ctx)
	if apierrors.IsAlreadyExists(err) {
		return "somebody else makes it", nil
	}
	if err != nil {
		return "", err
	}
	state, words := stateOf(pod, h.options.Node)
	if state != foreign {
		h.see(pod.UID)
	}
	if !h.mayUse(pod.UID, state) {
		return "", h.fail(port.HostLost, fmt.Errorf("the Pod %s was replaced, and may be on another host: "+
			"nothing runs there before the host is identified again", h.name()))
	}
	switch state {
	case usable:
		return "", nil
	case stuck:
		return "", h.fail(port.HostUnreachable, fmt.Errorf("the Pod %s does not start: %s", h.name(), words))
	case foreign:
		return "", h.fail(port.HostSetup, fmt.Errorf("there is a Pod %s, but %s. Fix: delete it", h.name(), words))
	case over:
		if err := h.remove(ctx, pod.UID); err != nil {
			return "", err
		}
	case starting, leaving:
	}
	return words, nil
}

func (h *host) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

func (h *host) see(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = uid
}

// mayUse reports whether a Pod is the one that ran the first script, and remembers the first usable one.
func (h *host) mayUse(uid types.UID, s state) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used == "" && s == usable {
		h.used = uid
	}
	return h.used == "" || h.used == uid
}

func (h *host) readOrCreate(ctx context.Context) (*corev1.Pod, error) {
	pods := h.client.CoreV1().Pods(h.options.Namespace)
	pod, err := pods.Get(ctx, podName(h.options.Node), metav1.GetOptions{})
	switch {
	case err == nil:
		return pod, nil
	case !apierrors.IsNotFound(err):
		return nil, h.refused("read the Pod", "get of pods", err)
	}
	pod, err = pods.Create(ctx, newPod(h.options.Namespace, h.options.Node, h.options.Image, h.options.Lifetime), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, h.refused("create the Pod", "create of pods", err)
	}
	return pod, err
}

// remove deletes the Pod, if it is still the one that is meant.
func (h *host) remove(ctx context.Context, uid types.UID) error {
	err := h.client.CoreV1().Pods(h.options.Namespace).Delete(ctx, podName(h.options.Node), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return h.refused("delete the Pod", "delete of pods", err)
}

// closeTimeout bounds the request that deletes the Pod.
const closeTimeout = 10 * time.Second

// Close deletes the Pod. Its deadline ends one that cannot be deleted.
func (h *host) Close() error {
	h.mu.Lock()
	seen := h.seen
	h.closed, h.seen = true, ""
	h.mu.Unlock()
	if seen == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return h.remove(ctx, seen)
}
