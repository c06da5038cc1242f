//go:build linux

package cri

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/container"
	"github.com/windlass-dev/windlass/lab/internal/cri/internal/images"
)

var image = contents{folder: "/images/etcd", config: images.Config{
	Entrypoint: []string{"etcd"}, Cmd: []string{"--help"}, Env: []string{"A=image", "B=image"},
}}

func TestComputeSpec(t *testing.T) {
	pod := &runtime.PodSandboxConfig{Hostname: "node-1", LogDirectory: "/var/log/pods/p"}
	got, err := computeSpec(image, pod, &runtime.ContainerConfig{
		Metadata: &runtime.ContainerMetadata{Name: "c"}, Args: []string{"--data-dir=/data"}, WorkingDir: "/data", LogPath: "c/0.log",
		Envs: []*runtime.KeyValue{{Key: "A", Value: []byte("pod")}, {Key: "PATH", Value: []byte("/bin")}},
		Mounts: []*runtime.Mount{
			{HostPath: "/b", ContainerPath: "/data/sub/../pki", Readonly: true}, {HostPath: "/a/", ContainerPath: "/data"},
		},
		Linux: &runtime.LinuxContainerConfig{SecurityContext: &runtime.LinuxContainerSecurityContext{
			RunAsUser: &runtime.Int64Value{Value: 1}, RunAsGroup: &runtime.Int64Value{Value: 2}, SupplementalGroups: []int64{3},
			ReadonlyRootfs: true, NoNewPrivs: true, Privileged: true,
			NamespaceOptions: &runtime.NamespaceOption{Pid: runtime.NamespaceMode_CONTAINER, Network: runtime.NamespaceMode_POD},
		}},
	})
	want := container.Spec{
		Args: []string{"etcd", "--data-dir=/data"}, Dir: "/data", Programs: "/images/etcd", Log: "/var/log/pods/p/c/0.log",
		Env: []string{"A=pod", "B=image", "HOME=/", "HOSTNAME=node-1", "PATH=/images/etcd:/bin"},
		Mounts: []container.Mount{
			{Source: "/a", Target: "/data"}, {Source: "/b", Target: "/data/pki", ReadOnly: true},
		},
		ReadOnlyRoot: true, NoNewPrivileges: true, User: container.User{UID: 1, GID: 2, Groups: []uint32{3}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestComputeArgs(t *testing.T) {
	for name, c := range map[string]struct{ command, args, want []string }{
		"image":            {nil, nil, []string{"etcd", "--help"}},
		"arguments":        {nil, []string{"-v"}, []string{"etcd", "-v"}},
		"command":          {[]string{"etcdctl"}, nil, []string{"etcdctl"}},
		"command and args": {[]string{"etcdctl"}, []string{"get"}, []string{"etcdctl", "get"}},
	} {
		got := computeArgs(image.config, &runtime.ContainerConfig{Command: c.command, Args: c.args})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// secure returns a container with a security context.
func secure(c *runtime.LinuxContainerSecurityContext) *runtime.ContainerConfig {
	return &runtime.ContainerConfig{Linux: &runtime.LinuxContainerConfig{SecurityContext: c}}
}

func namespaces(options *runtime.NamespaceOption) *runtime.ContainerConfig {
	return secure(&runtime.LinuxContainerSecurityContext{NamespaceOptions: options})
}

func mounted(m *runtime.Mount) *runtime.ContainerConfig {
	return &runtime.ContainerConfig{Mounts: []*runtime.Mount{m}}
}

func TestContainersThatAreRefused(t *testing.T) {
	for want, config := range map[string]*runtime.ContainerConfig{
		"PID namespace that containers share": namespaces(&runtime.NamespaceOption{Pid: runtime.NamespaceMode_POD}),
		"PID namespace of the host":           namespaces(&runtime.NamespaceOption{Pid: runtime.NamespaceMode_NODE}),
		"PID namespace of another container":  namespaces(&runtime.NamespaceOption{Pid: runtime.NamespaceMode_TARGET}),
		"user namespaces":                     namespaces(&runtime.NamespaceOption{UsernsOptions: &runtime.UserNamespace{}}),
		"a user by name":                      secure(&runtime.LinuxContainerSecurityContext{RunAsUsername: "nobody"}),
		"runAsUser is -1":                     secure(&runtime.LinuxContainerSecurityContext{RunAsUser: &runtime.Int64Value{Value: -1}}),
		"runAsGroup is 4294967296":            secure(&runtime.LinuxContainerSecurityContext{RunAsGroup: &runtime.Int64Value{Value: 1 << 32}}),
		"a supplemental group is -2":          secure(&runtime.LinuxContainerSecurityContext{SupplementalGroups: []int64{-2}}),
		"a terminal":                          {Tty: true},
		"support devices":                     {Devices: []*runtime.Device{{}}},
		"CDI devices":                         {CDIDevices: []*runtime.CDIDevice{{}}},
		"image as a volume":                   mounted(&runtime.Mount{Image: &runtime.ImageSpec{Image: "x"}}),
		"mount propagation at /m":             mounted(&runtime.Mount{ContainerPath: "/m", Propagation: runtime.MountPropagation_PROPAGATION_BIDIRECTIONAL}),
		"recursive read-only":                 mounted(&runtime.Mount{RecursiveReadOnly: true}),
		"ID-mapped":                           mounted(&runtime.Mount{GidMappings: []*runtime.IDMapping{{}}}),
		`cannot mount "a" at "/m"`:            mounted(&runtime.Mount{HostPath: "a", ContainerPath: "/m"}),
		`cannot mount "/a" at "m"`:            mounted(&runtime.Mount{HostPath: "/a", ContainerPath: "m"}),
		`cannot mount "/a" at "/.."`:          mounted(&runtime.Mount{HostPath: "/a", ContainerPath: "/.."}),
	} {
		if _, err := computeSpec(image, nil, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := computeSpec(contents{}, nil, nil); err == nil || !strings.Contains(err.Error(), "no command") {
		t.Errorf("no command: %v", err)
	}
}

func TestPodsThatAreRefused(t *testing.T) {
	linux := func(c *runtime.LinuxPodSandboxConfig) *runtime.PodSandboxConfig {
		return &runtime.PodSandboxConfig{Linux: c}
	}
	options := func(o *runtime.NamespaceOption) *runtime.PodSandboxConfig {
		return linux(&runtime.LinuxPodSandboxConfig{SecurityContext: &runtime.LinuxSandboxSecurityContext{NamespaceOptions: o}})
	}
	for name, c := range map[string]struct {
		config  *runtime.PodSandboxConfig
		handler string
		want    []string
	}{
		"usual":   {options(&runtime.NamespaceOption{Pid: runtime.NamespaceMode_CONTAINER}), "", nil},
		"nothing": {nil, "", nil},
		"hostPID": {options(&runtime.NamespaceOption{Pid: runtime.NamespaceMode_NODE}), "", []string{"the PID namespace of the host"}},
		"handler": {nil, "kata", []string{`the runtime handler "kata"`}},
		"sysctls": {linux(&runtime.LinuxPodSandboxConfig{Sysctls: map[string]string{"a": "b"}}), "", []string{"sysctls"}},
	} {
		if diff := cmp.Diff(c.want, unsupportedPod(c.config, c.handler)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
