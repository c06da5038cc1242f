package main

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/test/apiserver"
)

// sample is a command that a page shows with its output.
type sample struct {
	page    string
	command []string
	// output is what the page shows. A line "…" stands for any number of lines.
	output string
}

// slow begins the commands that only the long battery runs, because they take a minute.
const slow = "windlass simulate --scenario config/samples/simulate/telco.yaml"

// TestSamples runs every command that a page shows with its output ("$ windlass …" in a console block), in a terminal of
// 100 columns, and compares. WINDLASS_UPDATE=1 writes the pages again.
func TestSamples(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	binary, kubeconfig := linkToTest(t), serveSamples(t)
	samples := readSamples(t)
	if len(samples) < 5 {
		t.Fatalf("the pages have only %d samples", len(samples))
	}
	for _, s := range samples {
		line := strings.Join(s.command, " ")
		t.Run(s.page+"/"+line, func(t *testing.T) {
			if strings.HasPrefix(line, slow) && os.Getenv("WINDLASS_LONG") == "" {
				t.Skip("set WINDLASS_LONG=1 to run this, too")
			}
			cmd := exec.CommandContext(t.Context(), binary, s.command[1:]...)
			cmd.Env = append(os.Environ(), "COLUMNS=100", "KUBECONFIG="+kubeconfig)
			out, err := cmd.Output()
			// Some commands report what they found by their exit code as well.
			if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
				t.Fatal(err)
			}
			want, got := selectLines(mask(s.output), mask(string(out)))
			if len(want) < 5 {
				t.Errorf("the page shows only %q", want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				if os.Getenv("WINDLASS_UPDATE") != "" && !strings.Contains(s.output, "…") {
					rewrite(t, s, string(out))
					return
				}
				t.Errorf("%s shows something else (-page +command):\n%s", s.page, diff)
			}
		})
	}
}

// linkToTest returns a program that is windlass: this test under that name.
func linkToTest(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "windlass")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// serveSamples serves the objects that the samples are about, and returns a kubeconfig.
func serveSamples(t *testing.T) string {
	t.Helper()
	now := time.Now().UTC()
	objects, err := template.New("objects.yaml").Funcs(template.FuncMap{
		"ago": func(d string) (string, error) {
			parsed, err := time.ParseDuration(d)
			return now.Add(-parsed).Format(time.RFC3339), err
		},
		"machines": func() []string { return []string{"my-cluster-md-0-5dpnf", "my-cluster-md-0-q9wzt"} },
	}).ParseFiles(filepath.Join("cmd", "windlass", "testdata", "samples", "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	var text bytes.Buffer
	if err := objects.Execute(&text, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "objects.yaml"), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	handler, err := apiserver.New(folder)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(apiserver.Kubeconfig(server)), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

var consoleBlock = regexp.MustCompile("(?ms)^ *```console\n *[$] (windlass .*?)\n(.*?) *```$")

// elsewhere counts the console blocks of a page that other tests run: lab/test/updater has a test host.
var elsewhere = map[string]int{"docs/how-to/upgrade-linux-hosts.md": 1}

// readPages returns the paths of the README and of all pages of docs.
func readPages(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md"}
	err := filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func readSamples(t *testing.T) []sample {
	t.Helper()
	var samples []sample
	for _, page := range readPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		matches := consoleBlock.FindAllStringSubmatch(string(text), -1)
		if blocks := strings.Count(string(text), "```console"); blocks != len(matches)+elsewhere[page] {
			t.Errorf("%s has %d console blocks, and %d begin with \"$ windlass\"", page, blocks, len(matches))
		}
		for _, match := range matches {
			samples = append(samples, sample{page: page, command: strings.Fields(match[1]), output: unindent(match[2])})
		}
	}
	return samples
}

// unindent removes the indent of the first line from all lines: blocks in lists have one.
func unindent(text string) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	if indent == "" {
		return text
	}
	return strings.ReplaceAll("\n"+text, "\n"+indent, "\n")[1:]
}

var seconds = regexp.MustCompile(`in \d+\.\d s`)

// mask replaces what differs from run to run.
func mask(text string) string { return seconds.ReplaceAllString(text, "in N s") }

// selectLines drops from got what lines "…" of want stand for.
func selectLines(want, got string) (wanted, selected []string) {
	rest := strings.Split(got, "\n")
	skipping := false
	for line := range strings.SplitSeq(want, "\n") {
		if strings.TrimSpace(line) == "…" {
			skipping = true
			continue
		}
		for skipping && len(rest) > 0 && rest[0] != line {
			rest = rest[1:]
		}
		skipping = false
		wanted = append(wanted, line)
		if len(rest) > 0 {
			selected, rest = append(selected, rest[0]), rest[1:]
		}
	}
	if !skipping {
		selected = append(selected, rest...)
	}
	return wanted, selected
}

func rewrite(t *testing.T, s sample, output string) {
	t.Helper()
	text, err := os.ReadFile(s.page)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, []byte("$ "+strings.Join(s.command, " ")+"\n"))
	lineStart := bytes.LastIndexByte(text[:at], '\n') + 1
	indent := string(text[lineStart:at])
	begin := at + bytes.IndexByte(text[at:], '\n') + 1
	end := begin + bytes.Index(text[begin:], []byte(indent+"```\n"))
	var indented strings.Builder
	for line := range strings.Lines(output) {
		if line != "\n" {
			line = indent + line
		}
		indented.WriteString(line)
	}
	if err := os.WriteFile(s.page, append(append(bytes.Clone(text[:begin]), indented.String()...), text[end:]...), 0o600); err != nil {
		t.Fatal(err)
	}
}
