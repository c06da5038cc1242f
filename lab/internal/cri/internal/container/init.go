//go:build linux

package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// runInit is the first process of a container, in namespaces of its own: it sets up what the spec
// describes, and becomes the container's program. It reports failures through file 3, which is closed
// when the program begins.
func runInit(dir string) error {
	failure := os.NewFile(3, "failure")
	err := become(dir)
	_, writeErr := io.WriteString(failure, err.Error())
	return errors.Join(err, writeErr)
}

// become returns only errors.
func become(dir string) error {
	spec, err := readSpec(dir)
	if err != nil {
		return err
	}
	if len(spec.Args) == 0 {
		return errors.New("the container has no command")
	}
	if err := mountAll(spec); err != nil {
		return err
	}
	program, err := spec.program(spec.Args[0])
	if err != nil {
		return err
	}
	if err := os.Chdir(filepath.Join("/", spec.Dir)); err != nil {
		return fmt.Errorf("entering the working directory: %w", err)
	}
	if err := takeUser(spec); err != nil {
		return err
	}
	// A change of user clears it. Without it a container could outlive its shim.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("binding the container to its shim: %w", err)
	}
	if err := syscall.Exec(program, spec.Args, spec.Env); err != nil {
		return &fs.PathError{Op: "exec", Path: program, Err: err}
	}
	return nil
}

func takeUser(spec Spec) error {
	groups := make([]int, 0, len(spec.User.Groups))
	for _, group := range spec.User.Groups {
		groups = append(groups, int(group))
	}
	uid, gid := int(spec.User.UID), int(spec.User.GID)
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("setting the groups %v: %w", groups, err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("setting the group %d: %w", gid, err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("setting the user %d: %w", uid, err)
	}
	if !spec.NoNewPrivileges {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	return nil
}

// mountAll binds what the spec lists. The kernel receives mounts of the host from now on, and gives
// none back. All sources are copied first, because a mount may cover the source of another.
func mountAll(spec Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separating the container's mounts: %w", err)
	}
	trees := make([]int, 0, len(spec.Mounts))
	for _, m := range spec.Mounts {
		const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
		tree, err := unix.OpenTree(unix.AT_FDCWD, m.Source, flags)
		if err != nil {
			return &fs.PathError{Op: "mount", Path: m.Source, Err: err}
		}
		trees = append(trees, tree)
	}
	ownProc := true
	for i, m := range spec.Mounts {
		if err := attach(trees[i], m); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", m.Source, m.Target, err)
		}
		ownProc = ownProc && m.Target != "/proc"
	}
	if ownProc {
		if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("mounting /proc: %w", err)
		}
	}
	if spec.ReadOnlyRoot {
		return setReadOnly(unix.AT_FDCWD, "/")
	}
	return nil
}

func attach(tree int, m Mount) error {
	var info unix.Stat_t
	if err := unix.Fstat(tree, &info); err != nil {
		return err
	}
	if m.ReadOnly {
		if err := setReadOnly(tree, ""); err != nil {
			return err
		}
	}
	if err := makeTarget(m.Target, info.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	const flags = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_SYMLINKS
	return unix.MoveMount(tree, "", unix.AT_FDCWD, m.Target, flags)
}

// makeTarget makes what a mount needs to be mounted on, on the host's disk.
func makeTarget(path string, folder bool) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if folder {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// setReadOnly changes one mount, and leaves its other flags unchanged.
func setReadOnly(tree int, path string) error {
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(tree, path, unix.AT_EMPTY_PATH, attributes); err != nil {
		return fmt.Errorf("making a mount read-only: %w", err)
	}
	return nil
}
