package statuscmd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/test/apiserver"
)

// pseudoTerminal is a terminal of the kernel with a program's end and the end of the person.
type pseudoTerminal struct {
	t               *testing.T
	program, person *os.File
	frames          *bufio.Reader
}

func openTerminal(t *testing.T) *pseudoTerminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() }) // Nothing is written that could be lost.
	unlock := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err := errors.Join(unlock, err); err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &pseudoTerminal{t: t, program: program, person: person, frames: bufio.NewReader(person)}
}

func (p *pseudoTerminal) resize(columns, rows uint16) {
	p.t.Helper()
	size := &unix.Winsize{Col: columns, Row: rows}
	if err := unix.IoctlSetWinsize(int(p.program.Fd()), unix.TIOCSWINSZ, size); err != nil {
		p.t.Fatal(err)
	}
}

// scrollAway reads what moves the rows that the terminal shows out of sight.
func (p *pseudoTerminal) scrollAway(rows int) {
	p.t.Helper()
	want := strings.Repeat("\r\n", rows-1)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.frames, got); err != nil || string(got) != want {
		p.t.Errorf("the output begins with %q, want %q: %v", got, want, err)
	}
}

// next returns the lines of the next frame, or false when the program has closed its end.
func (p *pseudoTerminal) next() ([]string, bool) {
	p.t.Helper()
	var frame bytes.Buffer
	for !bytes.HasSuffix(frame.Bytes(), []byte(eraseRest)) {
		b, err := p.frames.ReadByte()
		switch {
		// Linux returns EIO when nobody has the program's end any more.
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO):
			if frame.Len() > 0 {
				p.t.Errorf("the output ends within a frame: %q", frame.String())
			}
			return nil, false
		case err != nil:
			p.t.Fatal(err)
		}
		frame.WriteByte(b)
	}
	return p.lines(frame.String()), true
}

// until reads frames up to one that fulfils a condition.
func (p *pseudoTerminal) until(what string, condition func(lines []string) bool) {
	p.t.Helper()
	for {
		lines, more := p.next()
		if !more {
			p.t.Fatalf("the output ends before %s", what)
		}
		if condition(lines) {
			return
		}
	}
}

var colors = regexp.MustCompile(`\x1b\[[0-9]*m`)

// lines returns the lines of a frame, and checks how they are drawn.
func (p *pseudoTerminal) lines(frame string) []string {
	p.t.Helper()
	drawn, fromHome := strings.CutPrefix(frame, home)
	if !fromHome {
		p.t.Errorf("the frame does not begin at home: %q", frame)
	}
	drawn = strings.TrimSuffix(colors.ReplaceAllString(drawn, ""), eraseLine+"\r\n"+eraseRest)
	lines := strings.Split(drawn, eraseLine+"\r\n")
	for _, l := range lines {
		if strings.ContainsAny(l, "\x1b\r\n\a") {
			p.t.Errorf("a line has other control sequences, or leaves the rest of the row: %q", l)
		}
	}
	return lines
}

// fits reports whether lines fit a terminal, with a row for the cursor.
func fits(lines []string, columns, rows int) bool {
	for _, l := range lines {
		if utf8.RuneCountInString(l) > columns {
			return false
		}
	}
	return len(lines) < rows
}

// TestStatusTerminal watches an upgrade on a terminal that shrinks, to the end.
func TestStatusTerminal(t *testing.T) {
	api, kubeconfig := apiserver.Start(t, upgradingObjectsYAML)
	put := func(document string) {
		t.Helper()
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		api.Put(o)
	}
	t.Setenv("TERM", "xterm")
	terminal := openTerminal(t)
	terminal.resize(60, 20)
	ended := make(chan error, 1)
	go func() {
		cmd := New()
		cmd.SetArgs([]string{"prod", "--watch", "--kubeconfig", kubeconfig})
		cmd.SetOut(terminal.program)
		err := cmd.ExecuteContext(t.Context())
		ended <- errors.Join(err, terminal.program.Close())
	}()

	terminal.scrollAway(20)
	first, _ := terminal.next()
	if !fits(first, 60, 20) || !strings.HasPrefix(strings.Join(first, " "), "The upgrade to v1.32.1 is under way") {
		t.Errorf("the first frame does not fit 60x20, or is not the upgrade: %q", first)
	}
	const hostile = `"windlass\u001b[2J\u0007 ` // What a name or a message from a cluster must not do.
	put(`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: prod-cp, namespace: team-a},
spec: {version: v1.32.1, replicas: 1}, status: {version: v1.31.2, conditions: [
{type: windlass.dev/UpdateBlocked, status: "True", reason: NotCovered, message: ` + hostile + strings.Repeat("Machine /spec/version ", 20) + `"}]}}`)
	terminal.until("the message is there", func(lines []string) bool {
		if !fits(lines, 60, 20) {
			t.Errorf("a frame does not fit 60x20: %q", lines)
		}
		return strings.Contains(strings.Join(lines, "\n"), "windlass\uFFFD[2J\uFFFD Machine")
	})
	terminal.resize(40, 10)
	terminal.until("a frame fits 40x10", func(lines []string) bool { return fits(lines, 40, 10) })
	put(`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: prod-cp, namespace: team-a},
spec: {version: v1.32.1, replicas: 1}, status: {version: v1.32.1}}`)
	last := first
	for lines, more := terminal.next(); more; lines, more = terminal.next() {
		if last = lines; !fits(last, 40, 10) {
			t.Errorf("a frame does not fit 40x10: %q", last)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the watch ends with %v", err)
	}
	if !strings.Contains(strings.Join(last, " "), "everything is at v1.32.1.") {
		t.Errorf("the last frame does not show the end: %q", last)
	}
}
