package isolationtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

func possible(ctx context.Context) (ok bool, why string) {
	// Some systems permit the namespaces and then grant no rights in them, which bringing an interface up needs.
	path, args := "/bin/true", []string(nil)
	if ip, err := exec.LookPath("ip"); err == nil {
		path, args = ip, []string{"link", "set", "lo", "up"}
	}
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // G204: one of two commands, both named here
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return false, fmt.Sprintf("this system does not permit namespaces: %v %s", err, out)
	}
	return true, ""
}
