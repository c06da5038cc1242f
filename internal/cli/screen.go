package cli

import (
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/windlass-dev/windlass/internal/view"
)

// NewScreen returns how a command lays out what it prints for people: as wide as the terminal, or as COLUMNS, which is
// exported where somebody wants it to count; without a limit in files and pipes.
func NewScreen(cmd *cobra.Command) view.Screen {
	out, mode := cmd.OutOrStdout(), ColorAuto
	if f := cmd.Flag(colorFlag); f != nil {
		mode = ColorMode(f.Value.String())
	}
	return view.Screen{Width: screenWidth(Terminal(out), os.Getenv), Color: Colors(out, mode, os.Getenv)}
}

func screenWidth(terminal *os.File, getenv func(string) string) int {
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if terminal == nil {
		return 0
	}
	width, _ := TerminalSize(terminal)
	return width
}

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
