package procs

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reapOrphans collects processes whose parents have died, when this process is the first of its PID namespace and so
// inherits them. Children of the Spawner are left to their own waiters.
func (s *Spawner) reapOrphans() {
	if os.Getpid() != 1 {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			for s.reapOne() {
			}
		}
	}()
}

// reapOne collects one ended orphan and reports whether there was one. An ended child of the Spawner hides orphans that
// ended after it until its waiter has run; the SIGCHLD of the next ended process looks again.
func (s *Spawner) reapOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := peekEnded()
	if err != nil || pid == 0 {
		return false
	}
	if _, ours := s.running[pid]; ours {
		return false
	}
	_, err = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return err == nil
}

// peekEnded returns an ended child without collecting it, or 0.
func peekEnded() (int, error) {
	// The layout of siginfo_t for SIGCHLD: three ints, then (after padding to 8 bytes on 64-bit systems) the pid.
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		offset := unsafe.Sizeof(info.Signo) * 3
		offset = (offset + unsafe.Alignof(uintptr(0)) - 1) &^ (unsafe.Alignof(uintptr(0)) - 1)
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), offset))), nil //nolint:gosec // G103: x/sys names no field for it
	}
}
