package upstream

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	update  = flag.Bool("update", false, "write testdata/behaviour.txt from what passes")
	only    = flag.String("only", "", "pattern of the only tests of upstream that run")
	below   = flag.String("package", "", "the only package of upstream whose tests run")
	seed    = flag.Int64("seed", 0, "seed of all random sequences, to repeat one that failed")
	against = flag.String("against", "", "version of Cluster API that TestNextVersion compares with")
)

// seedOfClock is the code in upstream's tests that chooses the seed of a random sequence.
const seedOfClock = "time.Now().UnixNano()"

// TestUpstream runs upstream's tests on our code, and compares what ran and passed with the lists. The
// copy that they ran in contains nothing that we replace.
func TestUpstream(t *testing.T) {
	t.Parallel()
	l, err := readLists("testdata")
	if err != nil {
		t.Fatal(err)
	}
	version, err := findVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	useOutDir(t)
	source, err := makeTree(t.Context(), version, l)
	if err != nil {
		t.Fatal(err)
	}
	servers, err := buildServers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result, err := runTree(t.Context(), source, version, run{
		servers: servers, skip: l.skips(), only: *only, packages: chosen(),
	})
	if err != nil {
		t.Fatal(err)
	}
	reportFailures(t, result)
	problems, err := checkCopy(filepath.Join(root, outDir, version), l.replaced)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	switch {
	case *only != "" || *below != "":
	case *update && !t.Failed():
		if err := l.writeBehaviour("testdata", result.topLevel()); err != nil {
			t.Fatal(err)
		}
	default:
		for _, problem := range comparePinned(l, result) {
			t.Error(problem)
		}
	}
}

// chosen returns the packages whose tests run.
func chosen() []string {
	if *below != "" {
		return []string{*below}
	}
	return packages
}

// makeTree returns a copy of Cluster API with our code in it.
func makeTree(ctx context.Context, version string, l *lists) (*tree, error) {
	source, err := readUpstream(ctx, version)
	if err != nil {
		return nil, err
	}
	for _, pkg := range packages {
		missing, err := source.cut(pkg, l.cuts(pkg))
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			return nil, fmt.Errorf("cutting functions from the tests of %s: %s of %s has no %s. "+
				"Fix: change testdata/internals.txt", pkg, upstreamModule, version, strings.Join(missing, ", "))
		}
		if err := setSeed(source, pkg); err != nil {
			return nil, err
		}
	}
	for _, name := range l.replaced {
		if err := source.remove(inReconcilers(name)); err != nil {
			return nil, err
		}
	}
	if err := source.addAdapters(); err != nil {
		return nil, err
	}
	return source, nil
}

// setSeed gives the random sequences of a package the seed of the command line, if there is one.
func setSeed(source *tree, pkg string) error {
	if *seed == 0 {
		return nil
	}
	files, err := source.testFiles(pkg)
	if err != nil {
		return err
	}
	for _, file := range files {
		text := strings.ReplaceAll(string(file.source), seedOfClock, fmt.Sprintf("int64(%d)", *seed))
		if text == string(file.source) {
			continue
		}
		content, err := blankImports(file.name, []byte(text))
		if err != nil {
			return err
		}
		source.replace(file.name, content)
	}
	return nil
}

// runTree writes a copy to its folder and runs tests in it.
func runTree(ctx context.Context, source *tree, version string, r run) (*report, error) {
	dir, err := filepath.Abs(filepath.Join(root, outDir, version))
	if err != nil {
		return nil, fmt.Errorf("finding the folder of the copy: %w", err)
	}
	if err := source.write(dir); err != nil {
		return nil, err
	}
	r.dir = dir
	return r.do(ctx)
}

// reportFailures fails t for each test of upstream that failed, and prints how to repeat the
// random sequences among them.
func reportFailures(t *testing.T, result *report) {
	t.Helper()
	if result.failures != "" {
		t.Errorf("Output of what failed:\n%s", result.failures)
	}
	for _, name := range result.failed() {
		t.Errorf("upstream's test %s", name)
	}
	for _, seed := range result.seeds() {
		t.Errorf("To repeat a random sequence: go test . -run '^TestUpstream$' -args -seed=%s", seed)
	}
}

// comparePinned returns the differences between the list of behaviour and what ran.
func comparePinned(l *lists, result *report) []string {
	type key = testID
	listed, ran := map[key]int{}, map[key]int{}
	for _, b := range l.behaviour {
		listed[key{b.pkg, b.test}] = b.results
	}
	for _, b := range result.topLevel() {
		ran[key{b.pkg, b.test}] = b.results
	}
	const fix = "Fix: if that is right, run `go test . -args -update`"
	var problems []string
	for id, want := range listed {
		if got := ran[id]; got != want {
			problems = append(problems, fmt.Sprintf(
				"%s %s has %d results, and %d in testdata/behaviour.txt. %s", id.pkg, id.test, got, want, fix))
		}
	}
	for id := range ran {
		if _, ok := listed[id]; !ok {
			problems = append(problems, fmt.Sprintf(
				"%s %s ran and is not in testdata/behaviour.txt. %s", id.pkg, id.test, fix))
		}
	}
	slices.Sort(problems)
	return problems
}

// useOutDir locks outDir until the end of the test.
func useOutDir(t *testing.T) {
	t.Helper()
	unlock, err := lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
}

// long skips a test unless WINDLASS_LONG is 1.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("set WINDLASS_LONG=1")
	}
}

// TestSeeds: the seeds of the random sequences that failed are printed, each once.
func TestSeeds(t *testing.T) {
	t.Parallel()
	r := &report{results: map[testID]string{
		{"machinedeployment", "Test_RollingUpdateSequences"}:                                "fail",
		{"machinedeployment", "Test_RollingUpdateSequences/in_place,_random(42)"}:           "fail",
		{"machinedeployment", "Test_RollingUpdateSequences/in_place,_random(42)/one"}:       "fail",
		{"machinedeployment", "Test_RollingUpdateSequences/regular,_3_replicas,_random(0)"}: "fail",
		{"machinedeployment", "Test_OnDeleteSequences/regular,_random(7)"}:                  "fail",
		{"machinedeployment", "Test_OnDeleteSequences/regular,_random(8)"}:                  "pass",
	}}
	if got, want := r.seeds(), []string{"42", "7"}; !slices.Equal(got, want) {
		t.Errorf("seeds %q, want %q", got, want)
	}
}
