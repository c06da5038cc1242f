package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

//go:generate go -C ../.. run ./test/conformance page

const (
	folder = "test/conformance/requirements"
	page   = "docs/conformance.md"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1) //nolint:gocritic // The process ends: nothing is left to stop.
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	root, err := filepath.Abs(".")
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	documents, err := read(filepath.Join(root, folder))
	switch {
	case err != nil:
		return err
	case len(arguments) == 1 && arguments[0] == "page":
		if err := os.WriteFile(filepath.Join(root, page), []byte(renderPage(documents)), 0o644); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
		return nil
	case len(arguments) > 0 && arguments[0] == "mutants":
		return tryMutants(ctx, root, documents, arguments[1:], out)
	}
	return errors.New("usage: go run ./test/conformance page | mutants [ID...]")
}

// tryMutants tries the mutants of requirements whose id begins with one of ids, or of all. It goes on
// after one that no test notices, and names all of these in the error.
func tryMutants(ctx context.Context, root string, documents []document, ids []string, out io.Writer) error {
	var unnoticed []string
	tried := 0
	for _, d := range documents {
		for _, r := range d.Requirements {
			selected := len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(r.ID, id) })
			if r.Mutant == nil || !selected {
				continue
			}
			var output strings.Builder
			noticed, err := r.run(ctx, root, &output)
			tried++
			switch {
			case err != nil:
				return fmt.Errorf("%w\n%s", err, output.String())
			case noticed:
				fmt.Fprintf(out, "%s noticed by %s\n", r.ID, r.Test)
			default:
				fmt.Fprintf(out, "%s NOT noticed by %s\n", r.ID, r.Test)
				unnoticed = append(unnoticed, r.ID)
			}
		}
	}
	switch {
	case tried == 0:
		return fmt.Errorf("no requirement with a mutant has an id that begins with %q", ids)
	case len(unnoticed) > 0:
		return fmt.Errorf("%d of %d mutants pass their tests: %s", len(unnoticed), tried, strings.Join(unnoticed, ", "))
	}
	return nil
}
