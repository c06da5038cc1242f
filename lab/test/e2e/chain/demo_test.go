package chain

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/programs"
)

// demoRun is "windlass-lab demo" while it runs.
type demoRun struct {
	// more has room for one: that there is more to read is not lost where nobody waits.
	more chan struct{}
	done chan struct{}

	mu     sync.Mutex
	output strings.Builder
	stderr bytes.Buffer
	err    error
}

func startDemo(ctx context.Context, t *testing.T, paths programs.Paths, verb string, args ...string) *demoRun {
	t.Helper()
	d := &demoRun{more: make(chan struct{}, 1), done: make(chan struct{})}
	cmd := exec.CommandContext(ctx, paths.Lab, append([]string{verb, "--windlass", paths.Windlass}, args...)...)
	cmd.Stderr = &d.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go d.read(cmd, stdout)
	return d
}

// read keeps all lines.
func (d *demoRun) read(cmd *exec.Cmd, stdout io.Reader) {
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		d.mu.Lock()
		d.output.WriteString(scanner.Text() + "\n")
		d.mu.Unlock()
		select {
		case d.more <- struct{}{}:
		default:
		}
	}
	d.err = cmd.Wait()
	close(d.done)
}

// await waits for a line.
func (d *demoRun) await(ctx context.Context, t *testing.T, part string) {
	t.Helper()
	said := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return strings.Contains(d.output.String(), part)
	}
	for !said() {
		select {
		case <-d.more:
		case <-d.done:
			t.Fatalf("the demo ended before it said %q: %v\n%s\n%s", part, d.err, d.output.String(), d.stderr.String())
		case <-ctx.Done():
			t.Fatalf("waiting until the demo says %q: %v", part, context.Cause(ctx))
		}
	}
}

// end waits until the demo has ended well, and returns all that it said.
func (d *demoRun) end(ctx context.Context, t *testing.T) string {
	t.Helper()
	select {
	case <-d.done:
	case <-ctx.Done():
		t.Fatalf("waiting for the end of the demo: %v", context.Cause(ctx))
	}
	if d.err != nil {
		t.Fatalf("windlass-lab demo: %v\n%s\n%s", d.err, d.output.String(), d.stderr.String())
	}
	return d.output.String()
}
