package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
)

const (
	testVersion = "v0.1.0"
	testImage   = "registry.example.com/windlass"
	testCommit  = "0123456789abcdef0123456789abcdef01234567"
)

var host = platform{runtime.GOOS, runtime.GOARCH}

// folder is what the tests share; TestMain removes it.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "windlass-release-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder) // the system cleans its temporary directory anyway
	os.Exit(code)
}

// program is windlass for this machine: that of `make build`, or built here, once.
var program = sync.OnceValues(func() (string, error) {
	if built := os.Getenv("WINDLASS_PROGRAMS"); built != "" {
		return filepath.Join(built, "windlass"), nil
	}
	target := filepath.Join(folder, "windlass")
	return target, goBuild("../..", "v0.0.0-test")(context.Background(), host, target)
})

// stubSource is a small program that a C compiler would link to libc, because of package net.
const stubSource = `package main

import (
	"fmt"
	"net"
)

var buildVersion string

func main() { fmt.Println("stub", buildVersion, net.IPv4len) }
`

// stub is a small program for this machine, compiled as a release compiles.
var stub = sync.OnceValues(func() (string, error) {
	root, target := filepath.Join(folder, "stub"), filepath.Join(folder, "stub-program")
	err := errors.Join(
		os.MkdirAll(filepath.Join(root, "cmd", "windlass"), 0o755),
		os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/stub\n"), 0o600),
		os.WriteFile(filepath.Join(root, "cmd", "windlass", "main.go"), []byte(stubSource), 0o600),
	)
	if err != nil {
		return "", err
	}
	return target, goBuild(root, testVersion)(context.Background(), host, target)
})

// testOptions are those of a release of all platforms, with a key of its own. The program is windlass for
// this machine, and the stub for all others.
func testOptions(output string) (options, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return options{}, err
	}
	changelog := filepath.Join(folder, "CHANGELOG.md")
	compile := func(_ context.Context, p platform, target string) error {
		source := stub
		if p == host {
			source = program
		}
		built, err := source()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(built)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o755)
	}
	return options{
		root: "../..", changelog: changelog, output: output, version: testVersion, image: testImage,
		commit: testCommit, created: time.Unix(1_790_000_000, 0).UTC(), key: key,
		platforms: releasePlatforms, compile: compile, log: io.Discard,
	}, os.WriteFile(changelog, []byte("# Changelog\n\n## Unreleased\n\n- Later.\n\n## v0.1.0\n\n- First.\n"), 0o600)
}

// built is a release that tests read.
var built = sync.OnceValues(func() (options, error) {
	o, err := testOptions(filepath.Join(folder, "dist"))
	if err != nil {
		return o, err
	}
	return o, release(context.Background(), o)
})

func released(t *testing.T) options {
	t.Helper()
	o, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestNotes(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## Unreleased\n\n- c\n\n## v0.2.0 (2026-11-23)\n\n- b\n\n### Fixed\n\n- b2\n\n" +
		"## v0.2.0-rc.1\n\n- r\n\n## v0.1.0\n\n- a\n\n## v0.0.9\n"
	for version, want := range map[string]string{
		"v0.2.0": "- b\n\n### Fixed\n\n- b2\n",
		"v0.1.0": "- a\n",
		// A version with a suffix may have a section, and needs none.
		"v0.2.0-rc.1":   "- r\n",
		"v0.2.0-acme.1": "Private build of commit " + testCommit + ".\n",
	} {
		if got, err := notesFor(changelog, version, testCommit); err != nil || got != want {
			t.Errorf("the notes of %s are %q, %v", version, got, err)
		}
	}
	// A version that is a prefix of another, one without notes, and one without a section.
	for _, version := range []string{"v0.2", "v0.0.9", "v0.3.0"} {
		if _, err := notesFor(changelog, version, testCommit); err == nil || !strings.Contains(err.Error(), "Fix: write them below a heading \"## "+version) {
			t.Errorf("the notes of %s: %v", version, err)
		}
	}
	want := "- First.\n\nBuilt by " + runtime.Version() + " from commit " + testCommit + ".\n"
	if got := string(read(t, released(t).output, "release-notes.md")); got != want {
		t.Errorf("the release has the notes %q, want %q", got, want)
	}
}

// TestRefused: what is wrong is refused before anything is compiled or removed.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*options)
		want   string
	}{
		"no version":            {func(o *options) { o.version = "abc123" }, "Fix: make release VERSION=v0.1.0"},
		"no registry":           {func(o *options) { o.image = "windlass" }, "Fix: IMAGE=REGISTRY/windlass"},
		"no notes":              {func(o *options) { o.version = "v0.1.1" }, "CHANGELOG.md has no notes for v0.1.1"},
		"no series":             {func(o *options) { o.version = "v0.99.0" }, "Fix: add {major: 0, minor: 99}"},
		"no key":                {func(o *options) { o.key = nil }, "Fix: KEY=FILE or $WINDLASS_RELEASE_KEY, or UNSIGNED=yes"},
		"folder of other files": {func(o *options) { o.output = filepath.Dir(o.changelog) }, "its entry CHANGELOG.md is not of a release"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := testOptions(filepath.Join(t.TempDir(), "dist"))
			if err != nil {
				t.Fatal(err)
			}
			o.changelog = filepath.Join(t.TempDir(), "CHANGELOG.md")
			if err := os.WriteFile(o.changelog, []byte("## v0.1.0\n- a\n## v0.99.0\n- b\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c.change(&o)
			o.compile = func(context.Context, platform, string) error { return errors.New("compiled") }
			if err := release(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, err := os.Stat(o.changelog); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEmptyFolder: a folder is removed only if all its entries are of a release, and one is a program.
func TestEmptyFolder(t *testing.T) {
	t.Parallel()
	all := []string{
		"windlass-darwin-amd64", "windlass-linux-arm64", "windlass-linux-arm64.spdx.json", "image", "image-digest.txt", "metadata.yaml",
		"runtime-extension-components.yaml", "manager-components.yaml", "windlass-0.1.0.tgz", "release-notes.md", "checksums.txt",
		"checksums.txt.sig", "windlass.pub",
	}
	for name, c := range map[string]struct {
		entries []string
		want    string
	}{
		"empty":                 {},
		"release":               {entries: all},
		"interrupted release":   {entries: []string{"windlass-linux-amd64"}},
		"release and a note":    {append(slices.Clone(all), "windlass-notes"), "its entry windlass-notes is not of a release"},
		"release and sources":   {append(slices.Clone(all), ".git"), "its entry .git is not of a release"},
		"sources":               {[]string{"image", "metadata.yaml"}, "it has no program of a release"},
		"name before a program": {[]string{"old-windlass-linux-amd64"}, "is not of a release"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for _, e := range c.entries {
				if err := os.WriteFile(filepath.Join(folder, e), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := emptyFolder(folder)
			left, readErr := os.ReadDir(folder)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if c.want == "" && (err != nil || len(left) > 0) {
				t.Errorf("%d entries are left, %v", len(left), err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(left) != len(c.entries)) {
				t.Errorf("%d of %d entries are left: %v, want %q", len(left), len(c.entries), err, c.want)
			}
		})
	}
}

// TestStatic: a program runs without libc, as the image has none, whether or not there is a C compiler.
func TestStatic(t *testing.T) {
	t.Parallel()
	if host.os != "linux" {
		t.Skip("needs Linux: it looks into an ELF file")
	}
	built, err := stub()
	if err != nil {
		t.Fatal(err)
	}
	checkStatic(t, built, host)
	out, err := exec.CommandContext(t.Context(), built).CombinedOutput()
	if got, want := strings.TrimSpace(string(out)), "stub "+testVersion+" 4"; err != nil || got != want {
		t.Errorf("the program prints %q, %v, want %q", got, err, want)
	}
}

// checkStatic checks that a program for Linux is of its platform and needs no dynamic linker.
func checkStatic(t *testing.T, path string, p platform) {
	t.Helper()
	parsed, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = parsed.Close() }()
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if parsed.Machine != machines[p.arch] {
		t.Errorf("%s is for %s, want %s", path, parsed.Machine, p.arch)
	}
	if slices.ContainsFunc(parsed.Progs, func(s *elf.Prog) bool { return s.Type == elf.PT_INTERP }) {
		t.Errorf("%s needs a dynamic linker", path)
	}
}

// TestSource makes a checkout, and changes it.
func TestSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "a", "--date=1700000000 +0000"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_COMMITTER_DATE=1700000000 +0000")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	commit, created, err := source(t.Context(), dir, "")
	if err != nil || len(commit) != 40 || created.Unix() != 1700000000 {
		t.Errorf("the source is %q of %v, %v", commit, created, err)
	}
	if _, created, err = source(t.Context(), dir, "1234"); err != nil || created.Unix() != 1234 {
		t.Errorf("with SOURCE_DATE_EPOCH the time is %v, %v", created, err)
	}
	if _, _, err = source(t.Context(), dir, "today"); err == nil {
		t.Error("SOURCE_DATE_EPOCH=today is a time")
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err = source(t.Context(), dir, ""); err == nil || !strings.Contains(err.Error(), "Fix: commit them") {
		t.Errorf("of a changed checkout: %v", err)
	}
}

// TestVersions: this module renders with the product's versions of Cluster API, kustomize and the CAs.
func TestVersions(t *testing.T) {
	t.Parallel()
	versions := func(path string) map[string]string {
		parsed, err := modfile.Parse(path, read(t, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, r := range parsed.Require {
			out[r.Mod.Path] = r.Mod.Version
		}
		return out
	}
	product, tool := versions("../../go.mod"), versions("go.mod")
	for _, path := range []string{
		"sigs.k8s.io/cluster-api", "sigs.k8s.io/kustomize/api", "sigs.k8s.io/kustomize/kyaml", "golang.org/x/crypto/x509roots/fallback",
	} {
		if product[path] == "" || product[path] != tool[path] {
			t.Errorf("%s: the product has %q, tools/release %q. Fix: the product's version in both", path, product[path], tool[path])
		}
	}
}

// TestReproducible builds all platforms from two folders, the second time without Go's cache, and
// compares every file.
func TestReproducible(t *testing.T) {
	if os.Getenv("WINDLASS_LONG") == "" {
		t.Skip("needs WINDLASS_LONG=1: it compiles eight binaries")
	}
	copied := filepath.Join(t.TempDir(), "elsewhere")
	if err := copySources("../..", copied); err != nil {
		t.Fatal(err)
	}
	var sums []string
	for _, root := range []string{"../..", copied} {
		o, err := testOptions(filepath.Join(t.TempDir(), "dist"))
		if err != nil {
			t.Fatal(err)
		}
		o.root, o.platforms, o.compile, o.key = root, releasePlatforms, goBuild(root, testVersion), nil
		o.unsigned = true
		if root == copied {
			t.Setenv("GOCACHE", filepath.Join(t.TempDir(), "cache"))
		}
		if err := release(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for _, p := range o.platforms {
			if p.os == "linux" {
				checkStatic(t, filepath.Join(o.output, p.binary()), p)
			}
		}
		sums = append(sums, string(read(t, o.output, checksumsFile)))
		t.Logf("from %s:\n%s", root, sums[len(sums)-1])
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("the second build differs (-first +second):\n%s", diff)
	}
}

// copySources copies the files that git knows or would add.
func copySources(from, to string) error {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = from
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing sources: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
