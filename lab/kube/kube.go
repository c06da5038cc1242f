// Package kube builds the programs of Kubernetes that run on the hosts of tests. Build returns what
// a worker with simulated pods needs: kubeadm as it is released, and a kubelet with nothing beneath
// it. BuildRelease adds what runs as pods on real clusters: the control plane's programs, etcd,
// CoreDNS and kube-proxy.
//
// The folder minors is one module with a file of requirements for each minor, which names the exact
// version. The folders etcd and coredns are such modules, too, and crictl has one version. Most of
// them contain no source: they pin released programs.
package kube

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Binaries are the programs of one version, ready to be copied to a host. They need nothing but
// Linux.
type Binaries struct {
	// Version is the exact one, as in v1.36.3. The programs report it, and so does the Node.
	Version version.Version
	// Dir holds the programs, and the names below are paths in it.
	Dir string
	// Kubeadm is what Kubernetes releases.
	Kubeadm string
	// Kubelet keeps a Node, without a container runtime, cgroups or mounts. A copy that is named
	// containerd serves a stand-in of a container runtime at the endpoint in its only argument, by
	// default unix:///run/containerd/containerd.sock.
	//
	// With WINDLASS_KUBELET_PODS=real in its environment it runs pods in the container runtime at
	// its endpoint, also static ones, and mounts their volumes.
	Kubelet string
}

// Build returns the programs of one minor, which the module must know. It builds what is missing or
// older than its sources, into .windlass/kube in the repository. The first build of a minor
// compiles Kubernetes, which takes minutes. Processes that build at the same time wait for each
// other.
func Build(ctx context.Context, repository string, minor version.Minor) (Binaries, error) {
	m, err := minorModule(ctx, repository, minor)
	if err != nil {
		return Binaries{}, err
	}
	return buildBinaries(ctx, repository, m)
}

// Versions returns the versions that the repository builds, one for each minor, the oldest first.
// It builds nothing.
func Versions(ctx context.Context, repository string) ([]version.Version, error) {
	dir := filepath.Join(repository, modulesDir, "minors")
	files, err := filepath.Glob(filepath.Join(dir, "*.mod"))
	if err != nil {
		return nil, fmt.Errorf("listing the versions of Kubernetes: %w", err)
	}
	var versions []version.Version
	for _, file := range files {
		m := module{dir: dir, requirements: filepath.Base(file)}
		if m.version, err = m.find(ctx, kubernetes); err != nil {
			return nil, err
		}
		versions = append(versions, m.version)
	}
	slices.SortFunc(versions, func(a, b version.Version) int {
		return cmp.Compare(a.Minor().Minor, b.Minor().Minor)
	})
	return versions, nil
}

// kubernetes is the Go module of Kubernetes.
const kubernetes = "k8s.io/kubernetes"

func minorModule(ctx context.Context, repository string, minor version.Minor) (module, error) {
	return findModule(ctx, repository, "minors", kubernetes, minor.String(),
		func(v version.Version) bool { return v.Minor() == minor })
}

func buildBinaries(ctx context.Context, repository string, m module) (Binaries, error) {
	t, err := newTarget(repository, m.version.String(), m, map[string]string{
		"kubeadm": "k8s.io/kubernetes/cmd/kubeadm", "kubelet": "./kubelet",
	}, versionVariables(m.version))
	if err != nil {
		return Binaries{}, err
	}
	return Binaries{
		Version: m.version, Dir: t.output, Kubeadm: t.path("kubeadm"), Kubelet: t.path("kubelet"),
	}, t.build(ctx)
}

// versionVariables are the version that programs of Kubernetes report.
func versionVariables(v version.Version) map[string]string {
	const base = "k8s.io/component-base/version."
	return map[string]string{
		base + "gitVersion": v.String(),
		base + "gitMajor":   strconv.FormatUint(uint64(v.Minor().Major), 10),
		base + "gitMinor":   strconv.FormatUint(uint64(v.Minor().Minor), 10),
	}
}
