//go:build linux

package cri

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/jsonfile"
)

const killSignal = unix.SIGKILL

func (s *server) RunPodSandbox(
	_ context.Context, r *runtime.RunPodSandboxRequest,
) (*runtime.RunPodSandboxResponse, error) {
	config := r.GetConfig()
	if config.GetMetadata().GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "the sandbox has no metadata with a name")
	}
	if reasons := unsupportedPod(config, r.GetRuntimeHandler()); len(reasons) > 0 {
		return nil, status.Errorf(codes.InvalidArgument, "this runtime does not support %s. Fix: remove it from pod %s",
			strings.Join(reasons, ", "), config.GetMetadata().GetName())
	}
	if dir := config.GetLogDirectory(); dir != "" && !filepath.IsAbs(dir) {
		return nil, status.Errorf(codes.InvalidArgument, "the folder of the logs, %q, is no absolute path", dir)
	}
	ip := s.hostIP()
	if ip == "" {
		return nil, status.Error(codes.Unavailable, "the host has no IPv4 address for the pod")
	}
	b := &sandbox{ID: newID(), Created: time.Now(), IP: ip, Config: protoJSON[*runtime.PodSandboxConfig]{config}}
	if dir := config.GetLogDirectory(); dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, status.Errorf(codes.Unknown, "making the folder of the logs: %v", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := jsonfile.Write(s.sandboxFile(b.ID), b); err != nil {
		return nil, status.Errorf(codes.Unknown, "recording a sandbox: %v", err)
	}
	s.sandboxes[b.ID] = b
	return &runtime.RunPodSandboxResponse{PodSandboxId: b.ID}, nil
}

// StopPodSandbox first records that the sandbox is stopped, so that no container starts any more.
func (s *server) StopPodSandbox(
	_ context.Context, r *runtime.StopPodSandboxRequest,
) (*runtime.StopPodSandboxResponse, error) {
	return &runtime.StopPodSandboxResponse{}, s.stopSandbox(r.GetPodSandboxId())
}

func (s *server) stopSandbox(id string) error {
	members, err := s.markStopped(id)
	if err != nil {
		return status.Errorf(codes.Unknown, "recording that a sandbox is stopped: %v", err)
	}
	for _, c := range members {
		err = errors.Join(err, c.process.Stop(killSignal, 0))
	}
	if err != nil {
		return status.Errorf(codes.Unknown, "stopping sandbox %s: %v", id, err)
	}
	return nil
}

// markStopped returns the containers of a sandbox.
func (s *server) markStopped(id string) ([]*containerRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.sandboxes[id]; ok && !b.Stopped {
		stopped := *b
		stopped.Stopped = true
		if err := jsonfile.Write(s.sandboxFile(id), &stopped); err != nil {
			return nil, err
		}
		s.sandboxes[id] = &stopped
	}
	var members []*containerRecord
	for _, c := range s.containers {
		if c.Sandbox == id {
			members = append(members, c)
		}
	}
	return members, nil
}

func (s *server) RemovePodSandbox(
	_ context.Context, r *runtime.RemovePodSandboxRequest,
) (*runtime.RemovePodSandboxResponse, error) {
	id := r.GetPodSandboxId()
	if _, err := s.sandbox(id); err != nil {
		return &runtime.RemovePodSandboxResponse{}, nil //nolint:nilerr // It was removed before.
	}
	members, err := s.markStopped(id)
	for _, c := range members {
		err = errors.Join(err, s.remove(c))
	}
	if err == nil {
		err = os.Remove(s.sandboxFile(id))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.Unknown, "removing sandbox %s: %v", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sandboxes, id)
	return &runtime.RemovePodSandboxResponse{}, nil
}

// sandbox returns a sandbox, which nobody changes.
func (s *server) sandbox(id string) (*sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.sandboxes[id]; ok {
		return b, nil
	}
	return nil, status.Errorf(codes.NotFound, "sandbox %q: not found", id)
}

func (b *sandbox) state() runtime.PodSandboxState {
	if b.Stopped {
		return runtime.PodSandboxState_SANDBOX_NOTREADY
	}
	return runtime.PodSandboxState_SANDBOX_READY
}

func (s *server) PodSandboxStatus(
	_ context.Context, r *runtime.PodSandboxStatusRequest,
) (*runtime.PodSandboxStatusResponse, error) {
	b, err := s.sandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	config := b.Config.Message
	return &runtime.PodSandboxStatusResponse{Status: &runtime.PodSandboxStatus{
		Id: b.ID, Metadata: config.GetMetadata(), State: b.state(), CreatedAt: b.Created.UnixNano(),
		Network: &runtime.PodSandboxNetworkStatus{Ip: b.IP},
		Linux: &runtime.LinuxPodSandboxStatus{Namespaces: &runtime.Namespace{
			Options: config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
		Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
	}}, nil
}

// allSandboxes returns the sandboxes, the newest first.
func (s *server) allSandboxes() []*sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*sandbox, 0, len(s.sandboxes))
	for _, b := range s.sandboxes {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b *sandbox) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	return list
}

func (s *server) ListPodSandbox(
	_ context.Context, r *runtime.ListPodSandboxRequest,
) (*runtime.ListPodSandboxResponse, error) {
	response := &runtime.ListPodSandboxResponse{}
	filter := r.GetFilter()
	for _, b := range s.allSandboxes() {
		config := b.Config.Message
		if !idMatches(filter.GetId(), b.ID) || !labelsMatch(filter.GetLabelSelector(), config.GetLabels()) ||
			filter.GetState() != nil && filter.GetState().GetState() != b.state() {
			continue
		}
		response.Items = append(response.Items, &runtime.PodSandbox{
			Id: b.ID, Metadata: config.GetMetadata(), State: b.state(), CreatedAt: b.Created.UnixNano(),
			Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		})
	}
	return response, nil
}

func idMatches(filter, id string) bool { return filter == "" || filter == id }

func labelsMatch(selector, labels map[string]string) bool {
	for name, value := range selector {
		if got, ok := labels[name]; !ok || got != value {
			return false
		}
	}
	return true
}
