package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
)

// browserTime is far more than a start of the browser takes.
const browserTime = 2 * time.Minute

// findBrowser skips the test where there is no browser, but not where there has to be one.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(program); err == nil {
			return path
		}
	}
	const missing = "there is no chromium to look at the page with: install it, on Debian by `apt-get install chromium fonts-dejavu-core` or `make chromium`"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

type rectangle struct{ X, Y, Width, Height float64 }

func (r rectangle) right() float64  { return r.X + r.Width }
func (r rectangle) bottom() float64 { return r.Y + r.Height }

type measuredBar struct {
	Box         rectangle
	Fill, Title string
}

type measuredBars struct {
	Label string
	SVG   rectangle
	Rects []measuredBar
}

// measured is what measure.js leaves.
type measured struct {
	Width, ScrollWidth, Height int
	Dark                       bool
	Resources, Outside         []string
	Axes                       []struct {
		Kind  string
		SVG   rectangle
		Texts []struct {
			Text string
			Box  rectangle
		}
	}
	Comparison, Spreads, Timeline []measuredBars
	Areas                         []struct {
		SVG    rectangle
		Layers []struct {
			Fill, Kind       string
			Top, Left, Width float64
		}
	}
	Contrasts []struct {
		Text, Ground, Example string
		Size                  float64
	}
	Unnamed int
}

// The widths that pages are looked at with: a desktop's, and a small phone's.
const (
	desktop = 1280
	phone   = 360
	// gap is between the two on a screenshot.
	gap = 20
	// tall is as high as frames and screenshots are: high enough for the first variant.
	tall = 5200
)

// photograph shows a page in two frames beside each other, one as wide as a desktop and one as wide as a phone, because a browser's window cannot be as narrow as a phone.
func photograph(t *testing.T, page string, dark bool) (shots [2]measured, picture image.Image) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("testdata", "measure.js"))
	if err != nil {
		t.Fatalf("reading the script: %v", err)
	}
	copied := strings.Replace(page, "default-src 'none'; style-src", "default-src 'none'; script-src 'unsafe-inline'; style-src", 1)
	copied = strings.ReplaceAll(copied, "<details>", "<details open>")
	copied = strings.Replace(copied, "</body>", "<script>"+string(script)+"</script></body>", 1)
	frames := fmt.Sprintf(`<!DOCTYPE html><html><head><meta name="color-scheme" content="light dark"><style>body{margin:0;display:flex;gap:%dpx}iframe{border:0;flex:none}</style></head><body>`, gap)
	for _, width := range []int{desktop, phone} {
		frames += fmt.Sprintf(`<iframe width="%d" height="%d" srcdoc="`, width, tall) + html.EscapeString(copied) + `"></iframe>`
	}
	frames += `<script>addEventListener('load', () => document.querySelectorAll('iframe').forEach((f, i) =>
		document.documentElement.setAttribute('data-frame' + i, f.contentDocument.documentElement.getAttribute('data-measured'))))</script></body></html>`
	dir := t.TempDir()
	dom, shot := runBrowser(t, dir, frames, dark)
	for i := range shots {
		found := regexp.MustCompile(fmt.Sprintf(`data-frame%d="([^"]*)"`, i)).FindSubmatch(dom)
		if found == nil {
			t.Fatalf("nothing was measured in frame %d", i)
		}
		if err := json.Unmarshal([]byte(html.UnescapeString(string(found[1]))), &shots[i]); err != nil {
			t.Fatalf("reading what was measured: %v", err)
		}
	}
	return shots, shot
}

func runBrowser(t *testing.T, dir, page string, dark bool) ([]byte, image.Image) {
	t.Helper()
	file, shot := filepath.Join(dir, "page.html"), filepath.Join(dir, "shot.png")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatalf("writing the page: %v", err)
	}
	scheme := 1
	if dark {
		scheme = 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	var dom, said bytes.Buffer
	browser := exec.CommandContext(ctx, findBrowser(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1",
		"--user-data-dir="+filepath.Join(dir, "profile"), fmt.Sprintf("--window-size=%d,%d", desktop+gap+phone, tall),
		fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme), "--screenshot="+shot, "--dump-dom", "file://"+file)
	browser.Stdout, browser.Stderr = &dom, &said
	if err := browser.Run(); err != nil {
		t.Fatalf("running the browser: %v\n%s", err, said.String())
	}
	taken, err := os.ReadFile(shot)
	if err != nil {
		t.Fatalf("no screenshot: %v\n%s", err, said.String())
	}
	picture, err := png.Decode(bytes.NewReader(taken))
	if err != nil {
		t.Fatalf("reading the screenshot: %v", err)
	}
	return dom.Bytes(), picture
}

// The page is looked at in a browser: nothing is too wide or covers something else, what is drawn has the size of its number and the colour of its version,
// and everything can be read.
func TestPageInBrowser(t *testing.T) {
	findBrowser(t)
	for name, report := range map[string]whatif.Report{"fleet": sampleReport(t, 12, 20), "small": smallReport()} {
		page := render(t, HTML, report)
		for _, dark := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/dark=%v", name, dark), func(t *testing.T) {
				shots, picture := photograph(t, page, dark)
				for i, width := range []int{desktop, phone} {
					t.Run(fmt.Sprint(width), func(t *testing.T) {
						m := shots[i]
						if m.Width != width || m.Dark != dark {
							t.Fatalf("a frame %d wide, dark %v", m.Width, m.Dark)
						}
						checkLayout(t, m)
						checkAxes(t, m)
						checkContrast(t, m)
						checkComparison(t, m, report)
						checkTimeline(t, m, report)
						checkPicture(t, m, report, picture, i*(desktop+gap))
					})
				}
			})
		}
	}
}

func checkLayout(t *testing.T, m measured) {
	t.Helper()
	if m.ScrollWidth > m.Width || len(m.Outside) > 0 {
		t.Errorf("the page is %d wide on a screen of %d; outside are %q", m.ScrollWidth, m.Width, m.Outside)
	}
	if len(m.Resources) > 0 {
		t.Errorf("the page loads %q", m.Resources)
	}
	if m.Unnamed > 0 {
		t.Errorf("%d charts have no name", m.Unnamed)
	}
}

func checkAxes(t *testing.T, m measured) {
	t.Helper()
	if len(m.Axes) < 5 {
		t.Fatalf("%d axes", len(m.Axes))
	}
	for _, axis := range m.Axes {
		if len(axis.Texts) < 2 {
			t.Errorf("an axis %q with %d labels", axis.Kind, len(axis.Texts))
		}
		for i, text := range axis.Texts {
			if text.Box.X < axis.SVG.X-1 || text.Box.right() > axis.SVG.right()+1 {
				t.Errorf("label %q reaches out of its axis", text.Text)
			}
			for _, other := range axis.Texts[:i] {
				a, b := text.Box, other.Box
				if a.X < b.right()+2 && b.X < a.right()+2 && a.Y < b.bottom() && b.Y < a.bottom() {
					t.Errorf("labels %q and %q of axis %q cover each other", other.Text, text.Text, axis.Kind)
				}
			}
		}
	}
}

// leastContrast is what WCAG 2 asks of text at level AA.
const leastContrast = 4.5

func checkContrast(t *testing.T, m measured) {
	t.Helper()
	if len(m.Contrasts) < 3 {
		t.Fatalf("%d pairs of colours", len(m.Contrasts))
	}
	for _, pair := range m.Contrasts {
		if got := contrast(parseColour(t, pair.Text), parseColour(t, pair.Ground)); got < leastContrast {
			t.Errorf("%s on %s has a contrast of %.2f: %s", pair.Text, pair.Ground, got, pair.Example)
		}
	}
}

func checkComparison(t *testing.T, m measured, r whatif.Report) {
	t.Helper()
	if len(m.Comparison) != len(r.Variants) {
		t.Fatalf("%d rows of %d variants", len(m.Comparison), len(r.Variants))
	}
	end := 0.0
	for _, v := range r.Variants {
		if v.Duration != nil {
			end = max(end, v.Duration.P90Seconds)
		}
	}
	for i, row := range m.Comparison {
		d := r.Variants[i].Duration
		if d == nil {
			if len(row.Rects) != 0 {
				t.Errorf("variant %d is not completed, and has a bar", i)
			}
			continue
		}
		if len(row.Rects) != 1 {
			t.Fatalf("variant %d has %d bars", i, len(row.Rects))
		}
		bar, spread := row.Rects[0].Box, m.Spreads[i].Rects[0].Box
		near(t, "the bar's width", bar.Width, row.SVG.Width*d.P50Seconds/end)
		near(t, "the bar's beginning", bar.X, row.SVG.X)
		near(t, "the line's beginning", spread.X, row.SVG.X+row.SVG.Width*d.P10Seconds/end)
		near(t, "the line's end", spread.right(), row.SVG.X+row.SVG.Width*d.P90Seconds/end)
	}
}

func checkTimeline(t *testing.T, m measured, r whatif.Report) {
	t.Helper()
	median := r.Variants[0].Median
	rows := median.Charts.Timeline
	if len(m.Timeline) != len(rows) {
		t.Fatalf("%d rows of %d", len(m.Timeline), len(rows))
	}
	fills := map[string]string{}
	for i, row := range rows {
		drawn := m.Timeline[i]
		if len(drawn.Rects) != len(row.Bars) {
			t.Fatalf("row %q has %d bars of %d", drawn.Label, len(drawn.Rects), len(row.Bars))
		}
		for j, bar := range row.Bars {
			rect := drawn.Rects[j]
			near(t, "the beginning of "+rect.Title, rect.Box.X, drawn.SVG.X+drawn.SVG.Width*bar.BeganSeconds/median.DurationSeconds)
			near(t, "the end of "+rect.Title, rect.Box.right(), drawn.SVG.X+drawn.SVG.Width*bar.EndedSeconds/median.DurationSeconds)
			if known, same := fills[bar.To]; same && known != rect.Fill {
				t.Errorf("version %q has the colours %s and %s", bar.To, known, rect.Fill)
			}
			fills[bar.To] = rect.Fill
		}
	}
	seen := map[string]string{}
	for version, fill := range fills {
		if other, taken := seen[fill]; taken {
			t.Errorf("%q and %q have the same colour %s", version, other, fill)
		}
		seen[fill] = version
	}
}

// near compares places on the screen, in pixels. Positions are written with two digits of a percentage.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.75 {
		t.Errorf("%s is at %.1f, want %.1f", what, got, want)
	}
}

// checkPicture looks for the colours where they were measured. Offset is where the frame begins.
func checkPicture(t *testing.T, m measured, r whatif.Report, picture image.Image, offset int) {
	t.Helper()
	at := func(x, y float64) color.RGBA {
		r, g, b, _ := picture.At(offset+int(x), int(y)).RGBA()
		return color.RGBA{R: uint8(r >> 8), G: uint8(g >> 8), B: uint8(b >> 8), A: 255}
	}
	ground, ink := at(2, 2), 0
	for y := range 600 {
		for x := range m.Width {
			if at(float64(x), float64(y)) != ground {
				ink++
			}
		}
	}
	if ink < 600*m.Width/50 {
		t.Errorf("the picture is almost blank: %d pixels", ink)
	}
	looked := 0
	for _, bars := range [][]measuredBars{m.Comparison, m.Timeline} {
		for _, row := range bars {
			for _, bar := range row.Rects {
				if bar.Box.Width < 6 || bar.Box.bottom() > tall || strings.HasPrefix(bar.Fill, "url") {
					continue
				}
				looked++
				want := parseColour(t, bar.Fill)
				if got := at(bar.Box.X+bar.Box.Width/3, bar.Box.Y+bar.Box.Height/2); distance(got, want) > 6 {
					t.Errorf("%s: %v where %v should be", bar.Title, got, want)
				}
			}
		}
	}
	if looked < 3 {
		t.Errorf("only %d bars were looked at", looked)
	}
	checkVersions(t, m, r, at)
	// What is in flight is drawn up to the highest number, on an axis that ends at the next tick.
	flight := m.Areas[len(m.Areas)-1]
	median := r.Variants[0].Median
	_, top := htmlpage.MachineTicks(float64(median.MaxInFlight))
	near(t, "the peak of what is in flight", flight.Layers[0].Top, (1-float64(median.MaxInFlight)/top)*htmlpage.PlotWidth)
}

// checkVersions counts pixels of the chart of machines by version: each version covers as much of it as machines had it for how long.
func checkVersions(t *testing.T, m measured, r whatif.Report, at func(x, y float64) color.RGBA) {
	t.Helper()
	charts := r.Variants[0].Median.Charts
	area := m.Areas[0]
	if area.SVG.bottom() > tall {
		t.Fatalf("the chart ends at %.0f, below the picture", area.SVG.bottom())
	}
	most := 0.0
	for _, p := range charts.Machines {
		most = max(most, sum(p.Counts))
	}
	_, top := htmlpage.MachineTicks(most)
	end := r.Variants[0].Median.DurationSeconds
	total := (area.SVG.Width - 2) * (area.SVG.Height - 2)
	for i, layer := range area.Layers {
		want := 0.0
		for k, p := range charts.Machines {
			until := end
			if k+1 < len(charts.Machines) {
				until = charts.Machines[k+1].AtSeconds
			}
			want += float64(p.Counts[i]) * (until - p.AtSeconds) / end / top
		}
		fill, pixels := parseColour(t, layer.Fill), 0.0
		for y := area.SVG.Y + 1; y < area.SVG.bottom()-1; y++ {
			for x := area.SVG.X + 1; x < area.SVG.right()-1; x++ {
				if distance(at(x, y), fill) < 8 {
					pixels++
				}
			}
		}
		// Lines of the grid, and those between versions, take a part of it.
		if got := pixels / total; got > want+0.02 || got < want*0.9-0.02 {
			t.Errorf("%s covers %.3f of the chart, want %.3f", charts.Versions[i], got, want)
		}
	}
}

func parseColour(t *testing.T, css string) color.RGBA {
	t.Helper()
	c := color.RGBA{A: 255}
	if _, err := fmt.Sscanf(strings.ReplaceAll(css, " ", ""), "rgb(%d,%d,%d)", &c.R, &c.G, &c.B); err != nil {
		t.Fatalf("%q is no colour: %v", css, err)
	}
	return c
}

func distance(a, b color.RGBA) int {
	far := 0
	for _, d := range []int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
		far = max(far, d, -d)
	}
	return far
}

// linear is how much light a channel gives, from 0 to 1.
func linear(channel uint8) float64 {
	c := float64(channel) / 255
	if c <= 0.04045 {
		return c / 12.92
	}
	return math.Pow((c+0.055)/1.055, 2.4)
}

func luminance(c color.RGBA) float64 {
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// contrast is that of WCAG 2, from 1 to 21.
func contrast(a, b color.RGBA) float64 {
	x, y := luminance(a)+0.05, luminance(b)+0.05
	return max(x, y) / min(x, y)
}
