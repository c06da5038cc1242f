//go:build linux

package container

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process names a process of the host. Numbers are used again, so the start time belongs to the name.
type process struct {
	PID int
	// Ticks is the start time as field 22 of /proc/PID/stat.
	Ticks uint64
}

func nameProcess(pid int) (process, error) {
	stat, err := readStat(pid)
	return process{PID: pid, Ticks: stat.ticks}, err
}

// handle is an open reference to a process, whatever happens to its number.
type handle struct{ fd int }

// open returns unix.ESRCH if the process has ended and was reaped.
func (p process) open() (handle, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return handle{}, fmt.Errorf("opening process %d: %w", p.PID, err)
	}
	stat, err := readStat(p.PID)
	if err == nil && stat.ticks != p.Ticks || errors.Is(err, os.ErrNotExist) {
		err = unix.ESRCH
	}
	if err != nil {
		return handle{}, errors.Join(err, unix.Close(fd))
	}
	return handle{fd: fd}, nil
}

func (h handle) close() { _ = unix.Close(h.fd) }

// signal sends a signal. A process that has ended is no error.
func (h handle) signal(signal unix.Signal) error {
	err := unix.PidfdSendSignal(h.fd, signal, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// wait returns true when the process has ended, or false after the limit.
func (h handle) wait(limit time.Duration) bool {
	for end := time.Now().Add(limit); ; {
		rest := max(0, time.Until(end).Milliseconds())
		fds := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(min(rest, math.MaxInt32)))
		if n > 0 {
			return true
		}
		if err == nil && time.Until(end) <= 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}

// stat are fields of /proc/PID/stat.
type stat struct {
	ticks        uint64 // start time after boot, in clock ticks
	user, system uint64 // processor time in clock ticks
	pages        uint64 // resident memory
}

func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, unix.ESRCH) {
		err = os.ErrNotExist
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(data))
}

func parseStat(text string) (stat, error) {
	// The name of the program, in parentheses, may contain anything.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	var s stat
	for at, value := range map[int]*uint64{14: &s.user, 15: &s.system, 22: &s.ticks, 24: &s.pages} {
		if at-3 >= len(fields) {
			return stat{}, fmt.Errorf("parsing the status of a process: no field %d in %q", at, text)
		}
		n, err := strconv.ParseUint(fields[at-3], 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("parsing the status of a process: %w", err)
		}
		*value = n
	}
	return s, nil
}
