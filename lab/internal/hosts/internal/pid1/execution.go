//go:build linux

package pid1

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/unit"
	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// execution carries out one attempt.
type execution struct {
	run         *run
	unit        *unit.Service
	environment map[string]string
	output      *output
	mark        string
	ready       chan struct{}
}

func (x *execution) do() attempt {
	for _, command := range x.unit.StartPre {
		if a := x.oneshot(command); a.result != "success" && !command.IgnoreFailure || a.stopped {
			return a
		}
	}
	if x.unit.Type == unit.Oneshot {
		return x.oneshots()
	}
	return x.main(x.unit.Start[0])
}

func (x *execution) oneshots() attempt {
	for _, command := range x.unit.Start {
		if a := x.oneshot(command); a.result != "success" && !command.IgnoreFailure || a.stopped {
			return a
		}
	}
	return attempt{result: "success", remain: x.unit.RemainAfterExit}
}

// oneshot runs a command to its end, during the start.
func (x *execution) oneshot(command unit.Command) attempt {
	pid, ended, err := x.spawn(command)
	if err != nil {
		return x.cannotStart(err)
	}
	x.run.change(func(s *state) { s.mainPID = pid })
	a := x.wait(pid, ended, nil)
	if a.result != "success" && a.err == nil {
		a.err = errControlProcess
	}
	return a
}

// main runs the main process.
func (x *execution) main(command unit.Command) attempt {
	var timeout <-chan time.Time
	if x.unit.Type == unit.Notify {
		socket, path, err := notifySocket(x.run.service.name)
		if err != nil {
			return x.cannotStart(err)
		}
		defer func() { _ = socket.Close() }()
		x.environment["NOTIFY_SOCKET"] = path
		x.listenForReady(socket)
		timer := time.NewTimer(x.unit.StartTimeout)
		defer timer.Stop()
		timeout = timer.C
	}
	pid, ended, err := x.spawn(command)
	if err != nil {
		a := x.cannotStart(err)
		if x.unit.Type == unit.Simple {
			a.err = nil // systemd has called it started before it knows
		}
		return a
	}
	x.run.change(func(s *state) { s.mainPID = pid })
	if x.unit.Type != unit.Notify {
		x.nowRunning()
	}
	a := x.wait(pid, ended, timeout)
	if a.err == nil && x.unit.Type == unit.Notify {
		a.err = errControlProcess // counts only where it had not become ready
	}
	return a
}

func (x *execution) listenForReady(socket *net.UnixConn) {
	x.ready = make(chan struct{})
	go waitReady(socket, x.ready)
}

func (x *execution) nowRunning() {
	x.run.change(func(s *state) { s.active, s.sub = "active", "running" })
	x.run.tellStarted(nil)
}

func (x *execution) cannotStart(err error) attempt {
	journal(x.run.service.name, "%s: Failed to execute: %v", x.run.service.name, err)
	a := attempt{result: "exit-code", exit: exit{status: 203}, err: errControlProcess}
	x.run.change(func(s *state) { s.exit, s.exited = a.exit, true })
	return a
}

func (x *execution) spawn(command unit.Command) (int, <-chan exit, error) {
	argv, err := unit.Argv(command.Line, x.environment)
	if err != nil {
		return 0, nil, err
	}
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = stdin.Close() }()
	dir := x.unit.WorkingDirectory
	if dir == "" {
		dir = "/"
	}
	environment := make([]string, 0, len(x.environment))
	for name, value := range x.environment {
		environment = append(environment, name+"="+value)
	}
	slices.Sort(environment)
	return x.run.manager.processes.spawn(argv, environment, strings.TrimPrefix(dir, "-"), [3]*os.File{stdin, x.output.stdout, x.output.stderr})
}

// wait returns when the process has ended by itself, or has been ended because of a stop or a timeout. Then nothing of the
// service is left, unless KillMode says otherwise.
func (x *execution) wait(pid int, ended <-chan exit, timeout <-chan time.Time) attempt {
	a := attempt{}
	ready := x.ready
	for waiting := true; waiting; {
		select {
		case a.exit = <-ended:
			a.result = x.judge(a.exit)
			waiting = false
		case <-ready:
			ready, timeout = nil, nil
			x.nowRunning()
		case <-timeout:
			a = attempt{exit: x.end(pid, ended), result: "timeout", err: errStartTimeout}
			waiting = false
		case <-x.run.stop:
			x.run.change(func(s *state) { s.active, s.sub = "deactivating", "stop-sigterm" })
			a = attempt{exit: x.end(pid, ended), result: "success", stopped: true, err: errStopped}
			waiting = false
		}
	}
	x.run.change(func(s *state) { s.exit, s.exited = a.exit, true })
	x.sweep(pid)
	journal(x.run.service.name, "%s: Main process exited, status %d (%s)", x.run.service.name, a.exit.code(), a.result)
	return a
}

// judge says how an exit counts. systemd takes these four signals for a clean end.
func (x *execution) judge(e exit) string {
	switch {
	case e.signal == 0 && (e.status == 0 || slices.Contains(x.unit.SuccessExit, e.status)):
		return "success"
	case slices.Contains([]syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}, e.signal):
		if x.unit.Type != unit.Oneshot {
			return "success"
		}
		return "signal"
	case e.signal != 0:
		return "signal"
	default:
		return "exit-code"
	}
}

// end asks the main process to end, and kills it when it takes longer than TimeoutStopSec.
func (x *execution) end(pid int, ended <-chan exit) exit {
	if x.unit.KillMode == "control-group" {
		signalAll(x.mark, pid, syscall.SIGTERM)
	} else {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	timer := time.NewTimer(x.unit.StopTimeout)
	defer timer.Stop()
	select {
	case e := <-ended:
		return e
	case <-timer.C:
		_ = syscall.Kill(pid, syscall.SIGKILL)
		return <-ended
	}
}

// sweep ends what the main process has left behind.
func (x *execution) sweep(leader int) {
	if x.unit.KillMode == "process" || x.unit.KillMode == "none" {
		return
	}
	number := syscall.SIGTERM
	if x.unit.KillMode == "mixed" {
		number = syscall.SIGKILL
	}
	timer := time.NewTimer(x.unit.StopTimeout)
	defer timer.Stop()
	for {
		changed := x.run.manager.processes.changed()
		if !signalAll(x.mark, leader, number) {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			number = syscall.SIGKILL
			timer.Reset(x.unit.StopTimeout)
		}
	}
}

// output is where a service writes to.
type output struct {
	stdout, stderr *os.File
}

func (o *output) close() {
	_ = o.stdout.Close()
	if o.stderr != o.stdout {
		_ = o.stderr.Close()
	}
}

func openOutput(name string, u *unit.Service) (*output, error) {
	stdout, err := openStream(name, u.StandardOutput)
	if err != nil {
		return nil, err
	}
	if u.StandardError == "inherit" || u.StandardError == u.StandardOutput {
		return &output{stdout: stdout, stderr: stdout}, nil
	}
	stderr, err := openStream(name, u.StandardError)
	if err != nil {
		return nil, errors.Join(err, stdout.Close())
	}
	return &output{stdout: stdout, stderr: stderr}, nil
}

func openStream(name, where string) (*os.File, error) {
	kind, path, _ := strings.Cut(where, ":")
	switch kind {
	case "null":
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	case "append":
		return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	case "file":
		return os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	case "truncate":
		return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	case "journal", "inherit", "":
		return os.OpenFile(filepath.Join(wire.Journal, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	}
	return nil, fmt.Errorf("output %q is not supported on a test host", where)
}
