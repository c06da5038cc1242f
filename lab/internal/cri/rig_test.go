//go:build linux

package cri

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/programs"
)

// TestMain makes the test's program a shim, too.
func TestMain(m *testing.M) {
	if status, ok := RunChild(os.Args); ok {
		os.Exit(status)
	}
	status := m.Run()
	programs.Remove()
	os.Exit(status)
}

// client speaks CRI as a kubelet does.
type client struct {
	t *testing.T
	runtime.RuntimeServiceClient
	images runtime.ImageServiceClient
	conn   *grpc.ClientConn
}

func dial(t *testing.T, socket string) client {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	return client{t, runtime.NewRuntimeServiceClient(conn), runtime.NewImageServiceClient(conn), conn}
}

// must calls a method that must succeed.
func must[Q, R any](t *testing.T, method func(context.Context, Q, ...grpc.CallOption) (R, error), request Q) R {
	t.Helper()
	response, err := method(context.WithoutCancel(t.Context()), request) // Also at the end of a test.
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// fails calls a method that must fail with the code, and a message that contains want.
func fails[Q, R any](
	t *testing.T, method func(context.Context, Q, ...grpc.CallOption) (R, error), request Q,
	code codes.Code, want string,
) {
	t.Helper()
	response, err := method(t.Context(), request)
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), want) {
		t.Errorf("%v: %v, want %s with %q (%v)", request, err, code, want, response)
	}
}

// service is a runtime in this process.
type service struct {
	client
	options Options
	stop    func()
}

func serve(t *testing.T) *service {
	t.Helper()
	hosts.Require(t)
	dir := t.TempDir()
	s := &service{options: Options{
		Socket: dir + "/s", Images: dir + "/images", State: dir + "/state", Store: dir + "/store", IP: "192.0.2.1",
	}}
	write(t, dir+"/images/registry.k8s.io/tools/v1/image.json", `{"env":["FROM=image"]}`)
	s.start(t)
	s.pull("registry.k8s.io/tools:v1")
	t.Cleanup(func() {
		defer s.stop()
		for _, b := range must(t, s.ListPodSandbox, &runtime.ListPodSandboxRequest{}).GetItems() {
			must(t, s.RemovePodSandbox, &runtime.RemovePodSandboxRequest{PodSandboxId: b.GetId()})
		}
	})
	return s
}

func (s *service) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, s.options) }()
	s.stop = func() {
		_ = s.conn.Close()
		cancel()
		if err, ok := <-done; ok && err != nil {
			t.Error(err)
		}
		close(done)
		s.stop = func() {}
	}
	s.client = dial(t, s.options.Socket)
}

// restart ends the runtime, and starts another.
func (s *service) restart(t *testing.T) {
	t.Helper()
	s.stop()
	s.start(t)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (c client) pull(name string) string {
	c.t.Helper()
	r := &runtime.PullImageRequest{Image: imageSpec(name)}
	return must(c.t, c.images.PullImage, r).GetImageRef()
}

func imageSpec(name string) *runtime.ImageSpec { return &runtime.ImageSpec{Image: name} }

// pod runs a sandbox as a kubelet asks for it.
func (c client) pod(name string) string {
	c.t.Helper()
	return must(c.t, c.RunPodSandbox, &runtime.RunPodSandboxRequest{Config: podConfig(c.t, name)}).GetPodSandboxId()
}

func podConfig(t *testing.T, name string) *runtime.PodSandboxConfig {
	t.Helper()
	return &runtime.PodSandboxConfig{
		Metadata: &runtime.PodSandboxMetadata{
			Name: name, Uid: name + "-uid", Namespace: "kube-system", Attempt: 1,
		},
		Labels: map[string]string{"pod": name}, LogDirectory: filepath.Join(t.TempDir(), "pods", name),
		Linux: &runtime.LinuxPodSandboxConfig{SecurityContext: &runtime.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtime.NamespaceOption{
				Network: runtime.NamespaceMode_NODE, Pid: runtime.NamespaceMode_CONTAINER,
			},
		}},
	}
}

// create creates a container that runs a script.
func (c client) create(pod, name, script string, change ...func(*runtime.ContainerConfig)) string {
	c.t.Helper()
	config := &runtime.ContainerConfig{
		Metadata: &runtime.ContainerMetadata{Name: name}, Labels: map[string]string{"container": name},
		Image:   &runtime.ImageSpec{Image: "registry.k8s.io/tools:v1"},
		Command: []string{"bash", "-c", script}, LogPath: name + "/0.log",
	}
	for _, do := range change {
		do(config)
	}
	r := &runtime.CreateContainerRequest{PodSandboxId: pod, Config: config}
	return must(c.t, c.CreateContainer, r).GetContainerId()
}

func (c client) run(pod, name, script string) string {
	c.t.Helper()
	id := c.create(pod, name, script)
	must(c.t, c.StartContainer, &runtime.StartContainerRequest{ContainerId: id})
	return id
}

func (c client) status(id string) *runtime.ContainerStatus {
	c.t.Helper()
	return must(c.t, c.ContainerStatus, &runtime.ContainerStatusRequest{ContainerId: id}).GetStatus()
}

func isRunning(s *runtime.ContainerStatus) bool {
	return s.GetState() == runtime.ContainerState_CONTAINER_RUNNING
}

// exited returns the status when the container has ended.
func (c client) exited(id string) *runtime.ContainerStatus {
	c.t.Helper()
	for {
		status := c.status(id)
		if status.GetState() == runtime.ContainerState_CONTAINER_EXITED {
			return status
		}
		select {
		case <-c.t.Context().Done():
			c.t.Fatalf("the container runs: %v", status)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// usage waits until the containers of a pod have memory.
func (c client) usage(pod string) []*runtime.ContainerStats {
	c.t.Helper()
	request := &runtime.PodSandboxStatsRequest{PodSandboxId: pod}
	for {
		stats := must(c.t, c.PodSandboxStats, request).GetStats().GetLinux().GetContainers()
		if !slices.ContainsFunc(stats, func(s *runtime.ContainerStats) bool {
			return s.GetMemory().GetRssBytes().GetValue() == 0
		}) {
			return stats
		}
		select {
		case <-c.t.Context().Done():
			c.t.Fatalf("a container has no memory: %v", stats)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c client) exec(id string, args ...string) (string, int) {
	c.t.Helper()
	r := must(c.t, c.ExecSync, &runtime.ExecSyncRequest{ContainerId: id, Cmd: args})
	return strings.TrimSpace(string(r.GetStdout()) + string(r.GetStderr())), int(r.GetExitCode())
}

// log returns the text of a log, without times.
func (c client) log(id string) string {
	c.t.Helper()
	text, err := os.ReadFile(c.status(id).GetLogPath())
	if err != nil {
		c.t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, rest)
	}
	return strings.Join(lines, "\n")
}
