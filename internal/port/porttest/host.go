package porttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/windlass-dev/windlass/internal/port"
)

// LocalHost runs scripts with bash on this machine, as whoever runs the test. The zero value works; the fields are set before its first use.
type LocalHost struct {
	// Before is called before a script is run; an error is returned, and the script does not run: the connection could not be made.
	Before func(port.HostCommand) error
	// After is called when a script has run; an error is returned in place of its result: the connection was lost.
	After func(port.HostCommand, port.HostResult) error
	// Env is added to the scripts' environment, such as a PATH with stand-ins for programs.
	Env []string
	// Dir is where scripts run; empty means the test's folder.
	Dir string

	closed atomic.Bool
}

var _ port.Host = (*LocalHost)(nil)

// localName is what the errors of a LocalHost call it.
const localName = "local"

// settle is how long output is waited for that processes hold open which a script left behind.
const settle = 200 * time.Millisecond

// Exec runs a script.
func (h *LocalHost) Exec(ctx context.Context, c port.HostCommand) (port.HostResult, error) {
	fail := func(reason port.HostReason, err error) (port.HostResult, error) {
		return port.HostResult{}, &port.HostError{Reason: reason, Host: localName, Err: err}
	}
	switch {
	case h.closed.Load():
		return fail(port.HostSetup, errors.New("it is closed"))
	case len(c.Script) > port.MaxHostScript || strings.ContainsRune(c.Script, 0) || c.OutputLimit < 0:
		return fail(port.HostSetup, errors.New("the script is too long or holds a NUL byte, or the limit of its output is negative"))
	case ctx.Err() != nil:
		return fail(port.HostUnreachable, ctx.Err())
	}
	if h.Before != nil {
		if err := h.Before(c); err != nil {
			return port.HostResult{}, err
		}
	}
	result, err := h.run(ctx, c)
	if err != nil {
		return fail(port.HostLost, err)
	}
	if h.After != nil {
		if err := h.After(c, result); err != nil {
			return port.HostResult{}, err
		}
	}
	return result, nil
}

// run gives the script to bash on a pipe of its own.
func (h *LocalHost) run(ctx context.Context, c port.HostCommand) (port.HostResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	script, write, err := os.Pipe()
	if err != nil {
		return port.HostResult{}, fmt.Errorf("making a pipe: %w", err)
	}
	defer func() { _, _ = script.Close(), write.Close() }()
	limit := c.OutputLimit
	if limit == 0 {
		limit = port.DefaultOutputLimit
	}
	stdout, stderr := &keeper{limit: limit}, &keeper{limit: port.StderrLimit, last: true}
	cmd := exec.CommandContext(ctx, "bash", "-c", ". /dev/fd/3")
	cmd.Env, cmd.Dir = append(append(os.Environ(), "LC_ALL=C"), h.Env...), h.Dir
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.WaitDelay = stdout, stderr, []*os.File{script}, settle
	// All that the script has started ends with ctx, so that tests leave nothing behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return port.HostResult{}, fmt.Errorf("making stdin: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return port.HostResult{}, fmt.Errorf("starting bash: %w", err)
	}
	_ = script.Close()
	go func() {
		_, _ = write.WriteString(c.Script)
		_ = write.Close()
		feed(stdin, c.Stdin, cancel)
	}()
	err = cmd.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return port.HostResult{}, cause
	}
	if cmd.ProcessState == nil {
		return port.HostResult{}, err
	}
	return port.HostResult{Stdout: stdout.content(), Stderr: strings.ToValidUTF8(string(stderr.content()), "?"), ExitCode: exitCode(cmd.ProcessState)}, nil
}

// feed writes what a script reads. A script that reads less is no failure; a reader that fails is one.
func feed(stdin io.WriteCloser, from io.Reader, cancel context.CancelCauseFunc) {
	if from != nil {
		reader := &watchedReader{Reader: from}
		if _, _ = io.Copy(stdin, reader); reader.err != nil {
			cancel(fmt.Errorf("reading the script's stdin: %w", reader.err))
			return
		}
	}
	_ = stdin.Close()
}

// watchedReader remembers why reading failed.
type watchedReader struct {
	io.Reader

	err error
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// Close makes every further Exec fail.
func (h *LocalHost) Close() error {
	h.closed.Store(true)
	return nil
}

// keeper keeps the first bytes, or the last.
type keeper struct {
	limit int
	last  bool

	mu   sync.Mutex
	kept []byte
}

// Write never fails.
func (k *keeper) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.last:
		k.kept = append(k.kept, p...)
		k.kept = k.kept[max(0, len(k.kept)-k.limit):]
	default:
		k.kept = append(k.kept, p[:min(len(p), k.limit-len(k.kept))]...)
	}
	return len(p), nil
}

func (k *keeper) content() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.kept)
}
