package simulatecmd

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/planinput"
	"github.com/windlass-dev/windlass/internal/simulate/inventory"
	"github.com/windlass-dev/windlass/internal/simulate/page"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
	"github.com/windlass-dev/windlass/internal/view"
)

func writeReport(cmd *cobra.Command, format view.Format, r whatif.Report) error {
	if format == view.JSON {
		return page.JSON(cmd.OutOrStdout(), r)
	}
	return page.Table(cmd.OutOrStdout(), cli.NewScreen(cmd).Width, r)
}

// reportFailure says why nothing is simulated. That machines are not updated at all has the exit code of an upgrade that does not end.
func reportFailure(cmd *cobra.Command, in planinput.Input, cause error) error {
	err := cli.Report(cmd, in.Format, cause)
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

// progress counts runs on a terminal; elsewhere it says nothing.
type progress struct {
	out   io.Writer
	began time.Time
	mu    sync.Mutex
	shown time.Time
}

// newProgress returns nil where nobody looks.
func newProgress(out io.Writer) *progress {
	if cli.Terminal(out) == nil {
		return nil
	}
	return &progress{out: out, began: time.Now()}
}

func (p *progress) show(done, total int) {
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
func (p *progress) clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shown.IsZero() {
		fmt.Fprint(p.out, "\r\033[K")
	}
}
