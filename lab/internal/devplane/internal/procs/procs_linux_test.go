package procs

import (
	"os"
	"syscall"
	"testing"
)

func skipUnlessLinux(*testing.T) {}

func TestOrphansAreCollected(t *testing.T) {
	t.Parallel()
	cmd := asRole(t, "init")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
	}
	probe := asRole(t, "init")
	probe.Path, probe.Args, probe.SysProcAttr = "/bin/true", []string{"true"}, cmd.SysProcAttr
	if err := probe.Run(); err != nil {
		t.Skipf("no PID namespaces here: %v", err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
