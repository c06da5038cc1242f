package page

import (
	_ "embed" // The page's template.
	"encoding/json"
	"fmt"
	"io"

	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
)

//go:embed page.html.tmpl
var pageTemplate string

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
	return htmlpage.Write(w, pageTemplate, computeModel(r))
}
