package linuxhost

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/pkg/version"
)

// allScripts returns every script of a goal, by what it is for.
func allScripts(tb testing.TB, g Goal, f Facts) map[string]string {
	tb.Helper()
	steps, refused := ComputeSteps(g, f)
	if refused != nil {
		tb.Fatal(refused)
	}
	scripts := map[string]string{
		"facts": FactsScript(g), "checks": ChecksScript(steps), "drained": g.script("drained"),
		"cordoned": g.script("cordoned"), "uncordoned": g.script("uncordoned"), "clean": g.script("clean"),
		"identity": IdentityScript(g), string(PutBack): putBack(g, f, PutBack, "").Script,
	}
	for _, step := range steps {
		if step.Check != "" {
			scripts["check of "+string(step.Name)] = step.Check
		}
		switch action := step.Action.(type) {
		case Run:
			scripts[string(step.Name)] = action.Script
			scripts["start of "+string(step.Name)] = StartScript(g, step.Name, "1", "proof", action)
		case Send:
			scripts[string(step.Name)] = SendScript(g, action, 1, 2, true)
		case DrainNode, AwaitControlPlane, AwaitNode, UncordonNode:
		}
	}
	return scripts
}

func digestsOfAll(tb testing.TB) Manifest {
	tb.Helper()
	var text strings.Builder
	for i, v := range []string{"v1.36.3", "v1.36.3+rke2r1", "v1.36.3+k3s1"} {
		for j, name := range []string{"kubeadm", "kubelet", "kubectl", "rke2", "k3s", kubeadmArchive, "k3s-airgap-images-amd64.tar.zst"} {
			fmt.Fprintf(&text, "%064x  %s/linux/amd64/%s\n", 16*i+j+1, v, name)
		}
	}
	parsed, err := ParseManifest(text.String())
	if err != nil {
		tb.Fatal(err)
	}
	return parsed
}

// everyKind calls a function with the scripts of every kind of host and source.
func everyKind(tb testing.TB, try func(name string, scripts map[string]string)) {
	tb.Helper()
	for _, d := range []Distribution{Kubeadm, RKE2, K3s} {
		for source, from := range map[string]Source{"url": {URL: "https://x/{version}/{name}"}, "folder": {HostFolder: "/opt/b"}, "bundle": {Bundle: true}} {
			server := Facts{
				ControlPlane: true, Member: true, LocalServer: "https://[fd00::1]:6443", Cut: d == Kubeadm,
			}
			for role, f := range map[string]Facts{"worker": {}, "server": server} {
				f.Arch, f.Service, f.Installed = "amd64", "kubelet", version.MustParse("v1.35.4")
				g := Goal{
					Distribution: d, Version: version.MustParse("v1.36.3"), Digests: digestsOfAll(tb), Source: from, Snapshot: true, Drain: true,
					Files: []File{{Path: "/etc/kubernetes/patches/etcd a b.json"}}, Before: []string{"echo 'a' \"$b\""}, After: []string{"true"}, KubeletArgs: []Arg{{Name: "max-pods", Value: "50"}},
					PatchesFolder: "/etc/kubernetes/patches",
				}
				try(string(d)+" "+source+" "+role, allScripts(tb, g, f))
			}
		}
	}
}

func parseAsBash(ctx context.Context, script string) error {
	parse := exec.CommandContext(ctx, "bash", "-n")
	parse.Stdin = strings.NewReader(script)
	if out, err := parse.CombinedOutput(); err != nil || len(out) > 0 {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func needs(tb testing.TB, program, source string) {
	tb.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		tb.Fatalf("%s is missing; it comes with %s", program, source)
	}
	tb.Skipf("%s is missing; it comes with %s", program, source)
}

// TestScriptsAreBash has bash parse every script of every kind of host.
func TestScriptsAreBash(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "bash")
	everyKind(t, func(kind string, scripts map[string]string) {
		for name, script := range scripts {
			if err := parseAsBash(t.Context(), script); err != nil {
				t.Errorf("%s of %s: %v\n%s", name, kind, err, script)
			}
		}
	})
}

// TestScriptsPassShellcheck checks each file with what it sources, as scripts/.shellcheckrc has it.
func TestScriptsPassShellcheck(t *testing.T) {
	t.Parallel()
	needs(t, "shellcheck", "Debian's package shellcheck")
	args := append([]string{"--format", "gcc", "--severity", "style"}, scriptFiles(t)...)
	if out, err := exec.CommandContext(t.Context(), "shellcheck", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func scriptFiles(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("scripts/*.sh")
	if err != nil || len(found) == 0 {
		t.Fatalf("there are no scripts: %v", err)
	}
	return found
}

// TestScriptsGetTheirValues: each script of a host has a value for each variable in upper case that
// it reads, and each file is a script of some host.
func TestScriptsGetTheirValues(t *testing.T) {
	t.Parallel()
	assigned := regexp.MustCompile(`(?m)^([A-Z_]+)='`)
	read := regexp.MustCompile(`\$\{?([A-Z][A-Z_]+)`)
	comment := regexp.MustCompile(`(?m)^ *#.*$`)
	// Variables of bash and of the environment, and one that checks.sh sets for the checks.
	given := []string{"PATH", "HOME", "PIPESTATUS", "SECONDS", "KNOWN"}
	texts := map[string]string{}
	for _, file := range scriptFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".sh")
		if !strings.HasPrefix(name, "lib-") {
			texts[name] = script(name).text()
		}
	}
	unseen := maps.Clone(texts)
	everyKind(t, func(kind string, scripts map[string]string) {
		for what, document := range scripts {
			for name, text := range texts {
				values, ok := strings.CutSuffix(document, text)
				if !ok {
					continue
				}
				delete(unseen, name)
				has := names(assigned, values)
				for want := range names(read, comment.ReplaceAllString(text, "")) {
					if !has[want] && !slices.Contains(given, want) {
						t.Errorf("%s of %s: %s.sh reads %s, which has no value", what, kind, name, want)
					}
				}
			}
		}
	})
	delete(unseen, "wrap") // It is a value of start.sh.
	for name := range unseen {
		t.Errorf("no host gets %s.sh", name)
	}
}

// names are the first groups of all matches.
func names(pattern *regexp.Regexp, text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	return found
}

// TestScriptsFailWithReasons: FailureOf knows each reason that a script fails with.
func TestScriptsFailWithReasons(t *testing.T) {
	t.Parallel()
	known, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := names(regexp.MustCompile(`(?m)^\t[A-Za-z]+ +Reason = "([A-Za-z]+)"$`), string(known))
	used := map[string]bool{}
	for _, file := range scriptFiles(t) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for reason := range names(regexp.MustCompile(`\bfail ([A-Z]\w+)\b`), string(content)) {
			used[reason] = true
			if !reasons[reason] && reason != "REASON" {
				t.Errorf("%s fails with %s, which is no Reason", file, reason)
			}
		}
	}
	if len(used) < 5 {
		t.Errorf("the scripts fail with %v only: does the test read them?", used)
	}
	if mark := "printf '" + ReasonMark + "%s: %s"; !strings.Contains(script("lib-job").text(), mark) {
		t.Errorf("lib-job.sh does not have %s", mark)
	}
}

// TestScriptNamesAreConstant: a script's name is a constant everywhere, so no value becomes text of
// a script. The compiler refuses a string as a script; what is left is a conversion.
func TestScriptNamesAreConstant(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	conversions := 0
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "script" {
					conversions++
				}
			}
			return true
		})
	}
	if conversions != 1 {
		t.Errorf("%d conversions to a script: only the name of a sourced file is one", conversions)
	}
}

// TestChecksOfFiles: a file may be larger than an argument of a program, and its content may be
// secret. All users of a host can read arguments.
func TestChecksOfFiles(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "bash")
	dir := t.TempDir()
	content := []byte(strings.Repeat("secret ", 100_000))
	owner, err := exec.CommandContext(t.Context(), "stat", "-c", "%U:%G", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := []File{{
		Path: filepath.Join(dir, "a b"), Owner: strings.TrimSpace(string(owner)),
		Permissions: "0600", Content: content,
	}}
	step := writeStep(Goal{Distribution: Kubeadm}, WriteFiles, "", files, []string{dir}, nil)
	if len(step.Check) > 4096 {
		t.Errorf("the check has %d bytes: does it contain the file?", len(step.Check))
	}
	check := func() CheckResult {
		command := exec.CommandContext(t.Context(), "bash")
		command.Stdin = strings.NewReader(ChecksScript([]Step{step}))
		printed, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		checks, err := ParseChecks(string(printed))
		if err != nil {
			t.Fatal(err)
		}
		return checks[WriteFiles]
	}
	if got := check(); got.Done || got.Output != files[0].Path+" differs" {
		t.Errorf("without the file: %+v", got)
	}
	if err := os.WriteFile(files[0].Path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := check(); !got.Done {
		t.Errorf("with the file: %+v", got)
	}
}

// TestChecksLookForBinaries: the check of a binary that is copied on the host finds out that it is
// missing there. For another source it prints how much has arrived.
func TestChecksLookForBinaries(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "bash")
	dir := t.TempDir()
	there := filepath.Join(dir, "v1.36.3", "linux", "amd64", "kubeadm")
	if err := os.MkdirAll(filepath.Dir(there), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(there, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		source Source
		want   string
	}{
		{"kubeadm", Source{HostFolder: dir}, "part 0 1"},
		{"kubelet", Source{HostFolder: dir}, "missing " + filepath.Join(filepath.Dir(there), "kubelet")},
		{"kubelet", Source{Bundle: true}, "part 0"},
		{"kubelet", Source{URL: "https://x/{version}/{name}"}, "part 0"},
	} {
		g := Goal{
			Distribution: Kubeadm, Version: version.MustParse("v1.36.3"), Folder: dir, Source: test.source,
		}
		step := fetchStep(g, Facts{Arch: "amd64"}, binary{name: test.name, digest: "0"}, "fetch-check")
		command := exec.CommandContext(t.Context(), "bash")
		command.Stdin = strings.NewReader(step.Check)
		// The check ends with 1: the step is not done.
		printed, err := command.Output()
		if got := strings.TrimSpace(string(printed)); got != test.want || command.ProcessState.ExitCode() != 1 {
			t.Errorf("%s from %+v: %q, not %q; %v", test.name, test.source, got, test.want, err)
		}
	}
}

// TestChecksAreNoArguments: see TestChecksOfFiles. A check may grow beyond the limit of arguments.
func TestChecksAreNoArguments(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "bash")
	large := strings.Repeat("# a comment\n", 20_000)
	steps := []Step{
		{Name: "done", Check: large + "true\n"}, {Name: "left", Check: large + "echo x; exit 3\n"},
	}
	command := exec.CommandContext(t.Context(), "bash")
	command.Stdin = strings.NewReader(ChecksScript(steps))
	printed, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseChecks(string(printed))
	if err != nil {
		t.Fatal(err)
	}
	want := make(Checks)
	want["done"], want["left"] = CheckResult{Done: true}, CheckResult{Output: "x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzValues gives scripts values that hold anything: bash parses the script, and reads the values as they are.
func FuzzValues(f *testing.F) {
	needs(f, "bash", "bash")
	f.Add("it's", "$(id)\n`id`")
	f.Add("'; id; '", "\\'\"\\\n")
	f.Add("WINDLASS\n", "\xff\xfe é")
	f.Fuzz(func(t *testing.T, first, second string) {
		if strings.Contains(first+second, "\x00") {
			return // Package transport refuses scripts with NUL bytes.
		}
		script := value{"FIRST", first}.assignment() + value{"SECOND", second}.assignment() +
			`printf '%s|%s' "$FIRST" "$SECOND"`
		command := exec.CommandContext(t.Context(), "bash")
		command.Stdin = strings.NewReader(script)
		if out, err := command.CombinedOutput(); err != nil || string(out) != first+"|"+second {
			t.Fatalf("%q and %q are read as %q: %v", first, second, out, err)
		}
	})
}

// FuzzScripts has bash parse the scripts of goals with any values.
func FuzzScripts(f *testing.F) {
	needs(f, "bash", "bash")
	digests := digestsOfAll(f)
	f.Add("/etc/kubernetes/a", "root:root", "x", "echo 'a'", "max-pods", "50", "https://10.0.0.1:6443", "kubelet")
	f.Add("/etc/kubernetes/'; id; '", "';id;'", "", "\n'\\", "'", "'", "'\"|", "$(id)")
	f.Fuzz(func(t *testing.T, path, owner, content, command, arg, argValue, server, service string) {
		g := Goal{
			Distribution: Kubeadm, Version: version.MustParse("v1.36.3"), Digests: digests, Source: Source{HostFolder: "/opt/b"}, Snapshot: true,
			Files: []File{{Path: path, Owner: owner, Content: []byte(content)}}, Before: []string{command}, KubeletArgs: []Arg{{Name: arg, Value: argValue}},
			PatchesFolder: path, IgnorePreflight: []string{command},
		}
		g.Files = append(g.Files, File{Path: path + "/etcd.json", Content: []byte(content)})
		facts := Facts{Arch: "amd64", Installed: version.MustParse("v1.35.4"), ControlPlane: true, Member: true, LocalServer: server, Service: service, KubeletFlags: content}
		if _, refused := ComputeSteps(g, facts); refused != nil {
			g.Files, g.KubeletArgs = nil, nil
		}
		if _, refused := ComputeSteps(g, facts); refused != nil {
			return
		}
		var all strings.Builder
		scripts := allScripts(t, g, facts)
		for _, name := range slices.Sorted(maps.Keys(scripts)) {
			all.WriteString("(\n" + scripts[name] + "\n)\n")
		}
		if strings.Contains(all.String(), "\x00") {
			return
		}
		if err := parseAsBash(t.Context(), all.String()); err != nil {
			t.Fatalf("%v\n%s", err, all.String())
		}
	})
}
