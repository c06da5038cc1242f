package kube

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Release is everything of one version of Kubernetes that a machine of a real cluster runs, except
// a container runtime.
type Release struct {
	Binaries
	// Hyperkube is kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy or kubectl,
	// by the name that it has.
	Hyperkube string
	// Etcd, Etcdctl and Etcdutl are of the version that Kubeadm installs.
	Etcd, Etcdctl, Etcdutl string
	// CoreDNS is of the version that Kubeadm installs, with the plugins of its Corefile only.
	CoreDNS string
	// Crictl is of one version for all releases.
	Crictl string
	// Images are those that Kubeadm lists for the version.
	Images []Image
}

// EtcdVersion is the version of etcd that Kubeadm installs, as its members report it.
func (r Release) EtcdVersion() string {
	image, _ := r.Image("etcd")
	v, _, _ := strings.Cut(image.Tag, "-")
	return v
}

// Image returns the image with a name; false if Kubeadm lists none.
func (r Release) Image(name string) (Image, bool) {
	at := slices.IndexFunc(r.Images, func(i Image) bool { return i.Name() == name })
	if at < 0 {
		return Image{}, false
	}
	return r.Images[at], true
}

// BuildRelease builds what [Build] builds, and the rest of a cluster's programs, in the same way.
func BuildRelease(ctx context.Context, repository string, minor version.Minor) (Release, error) {
	m, err := minorModule(ctx, repository, minor)
	if err != nil {
		return Release{}, err
	}
	binaries, err := buildBinaries(ctx, repository, m)
	if err != nil {
		return Release{}, err
	}
	images, err := listImages(ctx, binaries)
	if err != nil {
		return Release{}, err
	}
	r := Release{Binaries: binaries, Images: images}
	components, err := newTarget(repository, "hyperkube-"+m.version.String(), m,
		map[string]string{"hyperkube": "./hyperkube"}, versionVariables(m.version))
	if err != nil {
		return Release{}, err
	}
	const server = "go.etcd.io/etcd/server/v3"
	etcd, err := imageTarget(ctx, repository, images, "etcd", server, map[string]string{
		"etcd":    server,
		"etcdctl": "go.etcd.io/etcd/etcdctl/v3",
		"etcdutl": "go.etcd.io/etcd/etcdutl/v3",
	})
	if err != nil {
		return Release{}, err
	}
	coredns, err := imageTarget(ctx, repository, images, "coredns", "github.com/coredns/coredns",
		map[string]string{"coredns": "."})
	if err != nil {
		return Release{}, err
	}
	crictl, err := crictlTarget(ctx, repository)
	if err != nil {
		return Release{}, err
	}
	for _, t := range []target{components, etcd, coredns, crictl} {
		if err := t.build(ctx); err != nil {
			return Release{}, err
		}
	}
	r.Hyperkube, r.Crictl = components.path("hyperkube"), crictl.path("crictl")
	r.CoreDNS = coredns.path("coredns")
	r.Etcd, r.Etcdctl, r.Etcdutl = etcd.path("etcd"), etcd.path("etcdctl"), etcd.path("etcdutl")
	return r, nil
}

// imageTarget is the target of the programs in an image. Its module's folder has the name of the
// image, and its version is the image's tag.
func imageTarget(
	ctx context.Context, repository string, images []Image, name, subject string,
	packages map[string]string,
) (target, error) {
	for _, image := range images {
		if image.Name() != name {
			continue
		}
		want, err := image.version()
		if err != nil {
			return target{}, err
		}
		m, err := findModule(ctx, repository, name, subject, want.String(), want.Equal)
		if err != nil {
			return target{}, err
		}
		return newTarget(repository, name+"-"+want.String(), m, packages, nil)
	}
	return target{}, fmt.Errorf("kubeadm lists no image %s among %v", name, images)
}

func crictlTarget(ctx context.Context, repository string) (target, error) {
	const tools = "sigs.k8s.io/cri-tools"
	m, err := findModule(ctx, repository, "crictl", tools, "crictl",
		func(version.Version) bool { return true })
	if err != nil {
		return target{}, err
	}
	return newTarget(repository, "crictl-"+m.version.String(), m,
		map[string]string{"crictl": tools + "/cmd/crictl"},
		map[string]string{tools + "/pkg/version.Version": m.version.String()})
}

// Image is the reference of an image: REPOSITORY:TAG, where the first part of the repository is a
// registry's host.
type Image struct{ Repository, Tag string }

// Name is the last part of the repository.
func (i Image) Name() string { return path.Base(i.Repository) }

// Reference is what a container names the image by.
func (i Image) Reference() string { return i.Repository + ":" + i.Tag }

// version is that of the program in the image: the tag without the number of the image's build.
func (i Image) version() (version.Version, error) {
	tag, _, _ := strings.Cut(i.Tag, "-")
	v, err := version.Parse("v" + strings.TrimPrefix(tag, "v"))
	if err != nil {
		return version.Version{},
			fmt.Errorf("reading the tag of image %s: %w", i.Reference(), err)
	}
	return v, nil
}

// listImages asks kubeadm for the images of its own version.
func listImages(ctx context.Context, binaries Binaries) ([]Image, error) {
	cmd := exec.CommandContext(ctx, binaries.Kubeadm, "config", "images", "list",
		"--kubernetes-version", binaries.Version.String())
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("asking kubeadm %s for its images: %w", binaries.Version, err)
	}
	return parseImages(string(out))
}

// parseImages reads one reference a line.
func parseImages(lines string) ([]Image, error) {
	var images []Image
	for line := range strings.Lines(lines) {
		reference := strings.TrimSpace(line)
		at := strings.LastIndex(reference, ":")
		image := Image{Repository: reference[:max(at, 0)], Tag: reference[at+1:]}
		if !strings.Contains(image.Repository, "/") || image.Tag == "" ||
			strings.ContainsAny(reference, " @") {
			return nil, fmt.Errorf("kubeadm lists %q, want REGISTRY/REPOSITORY:TAG", reference)
		}
		images = append(images, image)
	}
	return images, nil
}
