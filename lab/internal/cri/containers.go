//go:build linux

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/container"
	"github.com/windlass-dev/windlass/lab/internal/cri/internal/images"
	"github.com/windlass-dev/windlass/lab/internal/cri/internal/jsonfile"
)

func (s *server) CreateContainer(
	_ context.Context, r *runtime.CreateContainerRequest,
) (*runtime.CreateContainerResponse, error) {
	b, err := s.sandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	config := r.GetConfig()
	if config.GetMetadata().GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "the container has no metadata with a name")
	}
	image, err := s.imageOf(config.GetImage())
	if err != nil {
		return nil, err
	}
	folder, imageConfig, err := s.images.Contents(image)
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	spec, err := computeSpec(contents{folder, imageConfig}, b.Config.Message, config)
	if err != nil {
		return nil, err
	}
	c := &containerRecord{
		ID: newID(), Sandbox: b.ID, Created: time.Now(), Image: image.Reference, ImageID: image.ID, Log: spec.Log,
		Config: protoJSON[*runtime.ContainerConfig]{config},
	}
	if err := s.create(c, spec); err != nil {
		return nil, status.Errorf(codes.Unknown, "creating container %s: %v", config.GetMetadata().GetName(), err)
	}
	return &runtime.CreateContainerResponse{ContainerId: c.ID}, nil
}

func (s *server) create(c *containerRecord, spec container.Spec) error {
	for _, m := range spec.Mounts {
		// As other runtimes do: Kubernetes lets a hostPath without a type name what does not exist.
		if err := makeSource(m.Source); err != nil {
			return err
		}
	}
	folder := s.containerFolder(c.ID)
	err := os.Mkdir(folder, 0o700)
	if err == nil {
		c.process, err = container.Create(folder, spec)
	}
	if err == nil {
		err = jsonfile.Write(filepath.Join(folder, recordFile), c)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers[c.ID] = c
	return nil
}

func makeSource(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return os.MkdirAll(path, 0o755)
}

// imageOf finds a pulled image. The kubelet gives its ID, and the reference that the pod names.
func (s *server) imageOf(spec *runtime.ImageSpec) (images.Image, error) {
	byID, err := s.images.Find(spec.GetImage())
	if err != nil {
		return images.Image{}, status.Error(codes.Unknown, err.Error())
	}
	if len(byID) == 0 {
		return images.Image{}, status.Errorf(codes.NotFound, "image %q was not pulled: not found", spec.GetImage())
	}
	named, err := s.images.Find(spec.GetUserSpecifiedImage())
	if err == nil && len(named) > 0 && named[0].ID == byID[0].ID {
		return named[0], nil
	}
	return byID[0], nil
}

func (s *server) container(id string) (*containerRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.containers[id]; ok {
		return c, nil
	}
	return nil, status.Errorf(codes.NotFound, "container %q: not found", id)
}

func (s *server) StartContainer(
	_ context.Context, r *runtime.StartContainerRequest,
) (*runtime.StartContainerResponse, error) {
	c, err := s.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	ready := func() error {
		b, err := s.sandbox(c.Sandbox)
		if err == nil && b.Stopped {
			err = fmt.Errorf("sandbox %s is stopped", b.ID)
		}
		return err
	}
	if err := c.process.Start("/proc/self/exe", ready); err != nil {
		return nil, status.Errorf(codes.Unknown, "starting container %s: %v", c.Config.Message.GetMetadata().GetName(), err)
	}
	return &runtime.StartContainerResponse{}, nil
}

// StopContainer does not end with its context: the kubelet asks again, and would find it stopped.
func (s *server) StopContainer(
	_ context.Context, r *runtime.StopContainerRequest,
) (*runtime.StopContainerResponse, error) {
	c, err := s.container(r.GetContainerId())
	if err != nil {
		return &runtime.StopContainerResponse{}, nil //nolint:nilerr // It was removed before.
	}
	grace := time.Duration(max(0, r.GetTimeout())) * time.Second
	if err := c.process.Stop(stopSignal(c.Config.Message.GetStopSignal()), grace); err != nil {
		return nil, status.Errorf(codes.Unknown, "stopping container %s: %v", c.ID, err)
	}
	return &runtime.StopContainerResponse{}, nil
}

func stopSignal(signal runtime.Signal) unix.Signal {
	if number := unix.SignalNum(signal.String()); number != 0 {
		return number
	}
	return unix.SIGTERM
}

func (s *server) RemoveContainer(
	_ context.Context, r *runtime.RemoveContainerRequest,
) (*runtime.RemoveContainerResponse, error) {
	c, err := s.container(r.GetContainerId())
	if err != nil {
		return &runtime.RemoveContainerResponse{}, nil //nolint:nilerr // It was removed before.
	}
	if err := s.remove(c); err != nil {
		return nil, status.Errorf(codes.Unknown, "removing container %s: %v", c.ID, err)
	}
	return &runtime.RemoveContainerResponse{}, nil
}

func (s *server) ReopenContainerLog(
	_ context.Context, r *runtime.ReopenContainerLogRequest,
) (*runtime.ReopenContainerLogResponse, error) {
	c, err := s.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := c.process.ReopenLog(); err != nil {
		return nil, status.Errorf(runningCode(err), "container %s: %v", c.ID, err)
	}
	return &runtime.ReopenContainerLogResponse{}, nil
}

func runningCode(err error) codes.Code {
	if errors.Is(err, container.ErrNotRunning) {
		return codes.FailedPrecondition
	}
	return codes.Unknown
}

// allContainers returns the containers, the newest first.
func (s *server) allContainers() []*containerRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*containerRecord, 0, len(s.containers))
	for _, c := range s.containers {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *containerRecord) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	return list
}

func stateOf(state container.State) runtime.ContainerState {
	switch state {
	case container.Created:
		return runtime.ContainerState_CONTAINER_CREATED
	case container.Running:
		return runtime.ContainerState_CONTAINER_RUNNING
	case container.Exited:
		return runtime.ContainerState_CONTAINER_EXITED
	}
	return runtime.ContainerState_CONTAINER_UNKNOWN
}

func (s *server) ListContainers(
	_ context.Context, r *runtime.ListContainersRequest,
) (*runtime.ListContainersResponse, error) {
	response := &runtime.ListContainersResponse{}
	filter := r.GetFilter()
	for _, c := range s.allContainers() {
		config := c.Config.Message
		if !idMatches(filter.GetId(), c.ID) || !idMatches(filter.GetPodSandboxId(), c.Sandbox) ||
			!labelsMatch(filter.GetLabelSelector(), config.GetLabels()) {
			continue
		}
		now, err := c.process.Status()
		if err != nil {
			return nil, status.Errorf(codes.Unknown, "container %s: %v", c.ID, err)
		}
		state := stateOf(now.State)
		if filter.GetState() != nil && filter.GetState().GetState() != state {
			continue
		}
		response.Containers = append(response.Containers, &runtime.Container{
			Id: c.ID, PodSandboxId: c.Sandbox, Metadata: config.GetMetadata(), Image: config.GetImage(),
			ImageRef: c.ImageID, ImageId: c.ImageID, State: state, CreatedAt: c.Created.UnixNano(),
			Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		})
	}
	return response, nil
}

func (s *server) ContainerStatus(
	_ context.Context, r *runtime.ContainerStatusRequest,
) (*runtime.ContainerStatusResponse, error) {
	c, err := s.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	now, err := c.process.Status()
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "container %s: %v", c.ID, err)
	}
	config := c.Config.Message
	return &runtime.ContainerStatusResponse{Status: &runtime.ContainerStatus{
		Id: c.ID, Metadata: config.GetMetadata(), State: stateOf(now.State), CreatedAt: c.Created.UnixNano(),
		StartedAt: nanoseconds(now.StartedAt), FinishedAt: nanoseconds(now.FinishedAt),
		ExitCode: int32(now.ExitCode), Reason: now.Reason, Message: now.Message,
		Image: &runtime.ImageSpec{Image: c.Image}, ImageRef: c.ImageID, ImageId: c.ImageID,
		Labels: config.GetLabels(), Annotations: config.GetAnnotations(), Mounts: config.GetMounts(), LogPath: c.Log,
		StopSignal: config.GetStopSignal(),
	}}, nil
}

// nanoseconds of the zero time are 0, as CRI has it.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
