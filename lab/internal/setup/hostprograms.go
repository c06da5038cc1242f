package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

// HostPrograms are the programs that hosts of real clusters run.
type HostPrograms struct {
	Store    kube.Store
	Releases []kube.Release
	// Mirror has the binaries of the releases for upgrades of hosts.
	Mirror kube.Mirror
	// Runtime is the path of the container runtime in the store.
	Runtime string
}

// CheckVersions returns an error if the clone of the repository does not build one of the versions.
// It builds nothing.
func CheckVersions(ctx context.Context, repository string, versions ...version.Version) error {
	built, err := kube.Versions(ctx, repository)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if !slices.Contains(built, v) {
			return fmt.Errorf("the lab builds no Kubernetes %s. Fix: use one of %s", v,
				strings.Trim(fmt.Sprint(built), "[]"))
		}
	}
	return nil
}

// BuildHostPrograms builds releases of Kubernetes in a clone of the repository, which takes minutes
// for the first time, and lays them out in a folder, which must be on the machine's root file
// system. runtime is the windlass-cri binary. building is called before each build.
func BuildHostPrograms(
	ctx context.Context, repository, folder, runtime string, versions []version.Version,
	building func(version.Version),
) (HostPrograms, error) {
	var p HostPrograms
	if err := CheckVersions(ctx, repository, versions...); err != nil {
		return p, err
	}
	for _, v := range versions {
		building(v)
		release, err := kube.BuildRelease(ctx, repository, v.Minor())
		if err != nil {
			return p, err
		}
		p.Releases = append(p.Releases, release)
	}
	if err := makeShared(folder); err != nil {
		return p, err
	}
	var err error
	if p.Store, err = kube.NewStore(folder, p.Releases...); err != nil {
		return p, err
	}
	if p.Mirror, err = p.Store.Mirror(p.Releases...); err != nil {
		return p, err
	}
	p.Runtime, err = p.Store.Add(runtime)
	return p, err
}

// Arguments are those of "windlass-lab site".
func (p HostPrograms) Arguments() []string {
	return []string{"--store", p.Store.Dir, "--runtime", p.Runtime}
}

// makeShared makes a folder that all users of all hosts can read: they see the machine's root file
// system, without what is mounted on it.
func makeShared(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // G301: hosts read it
		return fmt.Errorf("making the folder of programs for hosts: %w", err)
	}
	var root, is syscall.Stat_t
	if err := errors.Join(syscall.Stat("/", &root), syscall.Lstat(folder, &is)); err != nil {
		return fmt.Errorf("reading the file system of %s: %w", folder, err)
	}
	if err := checkOwned(folder, is); err != nil {
		return err
	}
	if root.Dev != is.Dev {
		return fmt.Errorf(
			"hosts do not see %s, because it is on another file system than /. Fix: unmount it", folder,
		)
	}
	return nil
}

// checkOwned returns an error if another user can change what is in a folder. Hosts run it as root,
// and anybody can make a folder in /var/tmp before the lab does.
func checkOwned(folder string, is syscall.Stat_t) error {
	const writableByOthers = 0o022
	isFolder := is.Mode&syscall.S_IFMT == syscall.S_IFDIR
	if isFolder && int(is.Uid) == os.Geteuid() && is.Mode&writableByOthers == 0 {
		return nil
	}
	return fmt.Errorf("another user can change the programs in %s. Fix: remove it", folder)
}
