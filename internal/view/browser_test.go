package view

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/changereport"
	"github.com/windlass-dev/windlass/internal/gate"
)

// overflow leaves the labels of tables that are cut, and of tiles whose value takes two lines.
const overflow = `addEventListener('load', () => {
const cut = [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.getAttribute('aria-label'));
const tall = [...document.querySelectorAll('dd.number')].filter(e => e.getClientRects()[0].height > 1.6 * parseFloat(getComputedStyle(e).fontSize)).map(e => e.textContent);
document.documentElement.setAttribute('data-cut', [...cut, ...tall].join('; ') || 'nothing');
})`

// TestNothingIsCut: at the width of a small laptop no table of a report needs to be scrolled, and no date of
// a tile is broken into lines.
func TestNothingIsCut(t *testing.T) {
	t.Parallel()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no chromium to look at the page with: `make chromium`")
		}
		t.Skip("there is no chromium to look at the page with")
	}
	r := changeReport(changereport.Ended)
	start := r.Upgrade.Began
	r.Gates = []changereport.Gate{{
		Gate: "maintenance-window-of-production", At: gate.BeforeControlPlaneUpgrade, Version: r.Upgrade.Target,
		State: changereport.GatePassed, Since: start, Passed: start.Add(time.Hour),
		Approval: &changereport.Approval{By: "jane.doe@operations.example.com", Time: start.Add(time.Minute)},
	}}
	for i := range r.Groups {
		r.Groups[i].Began, r.Groups[i].Ended = start, start.Add(time.Hour)
	}
	page := writeChangeReport(t, HTML, r)
	page = strings.Replace(page, "default-src 'none'; style-src", "default-src 'none'; script-src 'unsafe-inline'; style-src", 1)
	page = strings.Replace(page, "</body>", "<script>"+overflow+"</script></body>", 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	var dom, said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--no-first-run", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+filepath.Join(dir, "profile"), fmt.Sprintf("--window-size=%d,2000", 1100),
		"--dump-dom", "file://"+file)
	cmd.Stdout, cmd.Stderr = &dom, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	found := regexp.MustCompile(`data-cut="([^"]*)"`).FindStringSubmatch(dom.String())
	if len(found) != 2 || found[1] != "nothing" {
		t.Errorf("cut at 1100 pixels: %q", found)
	}
}
