package devplane

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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
	parsed, ok := parseStat(stat)
	if !ok {
		return "", fmt.Errorf("reading the start of process %d: unexpected content %q", pid, stat)
	}
	if parsed.state == "Z" || parsed.state == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return strings.TrimSpace(string(boot)) + "/" + parsed.start, nil
}

// clockTick is the unit of times in stat, USER_HZ: 100 to the second wherever Go runs.
const clockTick = 10 * time.Millisecond

// processStat is what stat says: the start in clock ticks since the boot, the state's letter, and the CPU time of all threads.
type processStat struct {
	start, state string
	cpu          time.Duration
}

// parseStat reads /proc/PID/stat (proc(5)). The command's name, in parentheses, may hold anything, parentheses too.
func parseStat(stat []byte) (processStat, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return processStat{}, false
	}
	const userField, systemField, startField, afterName = 14, 15, 22, 3 // numbered from 1; the first field after the name is the third
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) <= startField-afterName {
		return processStat{}, false
	}
	user, userErr := strconv.ParseInt(fields[userField-afterName], 10, 64)
	system, systemErr := strconv.ParseInt(fields[systemField-afterName], 10, 64)
	if userErr != nil || systemErr != nil {
		return processStat{}, false
	}
	return processStat{start: fields[startField-afterName], state: fields[0], cpu: time.Duration(user+system) * clockTick}, true
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
	pid                      int
	residentBytes, peakBytes int64
	cpu                      time.Duration
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
		if !ok || status.parent != self {
			continue
		}
		info := processInfo{pid: status.pid, residentBytes: status.residentBytes, peakBytes: status.peakBytes}
		if stat, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stat")); err == nil {
			parsed, _ := parseStat(stat)
			info.cpu = parsed.cpu
		}
		out[status.innermost] = info
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
	peakBytes              int64
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
			s.residentBytes = parseKiB(fields[0])
		case "VmHWM":
			s.peakBytes = parseKiB(fields[0])
		}
	}
	return s, s.pid > 0 && s.innermost > 0
}

// parseKiB returns bytes, 0 for what is no number.
func parseKiB(text string) int64 {
	kib, _ := strconv.ParseInt(text, 10, 64)
	return kib << 10
}
