package page

import (
	"bytes"
	_ "embed" // The page's template and style.
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/windlass-dev/windlass/internal/simulate/whatif"
)

var (
	//go:embed page.html.tmpl
	pageTemplate string
	//go:embed page.css
	pageStyle string
)

// JSON writes the report as it is.
func JSON(w io.Writer, r whatif.Report) error {
	encoder := json.NewEncoder(w)
	// It is read by people too.
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// HTML writes the report as a page that is complete in itself.
func HTML(w io.Writer, r whatif.Report) error {
	parsed, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("reading the page's template: %w", err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, computeModel(r)); err != nil {
		return fmt.Errorf("filling the page's template: %w", err)
	}
	if _, err := w.Write(dropIndentation(text.Bytes())); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// dropIndentation leaves out empty lines and the white space that lines begin with: in a template it is for readers, in a page with thousands of elements it
// is most of the bytes. No text of the page depends on either.
func dropIndentation(page []byte) []byte {
	var kept bytes.Buffer
	for line := range strings.Lines(string(page)) {
		if trimmed := strings.TrimSpace(line); trimmed != "" {
			kept.WriteString(trimmed + "\n")
		}
	}
	return kept.Bytes()
}
