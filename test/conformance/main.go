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
	"strconv"
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
		return tryMutants(ctx, root, pick(documents, arguments[1:], testOf), testOf, out)
	case len(arguments) > 0 && arguments[0] == "live":
		return tryMutants(ctx, root, pick(documents, arguments[1:], liveOf), liveOf, out)
	case len(arguments) == 3 && arguments[0] == "sample":
		return trySample(ctx, root, pick(documents, nil, liveOf), arguments[1:], out)
	}
	return errors.New("usage: go run ./test/conformance page | mutants [ID...] | live [ID...] | sample COUNT NUMBER")
}

func testOf(r requirement) place { return r.Test }

func liveOf(r requirement) place { return r.Live }

// pick returns the requirements with a mutant and a test of one sort that have these ids, or whose document
// has, or all.
func pick(documents []document, ids []string, test func(requirement) place) (picked []requirement) {
	for _, d := range documents {
		for _, r := range d.Requirements {
			isWanted := len(ids) == 0 || slices.Contains(ids, r.ID) || slices.Contains(ids, d.Number)
			if r.Mutant != nil && test(r) != (place{}) && isWanted {
				picked = append(picked, r)
			}
		}
	}
	return picked
}

// trySample tries count of some mutants against the live tests. As number grows by 1, all have their turn.
func trySample(ctx context.Context, root string, all []requirement, of []string, out io.Writer) error {
	count, errCount := strconv.Atoi(of[0])
	number, errNumber := strconv.Atoi(of[1])
	if errCount != nil || errNumber != nil || count < 1 || count > len(all) || number < 0 {
		return fmt.Errorf("a sample is COUNT of %d, and a NUMBER from 0 on, not %q", len(all), of)
	}
	var sample []requirement
	for i := range count {
		sample = append(sample, all[(number*count+i)%len(all)])
	}
	return tryMutants(ctx, root, sample, liveOf, out)
}

// tryMutants tries the mutants of requirements. It continues after one that no test notices or that cannot
// be tried, and names all of these in the error.
func tryMutants(
	ctx context.Context, root string, all []requirement, test func(requirement) place, out io.Writer,
) error {
	var unnoticed []string
	for _, r := range all {
		if ctx.Err() != nil {
			break
		}
		var output strings.Builder
		noticed, err := r.run(ctx, root, test(r), &output)
		if noticed {
			fmt.Fprintf(out, "%s noticed by %s\n", r.ID, test(r))
			continue
		}
		unnoticed = append(unnoticed, r.ID)
		if err != nil {
			fmt.Fprintf(out, "%s: %v\n%s\n", r.ID, err, output.String())
		} else {
			fmt.Fprintf(out, "%s NOT noticed by %s\n", r.ID, test(r))
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case len(all) == 0:
		return errors.New("no requirement with a mutant has such an id. Fix: write 003 or 003-07")
	case len(unnoticed) > 0:
		return fmt.Errorf("%d of %d mutants are not noticed: %s", len(unnoticed), len(all), strings.Join(unnoticed, ", "))
	}
	return nil
}
