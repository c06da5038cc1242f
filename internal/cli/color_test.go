package cli

import (
	"bytes"
	"testing"
)

func TestColors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		terminal bool
		mode     ColorMode
		env      map[string]string
		want     bool
	}{
		"a terminal":                   {terminal: true, mode: ColorAuto, env: map[string]string{"TERM": "xterm"}, want: true},
		"a terminal without TERM":      {terminal: true, mode: ColorAuto, want: true},
		"a dumb terminal":              {terminal: true, mode: ColorAuto, env: map[string]string{"TERM": "dumb"}},
		"a file":                       {mode: ColorAuto},
		"NO_COLOR":                     {terminal: true, mode: ColorAuto, env: map[string]string{"NO_COLOR": "1"}},
		"NO_COLOR of any value":        {terminal: true, mode: ColorAuto, env: map[string]string{"NO_COLOR": "0"}},
		"an empty NO_COLOR":            {terminal: true, mode: ColorAuto, env: map[string]string{"NO_COLOR": ""}, want: true},
		"CLICOLOR_FORCE":               {mode: ColorAuto, env: map[string]string{"CLICOLOR_FORCE": "1"}, want: true},
		"CLICOLOR_FORCE and dumb":      {terminal: true, mode: ColorAuto, env: map[string]string{"CLICOLOR_FORCE": "1", "TERM": "dumb"}, want: true},
		"CLICOLOR_FORCE=0":             {mode: ColorAuto, env: map[string]string{"CLICOLOR_FORCE": "0"}},
		"both variables":               {terminal: true, mode: ColorAuto, env: map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}},
		"always, in a file":            {mode: ColorAlways, want: true},
		"always, against NO_COLOR":     {mode: ColorAlways, env: map[string]string{"NO_COLOR": "1"}, want: true},
		"always, in a dumb terminal":   {terminal: true, mode: ColorAlways, env: map[string]string{"TERM": "dumb"}, want: true},
		"never, in a terminal":         {terminal: true, mode: ColorNever},
		"never, against the other one": {mode: ColorNever, env: map[string]string{"CLICOLOR_FORCE": "1"}},
	} {
		env := func(name string) string { return test.env[name] }
		if got := colors(test.terminal, test.mode, env); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if Colors(&bytes.Buffer{}, ColorAuto, func(string) string { return "" }) {
		t.Error("a buffer has colors")
	}
}

func TestUnknownColorMode(t *testing.T) {
	var mode ColorMode
	if err := mode.Set("sometimes"); err == nil {
		t.Error("no error")
	}
}
