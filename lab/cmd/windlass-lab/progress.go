package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

const (
	progressTick      = 100 * time.Millisecond
	reminderPeriod    = 30 * time.Second
	defaultTermWidth  = 80
	defaultTermHeight = 24
	eraseLine         = "\r\x1b[K"
)

// progress shows the steps of a build and a start: one line that changes on a terminal; elsewhere a line
// for each step, and one for every 30 seconds that a step takes.
type progress struct {
	out io.Writer
	// width returns the terminal's width; nil when out is no terminal.
	width func() int

	mu    sync.Mutex
	last  devplane.Event
	since time.Time // when last arrived
	shown time.Time // when the last line was printed; not used on a terminal
	stop  chan struct{}
	done  chan struct{}
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, stop: make(chan struct{}), done: make(chan struct{})}
	if file := cli.Terminal(out); file != nil {
		p.width = func() int {
			width, _ := cli.TerminalSize(file)
			return width
		}
	}
	go p.tick()
	return p
}

// tick redraws the line, so that its clock runs; without a terminal it reminds.
func (p *progress) tick() {
	defer close(p.done)
	ticker := time.NewTicker(progressTick)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-ticker.C:
			p.mu.Lock()
			if p.width != nil {
				p.draw()
			} else {
				p.remind(now)
			}
			p.mu.Unlock()
		}
	}
}

// remind prints the step that still runs if nothing was printed for a while. p.mu is held.
func (p *progress) remind(now time.Time) {
	if p.last.Message == "" || now.Sub(p.shown) < reminderPeriod {
		return
	}
	p.shown = now
	fmt.Fprintln(p.out, formatEvent(p.last, p.last.Elapsed+now.Sub(p.since))+" (still running)")
}

func (p *progress) report(event devplane.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	previous := p.last
	p.last, p.since = event, time.Now()
	switch {
	case event.Warning && p.width != nil:
		fmt.Fprintf(p.out, "%sWarning: %s\n", eraseLine, event.Message)
		p.last = previous
	case p.width != nil:
		p.draw()
	case event.Warning:
		fmt.Fprintf(p.out, "Warning: %s\n", event.Message)
	case event.Step != previous.Step:
		// Not every package that is compiled for a binary: that is for a line that changes.
		p.shown = p.since
		fmt.Fprintln(p.out, formatEvent(event, event.Elapsed))
	}
}

func (p *progress) draw() {
	if p.last.Message == "" {
		return
	}
	line := []rune(formatEvent(p.last, p.last.Elapsed+time.Since(p.since)))
	if width := p.width() - 1; len(line) > width {
		line = line[:max(width, 0)]
	}
	fmt.Fprint(p.out, eraseLine+string(line))
}

func formatEvent(event devplane.Event, elapsed time.Duration) string {
	position := ""
	if event.Total > 0 {
		position = fmt.Sprintf("[%d/%d] ", event.Index, event.Total)
	}
	return fmt.Sprintf("%6.1fs  %s%s", elapsed.Seconds(), position, event.Message)
}

// close ends the live line; what is printed next begins on a clean one. It may be called twice.
func (p *progress) close() {
	p.mu.Lock()
	select {
	case <-p.stop:
		p.mu.Unlock()
		return
	default:
		close(p.stop)
	}
	p.mu.Unlock()
	<-p.done
	if p.width != nil {
		fmt.Fprint(p.out, eraseLine)
	}
}
