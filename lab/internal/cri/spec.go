//go:build linux

package cri

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/container"
	"github.com/windlass-dev/windlass/lab/internal/cri/internal/images"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// contents is an image as a container needs it.
type contents struct {
	folder string
	config images.Config
}

// computeSpec returns what a container consists of, or why this runtime cannot run it.
func computeSpec(image contents, pod *runtime.PodSandboxConfig, config *runtime.ContainerConfig) (container.Spec, error) {
	if reasons := unsupported(config); len(reasons) > 0 {
		return container.Spec{}, status.Errorf(codes.InvalidArgument,
			"this runtime does not support %s. Fix: remove it from container %s of pod %s",
			strings.Join(reasons, ", "), config.GetMetadata().GetName(), pod.GetMetadata().GetName())
	}
	user, err := computeUser(config.GetLinux().GetSecurityContext())
	if err != nil {
		return container.Spec{}, err
	}
	mounts, err := computeMounts(config.GetMounts())
	if err != nil {
		return container.Spec{}, err
	}
	security := config.GetLinux().GetSecurityContext()
	spec := container.Spec{
		Args: computeArgs(image.config, config), Dir: config.GetWorkingDir(), Programs: image.folder,
		Env: computeEnv(image, pod, config, user), Mounts: mounts, User: user,
		ReadOnlyRoot: security.GetReadonlyRootfs(), NoNewPrivileges: security.GetNoNewPrivs(),
	}
	if len(spec.Args) == 0 {
		return container.Spec{}, status.Errorf(codes.InvalidArgument,
			"container %s has no command, and its image no entrypoint", config.GetMetadata().GetName())
	}
	if pod.GetLogDirectory() != "" && config.GetLogPath() != "" {
		spec.Log = filepath.Join(pod.GetLogDirectory(), config.GetLogPath())
	}
	return spec, nil
}

// unsupported lists what a container asks for and cannot get.
func unsupported(config *runtime.ContainerConfig) []string {
	security := config.GetLinux().GetSecurityContext()
	checks := []struct {
		asked bool
		name  string
	}{
		{security.GetRunAsUsername() != "", "a user by name"},
		{config.GetTty(), "a terminal"},
		{len(config.GetDevices()) > 0, "devices"},
		{len(config.GetCDIDevices()) > 0, "CDI devices"},
	}
	reasons := unsupportedNamespaces(security.GetNamespaceOptions())
	for _, check := range checks {
		if check.asked {
			reasons = append(reasons, check.name)
		}
	}
	for _, mount := range config.GetMounts() {
		reasons = append(reasons, unsupportedMount(mount)...)
	}
	return reasons
}

func unsupportedMount(mount *runtime.Mount) []string {
	var reasons []string
	if mount.GetImage().GetImage() != "" {
		reasons = append(reasons, "an image as a volume")
	}
	if mount.GetPropagation() == runtime.MountPropagation_PROPAGATION_BIDIRECTIONAL {
		reasons = append(reasons, "bidirectional mount propagation at "+mount.GetContainerPath())
	}
	if mount.GetRecursiveReadOnly() {
		reasons = append(reasons, "a recursive read-only mount at "+mount.GetContainerPath())
	}
	if len(mount.GetUidMappings()) > 0 || len(mount.GetGidMappings()) > 0 {
		reasons = append(reasons, "ID-mapped mounts")
	}
	return reasons
}

// unsupportedPod lists what a pod asks for and cannot get.
func unsupportedPod(config *runtime.PodSandboxConfig, handler string) []string {
	reasons := unsupportedNamespaces(config.GetLinux().GetSecurityContext().GetNamespaceOptions())
	if handler != "" {
		reasons = append(reasons, fmt.Sprintf("the runtime handler %q", handler))
	}
	if len(config.GetLinux().GetSysctls()) > 0 {
		reasons = append(reasons, "sysctls")
	}
	return reasons
}

// unsupportedNamespaces accepts no options at all: kubelets always send them, and name CONTAINER
// unless the pod asks for another mode.
func unsupportedNamespaces(options *runtime.NamespaceOption) []string {
	if options == nil {
		return nil
	}
	var reasons []string
	switch options.GetPid() {
	case runtime.NamespaceMode_POD:
		reasons = append(reasons, "a PID namespace that containers share")
	case runtime.NamespaceMode_NODE:
		reasons = append(reasons, "the PID namespace of the host")
	case runtime.NamespaceMode_TARGET:
		reasons = append(reasons, "the PID namespace of another container")
	case runtime.NamespaceMode_CONTAINER:
	}
	if users := options.GetUsernsOptions(); users != nil && users.GetMode() == runtime.NamespaceMode_POD {
		reasons = append(reasons, "user namespaces")
	}
	return reasons
}

func computeUser(security *runtime.LinuxContainerSecurityContext) (container.User, error) {
	var user container.User
	set := func(id *uint32, value int64, name string) error {
		if value < 0 || value > math.MaxUint32 {
			return status.Errorf(codes.InvalidArgument, "%s is %d, which is no id", name, value)
		}
		*id = uint32(value)
		return nil
	}
	if err := set(&user.UID, security.GetRunAsUser().GetValue(), "runAsUser"); err != nil {
		return user, err
	}
	if err := set(&user.GID, security.GetRunAsGroup().GetValue(), "runAsGroup"); err != nil {
		return user, err
	}
	for _, value := range security.GetSupplementalGroups() {
		var group uint32
		if err := set(&group, value, "a supplemental group"); err != nil {
			return user, err
		}
		user.Groups = append(user.Groups, group)
	}
	return user, nil
}

func computeMounts(mounts []*runtime.Mount) ([]container.Mount, error) {
	list := make([]container.Mount, 0, len(mounts))
	for _, mount := range mounts {
		m := container.Mount{
			Source: filepath.Clean(mount.GetHostPath()), Target: filepath.Clean(mount.GetContainerPath()),
			ReadOnly: mount.GetReadonly(),
		}
		if !filepath.IsAbs(m.Source) || !filepath.IsAbs(m.Target) || m.Target == "/" {
			return nil, status.Errorf(codes.InvalidArgument,
				"cannot mount %q at %q: both must be absolute paths, and / is the host's root",
				mount.GetHostPath(), mount.GetContainerPath())
		}
		list = append(list, m)
	}
	// A folder before what is mounted in it.
	slices.SortStableFunc(list, func(a, b container.Mount) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	return list, nil
}

// computeArgs combines the image's and the pod's command as Kubernetes documents it.
func computeArgs(image images.Config, config *runtime.ContainerConfig) []string {
	entrypoint, args := config.GetCommand(), config.GetArgs()
	if len(entrypoint) == 0 {
		entrypoint = image.Entrypoint
		if len(args) == 0 {
			args = image.Cmd
		}
	}
	return slices.Concat(entrypoint, args)
}

// computeEnv gives each name one value. A later source wins; PATH begins with the image's folder.
func computeEnv(
	image contents, pod *runtime.PodSandboxConfig, config *runtime.ContainerConfig, user container.User,
) []string {
	home := "/"
	if user.UID == 0 {
		home = "/root"
	}
	env := map[string]string{"HOME": home, "PATH": defaultPath}
	if pod.GetHostname() != "" {
		env["HOSTNAME"] = pod.GetHostname()
	}
	for _, entry := range image.config.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	for _, entry := range config.GetEnvs() {
		env[entry.GetKey()] = string(entry.GetValue())
	}
	env["PATH"] = image.folder + ":" + env["PATH"]
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
