package pod_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// apiServer stands in for the API server of a workload cluster and the kubelet behind it: Pods, and exec, which runs commands here.
type apiServer struct {
	t *testing.T
	*httptest.Server

	mu   sync.Mutex
	pods map[string]*corev1.Pod
	next int
	// status is what a new Pod gets; deny are requests that are forbidden, such as "create pods"; spdy leaves WebSockets out.
	status corev1.PodStatus
	deny   string
	spdy   bool
	// nsenter replaces what leaves the container, cut ends an exec that way once its command prints something.
	nsenter []string
	cut     func(conn io.Closer)
	// linger keeps deleted Pods there until they were read once more.
	linger bool
	conns  []net.Conn
}

var running = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
	Name: "host", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
}}}

func waiting(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "host", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{t: t, pods: map[string]*corev1.Pod{}, status: running}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods", s.allow("create pods", s.create))
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", s.allow("get pods", s.get))
	mux.HandleFunc("DELETE /api/v1/namespaces/{namespace}/pods/{name}", s.allow("delete pods", s.remove))
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}/exec", s.allow("get pods/exec", s.websocket))
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods/{name}/exec", s.allow("create pods/exec", s.overSPDY))
	s.Server = httptest.NewUnstartedServer(mux)
	s.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, conn)
		return ctx
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) config() *rest.Config {
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func (s *apiServer) allow(what string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		denied := s.deny != "" && strings.HasSuffix(what, s.deny)
		s.mu.Unlock()
		if denied {
			s.fail(w, apierrors.NewForbidden(corev1.Resource("pods"), r.PathValue("name"), errors.New("user windlass cannot "+what)))
			return
		}
		serve(w, r)
	}
}

func (s *apiServer) fail(w http.ResponseWriter, err *apierrors.StatusError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(err.ErrStatus.Code))
	err.ErrStatus.APIVersion, err.ErrStatus.Kind = "v1", "Status"
	_ = json.NewEncoder(w).Encode(err.ErrStatus)
}

func (s *apiServer) answer(w http.ResponseWriter, pod *corev1.Pod) {
	pod = pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(pod)
}

func (s *apiServer) create(w http.ResponseWriter, r *http.Request) {
	var pod corev1.Pod
	if err := json.NewDecoder(r.Body).Decode(&pod); err != nil {
		s.t.Errorf("the Pod: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.pods[pod.Name]; there {
		s.fail(w, apierrors.NewAlreadyExists(corev1.Resource("pods"), pod.Name))
		return
	}
	s.next++
	pod.UID, pod.Status, pod.Namespace = types.UID(fmt.Sprint("uid-", s.next)), s.status, r.PathValue("namespace")
	s.pods[pod.Name] = &pod
	s.answer(w, &pod)
}

func (s *apiServer) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, there := s.pods[r.PathValue("name")]
	if !there {
		s.fail(w, apierrors.NewNotFound(corev1.Resource("pods"), r.PathValue("name")))
		return
	}
	s.answer(w, pod)
	if pod.DeletionTimestamp != nil {
		delete(s.pods, pod.Name) // It was seen once more.
	}
}

func (s *apiServer) remove(w http.ResponseWriter, r *http.Request) {
	var options metav1.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
		s.t.Errorf("the options: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, there := s.pods[r.PathValue("name")]
	switch {
	case !there:
		s.fail(w, apierrors.NewNotFound(corev1.Resource("pods"), r.PathValue("name")))
	case options.Preconditions == nil || *options.Preconditions.UID != pod.UID:
		s.fail(w, apierrors.NewConflict(corev1.Resource("pods"), pod.Name, errors.New("another UID")))
	case s.linger:
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		s.answer(w, pod)
	default:
		delete(s.pods, pod.Name)
		s.answer(w, pod)
	}
}

// one gives the only Pod there is.
func (s *apiServer) one(t *testing.T) *corev1.Pod {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pods) != 1 {
		t.Fatalf("there are %d Pods, want one", len(s.pods))
	}
	for _, pod := range s.pods {
		return pod.DeepCopy()
	}
	return nil
}

func (s *apiServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// websocket serves exec as version 5 of the protocol.
func (s *apiServer) websocket(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refuse := s.spdy
	s.mu.Unlock()
	if refuse {
		http.Error(w, "no WebSockets here", http.StatusForbidden)
		return
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {
		Binary: true, Channels: []wsstream.ChannelType{wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel},
	}})
	_, channels, err := conn.Open(w, r)
	if err != nil {
		s.t.Errorf("WebSocket: %v", err)
		return
	}
	defer func() { _ = conn.Close() }()
	s.exec(r, conn, channels[0], channels[1], channels[2], channels[3])
}

// overSPDY serves exec as version 4 of the protocol.
func (s *apiServer) overSPDY(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		s.t.Errorf("the protocol: %v", err)
		return
	}
	made := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		made <- stream
		return nil
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	streams := map[string]httpstream.Stream{}
	for range 4 {
		stream := <-made
		streams[stream.Headers().Get(corev1.StreamType)] = stream
	}
	s.exec(r, conn, streams["stdin"], streams["stdout"], streams["stderr"], streams["error"])
	for _, stream := range streams {
		_ = stream.Close()
	}
}

// exec runs the command with bash in place of what leaves the container, and says how it ended.
func (s *apiServer) exec(r *http.Request, conn io.Closer, stdin io.Reader, stdout, stderr, problems io.Writer) {
	prefix := strings.Fields("nsenter -t 1 -m -u -i -n -p -- env -i")
	command := r.URL.Query()["command"]
	if len(command) < len(prefix) || !slices.Equal(command[:len(prefix)], prefix) || r.URL.Query().Get("container") != "host" {
		s.t.Errorf("the command is %q", command)
		return
	}
	s.mu.Lock()
	replacement, cut := s.nsenter, s.cut
	s.mu.Unlock()
	command = command[len(prefix)-2:]
	if replacement != nil {
		command = replacement
	}
	cmd := exec.CommandContext(r.Context(), command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if cut != nil {
		cmd.Stdout = writer(func(p []byte) (int, error) {
			n, err := stdout.Write(p)
			cut(conn)
			return n, err
		})
	}
	// It bounds the wait for processes that are left behind and hold the output. Less than the time
	// that a busy machine takes to read the output would cut it.
	cmd.WaitDelay = time.Minute
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		_, _ = fmt.Fprint(problems, `{"status":"Failure","message":"exec failed"}`)
		return
	}
	go func() { _, _ = io.Copy(in, stdin); _ = in.Close() }()
	_ = cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	status := metav1.Status{Status: metav1.StatusSuccess}
	if code != 0 {
		status = metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(code)}}},
		}
	}
	_ = json.NewEncoder(problems).Encode(status)
}

// cutAll ends all TCP connections.
func (s *apiServer) cutAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

// after calls a function after each request.
func after(next http.Handler, then func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		then()
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
