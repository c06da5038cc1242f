package container

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Spec is what a container consists of.
type Spec struct {
	// Args is the command line. It must not be empty.
	Args []string
	// Env has one NAME=value each.
	Env []string
	// Dir is the working directory; / if empty.
	Dir string
	// Programs is the folder of the image, in which programs are found first.
	Programs string
	// Log is the file of the output; empty if the output is discarded.
	Log string
	// Mounts are bound in this order.
	Mounts []Mount
	// ReadOnlyRoot forbids writes outside Mounts and file systems other than the root.
	ReadOnlyRoot bool
	// NoNewPrivileges makes the kernel ignore set-user-ID bits.
	NoNewPrivileges bool
	User            User
}

// Mount binds a file or folder of the host.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// User are the ids of the container's processes.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// program returns the file of a command. A name without a slash is searched in PATH. The programs of
// an image are in one folder, so a path means the image's program of that name, or the host's file.
func (s Spec) program(name string) (string, error) {
	if strings.Contains(name, "/") {
		own := filepath.Join(s.Programs, filepath.Base(name))
		if s.Programs != "" && executable(own) == nil {
			return own, nil
		}
		return name, executable(name)
	}
	for dir := range strings.SplitSeq(s.variable("PATH"), ":") {
		path := filepath.Join(dir, name)
		if dir != "" && executable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("finding program %q in PATH=%s: %w", name, s.variable("PATH"), fs.ErrNotExist)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return &fs.PathError{Op: "exec", Path: path, Err: fs.ErrPermission}
	}
	return nil
}

// variable returns the value of an environment variable: the last one, as the C library does not.
func (s Spec) variable(name string) string {
	value := ""
	for _, entry := range s.Env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}
