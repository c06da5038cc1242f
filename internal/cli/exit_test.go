package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
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
