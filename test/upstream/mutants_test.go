package upstream

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
)

// TestMutants: upstream's tests notice each listed change to our code, without an API server.
func TestMutants(t *testing.T) {
	long(t)
	l, err := readLists("testdata")
	if err != nil {
		t.Fatal(err)
	}
	version, err := findVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	useOutDir(t)
	for _, m := range l.mutants {
		t.Run(m.String(), func(t *testing.T) {
			if err := checkMutant(t.Context(), l, version, m); err != nil {
				t.Error(err)
			}
			t.Logf("noticed: %t", !t.Failed())
		})
	}
}

// checkMutant returns an error if upstream's tests pass on a mutant, or do not build.
func checkMutant(ctx context.Context, l *lists, version string, m mutant) error {
	source, err := makeTree(ctx, version, l)
	if err != nil {
		return err
	}
	dir := strings.TrimPrefix(moveImport(ownModule+"/"+path.Dir(m.file)), upstreamModule+"/")
	name := path.Join(dir, path.Base(m.file))
	content, err := source.read(name)
	if err != nil {
		return fmt.Errorf("reading %s: no adapter imports it, or %w", m.file, err)
	}
	source.replace(name, bytes.Replace(content, []byte(m.old), []byte(m.changed), 1))

	var skips []string
	if skip := l.skips(); skip != "" {
		skips = append(skips, skip)
	}
	for _, b := range l.behaviour {
		if b.server {
			skips = append(skips, testPattern(b.test))
		}
	}
	result, err := runTree(ctx, source, version, run{
		skip: strings.Join(skips, "|"), packages: m.packages, failFast: true,
	})
	if err != nil {
		return err
	}
	failed := 0
	for id, how := range result.results {
		if id.test != "" && how == "fail" {
			failed++
		}
	}
	switch {
	case failed > 0 || strings.Contains(result.failures, "panic: "):
		return nil
	case result.failures != "":
		return fmt.Errorf("upstream's tests do not build with it:\n%s", result.failures)
	default:
		return fmt.Errorf("all of upstream's tests pass with it")
	}
}
