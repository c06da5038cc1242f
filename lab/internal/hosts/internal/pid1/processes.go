//go:build linux

package pid1

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// exit is how a process ended.
type exit struct {
	status int
	signal syscall.Signal
}

// code is what a shell calls the exit status.
func (e exit) code() int {
	if e.signal != 0 {
		return 128 + int(e.signal)
	}
	return e.status
}

// processes starts children and reaps everybody. PID 1 inherits orphans, so it waits for any child; os/exec, which waits for
// its own, must not be used beside it.
type processes struct {
	mu      sync.Mutex
	waiting map[int]chan exit
	// reaped is closed, and replaced, whenever a process was reaped.
	reaped chan struct{}
}

func newProcesses() *processes {
	p := &processes{waiting: map[int]chan exit{}, reaped: make(chan struct{})}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			p.reap()
		}
	}()
	return p
}

func (p *processes) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		ended := exit{status: status.ExitStatus()}
		if status.Signaled() {
			ended = exit{signal: status.Signal()}
		}
		if waiting, ok := p.waiting[pid]; ok {
			waiting <- ended
			delete(p.waiting, pid)
		}
	}
	close(p.reaped)
	p.reaped = make(chan struct{})
}

// changed is closed at the next reaping.
func (p *processes) changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reaped
}

// spawn starts argv in a session of its own. How it ends is sent to the channel.
func (p *processes) spawn(argv, environment []string, dir string, files [3]*os.File) (int, <-chan exit, error) {
	path, err := look(argv[0])
	if err != nil {
		return 0, nil, err
	}
	attr := &syscall.ProcAttr{
		Dir: dir, Env: environment, Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
	}
	// The lock is held until the channel is there, so that the process cannot be reaped before.
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, nil, fmt.Errorf("starting %s: %w", path, err)
	}
	ended := make(chan exit, 1)
	p.waiting[pid] = ended
	return pid, ended, nil
}

const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func look(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(searchPath) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("command %s not found: %w", name, os.ErrNotExist)
}

// marked are the processes that carry the mark in their environment, and those of the session of leader. It stands in for a
// control group: what a service started is found even where it has left the service's session.
func marked(mark string, leader int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == 1 {
			continue
		}
		environment, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
		if err != nil || len(environment) == 0 {
			continue // gone, or a zombie
		}
		session, err := sessionOf(pid)
		if err == nil && session == leader || strings.Contains("\x00"+string(environment), "\x00"+mark+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func sessionOf(pid int) (int, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 4 {
		return 0, fmt.Errorf("reading /proc/%d/stat: %d fields", pid, len(fields))
	}
	return strconv.Atoi(fields[3])
}
