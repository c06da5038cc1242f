package transport_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport"
)

const (
	begin = "windlass-n1-root\n"
	end   = "windlass-n1-exit-"
)

func newRun(t interface{ Fatal(...any) }, c port.HostCommand) *transport.Run {
	run, err := transport.NewRun("host", "n1", c, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// However the streams are cut in pieces, the same comes out.
func TestStreamsInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Pieces of the marks are what could be mistaken for them.
		piece := rapid.OneOf(rapid.SampledFrom([]string{"windlass-", "windlass-n1-", "windlass-n1-exit", "windlass-n1-root\n", "w", "\n", "exit-000"}), rapid.StringN(0, 20, -1))
		text := strings.Join(rapid.SliceOf(piece).Draw(t, "stdout"), "")
		if strings.Contains(text+end, end) && strings.Index(text+end, end) != len(text) {
			t.Skip("it holds the mark, which a script cannot know")
		}
		limit := rapid.IntRange(1, 200).Draw(t, "limit")
		noise := rapid.SampledFrom([]string{"", "welcome\n", "no end", "windlass-n1-roo", strings.Repeat("x", 10_000)}).Draw(t, "noise")
		left := rapid.SampledFrom([]string{"", "late", end + "000"}).Draw(t, "left behind")
		run := newRun(t, port.HostCommand{OutputLimit: limit})
		write := func(w io.Writer, content string) {
			for content != "" {
				n := rapid.IntRange(1, min(len(content), 50)).Draw(t, "n")
				if len(content) > 1000 {
					n = len(content) - 100
				}
				if _, err := io.WriteString(w, content[:n]); err != nil {
					t.Fatal(err)
				}
				content = content[n:]
			}
		}
		write(run.Stdout(), noise+begin+text+end+"007"+left)
		if _, known, _ := run.Result(); known {
			t.Fatal("it is known before stderr has ended")
		}
		write(run.Stderr(), noise+begin+text+end+"007"+left)
		if !run.WaitEnd(nil) || !run.Started() {
			t.Fatal("the end was not seen")
		}
		got, known, err := run.Result()
		if !known || err != nil || got.ExitCode != 7 || string(got.Stdout) != text[:min(limit, len(text))] || got.Stderr != strings.ToValidUTF8(text, "?") {
			t.Fatalf("%q became %+v, %v, %v", text, got, known, err)
		}
	})
}

func TestWithoutTheMarks(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	for name, test := range map[string]struct {
		stdout, stderr string
		started        bool
		exit           int
		reason         port.HostReason
		words          string
	}{
		"nothing":            {exit: 1, reason: port.HostNotRoot, words: "nothing was said"},
		"sudo":               {stderr: "sudo: a password\n  is required\n", exit: 1, reason: port.HostNotRoot, words: "sudo: a password is required"},
		"on stdout":          {stdout: "no logins", exit: 1, reason: port.HostNotRoot, words: "no logins"},
		"no bash":            {stderr: "bash: not found", exit: 127, reason: port.HostSetup, words: "bash: not found"},
		"much":               {stderr: strings.Repeat("x", 100_000) + "why", exit: 1, reason: port.HostNotRoot, words: "why"},
		"no end":             {stdout: begin + "out", stderr: begin + "err", started: true},
		"no end of stdout":   {stdout: begin + "out", stderr: begin + end + "000", started: true},
		"half an exit code":  {stdout: begin + end + "00", stderr: begin + end + "00", started: true},
		"no end of stderr":   {stdout: begin + end + "000", stderr: begin, started: true},
		"an end before root": {stdout: end + "000", stderr: end + "000", exit: 1, reason: port.HostNotRoot, words: "windlass-n1-exit"},
	} {
		t.Run(name, func(t *testing.T) {
			run := newRun(t, port.HostCommand{})
			_, _ = io.WriteString(run.Stdout(), test.stdout)
			_, _ = io.WriteString(run.Stderr(), test.stderr)
			if _, known, err := run.Result(); known || err != nil || run.WaitEnd(stop) {
				t.Errorf("the end is known, or %v", err)
			}
			if run.Started() != test.started {
				t.Errorf("started: %t", run.Started())
			}
			if test.started {
				return
			}
			reason, err := run.NotStarted(test.exit)
			if reason != test.reason || !strings.Contains(err.Error(), test.words) || len(err.Error()) > 5000 {
				t.Errorf("got %s: %v", reason, err)
			}
		})
	}
}

func TestGarbledExitCode(t *testing.T) {
	run := newRun(t, port.HostCommand{})
	_, _ = io.WriteString(run.Stdout(), begin+end+"a b")
	_, _ = io.WriteString(run.Stderr(), begin+end+"a b")
	if got, known, err := run.Result(); !known || err != nil || got.ExitCode == 0 {
		t.Errorf("got %+v, %v, %v: it must not pass for success", got, known, err)
	}
}

// A script of which only a part arrives must not run.
func TestScriptIsCutOff(t *testing.T) {
	file := t.TempDir() + "/ran"
	run := newRun(t, port.HostCommand{Script: "touch " + file + "\n# the rest"})
	script, err := io.ReadAll(run.Input())
	if err != nil {
		t.Fatal(err)
	}
	exec := exec.Command("sh", "-c", strings.Replace(run.LoginCommand(), `"$(id -u)" = 0`, "0 = 0", 1))
	exec.Stdin, exec.Stdout, exec.Stderr = bytes.NewReader(script[:len(script)-3]), run.Stdout(), run.Stderr()
	if err := exec.Run(); err == nil {
		t.Error("it succeeded")
	}
	got, known, err := run.Result()
	if !known || err != nil || got.ExitCode != 255 || got.Stderr != "" {
		t.Errorf("got %+v, %v, %v", got, known, err)
	}
}

// The command lines are shown to all on the host, and pass through shells that know only single quotes in common.
func TestCommandLines(t *testing.T) {
	run := newRun(t, port.HostCommand{Script: "password=hunter2", Stdin: strings.NewReader("hunter2")})
	login, onNode := run.LoginCommand(), strings.Join(run.NodeCommand(), " ")
	for _, line := range []string{login, onNode} {
		for _, word := range []string{"hunter2", `\`, "!", "windlass-n1", "\n"} {
			if strings.Contains(line, word) {
				t.Errorf("%q is in %s", word, line)
			}
		}
	}
	if strings.Count(login, "'") != 6 || strings.Contains(onNode, "'") {
		t.Errorf("single quotes within the programs: %s, %s", login, onNode)
	}
}

func TestStdinFails(t *testing.T) {
	gone := errors.New("gone")
	called := false
	run, err := transport.NewRun("host", "n1", port.HostCommand{Script: "true", Stdin: io.MultiReader(strings.NewReader("some"), broken{gone})}, func() { called = true })
	if err != nil || run.Sent() {
		t.Fatalf("sent %t, %v", run.Sent(), err)
	}
	content, err := io.ReadAll(run.Input())
	if string(content) != "true\nsome" || !errors.Is(err, gone) || !called || !run.Sent() {
		t.Errorf("read %q, %v; told: %t", content, err, called)
	}
	if _, known, err := run.Result(); known || !errors.Is(err, gone) {
		t.Errorf("got %t, %v", known, err)
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestProgramsPassShellcheck(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("shellcheck is missing; it comes with Debian's package shellcheck")
	}
	files, err := filepath.Glob("scripts/*.sh")
	if err != nil || len(files) != 3 {
		t.Fatalf("the programs are %v: %v", files, err)
	}
	if out, err := exec.CommandContext(t.Context(), "shellcheck", files...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A script has no arguments, as if it were a file of its own.
func TestScriptHasNoArguments(t *testing.T) {
	run := newRun(t, port.HostCommand{Script: `printf "%s" "$#"`})
	shell := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(run.LoginCommand(), `"$(id -u)" = 0`, "0 = 0", 1))
	shell.Stdin, shell.Stdout, shell.Stderr = run.Input(), run.Stdout(), run.Stderr()
	if err := shell.Run(); err != nil {
		t.Fatal(err)
	}
	if got, known, err := run.Result(); !known || err != nil || string(got.Stdout) != "0" {
		t.Errorf("got %+v, %v, %v", got, known, err)
	}
}
