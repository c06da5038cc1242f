package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/text"
)

// PodPort is a port of the pod on a node that has some labels.
type PodPort struct {
	Namespace string
	Labels    map[string]string
	Node      string
	Port      int32
}

const (
	// portForwardProtocol is what an API server calls its port-forwards.
	portForwardProtocol = "portforward.k8s.io"
	// maxRefusal bounds what is read of why a port-forward broke, in bytes.
	maxRefusal = 4 << 10
)

// Forward connects to a port of a pod through the API server of a workload cluster. Of several pods that are Ready, it takes the first by name.
// ctx is for making the connection only.
func (n *Nodes) Forward(ctx context.Context, cluster types.NamespacedName, to PodPort) (net.Conn, error) {
	remote, err := n.clients.Client(ctx, cluster)
	if err != nil {
		return nil, newUnreachable(cluster, err)
	}
	var pods corev1.PodList
	err = remote.List(ctx, &pods, client.InNamespace(to.Namespace), client.MatchingLabels(to.Labels), client.MatchingFields{"spec.nodeName": to.Node})
	if err != nil {
		n.clients.Failed(ctx, cluster, remote, err)
		return nil, &unreachableError{cluster: cluster, reason: fmt.Sprintf("listing the pods %s of node %s: %s", to.selector(), to.Node, describe(err))}
	}
	pod, err := selectPod(pods.Items, to)
	if err != nil {
		return nil, err
	}
	conn, err := forward(ctx, remote, to.Namespace, pod, to.Port)
	if err != nil {
		return nil, &unreachableError{cluster: cluster, reason: fmt.Sprintf("port-forward to port %d of pod %s/%s: %s", to.Port, to.Namespace, pod, describe(err))}
	}
	return conn, nil
}

// selector words the labels.
func (p PodPort) selector() string {
	var words []string
	for key, value := range p.Labels {
		words = append(words, key+"="+value)
	}
	slices.Sort(words)
	return strings.Join(words, ",") + " in " + p.Namespace
}

// selectPod selects the pod to connect to.
func selectPod(pods []corev1.Pod, to PodPort) (string, error) {
	var ready []string
	for i := range pods {
		// The API server of a test may not select by fields.
		if pods[i].Spec.NodeName == to.Node && pods[i].DeletionTimestamp.IsZero() && isPodReady(&pods[i]) {
			ready = append(ready, pods[i].Name)
		}
	}
	switch {
	case len(ready) > 0:
		return slices.Min(ready), nil
	case len(pods) > 0:
		return "", fmt.Errorf("the pod %s of node %s is not Ready", to.selector(), to.Node)
	default:
		return "", fmt.Errorf("node %s has no pod %s", to.Node, to.selector())
	}
}

func isPodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// forward opens the two streams of a port-forward: one for bytes, and one on which the API server says what goes wrong.
func forward(ctx context.Context, remote *connection, namespace, pod string, port int32) (net.Conn, error) {
	upgraded, err := upgrade(ctx, remote, namespace, pod)
	if err != nil {
		return nil, err
	}
	made, err := spdy.NewClientConnection(upgraded)
	if err != nil {
		return nil, fmt.Errorf("starting SPDY: %w", err)
	}
	c := &forwardedConn{connection: made, name: pod, ended: make(chan struct{})}
	opened := make(chan error, 1)
	// Streams know no contexts, and wait for their answer for half a minute though the connection is gone.
	go func() { opened <- c.open(port) }()
	select {
	case err = <-opened:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		_, _ = upgraded.Close(), made.Close() // It cannot be used any more, however they end.
		return nil, fmt.Errorf("opening streams: %w", err)
	}
	return c, nil
}

// upgrade makes a connection to the API server one that speaks SPDY to it about a pod's ports.
func upgrade(ctx context.Context, remote *connection, namespace, pod string) (net.Conn, error) {
	target, err := url.JoinPath(remote.host, "api/v1/namespaces", namespace, "pods", pod, "portforward")
	if err != nil {
		return nil, errors.New("the server of the kubeconfig is not a URL")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	request.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	request.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	request.Header.Set(httpstream.HeaderProtocolVersion, portForwardProtocol)
	response, err := remote.upgrades.Do(request)
	if err != nil {
		return nil, err
	}
	stream, ok := response.Body.(io.ReadWriteCloser)
	if response.StatusCode == http.StatusSwitchingProtocols && ok {
		return streamConn{stream}, nil
	}
	defer func() { _ = response.Body.Close() }()
	refusal := "the API server answered " + statusWords(response.StatusCode)
	// answers has reduced the body to what may be shown of a Status, or to nothing.
	var status metav1.Status
	if json.NewDecoder(response.Body).Decode(&status) == nil && status.Message != "" {
		refusal += ": " + status.Message
	}
	return nil, errors.New(refusal)
}

// statusWords is an HTTP status without the words of the server, which it chooses freely.
func statusWords(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// streamConn makes a net.Conn of a stream. It has no deadlines; closing it ends all that waits.
type streamConn struct{ io.ReadWriteCloser }

type noAddress struct{}

// Network implements net.Addr.
func (noAddress) Network() string { return "port-forward" }

// String implements net.Addr.
func (noAddress) String() string { return "port-forward" }

// LocalAddr implements net.Conn.
func (streamConn) LocalAddr() net.Addr { return noAddress{} }

// RemoteAddr implements net.Conn.
func (streamConn) RemoteAddr() net.Addr { return noAddress{} }

// SetDeadline implements net.Conn, and does nothing.
func (streamConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn, and does nothing.
func (streamConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn, and does nothing.
func (streamConn) SetWriteDeadline(time.Time) error { return nil }

// forwardedConn is a connection to a port of a pod. It has no deadlines; closing it ends all that waits.
type forwardedConn struct {
	streamConn

	connection httpstream.Connection
	name       string
	// ended is closed when the API server has closed the stream of errors; problem is what it said there.
	ended   chan struct{}
	problem string
}

func (c *forwardedConn) open(port int32) error {
	headers := func(kind string) http.Header {
		return http.Header{corev1.StreamType: {kind}, corev1.PortHeader: {strconv.Itoa(int(port))}, corev1.PortForwardRequestIDHeader: {"0"}}
	}
	problems, err := c.connection.CreateStream(headers(corev1.StreamTypeError))
	if err != nil {
		return err
	}
	// Nothing is ever written there.
	if err := problems.Close(); err != nil {
		return err
	}
	data, err := c.connection.CreateStream(headers(corev1.StreamTypeData))
	if err != nil {
		return err
	}
	c.ReadWriteCloser = data
	go func() {
		defer close(c.ended)
		said, _ := io.ReadAll(io.LimitReader(problems, maxRefusal)) // A connection that broke says so on the other stream.
		c.problem = text.Bound(string(said), maxShownBytes)
	}()
	return nil
}

// Read implements net.Conn. Where the API server said why there is nothing more, that is the error.
func (c *forwardedConn) Read(b []byte) (int, error) {
	read, err := c.ReadWriteCloser.Read(b)
	if err == nil {
		return read, nil
	}
	select {
	case <-c.ended:
	case <-c.connection.CloseChan():
		return read, err
	}
	if c.problem != "" {
		return read, fmt.Errorf("pod %s: %s", c.name, c.problem)
	}
	return read, err
}

// Close implements net.Conn.
func (c *forwardedConn) Close() error { return c.connection.Close() }
