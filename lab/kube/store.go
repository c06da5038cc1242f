package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Store is a folder with the programs of releases for hosts:
//
//	bin/VERSION/NAME                    kubeadm, kubelet, kubectl, etcdctl, etcdutl and crictl
//	images/REGISTRY/REPOSITORY/TAG/     programs of an image, and image.json where they need it
//
// image.json is an object with "entrypoint", a list of strings.
//
// Hosts see the folder at the same path if it is on the machine's root file system. What is in it never changes, because a file
// that changes below an overlay keeps its old content in running hosts.
type Store struct{ Dir string }

// NewStore lays out releases in a folder, by hard links where the file system allows. It adds what is missing in the folder. It
// returns an error if a file is there with other content: the folder of older programs cannot be used again.
func NewStore(dir string, releases ...Release) (Store, error) {
	s := Store{Dir: dir}
	for _, r := range releases {
		for name, source := range r.programs() {
			if err := link(source, s.Program(r.Version, name)); err != nil {
				return s, err
			}
		}
		for _, image := range r.Images {
			if err := s.addImage(r, image); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// Program is the path of a program for hosts of a version.
func (s Store) Program(v version.Version, name string) string {
	return filepath.Join(s.Dir, "bin", v.String(), name)
}

// Images is the folder of images.
func (s Store) Images() string { return filepath.Join(s.Dir, "images") }

// programs are those that hosts have in the path, by name.
func (r Release) programs() map[string]string {
	return map[string]string{
		"kubeadm": r.Kubeadm, "kubelet": r.Kubelet, "kubectl": r.Hyperkube,
		"etcdctl": r.Etcdctl, "etcdutl": r.Etcdutl, "crictl": r.Crictl,
	}
}

// pause is all that the image pause does: it waits to be killed, or reports success to kubeadm's health check, which runs it with
// -v.
const pause = "#!/bin/sh\n[ \"$1\" = -v ] || exec sleep infinity\n"

func (s Store) addImage(r Release, image Image) error {
	dir := filepath.Join(s.Images(), filepath.FromSlash(image.Repository), image.Tag)
	name := image.Name()
	switch name {
	case "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy":
		return link(r.Hyperkube, filepath.Join(dir, name))
	case "etcd":
		return errors.Join(
			link(r.Etcd, filepath.Join(dir, "etcd")),
			link(r.Etcdctl, filepath.Join(dir, "etcdctl")),
			link(r.Etcdutl, filepath.Join(dir, "etcdutl")),
		)
	case "coredns":
		return errors.Join(link(r.CoreDNS, filepath.Join(dir, name)), addEntrypoint(dir, name))
	case "pause":
		return errors.Join(add(filepath.Join(dir, name), []byte(pause), 0o755), addEntrypoint(dir, name))
	}
	return fmt.Errorf("kubeadm %s lists the image %s:%s, and nothing builds its program", r.Version, image.Repository, image.Tag)
}

// addEntrypoint has containers whose specs name no command run a program.
func addEntrypoint(dir, program string) error {
	data, err := json.Marshal(map[string][]string{"entrypoint": {program}})
	if err != nil {
		return fmt.Errorf("encoding the entry point: %w", err)
	}
	return add(filepath.Join(dir, "image.json"), data, 0o644)
}

// add writes a file that never changes.
func add(path string, content []byte, mode fs.FileMode) error {
	return place(path, func(path string) error { return os.WriteFile(path, content, mode) }, func() (bool, error) {
		is, err := os.ReadFile(path)
		return string(is) == string(content), err
	})
}

// link makes path a file with the content of source, which never changes.
func link(source, path string) error {
	return place(path, func(path string) error {
		if err := os.Link(source, path); err == nil {
			return nil
		}
		return copyFile(source, path)
	}, func() (bool, error) { return sameFile(source, path) })
}

// place writes a file if it is missing. It returns an error if the file is not as it should be.
func place(path string, write func(path string) error, isCurrent func() (bool, error)) error {
	if _, err := os.Lstat(path); err == nil {
		current, err := isCurrent()
		if err != nil {
			return fmt.Errorf("comparing programs for hosts: %w", err)
		}
		if !current {
			return fmt.Errorf("%s is another program than was built. Fix: use a new folder; running hosts may use this one", path)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making a folder of programs for hosts: %w", err)
	}
	// The file gets its name last, so that it is complete.
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("placing a program for hosts: %w", err)
	}
	err := write(part)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return fmt.Errorf("placing a program for hosts: %w", err)
	}
	return nil
}

// sameFile reports whether two files are one, or have the same size and time of change, as copyFile makes them.
func sameFile(a, b string) (bool, error) {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	return os.SameFile(infoA, infoB) || infoA.Size() == infoB.Size() && infoA.ModTime().Equal(infoB.ModTime()), nil
}

// copyFile makes a copy of a program with its time of change.
func copyFile(source, path string) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close(), os.Chtimes(path, info.ModTime(), info.ModTime()))
}
