package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// document is one document of a file.
type document struct {
	origin Origin
	text   []byte
}

// splitDocuments cuts a file at its document markers. Markers stand at the beginning of a line, where no YAML scalar can
// reach, so no parser is needed. Documents that hold nothing but space and comments are left out, but counted: the number in
// a message is the number a person counts.
func splitDocuments(file string, data []byte) []document {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var documents []document
	current := document{origin: Origin{File: file, Document: 1, Line: 1}}
	started := false
	finish := func(nextLine int) {
		if started {
			documents = append(documents, current)
		}
		// A marker before the first content begins the first document, it does not end an empty one.
		number := current.origin.Document
		if started || number > 1 {
			number++
		}
		current = document{origin: Origin{File: file, Document: number, Line: nextLine}}
		started = false
	}
	line := 0
	for raw := range bytes.Lines(data) {
		line++
		text := bytes.TrimSpace(raw)
		switch {
		case isMarker(raw, "---"):
			finish(line + 1)
			// A document may begin on the line of its marker.
			if rest := bytes.TrimSpace(text[3:]); !isBlank(rest) {
				current.origin.Line, started = line, true
				current.text = slices.Concat([]byte("   "), text[3:], []byte("\n"))
			}
			continue
		case isMarker(raw, "..."):
			continue
		case !started && (isBlank(text) || raw[0] == '%'):
			// Comments, and directives such as %YAML, hold no content.
			continue
		case !started:
			started = true
			current.origin.Line = line
		}
		current.text = append(current.text, raw...)
	}
	finish(line)
	return documents
}

// isBlank reports whether a trimmed line holds nothing, or nothing but a comment.
func isBlank(line []byte) bool { return len(line) == 0 || line[0] == '#' }

func isMarker(line []byte, marker string) bool {
	rest, found := bytes.CutPrefix(line, []byte(marker))
	return found && (len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// values returns the JSON values of a document: one for YAML, and one or more for JSON, where values may follow each other
// without a marker.
func (d document) values() ([][]byte, error) {
	if trimmed := bytes.TrimSpace(d.text); len(trimmed) > 0 && trimmed[0] == '{' {
		if values, err := jsonValues(trimmed); err == nil {
			return values, nil
		}
		// It may still be YAML in flow style; if it is not, the YAML parser knows the line.
	}
	value, err := yaml.YAMLToJSONStrict(d.text)
	if err == nil {
		return [][]byte{value}, nil
	}
	// The parser counts lines from the beginning of what it is given. Only the failed document is parsed again, with as many
	// empty lines before it as the file has.
	padded := append(bytes.Repeat([]byte("\n"), d.origin.Line-1), d.text...)
	if _, again := yaml.YAMLToJSONStrict(padded); again != nil {
		err = again
	}
	return nil, &Error{Origin: d.origin, Problem: describeYAML(err) + templateHint(d.text), Err: err}
}

func jsonValues(data []byte) ([][]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	var values [][]byte
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
		values = append(values, value)
	}
}

// describeYAML keeps the first line of a parser's message: one error is enough.
func describeYAML(err error) string {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "yaml: unmarshal errors:\n")
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return "it is not valid YAML: " + strings.TrimPrefix(strings.TrimSpace(first), "yaml: ")
}

// templateHint is for files that a template engine has not been through yet.
func templateHint(text []byte) string {
	switch {
	case !utf8.Valid(text):
		return ""
	case bytes.Contains(text, []byte("${")):
		return `; the document has "${", so it may be a template: give what clusterctl makes of it`
	case bytes.Contains(text, []byte("{{")):
		return `; the document has "{{", so it may be a template: give what Helm makes of it`
	default:
		return ""
	}
}
