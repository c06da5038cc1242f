package devplane_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// running lists the processes of a plane that still run. An ended one that waits for its parent does not.
func running(status devplane.Status) []int {
	pids := []int{status.PID}
	for _, child := range status.Children {
		pids = append(pids, child.PID)
	}
	var out []int
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if pid > 0 && err == nil && !strings.Contains(string(stat), ") Z ") {
			out = append(out, pid)
		}
	}
	return out
}
