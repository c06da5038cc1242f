package pod

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/windlass-dev/windlass/internal/transport"
)

// stream runs the command in the Pod, over WebSockets, or over SPDY where the API server does not know them for this.
func (h *host) stream(ctx context.Context, run *transport.Run) error {
	// The library logs all that goes wrong with streams, such as a script that does not read its stdin.
	ctx = klog.NewContext(ctx, logr.Discard())
	target := h.client.CoreV1().RESTClient().Post().Namespace(h.options.Namespace).Resource("pods").Name(podName(h.options.Node)).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: containerName, Command: run.NodeCommand(), Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	watch := &refusals{}
	config := rest.CopyConfig(h.options.Config)
	config.Wrap(watch.wrap)
	websocket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, target.String())
	if err != nil {
		return fmt.Errorf("preparing WebSockets: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, target)
	if err != nil {
		return fmt.Errorf("preparing SPDY: %w", err)
	}
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("preparing the connection: %w", err)
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: run.Input(), Stdout: run.Stdout(), Stderr: run.Stderr()})
	if err != nil && watch.forbidden.Load() {
		return fmt.Errorf("%w: %w", errForbidden, err)
	}
	return err
}

// errForbidden: the API server does not let us run anything in the Pod.
var errForbidden = errors.New("it is forbidden")

// refusals looks at the API server's last answer: the library for SPDY keeps only its words.
type refusals struct{ forbidden atomic.Bool }

func (f *refusals) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		f.forbidden.Store(response != nil && (response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized))
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
