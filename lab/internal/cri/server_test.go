//go:build linux

package cri

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestHandshake asks what a kubelet asks at its start.
func TestHandshake(t *testing.T) {
	s := serve(t)
	version := must(t, s.Version, &runtime.VersionRequest{Version: "0.1.0"})
	if version.GetRuntimeName() != Name || version.GetRuntimeApiVersion() != "v1" {
		t.Error(version)
	}
	for _, condition := range must(t, s.Status, &runtime.StatusRequest{}).GetStatus().GetConditions() {
		if !condition.GetStatus() {
			t.Error(condition)
		}
	}
	config := must(t, s.RuntimeConfig, &runtime.RuntimeConfigRequest{})
	if config.GetLinux().GetCgroupDriver() != runtime.CgroupDriver_CGROUPFS {
		t.Error(config)
	}
	must(t, s.UpdateRuntimeConfig, &runtime.UpdateRuntimeConfigRequest{})
	if usage := must(t, s.images.ImageFsInfo, &runtime.ImageFsInfoRequest{}); len(usage.GetImageFilesystems()) != 1 ||
		usage.GetImageFilesystems()[0].GetUsedBytes().GetValue() == 0 || len(usage.GetContainerFilesystems()) != 1 {
		t.Error(usage)
	}
}

func TestAPodsLife(t *testing.T) {
	s := serve(t)
	pod, other := s.pod("etcd"), s.pod("other")
	sandbox := must(t, s.PodSandboxStatus, &runtime.PodSandboxStatusRequest{PodSandboxId: pod}).GetStatus()
	if sandbox.GetState() != runtime.PodSandboxState_SANDBOX_READY || sandbox.GetNetwork().GetIp() != "192.0.2.1" ||
		sandbox.GetMetadata().GetAttempt() != 1 || sandbox.GetCreatedAt() == 0 ||
		sandbox.GetLinux().GetNamespaces().GetOptions().GetNetwork() != runtime.NamespaceMode_NODE {
		t.Error(sandbox)
	}

	c := s.create(pod, "main", `echo "$FROM $MORE"; exit 3`, func(c *runtime.ContainerConfig) {
		c.Envs = []*runtime.KeyValue{{Key: "MORE", Value: []byte("pod")}}
	})
	if got := s.status(c); got.GetState() != runtime.ContainerState_CONTAINER_CREATED || got.GetStartedAt() != 0 {
		t.Error(got)
	}
	start := &runtime.StartContainerRequest{ContainerId: c}
	must(t, s.StartContainer, start)
	got := s.exited(c)
	if got.GetExitCode() != 3 || got.GetReason() != "Error" || got.GetStartedAt() == 0 ||
		got.GetFinishedAt() < got.GetStartedAt() || got.GetImage().GetImage() != "registry.k8s.io/tools:v1" ||
		!strings.HasPrefix(got.GetImageRef(), "sha256:") || got.GetLabels()["container"] != "main" {
		t.Error(got)
	}
	if log := s.log(c); log != "stdout F image pod" {
		t.Error(log)
	}
	fails(t, s.StartContainer, start, codes.Unknown, "started before")

	// Of a program that has touched less, the kernel may count no memory.
	running := s.run(pod, "running", "touched=$(printf %1000000s); sleep 1000 & wait")
	checkFilters(t, s, pod, other, c, running)
	stats := s.usage(pod)
	if len(stats) != 1 || stats[0].GetAttributes().GetId() != running {
		t.Error(stats)
	}

	must(t, s.RemoveContainer, &runtime.RemoveContainerRequest{ContainerId: c})
	must(t, s.RemoveContainer, &runtime.RemoveContainerRequest{ContainerId: c})
	fails(t, s.ContainerStatus, &runtime.ContainerStatusRequest{ContainerId: c}, codes.NotFound, c)
	if _, err := os.Stat(got.GetLogPath()); err != nil {
		t.Errorf("the kubelet removes logs, not the runtime: %v", err)
	}
	must(t, s.StopPodSandbox, &runtime.StopPodSandboxRequest{PodSandboxId: pod})
	must(t, s.StopPodSandbox, &runtime.StopPodSandboxRequest{PodSandboxId: pod})
	if got := s.status(running); got.GetExitCode() != 137 {
		t.Error(got)
	}
	late := s.create(pod, "late", "true")
	fails(t, s.StartContainer, &runtime.StartContainerRequest{ContainerId: late}, codes.Unknown, "is stopped")
	fails(t, s.PortForward, &runtime.PortForwardRequest{PodSandboxId: pod}, codes.FailedPrecondition, "is stopped")
	must(t, s.RemovePodSandbox, &runtime.RemovePodSandboxRequest{PodSandboxId: pod})
	must(t, s.RemovePodSandbox, &runtime.RemovePodSandboxRequest{PodSandboxId: pod})
	fails(t, s.PodSandboxStatus, &runtime.PodSandboxStatusRequest{PodSandboxId: pod}, codes.NotFound, pod)
	if left := must(t, s.ListContainers, &runtime.ListContainersRequest{}).GetContainers(); len(left) != 0 {
		t.Error(left)
	}
	if files, err := filepath.Glob(s.options.State + "/*/*"); err != nil || len(files) != 1 {
		t.Errorf("one sandbox is left, and these files: %v, %v", files, err)
	}
}

func checkFilters(t *testing.T, s *service, pod, other, ended, running string) {
	t.Helper()
	state := func(state runtime.ContainerState) *runtime.ContainerFilter {
		return &runtime.ContainerFilter{State: &runtime.ContainerStateValue{State: state}}
	}
	main := map[string]string{"container": "main"}
	for name, c := range map[string]struct {
		filter *runtime.ContainerFilter
		want   []string
	}{
		"all":     {nil, []string{running, ended}},
		"id":      {&runtime.ContainerFilter{Id: ended}, []string{ended}},
		"pod":     {&runtime.ContainerFilter{PodSandboxId: other}, nil},
		"running": {state(runtime.ContainerState_CONTAINER_RUNNING), []string{running}},
		"created": {state(runtime.ContainerState_CONTAINER_CREATED), nil},
		"label":   {&runtime.ContainerFilter{LabelSelector: main}, []string{ended}},
		"both":    {&runtime.ContainerFilter{Id: running, LabelSelector: main}, nil},
	} {
		var got []string
		r := &runtime.ListContainersRequest{Filter: c.filter}
		for _, c := range must(t, s.ListContainers, r).GetContainers() {
			got = append(got, c.GetId())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("containers by %s: %s", name, diff)
		}
	}
	ready := &runtime.PodSandboxStateValue{State: runtime.PodSandboxState_SANDBOX_READY}
	for name, c := range map[string]struct {
		filter *runtime.PodSandboxFilter
		want   []string
	}{
		"all":       {nil, []string{other, pod}},
		"id":        {&runtime.PodSandboxFilter{Id: pod}, []string{pod}},
		"label":     {&runtime.PodSandboxFilter{LabelSelector: map[string]string{"pod": "other"}}, []string{other}},
		"no label":  {&runtime.PodSandboxFilter{LabelSelector: map[string]string{"none": ""}}, nil},
		"ready":     {&runtime.PodSandboxFilter{State: ready}, []string{other, pod}},
		"not ready": {&runtime.PodSandboxFilter{State: &runtime.PodSandboxStateValue{State: 1}}, nil},
	} {
		var got []string
		for _, b := range must(t, s.ListPodSandbox, &runtime.ListPodSandboxRequest{Filter: c.filter}).GetItems() {
			got = append(got, b.GetId())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("sandboxes by %s: %s", name, diff)
		}
	}
}

// TestTheNextRuntime finds what the one before has started.
func TestTheNextRuntime(t *testing.T) {
	s := serve(t)
	pod, stopped := s.pod("pod"), s.pod("stopped")
	must(t, s.StopPodSandbox, &runtime.StopPodSandboxRequest{PodSandboxId: stopped})
	created := s.create(pod, "created", "echo ran")
	running := s.run(pod, "running", "trap 'echo stopping; exit 5' TERM; sleep 1000 & wait")
	fifo := filepath.Join(t.TempDir(), "fifo")
	meanwhile := s.run(pod, "meanwhile", "mkfifo "+fifo+"; echo before; read <"+fifo+"; echo after; exit 6")
	done := s.exited(s.run(pod, "done", "exit 4"))
	s.stop()

	file, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	for os.IsNotExist(err) {
		file, err = os.OpenFile(fifo, os.O_WRONLY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	// A container that was being created or removed.
	write(t, s.options.State+"/containers/half/spec.json", "{}")
	s.start(t)

	if got := s.exited(meanwhile); got.GetExitCode() != 6 || s.log(meanwhile) != "stdout F before\nstdout F after" {
		t.Errorf("%v\n%s", got, s.log(meanwhile))
	}
	if diff := cmp.Diff(done.String(), s.status(done.GetId()).String()); diff != "" {
		t.Error(diff)
	}
	if out, code := s.exec(running, "echo", "hello"); out != "hello" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
	must(t, s.StopContainer, &runtime.StopContainerRequest{ContainerId: running, Timeout: 60})
	if got := s.status(running); got.GetExitCode() != 5 || !strings.HasSuffix(s.log(running), "stdout F stopping") {
		t.Errorf("%v\n%s", got, s.log(running))
	}
	must(t, s.StartContainer, &runtime.StartContainerRequest{ContainerId: created})
	if s.exited(created); s.log(created) != "stdout F ran" {
		t.Error(s.log(created))
	}
	sandbox := must(t, s.PodSandboxStatus, &runtime.PodSandboxStatusRequest{PodSandboxId: stopped}).GetStatus()
	if sandbox.GetState() != runtime.PodSandboxState_SANDBOX_NOTREADY || sandbox.GetLabels()["pod"] != "stopped" {
		t.Error(sandbox)
	}
	if _, err := os.Stat(s.options.State + "/containers/half"); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func TestTwoRuntimesAndBrokenRecords(t *testing.T) {
	s := serve(t)
	pod := s.pod("pod")
	running := s.run(pod, "running", "exec sleep 1000")
	err := Serve(t.Context(), s.options)
	if err == nil || !strings.Contains(err.Error(), "another runtime serves from") {
		t.Errorf("a second runtime: %v", err)
	}
	if got := s.status(running); !isRunning(got) {
		t.Error(got)
	}
	s.stop()
	for _, path := range []string{"/sandboxes/x.json", "/containers/x/record.json"} {
		for _, text := range []string{"", "[]", `{"ID":"y","Config":{}}`, `{"ID":"x","Config":{"metadata":5}}`} {
			write(t, s.options.State+path, text)
			if err := Serve(t.Context(), s.options); err == nil || !strings.Contains(err.Error(), "Fix: ") {
				t.Errorf("%s with %q: %v", path, text, err)
			}
		}
		if err := os.RemoveAll(s.options.State + "/" + strings.Split(path, "/")[1] + "/x"); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(s.options.State + path)
	}
	s.start(t)
	s.status(running)
}

func TestImages(t *testing.T) {
	s := serve(t)
	write(t, s.options.Images+"/registry.k8s.io/pause/3.10/pause", "program")
	write(t, s.options.Images+"/registry.k8s.io/copy/v2/pause", "program")
	pause := s.pull("registry.k8s.io/pause:3.10")
	if s.pull("registry.k8s.io/copy:v2") != pause {
		t.Error("the same content has two ids")
	}
	find := func(name string) *runtime.Image {
		r := &runtime.ImageStatusRequest{Image: imageSpec(name)}
		return must(t, s.images.ImageStatus, r).GetImage()
	}
	want := []string{"registry.k8s.io/copy:v2", "registry.k8s.io/pause:3.10"}
	for _, name := range append(want, pause) {
		if got := find(name); got.GetId() != pause || !cmp.Equal(got.GetRepoTags(), want) || got.GetSize() != 7 {
			t.Errorf("%s: %v", name, got)
		}
	}
	fails(t, s.images.PullImage, &runtime.PullImageRequest{Image: imageSpec("registry.k8s.io/pause:4")},
		codes.NotFound, "registry.k8s.io/pause:4")
	s.restart(t)
	if got := must(t, s.images.ListImages, &runtime.ListImagesRequest{}).GetImages(); len(got) != 2 {
		t.Error(got)
	}
	filter := &runtime.ImageFilter{Image: imageSpec(want[1])}
	if got := must(t, s.images.ListImages, &runtime.ListImagesRequest{Filter: filter}).GetImages(); len(got) != 1 {
		t.Error(got)
	}
	must(t, s.images.RemoveImage, &runtime.RemoveImageRequest{Image: imageSpec(pause)})
	must(t, s.images.RemoveImage, &runtime.RemoveImageRequest{Image: imageSpec(pause)})
	if got := find(want[0]); got != nil {
		t.Error(got)
	}
	config := &runtime.ContainerConfig{
		Metadata: &runtime.ContainerMetadata{Name: "c"}, Image: imageSpec(pause),
	}
	fails(t, s.CreateContainer, &runtime.CreateContainerRequest{PodSandboxId: s.pod("p"), Config: config},
		codes.NotFound, "was not pulled")
}

func TestExecSync(t *testing.T) {
	s := serve(t)
	c := s.run(s.pod("pod"), "c", "exec sleep 1000")
	if out, code := s.exec(c, "bash", "-c", "echo $FROM; exit 7"); out != "image" || code != 7 {
		t.Errorf("%q, %d", out, code)
	}
	big, code := s.exec(c, "head", "-c", "20000000", "/dev/zero")
	if len(big) != maxOutput || code != 0 {
		t.Errorf("%d bytes, %d", len(big), code)
	}
	request := func(args ...string) *runtime.ExecSyncRequest {
		return &runtime.ExecSyncRequest{ContainerId: c, Cmd: args, Timeout: 1}
	}
	fails(t, s.ExecSync, request("sleep", "1001"), codes.DeadlineExceeded, "did not end within 1 s")
	fails(t, s.ExecSync, request("no-such-program"), codes.Unknown, "no-such-program")
	must(t, s.StopContainer, &runtime.StopContainerRequest{ContainerId: c})
	fails(t, s.ExecSync, request("true"), codes.FailedPrecondition, "not running")
	fails(t, s.ReopenContainerLog, &runtime.ReopenContainerLogRequest{ContainerId: c},
		codes.FailedPrecondition, "not running")
}

// TestEmptyRequests calls every method with nothing in the request.
func TestEmptyRequests(t *testing.T) {
	s := serve(t)
	for _, service := range []protoreflect.FullName{"runtime.v1.RuntimeService", "runtime.v1.ImageService"} {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(service)
		if err != nil {
			t.Fatal(err)
		}
		descriptor, ok := found.(protoreflect.ServiceDescriptor)
		if !ok {
			t.Fatalf("%s is no service", service)
		}
		methods := descriptor.Methods()
		for i := range methods.Len() {
			method := methods.Get(i)
			if method.IsStreamingServer() {
				continue
			}
			request, response := messageOf(t, method.Input()), messageOf(t, method.Output())
			err := s.conn.Invoke(t.Context(), "/"+string(service)+"/"+string(method.Name()), request, response)
			if code := status.Code(err); code == codes.Internal || code == codes.Unavailable {
				t.Errorf("%s: %v", method.Name(), err)
			}
		}
	}
	must(t, s.Version, &runtime.VersionRequest{})
}

func messageOf(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	found, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return found.New().Interface()
}

func TestNonsense(t *testing.T) {
	s := serve(t)
	pod := s.pod("pod")
	for _, name := range []string{"", "none", "../../etc/passwd", strings.Repeat("x", 1<<16)} {
		fails(t, s.CreateContainer, &runtime.CreateContainerRequest{PodSandboxId: name}, codes.NotFound, "")
		fails(t, s.StartContainer, &runtime.StartContainerRequest{ContainerId: name}, codes.NotFound, "")
		fails(t, s.ExecSync, &runtime.ExecSyncRequest{ContainerId: name}, codes.NotFound, "")
		fails(t, s.Exec, &runtime.ExecRequest{ContainerId: name}, codes.NotFound, "")
		must(t, s.StopContainer, &runtime.StopContainerRequest{ContainerId: name, Timeout: -1})
		must(t, s.RemovePodSandbox, &runtime.RemovePodSandboxRequest{PodSandboxId: name})
	}
	garbage, err := net.Dial("unix", s.options.Socket)
	if err == nil {
		_, err = garbage.Write([]byte(strings.Repeat("nonsense\x00\xff", 1000)))
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(garbage) // The runtime closes the connection.
	relative := podConfig(t, "pod")
	relative.LogDirectory = "logs"
	fails(t, s.RunPodSandbox, &runtime.RunPodSandboxRequest{Config: relative}, codes.InvalidArgument, "absolute")
	fails(t, s.RunPodSandbox, &runtime.RunPodSandboxRequest{Config: podConfig(t, "p"), RuntimeHandler: "kata"},
		codes.InvalidArgument, `the runtime handler "kata"`)
	id := s.create(pod, "c", "", func(c *runtime.ContainerConfig) {
		c.Command, c.WorkingDir, c.LogPath = []string{"a\x00b"}, "/../..", "../../x\x00/y"
	})
	fails(t, s.StartContainer, &runtime.StartContainerRequest{ContainerId: id}, codes.Unknown, "invalid argument")
	if got := s.exited(id); got.GetReason() != "StartError" {
		t.Error(got)
	}
	if _, err := os.Stat(s.options.State); err != nil {
		t.Error(err)
	}
}

// TestRemoveDuringStart removes containers that are being started. Nothing may run afterwards.
func TestRemoveDuringStart(t *testing.T) {
	s := serve(t)
	pod := s.pod("pod")
	mark := filepath.Join(t.TempDir(), "mark")
	for range 5 {
		c := s.create(pod, "c", "exec -a "+mark+" sleep 1000")
		started := make(chan error, 1)
		go func() {
			_, err := s.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: c})
			started <- err
		}()
		must(t, s.RemoveContainer, &runtime.RemoveContainerRequest{ContainerId: c})
		err := <-started
		if out, _ := exec.Command("pgrep", "-f", "^"+mark).Output(); len(out) > 0 {
			t.Errorf("process %s runs; start: %v", out, err)
		}
	}
}

// TestStopDuringStart stops sandboxes whose containers are being started. Nothing may run
// afterwards.
func TestStopDuringStart(t *testing.T) {
	s := serve(t)
	for range 5 {
		pod := s.pod("pod")
		c := s.create(pod, "c", "exec sleep 1000")
		started := make(chan error, 1)
		go func() {
			_, err := s.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: c})
			started <- err
		}()
		must(t, s.StopPodSandbox, &runtime.StopPodSandboxRequest{PodSandboxId: pod})
		err := <-started
		if isRunning(s.status(c)) {
			t.Errorf("it runs; start: %v", err)
		}
	}
}

func TestStopHasAGracePeriod(t *testing.T) {
	s := serve(t)
	c := s.run(s.pod("pod"), "c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
	before := time.Now()
	must(t, s.StopContainer, &runtime.StopContainerRequest{ContainerId: c, Timeout: 1})
	if got := s.status(c); got.GetExitCode() != 137 || time.Since(before) < time.Second {
		t.Errorf("%v after %s", got, time.Since(before))
	}
}
