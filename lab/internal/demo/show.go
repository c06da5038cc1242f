package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// Plain is a Viewer that writes a line for everything that happens, for logs and pipes.
type Plain struct {
	Out io.Writer
	// Since returns the time that has passed.
	Since func() time.Duration
}

// Phase implements Viewer.
func (p *Plain) Phase(what string) { p.line("%s", what) }

// Planned implements Viewer.
func (p *Plain) Planned(request plan.Request, planned plan.Plan) error {
	return writePlan(p.Out, request, planned)
}

// Observed implements Viewer.
func (p *Plain) Observed(_ history.Objects, changes []history.Change, _ int) {
	for _, c := range changes {
		p.line("  %s", describeChange(c))
	}
}

// Noted implements Viewer.
func (p *Plain) Noted(what string) { p.line("%s", what) }

func (p *Plain) line(format string, args ...any) {
	// A log that cannot be written is no reason to stop an upgrade.
	_, _ = fmt.Fprintf(p.Out, "%s  %s\n", clock(p.Since()), fmt.Sprintf(format, args...))
}

func describeChange(c history.Change) string {
	return fmt.Sprintf("%s goes from %s to %s", partName(c.Group), c.From, c.To)
}

func partName(name string) string {
	if name == controlPlaneName {
		return "control plane"
	}
	return name
}

func clock(d time.Duration) string {
	seconds := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d", seconds/60, seconds%60)
}

// screen is how tables of the demo are laid out, wherever they go.
var screen = view.Screen{Width: 100}

func writePlan(w io.Writer, request plan.Request, planned plan.Plan) error {
	if _, err := fmt.Fprint(w, "\nThe plan:\n\n"); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	if err := view.Write(w, view.Table, screen, view.Chain{
		Plan: planned, ControlPlane: request.Inventory.ControlPlane, Target: request.Target,
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// Terminal is a Viewer that keeps a picture of the cluster on the screen, below lines that stay.
type Terminal struct {
	out   io.Writer
	since func() time.Duration
	size  func() (width, height int)
	color bool

	mu    sync.Mutex
	phase string
	now   history.Objects
	began int
	total int
	// drawn is the number of lines of the picture that is on the screen.
	drawn int
}

// NewTerminal returns a Terminal. since returns the time that has passed, size the number of columns and rows.
func NewTerminal(out io.Writer, since func() time.Duration, size func() (width, height int), color bool) *Terminal {
	return &Terminal{out: out, since: since, size: size, color: color}
}

// Phase implements Viewer.
func (t *Terminal) Phase(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	t.write(fmt.Sprintf("%s  %s\n", clock(t.since()), what))
	t.phase = what
	t.draw()
}

// Planned implements Viewer.
func (t *Terminal) Planned(request plan.Request, planned plan.Plan) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	t.total = len(planned.Operations)
	return writePlan(t.out, request, planned)
}

// Observed implements Viewer.
func (t *Terminal) Observed(o history.Objects, changes []history.Change, begun int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	for _, c := range changes {
		t.write(fmt.Sprintf("%s    %s\n", clock(t.since()), describeChange(c)))
	}
	t.now, t.began = o, begun
	t.draw()
}

// Noted implements Viewer.
func (t *Terminal) Noted(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	t.write(fmt.Sprintf("%s  %s\n", clock(t.since()), what))
	t.draw()
}

// Tick redraws the picture, so that its clock runs.
func (t *Terminal) Tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	t.draw()
}

// Close removes the picture; what was written stays.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	t.phase = ""
}

// write ignores errors: a terminal that is gone is no reason to stop an upgrade.
func (t *Terminal) write(s string) { _, _ = io.WriteString(t.out, s) }

func (t *Terminal) erase() {
	if t.drawn > 0 {
		t.write(fmt.Sprintf("\x1b[%dA\r\x1b[J", t.drawn))
		t.drawn = 0
	}
}

func (t *Terminal) draw() {
	if t.phase == "" || t.now.ControlPlane.Version == "" {
		return
	}
	progress := ""
	if t.began > 0 {
		progress = fmt.Sprintf("operation %d of %d", t.began, max(t.total, t.began))
	}
	width, height := t.size()
	lines := []string{"", strings.TrimRight(fmt.Sprintf("%s  %s", clock(t.since()), progress), " ")}
	// A picture that is higher than the screen could not be erased again.
	lines = append(lines, cutLines(drawParts(t.now, width-1, t.color), height-len(lines)-2)...)
	lines = append(lines, cut("  "+legend, width-1))
	t.drawn = len(lines)
	t.write(strings.Join(lines, "\n") + "\n")
}

// Marks of machines: ready at the version that its group asks for, on the way there, still at another one.
const (
	markDone    = "■"
	markComing  = "◌"
	markWaiting = "□"
)

const legend = markDone + " ready  " + markComing + " coming  " + markWaiting + " at another version"

var markColors = map[string]string{markDone: "\x1b[32m", markComing: "\x1b[33m", markWaiting: "\x1b[2m"}

// drawParts draws a line for the control plane and each group: its version, a mark for each machine, and a count.
func drawParts(o history.Objects, width int, color bool) []string {
	parts := o.Parts()
	nameWidth, versionWidth := 0, 0
	for _, p := range parts {
		nameWidth = max(nameWidth, utf8.RuneCountInString(partName(p.Group)))
		versionWidth = max(versionWidth, len(p.Version))
	}
	// Long names give way to the version and the count.
	nameWidth = max(min(nameWidth, width-versionWidth-24), 4)
	lines := make([]string, 0, len(parts))
	for _, p := range parts {
		head := fmt.Sprintf("  %-*s  %-*s  ", nameWidth, cut(partName(p.Group), nameWidth), versionWidth, p.Version)
		tail := fmt.Sprintf("  %d of %d upgraded", p.Done(), p.Replicas)
		room := width - utf8.RuneCountInString(head) - len(tail)
		if room < 0 {
			lines = append(lines, cut(head+tail, width))
			continue
		}
		lines = append(lines, head+drawMarks(p, room, color)+tail)
	}
	return lines
}

// cut shortens a line to a width, in characters.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return string([]rune(s)[:width-1]) + "…"
}

// cutLines keeps as many lines as there is room for, and says how many it has left out.
func cutLines(lines []string, room int) []string {
	if len(lines) <= room {
		return lines
	}
	room = max(room, 1)
	return append(lines[:room-1:room-1], fmt.Sprintf("  and %d more", len(lines)-room+1))
}

func drawMarks(p history.Part, room int, color bool) string {
	var b strings.Builder
	if len(p.Machines) > room {
		return ""
	}
	for _, m := range p.Machines {
		mark := markWaiting
		switch {
		case m.At(p.Version):
			mark = markDone
		case m.Version == p.Version:
			mark = markComing
		}
		if color {
			b.WriteString(markColors[mark] + mark + "\x1b[0m")
		} else {
			b.WriteString(mark)
		}
	}
	return b.String()
}
