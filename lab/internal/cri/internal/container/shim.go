//go:build linux

package container

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/jsonfile"
)

// Names, as argument 0, of what a program with RunChild also is.
const (
	shimName = "windlass-shim"
	initName = "windlass-init"
)

// readyMessage is what a shim writes when the container runs. Any other text is an error.
const readyMessage = "ok"

// leftoverLimit is how long the output may stay open after the first process has ended. Nothing in its
// PID namespace can hold it longer.
const leftoverLimit = 5 * time.Second

// RunChild runs this process as a shim or as the beginning of a container if args tell so, and
// returns its exit status. It must come first in main. It keeps all open files from children.
func RunChild(args []string) (status int, ok bool) {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintf(os.Stderr, "keeping files from children: %v\n", err)
		return 1, true
	}
	if len(args) != 2 || args[0] != shimName && args[0] != initName {
		return 0, false
	}
	// The kernel kills a container when the thread that started it ends.
	runtime.LockOSThread()
	// Else the process has the name of the link through which it was started.
	_ = os.WriteFile("/proc/self/comm", []byte(args[0]), 0)
	run := runShim
	if args[0] == initName {
		run = runInit
	}
	if err := run(args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 1, true
	}
	return 0, true
}

// runShim runs the container in dir to its end. The lock is held until this process ends.
func runShim(dir string) error {
	lock, ready := os.NewFile(3, "lock"), os.NewFile(4, "ready")
	defer runtime.KeepAlive(lock)
	spec, err := readSpec(dir)
	if err != nil {
		return tell(ready, err)
	}
	log, err := openLog(spec.Log)
	if err != nil {
		return tell(ready, fmt.Errorf("opening the log: %w", err))
	}
	// Only SIGKILL ends a shim. The signals are caught, not ignored, because a child would ignore them too.
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT)
	reopen := make(chan os.Signal, 1)
	signal.Notify(reopen, unix.SIGHUP)
	go func() {
		for range reopen {
			if err := log.reopen(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
	stdout, stderr := log.stream("stdout"), log.stream("stderr")
	main, err := startInit(dir, stdout, stderr)
	if err != nil {
		return tell(ready, err)
	}
	if err := recordStart(dir, main.Process.Pid); err != nil {
		return tell(ready, errors.Join(err, main.Process.Kill(), main.Wait()))
	}
	if err := tell(ready, nil); err != nil {
		fmt.Fprintln(os.Stderr, err) // The runtime was killed meanwhile; the next one reads the record.
	}
	waitErr := main.Wait()
	stdout.flush()
	stderr.flush()
	return recordExit(dir, main.ProcessState, waitErr)
}

// tell reports that the container runs, or why it does not.
func tell(ready *os.File, err error) error {
	message := readyMessage
	if err != nil {
		message = err.Error()
	}
	_, writeErr := io.WriteString(ready, message)
	return errors.Join(err, writeErr, ready.Close())
}

// startInit starts the container's first process, and returns when it runs the container's program.
func startInit(dir string, stdout, stderr io.Writer) (*exec.Cmd, error) {
	failure, told, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = failure.Close() }()
	main := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{initName, dir}, Dir: "/", Env: []string{},
		Stdout: stdout, Stderr: stderr, ExtraFiles: []*os.File{told}, WaitDelay: leftoverLimit,
		SysProcAttr: &syscall.SysProcAttr{
			Setsid: true, Pdeathsig: unix.SIGKILL, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		},
	}
	err = main.Start()
	if err = errors.Join(err, told.Close()); err != nil {
		return nil, fmt.Errorf("starting the first process: %w", err)
	}
	message, err := io.ReadAll(failure)
	if err == nil && len(message) > 0 {
		err = errors.New(string(message))
	}
	if err != nil {
		_ = main.Process.Kill()
		_ = main.Wait() // Its status says nothing more.
		return nil, err
	}
	return main, nil
}

func recordStart(dir string, pid int) error {
	main, err := nameProcess(pid)
	if err != nil {
		return err
	}
	self, err := nameProcess(os.Getpid())
	if err != nil {
		return err
	}
	return jsonfile.Write(filepath.Join(dir, "started.json"), started{At: time.Now(), Main: main, Shim: self})
}

func recordExit(dir string, state *os.ProcessState, waitErr error) error {
	if state == nil {
		return waitErr
	}
	end := exited{At: time.Now(), Code: exitCode(state), Reason: ReasonCompleted}
	if end.Code != 0 {
		end.Reason = ReasonError
	}
	return jsonfile.Write(filepath.Join(dir, "exited.json"), end)
}

// exitCode is what a shell calls the exit status.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
