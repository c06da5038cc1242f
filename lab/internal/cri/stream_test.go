//go:build linux

package cri

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestExecStreams(t *testing.T) {
	s := serve(t)
	c := s.run(s.pod("pod"), "c", "exec sleep 1000")
	for name, x := range map[string]struct {
		request *runtime.ExecRequest
		script  string
		code    int
		out     string
	}{
		"pipes":    {&runtime.ExecRequest{Stdin: true, Stdout: true, Stderr: true}, "tr a b; exit 3", 3, "input"},
		"terminal": {&runtime.ExecRequest{Stdin: true, Stdout: true, Tty: true}, "read line; test -t 0 && echo got $line", 0, "got input"},
	} {
		t.Run(name, func(t *testing.T) {
			x.request.ContainerId, x.request.Cmd = c, []string{"bash", "-c", x.script}
			u := parse(t, must(t, s.Exec, x.request).GetUrl())
			executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, u)
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			options := remotecommand.StreamOptions{Stdin: strings.NewReader("input\n"), Stdout: &out, Tty: x.request.GetTty()}
			if x.request.GetStderr() {
				options.Stderr = &errs
			}
			err = executor.StreamWithContext(t.Context(), options)
			code := 0
			if exit, ok := err.(utilexec.ExitError); ok { //nolint:errorlint // It is not wrapped.
				code, err = exit.ExitStatus(), nil
			}
			if err != nil || code != x.code || !strings.Contains(out.String(), x.out) || errs.Len() > 0 {
				t.Errorf("%d, %v, %q, %q", code, err, out.String(), errs.String())
			}
			// Each URL is good for one use.
			if response, err := http.Post(u.String(), "", nil); err != nil || response.StatusCode != http.StatusNotFound {
				t.Errorf("%v, %v", response, err)
			}
		})
	}
}

func TestPortForward(t *testing.T) {
	s := serve(t)
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
			go func() {
				text, _ := io.ReadAll(conn) // The end of the request comes before the answer.
				fmt.Fprintf(conn, "got %s", text)
				_ = conn.Close()
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	response := must(t, s.PortForward, &runtime.PortForwardRequest{PodSandboxId: s.pod("pod")})
	u := parse(t, response.GetUrl())
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	ready, stop := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.New(dialer, []string{"0:" + port}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "hello")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || string(text) != "got hello" {
		t.Errorf("%q, %v", text, err)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
