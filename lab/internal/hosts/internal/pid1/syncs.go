//go:build linux

package pid1

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// syncDelay is how much longer a synchronous write takes, in nanoseconds.
var syncDelay atomic.Int64

// Numbers of seccomp(2) that package unix does not have.
const (
	notifyReceive  = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifySend     = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	notifyContinue = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	waitKillable   = 1 << 5     // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
)

// notification and reply are the kernel's seccomp_notif and seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	pointer    uint64
	args       [6]uint64
}

type reply struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// watchSyncs makes this process decide when fsync and fdatasync of all its descendants go ahead. It must be called before any
// is started. This process itself must not call them afterwards.
func watchSyncs() error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 2},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC |
		unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | waitKillable
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&filter)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("watching synchronous writes: %w", errno)
	}
	unix.CloseOnExec(int(listener))
	go letSyncs(listener)
	return nil
}

// letSyncs lets each synchronous write go ahead after the delay.
func letSyncs(listener uintptr) {
	for {
		var n notification
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, listener, notifyReceive, uintptr(unsafe.Pointer(&n)))
		if errno == unix.EINTR || errno == unix.ENOENT { // ENOENT: the process was killed meanwhile
			continue
		}
		if errno != 0 {
			return
		}
		answer := func() {
			r := reply{id: n.id, flags: notifyContinue}
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, listener, notifySend, uintptr(unsafe.Pointer(&r)))
		}
		if delay := time.Duration(syncDelay.Load()); delay > 0 {
			time.AfterFunc(delay, answer)
			continue
		}
		answer()
	}
}
