//go:build linux

package cri

import (
	"context"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *server) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	return &runtime.VersionResponse{
		Version: "0.1.0", RuntimeName: Name, RuntimeVersion: s.options.Version, RuntimeApiVersion: "v1",
	}, nil
}

func (s *server) Status(context.Context, *runtime.StatusRequest) (*runtime.StatusResponse, error) {
	network := &runtime.RuntimeCondition{Type: runtime.NetworkReady, Status: true}
	if s.hostIP() == "" {
		network = &runtime.RuntimeCondition{
			Type: runtime.NetworkReady, Reason: "NoAddress", Message: "the host has no IPv4 address",
		}
	}
	return &runtime.StatusResponse{
		Status: &runtime.RuntimeStatus{Conditions: []*runtime.RuntimeCondition{
			{Type: runtime.RuntimeReady, Status: true}, network,
		}},
		RuntimeHandlers: []*runtime.RuntimeHandler{{Features: &runtime.RuntimeHandlerFeatures{}}},
		Features:        &runtime.RuntimeFeatures{},
	}, nil
}

// RuntimeConfig names a driver of control groups, because kubelets require one. Containers have none.
func (s *server) RuntimeConfig(
	context.Context, *runtime.RuntimeConfigRequest,
) (*runtime.RuntimeConfigResponse, error) {
	return &runtime.RuntimeConfigResponse{
		Linux: &runtime.LinuxRuntimeConfiguration{CgroupDriver: runtime.CgroupDriver_CGROUPFS},
	}, nil
}

// UpdateRuntimeConfig accepts the range of pod addresses. Pods have the address of the host.
func (s *server) UpdateRuntimeConfig(
	context.Context, *runtime.UpdateRuntimeConfigRequest,
) (*runtime.UpdateRuntimeConfigResponse, error) {
	return &runtime.UpdateRuntimeConfigResponse{}, nil
}
