//go:build linux

package container

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExec(t *testing.T) {
	c := startReady(t, ":", Spec{Env: []string{"A=b"}, Dir: "/usr"})
	for name, x := range map[string]struct {
		args           []string
		stdin          string
		code           int
		stdout, stderr string
	}{
		"output": {
			args: []string{"bash", "-c", "echo $A; pwd; echo err >&2"}, stdout: "b\n/usr\n", stderr: "err\n",
		},
		"code":           {args: []string{"bash", "-c", "exit 9"}, code: 9},
		"signal":         {args: []string{"bash", "-c", "kill -KILL $$"}, code: 137},
		"input":          {args: []string{"tr", "a", "b"}, stdin: "banana", stdout: "bbnbnb"},
		"unread":         {args: []string{"true"}, stdin: strings.Repeat("x", 1<<20)},
		"same processes": {args: []string{"cat", "/proc/1/comm"}, stdout: "bash\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code, err := c.Exec(t.Context(), Execution{
				Args: x.args, Stdin: strings.NewReader(x.stdin), Stdout: &out, Stderr: &errs,
			})
			if err != nil || code != x.code || out.String() != x.stdout || errs.String() != x.stderr {
				t.Errorf("%d, %v, %q, %q", code, err, out.String(), errs.String())
			}
		})
	}
	for _, args := range [][]string{nil, {""}, {"no-such-program"}, {"/etc/passwd"}} {
		if code, err := c.Exec(t.Context(), Execution{Args: args}); err == nil {
			t.Errorf("%q: status %d", args, code)
		}
	}
}

func TestExecEndsWithItsContext(t *testing.T) {
	c := startReady(t, ":", Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	began := writerFunc(func(text []byte) (int, error) { cancel(); return len(text), nil })
	_, err := c.Exec(ctx, Execution{Args: []string{"bash", "-c", "sleep 1000 & echo begun; wait"}, Stdout: began})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	execute(t, c, "while pgrep -r R,S,D -x sleep >/dev/null; do :; done")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

func TestExecOnATerminal(t *testing.T) {
	c := startReady(t, ":", Spec{})
	var out bytes.Buffer
	sizes := make(chan Size, 1)
	sizes <- Size{Width: 132, Height: 43}
	script := "until [[ $(stty size) = '43 132' ]]; do :; done; read line; test -t 1 && echo got $line; exit 5"
	code, err := c.Exec(t.Context(), Execution{
		Args: []string{"bash", "-c", script}, Terminal: true, Sizes: sizes,
		Stdin: strings.NewReader("hello\n"), Stdout: &out,
	})
	if err != nil || code != 5 || !strings.Contains(out.String(), "got hello") {
		t.Errorf("%d, %v, %q", code, err, out.String())
	}
}

// TestTheFirstThreadIsLeftAlone begins on the thread that /proc/self shows and that cannot end.
func TestTheFirstThreadIsLeftAlone(t *testing.T) {
	for range 100 {
		threads := make(chan int, 8)
		for range cap(threads) {
			go func() {
				_ = onNewThread(func() error { threads <- unix.Gettid(); return nil })
			}()
		}
		for range cap(threads) {
			if thread := <-threads; thread == unix.Getpid() {
				t.Fatal("it ran on the first thread")
			}
		}
	}
}
