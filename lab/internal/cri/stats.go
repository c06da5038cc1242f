//go:build linux

package cri

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/container"
)

// statsOf returns what the first process of a container uses; nil if the container does not run.
func statsOf(c *containerRecord) (*runtime.ContainerStats, error) {
	usage, err := c.process.Usage()
	if errors.Is(err, container.ErrNotRunning) {
		return nil, nil //nolint:nilnil // Not running is no error.
	}
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "container %s: %v", c.ID, err)
	}
	now, config := time.Now().UnixNano(), c.Config.Message
	return &runtime.ContainerStats{
		Attributes: &runtime.ContainerAttributes{
			Id: c.ID, Metadata: config.GetMetadata(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		},
		Cpu: &runtime.CpuUsage{
			Timestamp: now, UsageCoreNanoSeconds: &runtime.UInt64Value{Value: uint64(usage.CPU.Nanoseconds())},
		},
		Memory: &runtime.MemoryUsage{
			Timestamp: now, WorkingSetBytes: &runtime.UInt64Value{Value: usage.Memory},
			RssBytes: &runtime.UInt64Value{Value: usage.Memory},
		},
	}, nil
}

func (s *server) ContainerStats(
	_ context.Context, r *runtime.ContainerStatsRequest,
) (*runtime.ContainerStatsResponse, error) {
	c, err := s.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	stats, err := statsOf(c)
	return &runtime.ContainerStatsResponse{Stats: stats}, err
}

func (s *server) ListContainerStats(
	_ context.Context, r *runtime.ListContainerStatsRequest,
) (*runtime.ListContainerStatsResponse, error) {
	filter := r.GetFilter()
	stats, err := s.listStats(filter.GetId(), filter.GetPodSandboxId(), filter.GetLabelSelector())
	return &runtime.ListContainerStatsResponse{Stats: stats}, err
}

func (s *server) listStats(id, sandbox string, selector map[string]string) ([]*runtime.ContainerStats, error) {
	var list []*runtime.ContainerStats
	for _, c := range s.allContainers() {
		if !idMatches(id, c.ID) || !idMatches(sandbox, c.Sandbox) || !labelsMatch(selector, c.Config.Message.GetLabels()) {
			continue
		}
		stats, err := statsOf(c)
		if err != nil {
			return nil, err
		}
		if stats != nil {
			list = append(list, stats)
		}
	}
	return list, nil
}

func (s *server) sandboxStats(b *sandbox) (*runtime.PodSandboxStats, error) {
	containers, err := s.listStats("", b.ID, nil)
	if err != nil {
		return nil, err
	}
	config := b.Config.Message
	return &runtime.PodSandboxStats{
		Attributes: &runtime.PodSandboxAttributes{
			Id: b.ID, Metadata: config.GetMetadata(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		},
		Linux: &runtime.LinuxPodSandboxStats{Containers: containers},
	}, nil
}

func (s *server) PodSandboxStats(
	_ context.Context, r *runtime.PodSandboxStatsRequest,
) (*runtime.PodSandboxStatsResponse, error) {
	b, err := s.sandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	stats, err := s.sandboxStats(b)
	return &runtime.PodSandboxStatsResponse{Stats: stats}, err
}

func (s *server) ListPodSandboxStats(
	_ context.Context, r *runtime.ListPodSandboxStatsRequest,
) (*runtime.ListPodSandboxStatsResponse, error) {
	response := &runtime.ListPodSandboxStatsResponse{}
	filter := r.GetFilter()
	for _, b := range s.allSandboxes() {
		if !idMatches(filter.GetId(), b.ID) || !labelsMatch(filter.GetLabelSelector(), b.Config.Message.GetLabels()) {
			continue
		}
		stats, err := s.sandboxStats(b)
		if err != nil {
			return nil, err
		}
		response.Stats = append(response.Stats, stats)
	}
	return response, nil
}
