//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Execution is a further program in a running container.
type Execution struct {
	Args           []string
	Stdin          io.Reader // may be nil
	Stdout, Stderr io.Writer // may be nil
	// Terminal connects the program to a terminal. Stderr is then unused.
	Terminal bool
	// Sizes are those of the terminal, one after another. May be nil.
	Sizes <-chan Size
}

// Size of a terminal.
type Size struct{ Width, Height uint16 }

// Exec runs a program in the container as the container's user, and returns its exit status. When ctx
// ends, the program and its session are killed.
func (c *Container) Exec(ctx context.Context, x Execution) (code int, err error) {
	run, status, err := c.read()
	if err != nil {
		return 0, err
	}
	if status.State != Running {
		return 0, ErrNotRunning
	}
	spec, err := readSpec(c.dir)
	if err != nil {
		return 0, err
	}
	if len(x.Args) == 0 {
		return 0, errors.New("no command to execute")
	}
	cmd := exec.CommandContext(ctx, x.Args[0], x.Args[1:]...)
	cmd.Env, cmd.Dir = spec.Env, filepath.Join("/", spec.Dir)
	cmd.WaitDelay = leftoverLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Credential: &syscall.Credential{Uid: spec.User.UID, Gid: spec.User.GID, Groups: spec.User.Groups},
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	start := func() error { return startInside(run.Main, spec, cmd) }
	if x.Terminal {
		err = x.runOnTerminal(cmd, start)
	} else {
		err = x.runOnPipes(cmd, start)
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if cmd.ProcessState == nil {
		return 0, err
	}
	return exitCode(cmd.ProcessState), nil
}

func (x Execution) runOnPipes(cmd *exec.Cmd, start func() error) error {
	cmd.Stdout, cmd.Stderr = x.Stdout, x.Stderr
	var stdin io.WriteCloser
	if x.Stdin != nil {
		var err error
		if stdin, err = cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := start(); err != nil {
		return err
	}
	if stdin != nil {
		// Not os/exec's own copying: Wait would wait for input that nobody reads.
		go func() {
			_, _ = io.Copy(stdin, x.Stdin)
			_ = stdin.Close()
		}()
	}
	return cmd.Wait()
}

// startInside starts cmd in the namespaces of a process. Only the thread enters them; it is never
// unlocked, so it ends with the goroutine.
func startInside(main process, spec Spec, cmd *exec.Cmd) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- enterAndStart(main, spec, cmd)
	}()
	return <-result
}

func enterAndStart(main process, spec Spec, cmd *exec.Cmd) error {
	h, err := main.open()
	if errors.Is(err, unix.ESRCH) {
		return ErrNotRunning
	}
	if err != nil {
		return err
	}
	defer h.close()
	// A thread that shares its root with others cannot enter a mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("preparing to enter the container: %w", err)
	}
	if err := unix.Setns(h.fd, unix.CLONE_NEWNS|unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("entering the container: %w", err)
	}
	if cmd.Path, err = spec.program(cmd.Args[0]); err != nil {
		return err
	}
	cmd.Err = nil // what exec.Command found outside
	err = cmd.Start()
	if err != nil && h.wait(0) {
		return ErrNotRunning // A PID namespace without its first process takes no others.
	}
	return err
}

// runOnTerminal connects the program to a new terminal of the host.
func (x Execution) runOnTerminal(cmd *exec.Cmd, start func() error) error {
	near, far, err := openTerminal()
	if err != nil {
		return fmt.Errorf("making a terminal: %w", err)
	}
	defer func() { _ = near.Close() }()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	cmd.SysProcAttr.Setctty = true
	err = start()
	if err = errors.Join(err, far.Close()); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(x.Stdout, near) // It ends with an error when nobody has the terminal open.
	}()
	if x.Stdin != nil {
		go func() { _, _ = io.Copy(near, x.Stdin) }()
	}
	go func() {
		for {
			select {
			case size, ok := <-x.Sizes:
				if !ok {
					return
				}
				_ = setSize(near, size)
			case <-done:
				return
			}
		}
	}()
	err = cmd.Wait()
	// A process in the background may keep the terminal open.
	_ = near.SetReadDeadline(time.Now().Add(leftoverLimit))
	<-done
	return err
}

func openTerminal() (near, far *os.File, err error) {
	near, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	err = control(near, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err != nil {
			return err
		}
		far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(err, near.Close())
	}
	return near, far, nil
}

func setSize(terminal *os.File, size Size) error {
	return control(terminal, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: size.Width, Row: size.Height})
	})
}

// control calls ioctl without making the file block, which File.Fd does.
func control(file *os.File, call func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = raw.Control(func(fd uintptr) { callErr = call(int(fd)) })
	return errors.Join(err, callErr)
}
