package cli

import (
	"encoding/json"
	"io"
	"os"

	"golang.org/x/term"
)

// defaultWidth and defaultHeight are for terminals that do not report their size.
const defaultWidth, defaultHeight = 80, 24

// Terminal returns the terminal that out is, or nil if it is none.
func Terminal(out io.Writer) *os.File {
	if plugin, ok := out.(*renamed); ok {
		out = plugin.Writer
	}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// TerminalSize returns the number of columns and rows of a terminal.
func TerminalSize(file *os.File) (width, height int) {
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return defaultWidth, defaultHeight
	}
	return width, height
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
