//go:build linux

package pid1

import (
	"sync"
	"syscall"
	"time"
)

// shutdownTimeout is how long processes of no service may take to end, as with systemd-shutdown.
const shutdownTimeout = 10 * time.Second

// shutdown stops all services, side by side, and then ends every process that is left.
func (m *manager) shutdown() {
	m.mu.Lock()
	var running []string
	for name, s := range m.services {
		if s.run != nil {
			running = append(running, name)
		}
	}
	m.mu.Unlock()
	var group sync.WaitGroup
	for _, name := range running {
		group.Go(func() {
			if err := m.stop(name); err != nil {
				journal(name, "Failed to stop %s: %v", name, err)
			}
		})
	}
	group.Wait()
	timer := time.NewTimer(shutdownTimeout)
	defer timer.Stop()
	for number := syscall.SIGTERM; ; {
		changed := m.processes.changed()
		// -1 is everybody in this PID namespace but this process.
		if err := syscall.Kill(-1, number); err != nil {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			number = syscall.SIGKILL
			timer.Reset(shutdownTimeout)
		}
	}
}
