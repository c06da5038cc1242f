package transport

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/windlass-dev/windlass/internal/port"
)

// Run is one script on its way through a transport. The transport starts LoginCommand or NodeCommand, feeds it what Input reads, writes
// what it prints to Stdout and Stderr, and stops when Ended is closed or the connection ends. Then Result says what became of it.
type Run struct {
	nonce          string
	size           int
	input          *input
	stdout, stderr *stream
	head           *head
	tail           *tail
}

// NewRun checks a command. The nonce tells the marks of this run from anything that the script prints; it is of letters and digits. failed is
// called where stdin cannot be read: what the script has of it is then not all, and it must not pass for it. Errors have the reason HostSetup.
func NewRun(host, nonce string, c port.HostCommand, failed func()) (*Run, error) {
	if problem := problemOf(c); problem != nil {
		return nil, &port.HostError{Reason: port.HostSetup, Host: host, Err: problem}
	}
	script := c.Script + "\n"
	readers := []io.Reader{strings.NewReader(script)}
	if c.Stdin != nil {
		readers = append(readers, c.Stdin)
	}
	limit := c.OutputLimit
	if limit == 0 {
		limit = port.DefaultOutputLimit
	}
	r := &Run{
		nonce: nonce, size: len(script), input: &input{reader: io.MultiReader(readers...), failed: failed},
		head: &head{limit: limit}, tail: &tail{},
	}
	r.stdout, r.stderr = newStream(markPrefix+nonce, r.head.add), newStream(markPrefix+nonce, r.tail.add)
	return r, nil
}

func problemOf(c port.HostCommand) error {
	switch {
	case len(c.Script) > port.MaxHostScript:
		return fmt.Errorf("the script has %d bytes, %d are allowed", len(c.Script), port.MaxHostScript)
	case strings.ContainsRune(c.Script, 0):
		return errors.New("the script holds a NUL byte, which bash cannot read")
	case c.OutputLimit < 0:
		return fmt.Errorf("the limit of the output is %d bytes; it cannot be negative", c.OutputLimit)
	}
	return nil
}

// Input is the script, and then what the script reads.
func (r *Run) Input() io.Reader { return r.input }

// Stdout is where the transport writes what comes on stdout. It never fails.
func (r *Run) Stdout() io.Writer { return r.stdout }

// Stderr is the same for stderr.
func (r *Run) Stderr() io.Writer { return r.stderr }

// WaitEnd returns true when the script has ended and all that it printed is there, or false when stop is closed before.
func (r *Run) WaitEnd(stop <-chan struct{}) bool {
	for _, s := range []*stream{r.stdout, r.stderr} {
		select {
		case <-s.ended:
		case <-stop:
			return false
		}
	}
	return true
}

// Sent reports whether any of the script was sent; until then it has not run.
func (r *Run) Sent() bool {
	r.input.mu.Lock()
	defer r.input.mu.Unlock()
	return r.input.sent
}

// Started reports whether root was there: the script may have run.
func (r *Run) Started() bool {
	_, _, begun := r.stderr.exit()
	_, _, begunToo := r.stdout.exit()
	return begun || begunToo
}

// Result gives how the script ended, once the transport has let go of it; false where that is not known. The error is of reading stdin.
func (r *Run) Result() (result port.HostResult, known bool, err error) {
	if err := r.input.failure(); err != nil {
		return port.HostResult{}, false, fmt.Errorf("reading the script's stdin: %w", err)
	}
	_, ended, _ := r.stdout.exit()
	code, endedToo, _ := r.stderr.exit()
	if !ended || !endedToo {
		return port.HostResult{}, false, nil
	}
	return port.HostResult{Stdout: r.head.bytes, Stderr: strings.ToValidUTF8(string(r.tail.bytes), "?"), ExitCode: code}, true, nil
}

// signalled is what an exit status is above where a signal ended a program.
const signalled = 128

// NotStarted says why root was not there, from how the command ended and what it said.
func (r *Run) NotStarted(exitCode int) (port.HostReason, error) {
	said := r.stderr.said()
	if said == "" {
		said = r.stdout.said()
	}
	if said == "" {
		said = "nothing was said"
	}
	if exitCode == exitNoBash {
		return port.HostSetup, fmt.Errorf("bash cannot be started: %s", said)
	}
	if exitCode > signalled {
		// The host shuts down, or lacks memory: no word about who may become root.
		return port.HostLost, fmt.Errorf("the login's shell was ended by signal %d", exitCode-signalled)
	}
	return port.HostNotRoot, fmt.Errorf("bash did not start as root (exit status %d): %s", exitCode, said)
}

// input remembers why reading failed.
type input struct {
	reader io.Reader
	failed func()

	mu   sync.Mutex
	sent bool
	err  error
}

// Read reads on; a failure of the reader is told before the transport sees it.
func (i *input) Read(p []byte) (int, error) {
	i.mu.Lock()
	i.sent = true
	i.mu.Unlock()
	n, err := i.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		i.mu.Lock()
		i.err = err
		i.mu.Unlock()
		i.failed()
	}
	return n, err
}

func (i *input) failure() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.err
}
