package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// hangVariable makes TestSecondInterrupt the process that does not stop when it is asked to.
const hangVariable = "WINDLASS_TEST_HANG"

func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	if os.Getenv(hangVariable) != "" {
		ctx, stop := interruptible(t.Context())
		defer stop()
		fmt.Fprintln(os.Stdout, "ready")
		<-ctx.Done()
		fmt.Fprintln(os.Stdout, "asked")
		<-time.After(time.Hour) // as a command that hangs; the signal ends it
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecondInterrupt$")
	cmd.Env = append(os.Environ(), hangVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	expect := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("the process did not say %q", want)
	}
	expect("ready")
	interrupt(t, cmd)
	expect("asked")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	// More than once, because the handler goes a moment after the context has ended.
	for deadline := time.Now().Add(2 * time.Minute); ; {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.String() != "signal: interrupt" {
				t.Errorf("the process ended with %v, want the interrupt", err)
			}
			return
		case <-ticker.C:
			if time.Now().After(deadline) {
				t.Fatal("the second interrupt does not end the process")
			}
			interrupt(t, cmd)
		}
	}
}

func interrupt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}
