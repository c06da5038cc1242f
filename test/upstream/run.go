package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

// report is the result of a run of upstream's tests.
type report struct {
	// results has "pass", "fail" or "skip" by PACKAGE and test or subtest.
	results map[testID]string
	// failures is the output of the tests that failed, of packages that did not build, and of
	// packages that ended without a result.
	failures string
}

type testID struct{ pkg, test string }

// run says which tests run, and how.
type run struct {
	dir string
	// servers is the folder of etcd and kube-apiserver. If it is empty, there is no API server.
	servers string
	// skip and only are patterns for -skip and -run.
	skip, only string
	packages   []string
	failFast   bool
}

// event is a line of `go test -json`.
type event struct{ Action, Package, ImportPath, Test, Output string }

// do runs tests. A test that fails is no error.
func (r run) do(ctx context.Context) (*report, error) {
	args := []string{"test", "-json", "-count=1", "-vet=off", "-timeout", "20m"}
	if r.skip != "" {
		args = append(args, "-skip", r.skip)
	}
	if r.only != "" {
		args = append(args, "-run", r.only)
	}
	if r.failFast {
		args = append(args, "-failfast")
	}
	for _, pkg := range r.packages {
		args = append(args, "./"+inReconcilers(pkg))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "KUBEBUILDER_ASSETS="+r.servers)
	if r.servers == "" {
		cmd.Env = append(cmd.Env, "CAPI_DISABLE_TEST_ENV=1")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting upstream's tests: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting upstream's tests: %w", err)
	}
	result, readErr := readReport(out)
	err = cmd.Wait()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && readErr == nil {
		result.failures += stderr.String()
		err = nil
	}
	if err := errors.Join(readErr, err); err != nil {
		return nil, fmt.Errorf("running upstream's tests: %w: %s", err, stderr.String())
	}
	return result, nil
}

// readReport reads the output of `go test -json`. It keeps only the output of what failed.
func readReport(in io.Reader) (*report, error) {
	result := &report{results: map[testID]string{}}
	outputs, failedIn := map[testID]*strings.Builder{}, map[string]bool{}
	var failures strings.Builder
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			result.failures = failures.String()
			return result, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading results: %w", err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading a result: %w: %s", err, line)
		}
		id := testID{path.Base(e.Package), e.Test}
		switch e.Action {
		case "build-output":
			failures.WriteString(e.Output)
		case "output":
			if outputs[id] == nil {
				outputs[id] = &strings.Builder{}
			}
			outputs[id].WriteString(e.Output)
		case "pass", "skip", "fail":
			result.results[id] = e.Action
			// The output of a package is a log, which matters only where no test failed.
			if e.Action == "fail" && outputs[id] != nil && (e.Test != "" || !failedIn[id.pkg]) {
				failures.WriteString(tail(outputs[id].String()))
			}
			failedIn[id.pkg] = failedIn[id.pkg] || e.Action == "fail"
			delete(outputs, id)
		}
	}
}

// tail returns the end of a text, at most 20,000 bytes.
func tail(text string) string {
	const most = 20000
	if len(text) <= most {
		return text
	}
	return "[...]\n" + text[len(text)-most:]
}

// topLevel returns the tests that ran, with the number of their results.
func (r *report) topLevel() []behaviour {
	counts := map[testID]int{}
	for id := range r.results {
		if id.test != "" {
			test, _, _ := strings.Cut(id.test, "/")
			counts[testID{id.pkg, test}]++
		}
	}
	var all []behaviour
	for id, count := range counts {
		all = append(all, behaviour{pkg: id.pkg, test: id.test, results: count})
	}
	return all
}

// failed returns the sorted names of the tests, subtests and packages that did not pass.
func (r *report) failed() []string {
	var names []string
	for id, result := range r.results {
		if result != "pass" {
			names = append(names, strings.TrimSpace(id.pkg+" "+id.test)+": "+result)
		}
	}
	slices.Sort(names)
	return names
}

// seedName matches the part of a name that has the seed of a random sequence.
var seedName = regexp.MustCompile(`random\(([1-9][0-9]*)\)`)

// seeds returns the seeds of the random sequences that failed.
func (r *report) seeds() []string {
	var seeds []string
	for _, name := range r.failed() {
		if match := seedName.FindStringSubmatch(name); match != nil {
			seeds = append(seeds, match[1])
		}
	}
	slices.Sort(seeds)
	return slices.Compact(seeds)
}
