//go:build !linux

package devplane_test

import (
	"syscall"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// running lists the processes of a plane that still run.
func running(status devplane.Status) []int {
	pids := []int{status.PID}
	for _, child := range status.Children {
		pids = append(pids, child.PID)
	}
	var out []int
	for _, pid := range pids {
		if pid > 0 && syscall.Kill(pid, 0) == nil {
			out = append(out, pid)
		}
	}
	return out
}
