package porttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing" //nolint:depguard // A suite of contract tests is imported by tests only.
	"time"

	"github.com/windlass-dev/windlass/internal/port"
)

// RunHostSuite tests that an implementation keeps the contract of port.Host. Each test opens a host of its own, and closes it.
func RunHostSuite(t *testing.T, open func(t *testing.T) port.Host) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, port.Host){
		"exit codes":        testHostExitCodes,
		"stdout and stderr": testHostOutput,
		"the first of stdout, the last of stderr": testHostLimits,
		"binary stdin":                              testHostStdin,
		"no stdin":                                  testHostNoStdin,
		"stdin that nobody reads":                   testHostStdinIgnored,
		"a script that ends while stdin comes":      testHostStdinCut,
		"stdin that cannot be read":                 testHostStdinFails,
		"many at once":                              testHostConcurrent,
		"a context that ends":                       testHostContext,
		"root":                                      testHostRoot,
		"the script is not shown":                   testHostHidden,
		"scripts arrive as they are":                testHostQuoting,
		"long scripts":                              testHostLongScript,
		"scripts that no bash can run":              testHostRefusesScripts,
		"a process that is left behind holds pipes": testHostLeftBehind,
		"close": testHostClose,
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			t.Cleanup(func() { _ = h.Close() })
			test(t, h)
		})
	}
}

// hostPayload is more than all the buffers between two machines hold.
const hostPayload = 3 << 20

func hostExec(t *testing.T, h port.Host, c port.HostCommand) port.HostResult {
	t.Helper()
	result, err := h.Exec(t.Context(), c)
	if err != nil {
		t.Fatalf("%.80q: %v", c.Script, err)
	}
	return result
}

// hostPrints runs a script that must succeed.
func hostPrints(t *testing.T, h port.Host, script string) string {
	t.Helper()
	result := hostExec(t, h, port.HostCommand{Script: script})
	if result.ExitCode != 0 {
		t.Fatalf("%.80q ended with %d: %s", script, result.ExitCode, result.Stderr)
	}
	return string(result.Stdout)
}

func testHostExitCodes(t *testing.T, h port.Host) {
	t.Helper()
	for script, want := range map[string]int{
		"": 0, "true": 0, "# only a comment": 0, "exit 1": 1, "false": 1, "exit 42": 42, "exit 255": 255, "no-such-program-anywhere": 127,
		"kill -KILL $$": 137, "kill -TERM $$; sleep 10": 143, "set -e; false; true": 1, "trap 'exit 9' EXIT": 9,
	} {
		if got := hostExec(t, h, port.HostCommand{Script: script}); got.ExitCode != want {
			t.Errorf("%q ended with %d, want %d; stderr %q", script, got.ExitCode, want, got.Stderr)
		}
	}
	if got := hostExec(t, h, port.HostCommand{Script: "if then"}); got.ExitCode == 0 || !strings.Contains(got.Stderr, "syntax error") {
		t.Errorf("a script that does not parse gives %+v", got)
	}
}

func testHostOutput(t *testing.T, h port.Host) {
	t.Helper()
	got := hostExec(t, h, port.HostCommand{Script: "echo out; echo err >&2; printf more; printf less >&2; exit 3"})
	if string(got.Stdout) != "out\nmore" || got.Stderr != "err\nless" || got.ExitCode != 3 {
		t.Errorf("got %q, %q and %d", got.Stdout, got.Stderr, got.ExitCode)
	}
	if got := hostExec(t, h, port.HostCommand{Script: "kill -KILL $$"}); got.Stderr != "" || len(got.Stdout) != 0 {
		t.Errorf("a script that a signal ends prints %q and %q", got.Stdout, got.Stderr)
	}
	got = hostExec(t, h, port.HostCommand{Script: `printf '\000\377\r\n'`})
	if !bytes.Equal(got.Stdout, []byte{0, 255, '\r', '\n'}) {
		t.Errorf("bytes became %q", got.Stdout)
	}
}

func testHostLimits(t *testing.T, h port.Host) {
	t.Helper()
	got := hostExec(t, h, port.HostCommand{Script: "for i in {1..20000}; do echo $i; done; exit 4", OutputLimit: 10})
	if string(got.Stdout) != "1\n2\n3\n4\n5\n" || got.ExitCode != 4 {
		t.Errorf("got %q and %d", got.Stdout, got.ExitCode)
	}
	got = hostExec(t, h, port.HostCommand{Script: fmt.Sprintf("head -c %d /dev/zero; exit 5", hostPayload)})
	if len(got.Stdout) != port.DefaultOutputLimit || got.ExitCode != 5 {
		t.Errorf("got %d bytes and %d", len(got.Stdout), got.ExitCode)
	}
	got = hostExec(t, h, port.HostCommand{Script: "for i in {1..20000}; do echo $i; done >&2; exit 6"})
	if len(got.Stderr) > port.StderrLimit || !strings.HasSuffix(got.Stderr, "19999\n20000\n") || got.ExitCode != 6 {
		t.Errorf("got %d bytes of stderr that end with %.20q, and %d", len(got.Stderr), got.Stderr[max(0, len(got.Stderr)-20):], got.ExitCode)
	}
}

func testHostStdin(t *testing.T, h port.Host) {
	t.Helper()
	content := bytes.Repeat([]byte("\x00\xff\r\n'\"$x"), hostPayload/9)
	sum := sha256.Sum256(content)
	got := hostExec(t, h, port.HostCommand{Script: "sha256sum", Stdin: bytes.NewReader(content)})
	if want := hex.EncodeToString(sum[:]); !strings.HasPrefix(string(got.Stdout), want) {
		t.Errorf("the digest is %q, want %s", got.Stdout, want)
	}
}

func testHostNoStdin(t *testing.T, h port.Host) {
	t.Helper()
	if got := hostPrints(t, h, "cat; read x || echo nothing"); got != "nothing\n" {
		t.Errorf("got %q", got)
	}
}

// blocked gives nothing until the test ends.
type blocked struct {
	done <-chan struct{}
	// read is called by the first Read.
	read func()
	once sync.Once
}

func (b *blocked) Read([]byte) (int, error) {
	b.once.Do(b.read)
	<-b.done
	return 0, io.EOF
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func testHostStdinIgnored(t *testing.T, h port.Host) {
	t.Helper()
	for name, stdin := range map[string]io.Reader{
		"much":    bytes.NewReader(make([]byte, hostPayload)),
		"endless": zeros{},
		"late":    &blocked{done: t.Context().Done(), read: func() {}},
	} {
		if got := hostExec(t, h, port.HostCommand{Script: "echo done; exit 7", Stdin: stdin}); got.ExitCode != 7 || string(got.Stdout) != "done\n" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func testHostStdinCut(t *testing.T, h port.Host) {
	t.Helper()
	got := hostExec(t, h, port.HostCommand{Script: "head -c 100000 | wc -c; exit 5", Stdin: zeros{}})
	if got.ExitCode != 5 || strings.TrimSpace(string(got.Stdout)) != "100000" {
		t.Errorf("got %+v", got)
	}
}

var errStdin = errors.New("the file is gone")

func testHostStdinFails(t *testing.T, h port.Host) {
	t.Helper()
	stdin := io.MultiReader(bytes.NewReader(make([]byte, 1000)), brokenReader{})
	_, err := h.Exec(t.Context(), port.HostCommand{Script: "cat >/dev/null", Stdin: stdin})
	if port.ReasonOfHost(err) != port.HostLost || !errors.Is(err, errStdin) {
		t.Errorf("got %v: the script has not read all, and nobody would know", err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errStdin }

func testHostConcurrent(t *testing.T, h port.Host) {
	t.Helper()
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			got, err := h.Exec(t.Context(), port.HostCommand{Script: fmt.Sprintf("cat; exit %d", i), Stdin: strings.NewReader(fmt.Sprint("stdin of ", i))})
			if err != nil || got.ExitCode != i || string(got.Stdout) != fmt.Sprint("stdin of ", i) {
				t.Errorf("script %d: %+v, %v", i, got, err)
			}
		})
	}
	group.Wait()
}

func testHostContext(t *testing.T, h port.Host) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stdin := &blocked{done: t.Context().Done(), read: cancel}
	got, err := h.Exec(ctx, port.HostCommand{Script: "cat", Stdin: stdin})
	if !errors.Is(err, context.Canceled) || port.ReasonOfHost(err) != port.HostLost {
		t.Errorf("got %+v and %v, want that its end was not seen", got, err)
	}
	if _, err := h.Exec(ctx, port.HostCommand{Script: "true"}); !errors.Is(err, context.Canceled) || port.ReasonOfHost(err) != port.HostUnreachable {
		t.Errorf("with a context that is over: %v", err)
	}
	if got := hostPrints(t, h, "echo still here"); got != "still here\n" {
		t.Errorf("after it: %q", got)
	}
}

func testHostRoot(t *testing.T, h port.Host) {
	t.Helper()
	if got := hostPrints(t, h, "id -u"); got != "0\n" {
		t.Errorf("scripts run as %q, want 0", got)
	}
	if got := hostPrints(t, h, "echo $PATH"); !strings.Contains(got, "/usr/sbin") {
		t.Errorf("PATH is %q: the programs of root are not found", got)
	}
}

func testHostHidden(t *testing.T, h port.Host) {
	t.Helper()
	// The words are put together on the host only.
	got := hostExec(t, h, port.HostCommand{
		Script:      `word=needle-4711; cat /proc/[0-9]*/cmdline /proc/$$/environ 2>/dev/null | tr "\0" " "; echo "looked by $0"`,
		OutputLimit: 8 << 20,
	})
	if shown := string(got.Stdout); !strings.Contains(shown, "/proc/") || !strings.Contains(shown, "looked by") || strings.Contains(shown, "needle-") {
		t.Errorf("the process list and the environment are\n%s", shown)
	}
}

func testHostQuoting(t *testing.T, h port.Host) {
	t.Helper()
	text := "it's \"quoted\" $HOME `id` \\n !! {a,b} *\n\tÄöü€ 漢字 %s %d # ; & | < > ( )\n\nend"
	script := "#!/bin/bash\ncat <<'EOF'\n" + text + "\nEOF\n# the last line has no end"
	if got := hostPrints(t, h, script); got != text+"\n" {
		t.Errorf("got %q, want %q", got, text)
	}
	if got := hostPrints(t, h, "x='a  b'\nprintf '%s|' \"$x\" $x ${#x}\n\n\n"); got != "a  b|a|b|4|" {
		t.Errorf("got %q", got)
	}
	if got := hostPrints(t, h, `printf "%s" "$#${windlass-unset}"`); got != "0unset" {
		t.Errorf("arguments and variables of others: %q", got)
	}
}

func testHostLongScript(t *testing.T, h port.Host) {
	t.Helper()
	tail := "\nprintf '%s %s' ${#x} ${x: -3}; cat"
	script := "x="
	script += strings.Repeat("a", port.MaxHostScript-len(script)-len(tail)-3) + "ö!" + tail
	got := hostExec(t, h, port.HostCommand{Script: script, Stdin: strings.NewReader(" and stdin")})
	if !strings.HasSuffix(string(got.Stdout), "ö! and stdin") || len(script) != port.MaxHostScript {
		t.Errorf("a script of %d bytes gives %+v", len(script), got)
	}
}

func testHostRefusesScripts(t *testing.T, h port.Host) {
	t.Helper()
	for name, c := range map[string]port.HostCommand{
		"too long":       {Script: strings.Repeat("#", port.MaxHostScript+1)},
		"NUL":            {Script: "echo a\x00b"},
		"negative limit": {Script: "true", OutputLimit: -1},
	} {
		if got, err := h.Exec(t.Context(), c); port.ReasonOfHost(err) != port.HostSetup {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func testHostLeftBehind(t *testing.T, h port.Host) {
	t.Helper()
	const life = 10 * time.Minute
	start := time.Now()
	pid := hostPrints(t, h, fmt.Sprintf("sleep %d & echo $!", int(life/time.Second)))
	if took := time.Since(start); took > life/2 {
		t.Errorf("it took %s: the end of what the script left behind was waited for", took)
	}
	hostPrints(t, h, "kill "+pid)
}

func testHostClose(t *testing.T, h port.Host) {
	t.Helper()
	hostPrints(t, h, "true")
	for range 2 {
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	var failed *port.HostError
	if got, err := h.Exec(t.Context(), port.HostCommand{Script: "true"}); !errors.As(err, &failed) {
		t.Errorf("Exec after Close: %+v, %v", got, err)
	}
}
