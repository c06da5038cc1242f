package htmlpage

import (
	"bytes"
	_ "embed" // The style and the shared templates.
	"fmt"
	"html/template"
	"io"
	"strings"
)

var (
	//go:embed style.css
	style string
	//go:embed shared.html.tmpl
	shared string
)

// Style is what a page's style element contains.
func Style() template.CSS { return template.CSS(style) } //nolint:gosec // It is part of the program.

// Write fills a template with a model, and writes the page.
func Write(w io.Writer, text string, model any) error {
	parsed, err := template.New("shared").Parse(shared)
	if err == nil {
		parsed, err = parsed.New("page").Parse(text)
	}
	if err != nil {
		return fmt.Errorf("reading the page's template: %w", err)
	}
	var page bytes.Buffer
	if err := parsed.Execute(&page, model); err != nil {
		return fmt.Errorf("filling the page's template: %w", err)
	}
	if _, err := w.Write(dropIndentation(page.Bytes())); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// dropIndentation leaves out empty lines and the white space that lines begin with: in a template it is
// for readers, in a page with thousands of elements it is most of the bytes. No text of the page depends
// on either.
func dropIndentation(page []byte) []byte {
	var kept bytes.Buffer
	for line := range strings.Lines(string(page)) {
		if trimmed := strings.TrimSpace(line); trimmed != "" {
			kept.WriteString(trimmed + "\n")
		}
	}
	return kept.Bytes()
}
