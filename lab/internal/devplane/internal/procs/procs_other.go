//go:build !linux

package procs

import "syscall"

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reapOrphans has nothing to do: without PID namespaces the system's init does it.
func (s *Spawner) reapOrphans() {}
