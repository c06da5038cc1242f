//go:build linux

package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/jsonfile"
)

// State is the stage of a container's life.
type State int

// The states, in their order.
const (
	Created State = iota
	Running
	Exited
)

// Reasons of an exit.
const (
	ReasonCompleted  = "Completed"  // exit status 0
	ReasonError      = "Error"      // another exit status
	ReasonStartError = "StartError" // the program never ran
	ReasonUnknown    = "Unknown"    // the shim was killed, and the container with it
)

const (
	codeStartError = 128
	codeKilled     = 128 + int(unix.SIGKILL)
)

// Status is what is known of a container.
type Status struct {
	State                 State
	StartedAt, FinishedAt time.Time // zero before
	// ExitCode is 128 and the signal's number for a program that was killed.
	ExitCode        int
	Reason, Message string
}

// started is the record that the program runs.
type started struct {
	At         time.Time
	Main, Shim process
}

// exited is the record of the end.
type exited struct {
	At              time.Time
	Code            int
	Reason, Message string
}

// ErrNotRunning is returned for what only a running container can do.
var ErrNotRunning = errors.New("container is not running")

// Container is one container of this host. Its methods may be called concurrently, by the one process
// that owns the folder.
type Container struct {
	dir   string
	start sync.Mutex // held while Start runs
	end   sync.Mutex // held while an exit without a record is recorded
}

// Create writes a container into the folder dir, which must exist.
func Create(dir string, spec Spec) (*Container, error) {
	c := Open(dir)
	if err := jsonfile.Write(c.path("spec.json"), spec); err != nil {
		return nil, fmt.Errorf("creating a container: %w", err)
	}
	return c, nil
}

// Open returns the container in a folder.
func Open(dir string) *Container { return &Container{dir: dir} }

func (c *Container) path(name string) string { return filepath.Join(c.dir, name) }

// Start starts a created container. program is the file of this program, which has RunChild. Start
// returns when the container's own program runs, or with the reason why it does not. If allowed
// returns an error, nothing has happened. Stop waits while Start runs, so what allowed reads can be
// changed before Stop to keep the container from running.
func (c *Container) Start(program string, allowed func() error) error {
	c.start.Lock()
	defer c.start.Unlock()
	if err := allowed(); err != nil {
		return err
	}
	lock, err := c.takeLock()
	if err != nil {
		return fmt.Errorf("starting a container: %w", err)
	}
	err = c.startShim(program, lock)
	if err = errors.Join(err, lock.Close()); err == nil {
		return nil
	}
	return errors.Join(err, c.recordLoss(codeStartError, ReasonStartError, err.Error()))
}

// takeLock makes the locked file that means: started. It appears under its name when it is locked.
func (c *Container) takeLock() (*os.File, error) {
	file, err := os.OpenFile(c.path("lock.new"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = os.Link(file.Name(), c.path("lock"))
	}
	if errors.Is(err, fs.ErrExist) {
		err = errors.New("it was started before")
	}
	if err = errors.Join(err, os.Remove(file.Name())); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (c *Container) startShim(program string, lock *os.File) error {
	ready, told, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = ready.Close() }()
	log, err := os.OpenFile(c.path("shim.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Join(err, told.Close())
	}
	shim := &exec.Cmd{
		Path: program, Args: []string{shimName, c.dir}, Dir: "/", Stderr: log,
		Env:         []string{"GOMAXPROCS=1"},
		ExtraFiles:  []*os.File{lock, told},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	err = shim.Start()
	if err = errors.Join(err, log.Close(), told.Close()); err != nil {
		return fmt.Errorf("starting the shim: %w", err)
	}
	go func() { _ = shim.Wait() }()
	message, err := io.ReadAll(ready)
	switch {
	case err != nil:
		return fmt.Errorf("waiting for the shim: %w", err)
	case len(message) == 0:
		return errors.New("the shim was killed before the container ran")
	case string(message) != readyMessage:
		return errors.New(string(message))
	}
	return nil
}

// Status returns the state of the container.
func (c *Container) Status() (Status, error) {
	_, status, err := c.read()
	return status, err
}

// read returns the started record if there is one.
func (c *Container) read() (started, Status, error) {
	if run, status, err := c.readExit(); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return run, status, err
	}
	alive, err := c.shimLives()
	if err != nil {
		return started{}, Status{}, fmt.Errorf("reading the state of a container: %w", err)
	}
	run, err := c.readStarted()
	switch {
	case err != nil:
		return run, Status{}, err
	case alive == unlocked:
		if err := c.recordLoss(codeKilled, ReasonUnknown, "the shim of the container was killed"); err != nil {
			return run, Status{}, err
		}
		return c.readExit()
	case alive == locked && run.Main.PID != 0:
		return run, Status{State: Running, StartedAt: run.At}, nil
	}
	return run, Status{State: Created}, nil
}

func (c *Container) readStarted() (started, error) {
	var run started
	err := jsonfile.Read(c.path("started.json"), &run)
	if errors.Is(err, fs.ErrNotExist) {
		return run, nil
	}
	return run, err
}

func (c *Container) readExit() (started, Status, error) {
	var end exited
	if err := jsonfile.Read(c.path("exited.json"), &end); err != nil {
		return started{}, Status{}, err
	}
	run, err := c.readStarted()
	return run, Status{
		State: Exited, StartedAt: run.At, FinishedAt: end.At,
		ExitCode: end.Code, Reason: end.Reason, Message: end.Message,
	}, err
}

type lockState int

const (
	missing lockState = iota
	locked
	unlocked
)

func (c *Container) shimLives() (lockState, error) {
	file, err := os.Open(c.path("lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return missing, nil
	}
	if err != nil {
		return missing, err
	}
	defer func() { _ = file.Close() }()
	// A shared lock, so that two readers do not take each other for the shim.
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return locked, nil
	}
	return unlocked, err
}

// recordLoss records the end of a container whose shim is gone, unless the shim did so itself.
func (c *Container) recordLoss(code int, reason, message string) error {
	c.end.Lock()
	defer c.end.Unlock()
	if _, err := os.Stat(c.path("exited.json")); err == nil {
		return nil
	}
	run, err := c.readStarted()
	if err != nil {
		return err
	}
	if run.Main.PID != 0 {
		// The kernel has killed it, or is about to.
		if err := end(run.Main, 0); err != nil {
			return fmt.Errorf("killing a container whose shim is gone: %w", err)
		}
	}
	return jsonfile.Write(c.path("exited.json"), exited{At: time.Now(), Code: code, Reason: reason, Message: message})
}

// killLimit is how long the kernel may take to kill a process that waits for nothing.
const killLimit = 10 * time.Second

// end kills a process after grace, and returns when it has ended.
func end(p process, grace time.Duration) error {
	h, err := p.open()
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.close()
	if h.wait(grace) {
		return nil
	}
	if err := h.signal(unix.SIGKILL); err != nil {
		return err
	}
	if !h.wait(killLimit) {
		return fmt.Errorf("process %d is still there %s after it was killed", p.PID, killLimit)
	}
	return nil
}

// Stop sends the signal to the container's first process, and kills all its processes when they still
// run after the grace period. Without a grace period it kills them at once. It returns when the exit
// is recorded. A container that does not run is no error.
func (c *Container) Stop(signal unix.Signal, grace time.Duration) error {
	c.start.Lock()
	run, status, err := c.read()
	c.start.Unlock()
	if err != nil || status.State != Running {
		return err
	}
	if grace > 0 {
		if err := send(run.Main, signal); err != nil {
			return fmt.Errorf("stopping a container: %w", err)
		}
	}
	// The end of the first process is the end of all in its PID namespace. The shim ends after it; one
	// that is frozen cannot, and is killed.
	if err := errors.Join(end(run.Main, grace), end(run.Shim, killLimit)); err != nil {
		return fmt.Errorf("stopping a container: %w", err)
	}
	_, err = c.Status()
	return err
}

func send(p process, signal unix.Signal) error {
	h, err := p.open()
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.close()
	return h.signal(signal)
}

// ReopenLog makes the container continue its log in a new file, after the old one was renamed. The
// file exists when ReopenLog returns; the shim writes to it soon after.
func (c *Container) ReopenLog() error {
	run, status, err := c.read()
	if err != nil {
		return err
	}
	if status.State != Running {
		return ErrNotRunning
	}
	spec, err := readSpec(c.dir)
	if err != nil {
		return err
	}
	file, err := createLog(spec.Log)
	if err == nil {
		err = errors.Join(file.Close(), send(run.Shim, unix.SIGHUP))
	}
	if err != nil {
		return fmt.Errorf("reopening the log of a container: %w", err)
	}
	return nil
}

// Remove kills the container and removes its folder. The log stays.
func (c *Container) Remove() error {
	if err := c.Stop(unix.SIGKILL, 0); err != nil {
		return err
	}
	return os.RemoveAll(c.dir)
}

func readSpec(dir string) (Spec, error) {
	var spec Spec
	err := jsonfile.Read(filepath.Join(dir, "spec.json"), &spec)
	return spec, err
}

// Usage is what the first process of a container uses.
type Usage struct {
	CPU    time.Duration
	Memory uint64 // bytes
}

// Usage returns ErrNotRunning if the container does not run.
func (c *Container) Usage() (Usage, error) {
	run, status, err := c.read()
	if err != nil {
		return Usage{}, err
	}
	stat, err := readStat(run.Main.PID)
	if status.State != Running || errors.Is(err, fs.ErrNotExist) || stat.ticks != run.Main.Ticks {
		return Usage{}, ErrNotRunning
	}
	// The kernel shows 100 ticks a second to all programs.
	return Usage{
		CPU:    time.Duration(stat.user+stat.system) * (time.Second / 100),
		Memory: stat.pages * uint64(os.Getpagesize()),
	}, err
}
