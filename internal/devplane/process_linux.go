package devplane

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processStart is the boot's id with the process's start in clock ticks since then (proc(5), field 22 of stat).
func processStart(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot's id: %w", err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", fmt.Errorf("reading the start of process %d: %w", pid, err)
	}
	ticks, state, ok := parseStat(stat)
	if !ok {
		return "", fmt.Errorf("reading the start of process %d: unexpected content %q", pid, stat)
	}
	if state == "Z" || state == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return strings.TrimSpace(string(boot)) + "/" + ticks, nil
}

// parseStat returns the start time and the state. The command's name, in parentheses, may hold anything, parentheses too.
func parseStat(stat []byte) (ticks, state string, ok bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return "", "", false
	}
	const startField, afterName = 22, 3 // numbered from 1; the first field after the name is the third
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) <= startField-afterName {
		return "", "", false
	}
	return fields[startField-afterName], fields[0], true
}

// ownPID is this process's id in the namespace that /proc shows, which is the user's: the supervisor is 1 in its own.
func ownPID() (int, error) {
	link, err := os.Readlink("/proc/self")
	if err != nil {
		return 0, fmt.Errorf("reading the supervisor's process id: %w", err)
	}
	return strconv.Atoi(link)
}

// processInfo is a process as the user sees it.
type processInfo struct {
	pid           int
	residentBytes int64
}

// childProcesses finds this process's children by their ids in its own namespace.
func childProcesses() map[int]processInfo {
	out := map[int]processInfo{}
	self, err := ownPID()
	if err != nil {
		return out
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is well formed, the only error there is
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		status, ok := parseProcessStatus(string(data))
		if ok && status.parent == self {
			out[status.innermost] = processInfo{pid: status.pid, residentBytes: status.residentBytes}
		}
	}
	return out
}

func ownResidentBytes() int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	status, _ := parseProcessStatus(string(data))
	return status.residentBytes
}

type processStatus struct {
	pid, parent, innermost int
	residentBytes          int64
}

// parseProcessStatus reads /proc/PID/status (proc(5)).
func parseProcessStatus(text string) (processStatus, bool) {
	var s processStatus
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if !ok || len(fields) == 0 {
			continue
		}
		switch key {
		case "Pid":
			s.pid, _ = strconv.Atoi(fields[0])
		case "PPid":
			s.parent, _ = strconv.Atoi(fields[0])
		case "NSpid":
			s.innermost, _ = strconv.Atoi(fields[len(fields)-1])
		case "VmRSS":
			kib, _ := strconv.ParseInt(fields[0], 10, 64)
			s.residentBytes = kib << 10
		}
	}
	return s, s.pid > 0 && s.innermost > 0
}
