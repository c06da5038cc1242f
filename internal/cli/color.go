package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// ColorMode is a value of --color, which says when output has colors.
type ColorMode string

// The values of --color.
const (
	ColorAuto   ColorMode = "auto"
	ColorAlways ColorMode = "always"
	ColorNever  ColorMode = "never"
)

// colorModes has the default first.
var colorModes = []ColorMode{ColorAuto, ColorAlways, ColorNever}

// Set parses a value of --color.
func (m *ColorMode) Set(value string) error {
	if !slices.Contains(colorModes, ColorMode(value)) {
		return fmt.Errorf("choose one of %q", colorModes)
	}
	*m = ColorMode(value)
	return nil
}

// String returns the value as a user writes it.
func (m *ColorMode) String() string { return string(*m) }

// Type returns what help calls a value.
func (m *ColorMode) Type() string { return "WHEN" }

// colorFlag is the name of the flag.
const colorFlag = "color"

// AddColorFlag adds --color to a command and to all below it.
func AddColorFlag(root *cobra.Command) {
	mode, names := ColorAuto, NamesOf(colorModes)
	root.PersistentFlags().Var(&mode, colorFlag, "`WHEN` output has colors: "+strings.Join(names, ", "))
	CompleteValues(root, colorFlag, names...)
}

// Colors reports whether what is written to out has colors. env returns a variable of the
// environment, empty where it is not set.
//
// ColorAlways and ColorNever override the environment. ColorAuto follows https://no-color.org and
// https://bixense.com/clicolors: a NO_COLOR that is not empty turns colors off, then a CLICOLOR_FORCE
// that is neither empty nor 0 turns them on; otherwise a terminal has them, unless TERM is dumb.
func Colors(out io.Writer, mode ColorMode, env func(string) string) bool {
	return colors(Terminal(out) != nil, mode, env)
}

func colors(terminal bool, mode ColorMode, env func(string) string) bool {
	force := env("CLICOLOR_FORCE")
	switch {
	case mode != ColorAuto:
		return mode == ColorAlways
	case env("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	default:
		return terminal && env("TERM") != "dumb"
	}
}
