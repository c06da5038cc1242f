//go:build linux

package cri

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/images"
)

func (s *server) PullImage(
	_ context.Context, r *runtime.PullImageRequest,
) (*runtime.PullImageResponse, error) {
	image, err := s.images.Pull(r.GetImage().GetImage())
	var missing *images.NotFoundError
	if errors.As(err, &missing) {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtime.PullImageResponse{ImageRef: image.ID}, nil
}

// byID joins the references of each ID, in the order of the first one.
func byID(list []images.Image) []*runtime.Image {
	var joined []*runtime.Image
	for _, image := range list {
		at := slices.IndexFunc(joined, func(other *runtime.Image) bool { return other.GetId() == image.ID })
		if at < 0 {
			at = len(joined)
			joined = append(joined, &runtime.Image{
				Id: image.ID, Size: image.Size, Spec: &runtime.ImageSpec{Image: image.ID},
			})
		}
		joined[at].RepoTags = append(joined[at].RepoTags, image.Reference)
		if digest := image.Digest(); !slices.Contains(joined[at].RepoDigests, digest) {
			joined[at].RepoDigests = append(joined[at].RepoDigests, digest)
		}
	}
	return joined
}

// find returns an image with all its references; nil if it was not pulled.
func (s *server) find(name string) (*runtime.Image, error) {
	named, err := s.images.Find(name)
	if err == nil && len(named) > 0 {
		named, err = s.images.Find(named[0].ID)
	}
	if err != nil || len(named) == 0 {
		return nil, err
	}
	return byID(named)[0], nil
}

func (s *server) ListImages(
	_ context.Context, r *runtime.ListImagesRequest,
) (*runtime.ListImagesResponse, error) {
	if name := r.GetFilter().GetImage().GetImage(); name != "" {
		image, err := s.find(name)
		if err != nil {
			return nil, status.Error(codes.Unknown, err.Error())
		}
		if image == nil {
			return &runtime.ListImagesResponse{}, nil
		}
		return &runtime.ListImagesResponse{Images: []*runtime.Image{image}}, nil
	}
	list, err := s.images.List()
	if err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtime.ListImagesResponse{Images: byID(list)}, nil
}

func (s *server) ImageStatus(
	_ context.Context, r *runtime.ImageStatusRequest,
) (*runtime.ImageStatusResponse, error) {
	if r.GetImage().GetImage() == "" {
		return nil, status.Error(codes.InvalidArgument, "the request names no image")
	}
	image, err := s.find(r.GetImage().GetImage())
	if err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtime.ImageStatusResponse{Image: image}, nil
}

func (s *server) RemoveImage(
	_ context.Context, r *runtime.RemoveImageRequest,
) (*runtime.RemoveImageResponse, error) {
	if r.GetImage().GetImage() == "" {
		return nil, status.Error(codes.InvalidArgument, "the request names no image")
	}
	if err := s.images.Remove(r.GetImage().GetImage()); err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtime.RemoveImageResponse{}, nil
}

// ImageFsInfo reports what the pulled images occupy. They are in the folder that replaces registries.
func (s *server) ImageFsInfo(
	context.Context, *runtime.ImageFsInfoRequest,
) (*runtime.ImageFsInfoResponse, error) {
	list, err := s.images.List()
	if err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	var used uint64
	for _, image := range byID(list) {
		used += image.GetSize()
	}
	usage := []*runtime.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &runtime.FilesystemIdentifier{Mountpoint: s.images.Folder()},
		UsedBytes: &runtime.UInt64Value{Value: used}, InodesUsed: &runtime.UInt64Value{Value: uint64(len(list))},
	}}
	return &runtime.ImageFsInfoResponse{ImageFilesystems: usage, ContainerFilesystems: usage}, nil
}
