//go:build !linux

package devplane

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// processStart is the start time that ps shows, to the second.
func processStart(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("reading the start of process %d: %w", pid, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func ownPID() (int, error) { return os.Getpid(), nil }

type processInfo struct {
	pid                      int
	residentBytes, peakBytes int64
	cpu                      time.Duration
}

// childProcesses is not implemented here: process ids are the same for the user, and memory and CPU time are not reported.
func childProcesses() map[int]processInfo { return nil }

func ownResidentBytes() int64 { return 0 }
