//go:build linux

package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/container"
)

// maxOutput is what CRI allows ExecSync to return of each stream. Kubelets take messages of 16 MiB.
const maxOutput = 16_000_000

// limitedBuffer keeps the first maxOutput bytes, and takes the others without an error. The buffer is
// not embedded: its ReadFrom would have no limit.
type limitedBuffer struct{ kept bytes.Buffer }

func (b *limitedBuffer) Write(data []byte) (int, error) {
	keep := min(len(data), maxOutput-b.kept.Len())
	_, _ = b.kept.Write(data[:keep]) // It never fails.
	return len(data), nil
}

func (s *server) ExecSync(
	ctx context.Context, r *runtime.ExecSyncRequest,
) (*runtime.ExecSyncResponse, error) {
	c, err := s.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if timeout := r.GetTimeout(); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(timeout)*time.Second)
		defer cancel()
	}
	var stdout, stderr limitedBuffer
	code, err := c.process.Exec(ctx, container.Execution{Args: r.GetCmd(), Stdout: &stdout, Stderr: &stderr})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, status.Errorf(codes.DeadlineExceeded, "command %q did not end within %d s", r.GetCmd(), r.GetTimeout())
	case err != nil:
		return nil, status.Errorf(runningCode(err), "executing %q in container %s: %v", r.GetCmd(), c.ID, err)
	}
	return &runtime.ExecSyncResponse{Stdout: stdout.kept.Bytes(), Stderr: stderr.kept.Bytes(), ExitCode: int32(code)}, nil
}

func (s *server) Exec(_ context.Context, r *runtime.ExecRequest) (*runtime.ExecResponse, error) {
	if _, err := s.container(r.GetContainerId()); err != nil {
		return nil, err
	}
	return s.stream.GetExec(r)
}

func (s *server) PortForward(
	_ context.Context, r *runtime.PortForwardRequest,
) (*runtime.PortForwardResponse, error) {
	b, err := s.sandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	if b.Stopped {
		return nil, status.Errorf(codes.FailedPrecondition, "sandbox %s is stopped", b.ID)
	}
	return s.stream.GetPortForward(r)
}

// streams carries out what the URLs of Exec and PortForward lead to.
type streams struct{ server *server }

func (s streams) Exec(
	ctx context.Context, id string, args []string, in io.Reader, out, errs io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize,
) error {
	c, err := s.server.container(id)
	if err != nil {
		return err
	}
	x := container.Execution{Args: args, Stdin: in, Terminal: tty}
	// A nil pointer in an interface is not nil.
	if out != nil {
		x.Stdout = out
	}
	if errs != nil {
		x.Stderr = errs
	}
	if tty {
		sizes := make(chan container.Size)
		x.Sizes = sizes
		go func() {
			defer close(sizes)
			for size := range resize {
				select {
				case sizes <- container.Size{Width: size.Width, Height: size.Height}:
				case <-ctx.Done():
				}
			}
		}()
	}
	code, err := c.process.Exec(ctx, x)
	if err != nil {
		return fmt.Errorf("executing %q in container %s: %w", args, id, err)
	}
	if code != 0 {
		return utilexec.CodeExitError{Code: code, Err: fmt.Errorf("command terminated with exit code %d", code)}
	}
	return nil
}

func (s streams) Attach(
	context.Context, string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize,
) error {
	return errors.New("this runtime does not support attach")
}

// PortForward relays between the stream and a port of the host, which is the pod's.
func (s streams) PortForward(ctx context.Context, _ string, port int32, stream io.ReadWriteCloser) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("forwarding to port %d: %w", port, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	go func() {
		_, _ = io.Copy(conn, stream)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // Answers may still come.
		}
	}()
	_, err = io.Copy(stream, conn)
	return errors.Join(err, conn.Close(), stream.Close())
}
