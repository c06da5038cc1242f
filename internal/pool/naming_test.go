package pool_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/pool"
)

var namingData = map[string]any{
	"cluster": map[string]any{"name": "c"}, "machineSet": map[string]any{"name": "workers"},
	"random": "rrrrr",
}

// nameFrom returns the name that a template makes, and "" if the template is refused.
func nameFrom(t *testing.T, naming string) string {
	t.Helper()
	parsed, err := pool.ParseNaming(naming)
	if err != nil {
		return ""
	}
	var name strings.Builder
	if err := parsed.Execute(&name, namingData); err != nil {
		t.Fatal(err)
	}
	return name.String()
}

func TestParseNaming(t *testing.T) {
	t.Parallel()
	for naming, want := range map[string]string{
		"{{ .random }}": "rrrrr",
		"{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}":                         "c-workers-rrrrr",
		`{{ printf "%.3s" .machineSet.name }}-{{ .random }}`:                               "wor-rrrrr",
		`{{ .machineSet.name | printf "%s" }}-{{ .random }}`:                               "workers-rrrrr",
		`{{ slice .machineSet.name 0 4 }}-{{ .random }}`:                                   "work-rrrrr",
		`{{ if eq $.cluster.name "c" }}a{{ else }}b{{ end }}{{ .random }}`:                 "arrrrr",
		`{{ print (print "a" .cluster.name) }}{{ .random }}`:                               "acrrrrr",
		`{{ .machineSet.name }}`:                                                           "",
		`{{ .random }}{{`:                                                                  "",
		`{{ .random }}{{ range 10000000000 }}{{ end }}`:                                    "",
		`{{ .random }}{{ if .random }}{{ range 9 }}{{ end }}{{ end }}`:                     "",
		`{{ .random }}{{ with .random }}{{ else }}{{ range 9 }}{{ end }}{{ end }}`:         "",
		`{{ .random }}{{ printf "%1000000000d" 1 }}`:                                       "",
		`{{ .random }}{{ printf "%[1]*d" 1000000000 }}`:                                    "",
		`{{ .random }}{{ "%1000000000s" | printf }}`:                                       "",
		`{{ .random }}{{ printf (print "%1000000000" "s") 1 }}`:                            "",
		`{{ .random }}{{ if printf "%1000000000s" "" }}{{ end }}`:                          "",
		`{{ .random }}{{ $x := "aa" }}{{ $x = print $x $x }}`:                              "",
		`{{ with .machineSet }}{{ .name }}{{ end }}{{ .random }}`:                          "",
		`{{/* c */}}{{ .random }}`:                                                         "rrrrr",
		`{{ .random }}{{ with print . . }}{{ with print . . }}{{ end }}{{ end }}`:          "",
		`{{ .random }}{{ with 1 }}{{ else with printf "%s%s" . . }}{{ end }}`:              "",
		`{{ .random }}{{ with index (. | print | slice) 1 }}{{ end }}`:                     "",
		`{{ .random }}{{ "<" | js | js | js }}`:                                            "",
		`{{ .random }}{{ print ("<" | html) }}`:                                            "",
		`{{ .random }}{{ (index . "random").x }}`:                                          "",
		`{{ define "x" }}{{ template "x" }}{{ end }}{{ .random }}`:                         "",
		`{{ define "machineNaming" }}{{ range 9 }}{{ end }}{{ .random }}{{ end }}`:         "",
		`{{ define "template name generator" }}{{ range 9 }}{{ end }}{{ .random }}{{end}}`: "",
		`{{ .random }}{{ block "b" . }}{{ template "b" }}{{ end }}`:                        "",
	} {
		if got := nameFrom(t, naming); got != want {
			t.Errorf("%q: %q, want %q", naming, got, want)
		}
	}
}

// drawExpression returns what can be between the braces of an action.
func drawExpression(t *rapid.T, depth int) string {
	leaf := rapid.SampledFrom([]string{
		".random", ".cluster.name", "$.random", ".", "9", "99999999", `"<"`, `"%s"`, `"%99999s"`, "$x",
	})
	name := rapid.SampledFrom([]string{
		"print", "printf", "slice", "index", "len", "and", "eq", "html", "js", "urlquery", `printf "%s%s"`,
	})
	if depth == 0 {
		return leaf.Draw(t, "leaf")
	}
	first, second := drawExpression(t, depth-1), drawExpression(t, depth-1)
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		return first + " | " + name.Draw(t, "function")
	case 1:
		return name.Draw(t, "function") + " (" + first + ") (" + second + ")"
	case 2:
		return name.Draw(t, "function") + " (" + first + ") | " + name.Draw(t, "next")
	default:
		return leaf.Draw(t, "leaf")
	}
}

// TestParsedNamesAreBounded holds that a template that is accepted makes little of few characters.
func TestParsedNamesAreBounded(t *testing.T) {
	t.Parallel()
	form := rapid.SampledFrom([]string{
		"{{ E }}", "{{ E }}", "{{ $x = E }}", "{{ range E }}a{{ end }}", "{{ if E }}{{ E }}{{ end }}",
		"{{ with E }}{{ E }}{{ else }}{{ E }}{{ end }}", "{{ template E }}", "text",
	})
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		naming := "{{ .random }}"
		for _, part := range rapid.SliceOfN(form, 1, 3).Draw(t, "forms") {
			for strings.Contains(part, "E") {
				depth := rapid.IntRange(0, 3).Draw(t, "depth")
				part = strings.Replace(part, "E", drawExpression(t, depth), 1)
			}
			naming += part
		}
		parsed, err := pool.ParseNaming(naming)
		if err != nil {
			return
		}
		accepted++
		var name strings.Builder
		_ = parsed.Execute(&name, namingData) // Some fail when they are executed.
		if most := 100 * len(naming); name.Len() > most {
			t.Errorf("%q makes %d characters, more than %d", naming, name.Len(), most)
		}
	})
	if accepted == 0 {
		t.Error("no template was accepted")
	}
}
