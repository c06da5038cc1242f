package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestExitCodesAreDocumented compares the table with its page.
func TestExitCodesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| Code | Meaning |\n|---|---|\n")
	for _, row := range exitCodes {
		fmt.Fprintf(&want, "| %d | %s |\n", row.code, row.meaning)
	}
	if !strings.HasSuffix(string(page), want.String()) {
		t.Errorf("docs/reference/exit-codes.md does not end with\n%s", want.String())
	}
}

// TestErrorsArePrintable checks that an error keeps its lines, and shows no control sequence to a terminal.
func TestErrorsArePrintable(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "windlass", RunE: func(*cobra.Command, []string) error {
		return errors.New("Machine \x1b[2Jm-1 failed:\n\tno space")
	}}
	root.SetArgs([]string{})
	var stderr strings.Builder
	if code := Run(t.Context(), root, &stderr); code != ExitFailure {
		t.Errorf("the exit code is %d, want %d", code, ExitFailure)
	}
	if got, want := stderr.String(), "windlass: Machine \uFFFD[2Jm-1 failed:\n\tno space\n"; got != want {
		t.Errorf("stderr is %q, want %q", got, want)
	}
}
