//go:build linux

package processruntime_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/pkg/version"
)

// kubelet speaks to a kubelet's server as an API server does.
type kubelet struct {
	t    *testing.T
	host *hosts.Host
}

var insecure = &tls.Config{InsecureSkipVerify: true} // The kubelet signs its certificate itself.

func (k kubelet) url(path string, query url.Values) *url.URL {
	return &url.URL{Scheme: "https", Host: k.host.Address() + ":10250", Path: path, RawQuery: query.Encode()}
}

func (k kubelet) get(path string, query url.Values) (string, error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: insecure, DisableKeepAlives: true}}
	response, err := client.Get(k.url(path, query).String())
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return string(text), err
}

// await returns the pod when its container is as the condition requires. nil is a pod that is gone.
func (k kubelet) await(what string, is func(*corev1.ContainerStatus) bool) corev1.ContainerStatus {
	k.t.Helper()
	for {
		var list corev1.PodList
		text, err := k.get("/pods", nil)
		if err == nil {
			err = json.Unmarshal([]byte(text), &list)
		}
		var container *corev1.ContainerStatus
		for _, pod := range list.Items {
			for i := range pod.Status.ContainerStatuses {
				container = &pod.Status.ContainerStatuses[i]
			}
		}
		if err == nil && is(container) {
			if container == nil {
				return corev1.ContainerStatus{}
			}
			return *container
		}
		select {
		case <-k.t.Context().Done():
			k.t.Fatalf("waiting for %s: %v\n%s\n%s\n%s",
				what, err, text, k.host.Journal("kubelet"), k.host.Journal("containerd"))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (k kubelet) exec(args ...string) (string, error) {
	query := url.Values{"command": args, "output": {"1"}}
	u := k.url("/exec/default/web-node/server", query)
	executor, err := remotecommand.NewSPDYExecutor(k.config(), http.MethodPost, u)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = executor.StreamWithContext(k.t.Context(), remotecommand.StreamOptions{Stdout: &out})
	return strings.TrimSpace(out.String()), err
}

func (k kubelet) config() *rest.Config {
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// forward returns a port of this machine that leads to the pod's.
func (k kubelet) forward(port int) uint16 {
	k.t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(k.config())
	if err != nil {
		k.t.Fatal(err)
	}
	u := k.url("/portForward/default/web-node", nil)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	ready, stop := make(chan struct{}), make(chan struct{})
	k.t.Cleanup(func() { close(stop) })
	forwarder, err := portforward.New(
		dialer, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		k.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		k.t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		k.t.Fatal(err)
	}
	return ports[0].Local
}

func (k kubelet) logs(query url.Values) string {
	k.t.Helper()
	text, err := k.get("/containerLogs/default/web-node/server", query)
	if err != nil {
		k.t.Fatal(err)
	}
	return text
}

func isReady(c *corev1.ContainerStatus) bool { return c != nil && c.Ready }

func TestStaticPods(t *testing.T) {
	t.Parallel()
	for _, minor := range []version.Minor{{Major: 1, Minor: 35}, {Major: 1, Minor: 36}} {
		t.Run(minor.String(), func(t *testing.T) {
			t.Parallel()
			k := kubelet{t, start(t, minor)}
			ready := func(restarts int32) func(*corev1.ContainerStatus) bool {
				return func(c *corev1.ContainerStatus) bool { return isReady(c) && c.RestartCount == restarts }
			}
			first := k.await("a ready container", ready(0))
			k.checkAccess()
			k.checkProbes()
			k.checkRotation()

			k.host.MustRun("kill -9 $(pgrep -x windlass-cri)")
			for out, err := k.exec("echo", "here"); out != "here"; out, err = k.exec("echo", "here") {
				if t.Context().Err() != nil {
					t.Fatal(err) // Until the next runtime serves, the kubelet has no connection.
				}
			}
			if now := k.await("the same container", ready(0)); now.ContainerID != first.ContainerID {
				t.Errorf("with another runtime %s is %s", first.ContainerID, now.ContainerID)
			}
			k.host.MustRun("kill -9 $(pgrep -x server)")
			killed := k.await("a restart", ready(1))
			if end := killed.LastTerminationState.Terminated; end == nil || end.ExitCode != 137 {
				t.Errorf("%+v", killed)
			}
			k.host.MustRun("touch /var/lib/web/dead; while pgrep -x server; do sleep 0.01; done")
			k.host.MustRun("rm /var/lib/web/dead")
			k.await("a restart after a failed liveness probe", ready(2))
			if text := k.logs(url.Values{"previous": {"true"}}); !strings.Contains(text, "stopping") {
				t.Errorf("no orderly end: %s", text)
			}
			k.checkPowerCut()
			k.host.MustRun("rm " + manifest + "; while pgrep -x windlass-shim >/dev/null; do sleep 0.01; done")
			k.await("no pod", func(c *corev1.ContainerStatus) bool { return c == nil })
		})
	}
}

func (k kubelet) checkAccess() {
	k.t.Helper()
	if text := k.logs(nil); text != "serving as process 1\n" {
		k.t.Errorf("logs: %q", text)
	}
	const script = "echo $GREETING >/data/file; touch /empty/file; cat /proc/1/comm"
	if out, err := k.exec("bash", "-c", script); out != "server" || err != nil {
		k.t.Errorf("exec: %q, %v", out, err)
	}
	if text, err := k.host.Read("/var/lib/web/file"); err != nil || string(text) != "hello\n" {
		k.t.Errorf("a volume: %q, %v", text, err)
	}
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/greeting", k.forward(8080)))
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "hello\n" {
		k.t.Errorf("port-forward: %q, %v", text, err)
	}
}

func (k kubelet) checkProbes() {
	k.t.Helper()
	k.host.MustRun("touch /var/lib/web/unready")
	k.await("a container that is not ready", func(c *corev1.ContainerStatus) bool { return c != nil && !c.Ready })
	k.host.MustRun("rm /var/lib/web/unready")
	k.await("a ready container", isReady)
}

func (k kubelet) checkRotation() {
	k.t.Helper()
	k.host.MustRun(`cd /var/log/pods/*/server; until test -e 0.log.*; do
		exec 3<>/dev/tcp/127.0.0.1/8080
		printf 'GET /flood HTTP/1.0\r\n\r\n' >&3
		cat <&3 >/dev/null; sleep 0.1; done`)
}

func (k kubelet) checkPowerCut() {
	k.t.Helper()
	k.host.PowerCut()
	k.host.Boot()
	k.await("a ready container after a power cut", isReady)
	if out, err := k.exec("cat", "/data/file"); out != "hello" || err != nil {
		k.t.Errorf("the volume after a power cut: %q, %v", out, err)
	}
	if text := k.logs(nil); !strings.Contains(text, "serving as process 1\n") {
		k.t.Errorf("logs after a power cut: %q", text)
	}
}
