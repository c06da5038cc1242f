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

// tryMutants tries the mutants of the requirements and documents with these ids, or all. It continues
// after one that no test notices or that cannot be tried, and names all of these in the error.
func tryMutants(ctx context.Context, root string, documents []document, ids []string, out io.Writer) error {
	var unnoticed []string
	tried := 0
	for _, d := range documents {
		for _, r := range d.Requirements {
			isWanted := len(ids) == 0 || slices.Contains(ids, r.ID) || slices.Contains(ids, d.Number)
			if r.Mutant == nil || !isWanted || ctx.Err() != nil {
				continue
			}
			var output strings.Builder
			noticed, err := r.run(ctx, root, &output)
			tried++
			if noticed {
				fmt.Fprintf(out, "%s noticed by %s\n", r.ID, r.Test)
				continue
			}
			unnoticed = append(unnoticed, r.ID)
			if err != nil {
				fmt.Fprintf(out, "%s: %v\n%s\n", r.ID, err, output.String())
			} else {
				fmt.Fprintf(out, "%s NOT noticed by %s\n", r.ID, r.Test)
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case tried == 0:
		return fmt.Errorf("no requirement with a mutant, and no document, has an id of %q. Fix: write 003 or 003-07", ids)
	case len(unnoticed) > 0:
		return fmt.Errorf("%d of %d mutants are not noticed: %s", len(unnoticed), tried, strings.Join(unnoticed, ", "))
	}
	return nil
}
