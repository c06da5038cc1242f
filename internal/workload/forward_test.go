package workload_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
	"github.com/windlass-dev/windlass/internal/workload"
)

var proxy = workload.PodPort{Namespace: namespace, Labels: map[string]string{"app": "proxy"}, Node: "node-a", Port: 2380}

// forwarder is the part of an API server that forwards ports: each pod leads to an address.
type forwarder struct {
	*apiServer

	targets map[string]string
	// hang and stall, where they are set, keep requests, and streams, from being answered until they
	// are closed. hanging is called then.
	hang, stall chan struct{}
	hanging     func()
}

func newForwarder(t *testing.T, w *world) *forwarder {
	t.Helper()
	f := &forwarder{apiServer: w.server, targets: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", f.list)
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods/{name}/portforward", f.forward)
	f.Config.Handler = f.authorize(mux)
	return f
}

func (f *forwarder) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := &corev1.PodList{TypeMeta: kind("v1", "PodList")}
	for _, pod := range f.pods {
		label, _ := strings.CutPrefix(r.URL.Query().Get("labelSelector"), "app=")
		if pod.Namespace == r.PathValue("namespace") && pod.Labels["app"] == label && "spec.nodeName="+pod.Spec.NodeName == r.URL.Query().Get("fieldSelector") {
			list.Items = append(list.Items, *pod)
		}
	}
	f.answer(w, list)
}

// forward serves one port-forward as API servers do: a stream for bytes, and one for what goes wrong.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request) {
	if f.hang != nil {
		f.hanging()
		<-f.hang
		return
	}
	target, ok := f.targets[r.PathValue("name")]
	if !ok {
		f.fail(w, apierrors.NewForbidden(corev1.Resource("pods/portforward"), r.PathValue("name"), nil))
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		f.t.Errorf("the protocol: %v", err)
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		if got := stream.Headers().Get(corev1.PortHeader); got != "2380" {
			f.t.Errorf("the port is %q", got)
		}
		if f.stall != nil {
			f.hanging()
			<-f.stall
		}
		streams <- stream
		return nil
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	byKind := map[string]httpstream.Stream{}
	for range 2 {
		stream := <-streams
		byKind[stream.Headers().Get(corev1.StreamType)] = stream
	}
	problems, data := byKind[corev1.StreamTypeError], byKind[corev1.StreamTypeData]
	if err := copyBoth(data, target); err != nil {
		_, _ = fmt.Fprintf(problems, "error forwarding port 2380: %v", err)
	}
	_, _ = data.Close(), problems.Close()
	<-conn.CloseChan()
}

// copyBoth connects a stream to an address until one side ends.
func copyBoth(stream io.ReadWriter, address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	group.Go(func() { _, _ = io.Copy(stream, conn); _ = conn.Close() })
	group.Go(func() { _, _ = io.Copy(conn, stream); _ = conn.Close() })
	group.Wait()
	return nil
}

// echo answers each line with itself.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	return listener.Addr().String()
}

func (f *forwarder) putProxy(name, node string, ready corev1.ConditionStatus, target string) {
	f.putPod(name, node, func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"app": "proxy"}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	})
	if target != "" {
		f.targets[name] = target
	}
}

func TestForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := newForwarder(t, w)
	address := echo(t)
	f.putProxy("proxy-1", "node-a", corev1.ConditionFalse, "")
	f.putProxy("proxy-2", "node-a", corev1.ConditionTrue, address)
	f.putProxy("proxy-3", "node-a", corev1.ConditionTrue, "")
	f.putProxy("proxy-0", "node-b", corev1.ConditionTrue, "")
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := w.nodes.Forward(ctx, cluster, proxy)
	if err != nil {
		t.Fatal(err)
	}
	// The context was for making it.
	cancel()
	lines := bufio.NewReader(conn)
	for _, line := range []string{"a\n", strings.Repeat("b", 1<<20) + "\n"} {
		go func() { _, _ = io.WriteString(conn, line) }()
		if got, err := lines.ReadString('\n'); err != nil || got != line {
			t.Errorf("read %d bytes, %v, want %d", len(got), err, len(line))
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a closed connection can be read")
	}
}

func TestForwardFails(t *testing.T) {
	t.Parallel()
	const closed = "127.0.0.1:1"
	for name, test := range map[string]struct {
		setUp func(*testing.T, *world, *forwarder)
		want  string
	}{
		"no pod":       {setUp: func(*testing.T, *world, *forwarder) {}, want: "node node-a has no pod app=proxy in apps"},
		"on another":   {setUp: func(_ *testing.T, _ *world, f *forwarder) { f.putProxy("p", "node-b", corev1.ConditionTrue, closed) }, want: "node node-a has no pod app=proxy in apps"},
		"not Ready":    {setUp: func(_ *testing.T, _ *world, f *forwarder) { f.putProxy("p", "node-a", corev1.ConditionUnknown, closed) }, want: "the pod app=proxy in apps of node node-a is not Ready"},
		"being ended":  {setUp: putEnding, want: "is not Ready"},
		"not allowed":  {setUp: func(_ *testing.T, _ *world, f *forwarder) { f.putProxy("p", "node-a", corev1.ConditionTrue, "") }, want: `port-forward to port 2380 of pod apps/p: the API server answered 403 Forbidden`},
		"unauthorized": {setUp: func(_ *testing.T, _ *world, f *forwarder) { f.token = "another" }, want: "listing the pods app=proxy in apps of node node-a: who are you"},
		"no kubeconfig": {
			setUp: func(t *testing.T, w *world, _ *forwarder) { t.Helper(); w.putSecret(t, cluster, []byte("{")) }, want: "cannot be asked",
		},
		"a program to log in": {
			setUp: func(t *testing.T, w *world, _ *forwarder) {
				t.Helper()
				w.putSecret(t, cluster, w.server.kubeconfig(func(c *clientcmdapi.Config) { c.AuthInfos["u"].Exec = &clientcmdapi.ExecConfig{Command: "x"} }))
			},
			want: "it runs a program to log in",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := newForwarder(t, w)
			test.setUp(t, w, f)
			if conn, err := w.nodes.Forward(t.Context(), cluster, proxy); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret-token") {
				t.Errorf("a connection %v, %v", conn, err)
			}
		})
	}
}

func putEnding(_ *testing.T, _ *world, f *forwarder) {
	f.putProxy("p", "node-a", corev1.ConditionTrue, "127.0.0.1:1")
	f.pods["p"].DeletionTimestamp = new(metav1.NewTime(start))
}

// Nobody listens at the pod's port: the API server says so on the stream of errors.
func TestForwardToNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := newForwarder(t, w)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.putProxy("p", "node-a", corev1.ConditionTrue, listener.Addr().String())
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := w.nodes.Forward(t.Context(), cluster, proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "pod p: error forwarding port 2380") {
		t.Errorf("reading: %v", err)
	}
}

// An API server that does not answer keeps its caller no longer than that waits.
func TestForwardHangs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setUp func(*forwarder, chan struct{})
		want  string
	}{
		"the request": {setUp: func(f *forwarder, until chan struct{}) { f.hang = until }, want: "no answer from"},
		"the streams": {setUp: func(f *forwarder, until chan struct{}) { f.stall = until }, want: "opening streams"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := newForwarder(t, w)
			until := make(chan struct{})
			defer close(until)
			test.setUp(f, until)
			f.putProxy("p", "node-a", corev1.ConditionTrue, "127.0.0.1:1")
			// The caller's time ends once the API server hangs.
			ctx, cancel := context.WithCancelCause(t.Context())
			f.hanging = func() { cancel(context.DeadlineExceeded) }
			if _, err := w.nodes.Forward(ctx, cluster, proxy); err == nil || !strings.Contains(err.Error(), "port-forward to port 2380 of pod apps/p: "+test.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TLS through a port-forward, as k8sd is spoken to: the certificate is for the node.
func TestForwardToK8sd(t *testing.T) {
	t.Parallel()
	server, err := k8sdtest.New(k8sdtest.Options{Names: []string{"node-a"}, Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	if err := server.AddMachine("m", "token", k8sdtest.Option{}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	f := newForwarder(t, w)
	f.putProxy("p", "node-a", corev1.ConditionTrue, server.Address())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(server.CABundle())
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return w.nodes.Forward(ctx, cluster, proxy)
		},
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "node-a"}, DisableKeepAlives: true,
	}
	for _, want := range []string{`"changeId":"1"`, "exit status 10"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://node-a/1.0/snap/refresh", strings.NewReader(`{"revision":"7"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("node-token", "token")
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("the answer is %s, %v, want %s", answer, err, want)
		}
		_ = response.Body.Close()
	}
}
