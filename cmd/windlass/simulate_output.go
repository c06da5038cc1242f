package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/simulate/inventory"
	"github.com/windlass-dev/windlass/internal/simulate/page"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
	"github.com/windlass-dev/windlass/internal/view"
)

func writeReport(w io.Writer, format view.Format, r whatif.Report) error {
	if format == view.JSON {
		return page.JSON(w, r)
	}
	return page.Table(w, r)
}

// reportSimulateFailure says why nothing is simulated. That machines are not updated at all has the exit code of an upgrade that does not end.
func reportSimulateFailure(cmd *cobra.Command, in planInput, cause error) error {
	err := reportError(cmd, in.format, cause)
	if _, blocked := errors.AsType[*inventory.BlockedError](cause); blocked {
		if coded, ok := errors.AsType[*cli.ExitError](err); ok {
			coded.Code = cli.ExitRefused
		}
	}
	return err
}

const (
	// progressAfter is how long a person waits without being told anything.
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// simulateProgress counts runs on a terminal; elsewhere it says nothing.
type simulateProgress struct {
	out   io.Writer
	began time.Time
	mu    sync.Mutex
	shown time.Time
}

// newSimulateProgress returns nil where nobody looks.
func newSimulateProgress(out io.Writer) *simulateProgress {
	if cli.Terminal(out) == nil {
		return nil
	}
	return &simulateProgress{out: out, began: time.Now()}
}

func (p *simulateProgress) show(done, total int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.began) < progressAfter || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	fmt.Fprintf(p.out, "\r\033[K%d of %d runs", done, total)
}

// clear takes the line away.
func (p *simulateProgress) clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shown.IsZero() {
		fmt.Fprint(p.out, "\r\033[K")
	}
}
