//go:build linux

package cri

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/programs"
)

const hostUnit = `[Service]
Type=notify
ExecStart=/usr/local/bin/windlass-cri
KillMode=process
Restart=always
`

// startHost boots a host with the runtime as its unit containerd.
func startHost(t *testing.T) (*hosts.Host, client) {
	t.Helper()
	hosts.Require(t)
	path, err := programs.BuildRuntime()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := hosts.Start(t, hosts.Options{Enable: []string{"containerd"}, Files: map[string][]byte{
		"/usr/local/bin/windlass-cri":                              program,
		"/etc/systemd/system/containerd.service":                   []byte(hostUnit),
		"/srv/windlass-images/registry.k8s.io/tools/v1/image.json": []byte(`{"env":["FROM=image"]}`),
	}})
	return h, connect(t, h)
}

// connect waits until the runtime of a host serves.
func connect(t *testing.T, h *hosts.Host) client {
	t.Helper()
	c := dial(t, filepath.Join(h.Root(), "/run/containerd/containerd.sock"))
	t.Cleanup(func() { _ = c.conn.Close() })
	must(t, c.Version, &runtime.VersionRequest{})
	return c
}

// hostPod runs a sandbox whose logs are on the host's disk.
func hostPod(t *testing.T, c client, name string) string {
	t.Helper()
	config := podConfig(t, name)
	config.LogDirectory = "/var/log/pods/" + name
	return must(t, c.RunPodSandbox, &runtime.RunPodSandboxRequest{Config: config}).GetPodSandboxId()
}

// ticker is a script that counts in its log and in a file, and ends when told so.
const ticker = `for ((i = 0; ; i++)); do echo tick $i; echo $i >/run/tick; test -e /run/end && exit 9; sleep 0.01; done`

// advance returns when the ticker has gone on.
func advance(t *testing.T, h *hosts.Host) {
	t.Helper()
	h.MustRun(`now=$(cat /run/tick); until [[ $(cat /run/tick) != "$now" ]]; do sleep 0.01; done`)
}

func TestTheRuntimeIsKilled(t *testing.T) {
	h, c := startHost(t)
	c.pull("registry.k8s.io/tools:v1")
	pod := hostPod(t, c, "pod")
	if ip := must(t, c.PodSandboxStatus, &runtime.PodSandboxStatusRequest{PodSandboxId: pod}).GetStatus().GetNetwork().GetIp(); ip != h.Address() {
		t.Errorf("the pod's address is %s, the host's %s", ip, h.Address())
	}
	id := c.run(pod, "ticker", ticker)
	started := c.status(id).GetStartedAt()

	for _, kill := range []string{"kill -9 $(pgrep -x windlass-cri)", "systemctl restart containerd"} {
		before := h.MustRun("pgrep -x windlass-cri")
		h.MustRun(kill + `; until now=$(pgrep -x windlass-cri) && [[ $now != ` + strings.TrimSpace(before) + ` ]]; do sleep 0.01; done`)
		c = connect(t, h)
		advance(t, h)
		if got := c.status(id); got.GetState() != runtime.ContainerState_CONTAINER_RUNNING || got.GetStartedAt() != started {
			t.Errorf("after %q: %v", kill, got)
		}
		if out, code := c.exec(id, "cat", "/proc/1/comm"); out != "bash" || code != 0 {
			t.Errorf("after %q: %q, %d", kill, out, code)
		}
	}

	// A frozen runtime does not answer. Its containers neither know nor care.
	h.MustRun("kill -STOP $(pgrep -x windlass-cri)")
	advance(t, h)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Version(ctx, &runtime.VersionRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a frozen runtime: %v", err)
	}
	h.MustRun("touch /run/end; while pgrep -x windlass-shim >/dev/null; do sleep 0.01; done; kill -CONT $(pgrep -x windlass-cri)")
	if got := c.exited(id); got.GetExitCode() != 9 {
		t.Error(got)
	}
}

func TestThePowerIsCut(t *testing.T) {
	h, c := startHost(t)
	image := c.pull("registry.k8s.io/tools:v1")
	id := c.run(hostPod(t, c, "pod"), "ticker", ticker)
	log := c.status(id).GetLogPath()
	advance(t, h)
	for range 2 {
		h.PowerCut()
		h.Boot()
		c = connect(t, h)
		if pods := must(t, c.ListPodSandbox, &runtime.ListPodSandboxRequest{}).GetItems(); len(pods) != 0 {
			t.Errorf("sandboxes outlived a power cut: %v", pods)
		}
		if all := must(t, c.ListContainers, &runtime.ListContainersRequest{}).GetContainers(); len(all) != 0 {
			t.Errorf("containers outlived a power cut: %v", all)
		}
		fails(t, c.ContainerStatus, &runtime.ContainerStatusRequest{ContainerId: id}, codes.NotFound, id)
		if list := must(t, c.images.ListImages, &runtime.ListImagesRequest{}).GetImages(); len(list) != 1 || list[0].GetId() != image {
			t.Errorf("images: %v", list)
		}
		if out, err := h.Run(t.Context(), "pgrep -x windlass-shim; cat /run/tick"); err == nil {
			t.Errorf("something outlived a power cut: %s", out)
		}
		if text, err := h.Read(log); err != nil || !strings.Contains(string(text), "stdout F tick 0\n") {
			t.Errorf("the log: %q, %v", text, err)
		}
		// As a kubelet does: the same pod again, and the same log.
		c.run(hostPod(t, c, "pod"), "ticker", ticker)
		h.MustRun("until test -e /run/tick; do sleep 0.01; done")
	}
}

func TestTheDiskIsFull(t *testing.T) {
	h, c := startHost(t)
	c.pull("registry.k8s.io/tools:v1")
	pod := hostPod(t, c, "pod")
	id := c.run(pod, "ticker", ticker)
	advance(t, h)
	h.FillDisk()
	// What is left of the last block of the log, and more.
	h.MustRun(`n=$(cat /run/tick); until (($(cat /run/tick) > n + 300)); do sleep 0.01; done`)
	if got := c.status(id); got.GetState() != runtime.ContainerState_CONTAINER_RUNNING {
		t.Error(got)
	}
	if _, err := c.images.PullImage(t.Context(), &runtime.PullImageRequest{Image: &runtime.ImageSpec{Image: "registry.k8s.io/tools:v1"}}); !full(err) {
		t.Errorf("pulling: %v", err)
	}
	// A container that logs nothing starts and ends as usual.
	if got := c.exited(c.run(pod, "quiet", "exit 4")); got.GetExitCode() != 4 {
		t.Error(got)
	}
	if out, code := c.exec(id, "echo", "hello"); out != "hello" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
	h.FreeDisk()
	advance(t, h)
	advance(t, h)
	h.MustRun("touch /run/end")
	if got := c.exited(id); got.GetExitCode() != 9 {
		t.Error(got)
	}
	text, err := h.Read("/var/log/pods/pod/ticker/0.log")
	if err != nil || strings.Count(string(text), "entries of this log did not fit on the disk") != 1 {
		t.Errorf("%v, %s", err, text)
	}
	c.pull("registry.k8s.io/tools:v1")
}

func full(err error) bool {
	return err != nil && strings.Contains(status.Convert(err).Message(), "no space left on device")
}
