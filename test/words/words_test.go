package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRules(t *testing.T) {
	t.Parallel()
	matchers := compile(rules)
	for text, want := range map[string][]string{
		"Mend it, then it is mended.":                     {"Mend", "mended"},
		"recommend, amend, commended and mendacious":      nil,
		"the dear part":                                   {"dear"},
		"a dearth of dears":                               nil,
		"leave one away":                                  {"leave one away"},
		"leave the flag --to away":                        {"leave the flag --to away"},
		"leave it. Go away":                               nil,
		"leave room; the other four run away":             nil,
		"the plan cannot\n  be had":                       {"be had"},
		"it has been had":                                 {"been had"},
		"it may be hard":                                  nil,
		"it belongs into the file":                        {"belongs into"},
		"it belongs in the file":                          nil,
		"it waits for ever.":                              {"for ever"},
		"it waits for every machine":                      nil,
		"it stands in the list":                           {"stands in"},
		"a stand-in, and a standing in the list":          nil,
		"it stays as it is.":                              {"as it is."},
		"keep them as they were, please":                  {"as they were,"},
		"as it is and was":                                {"as it is and"},
		"as it is the first one":                          nil,
		"what it comes to":                                {"comes to"},
		"it becomes together":                             nil,
		"it goes on":                                      {"goes on"},
		"ongoing, and once more on":                       nil,
		"Whoever asks":                                    {"Whoever"},
		"it ends of its own accord":                       {"of its own accord"},
		"a file of its own":                               nil,
		"made anew in a new file":                         {"anew"},
		"it cannot be told":                               {"be told"},
		"it stood still":                                  {"stood still"},
		"it shall; shallow":                               {"shall"},
		"within a fortnight":                              {"fortnight"},
		`the key "mend" and ` + "`mend` are names":        nil,
		`it is "mend it" in quotes, not a name: "mend, a`: {"mend", "mend"},
	} {
		var got []string
		for _, hit := range check(plain(text), matchers) {
			got = append(got, hit.word)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestRun checks which parts of which files are read, and that lines are right.
func TestRun(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"docs/page.md": "# Mend\n\n" +
			"```sh\nmend\n````\n\nmend `mend` this cannot\nbe had\n\n" +
			"~~~\n```\nmend\n~~~\n",
		"docs/fences.md": "```sh\n```console\nmend\n```\n\nmend\n\n```x``` begins no block:\nmend\n",
		"a.go": "package a\n\nimport \"mend\"\n\n// mend in a comment.\n" +
			"type addMend struct {\n\tkey string `json:\"mend\"`\n}\n\n" +
			"var text = \"this cannot \" +\n\t\"be had\" + key + `\nand\nmended`\n" +
			"var call = run(\"for \" + run(\"whoever\") + \"ever\")\n" +
			"var goesOn, mending = 'm', 1 + 2\n",
		"a_test.go":              "package a\n\nvar text = \"mend\"\n",
		"zz_generated.go":        "package a\n\nvar text = \"mend\"\n",
		"config/crd.yaml":        "mend: x\n- mend: y\ndescription: |\n  It goes\n  on.\n",
		"x/testdata/message.txt": "one\nmend\n",
		"x/testdata/run.js":      "mend\n",
		"other.txt":              "mend\n",
		"Makefile":               "all: ## Mend all.\n",
		"run.sh":                 "echo mend\n",
		"ignored.md":             "mend\n",
		".gitignore":             "ignored.md\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "init").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	for _, tt := range []struct {
		comments bool
		found    int
		want     string
	}{
		{found: 14, want: `Makefile:1: "Mend": use "fix"
a.go:6: "Mend": use "fix"
a.go:11: "be had": use "is unavailable; cannot get"
a.go:13: "mended": use "fix"
a.go:14: "whoever": use "the person or program that"
a.go:15: "mending": use "fix"
config/crd.yaml:4: "goes on": use "continue"
docs/fences.md:6: "mend": use "fix"
docs/fences.md:9: "mend": use "fix"
docs/page.md:1: "Mend": use "fix"
docs/page.md:7: "mend": use "fix"
docs/page.md:8: "be had": use "is unavailable; cannot get"
run.sh:1: "mend": use "fix"
x/testdata/message.txt:2: "mend": use "fix"
`},
		{comments: true, found: 1, want: `a.go:5: "mend": use "fix"` + "\n"},
	} {
		var out bytes.Buffer
		found, err := run(root, tt.comments, &out)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, out.String()); diff != "" || found != tt.found {
			t.Errorf("%d hits, want %d (-want +got):\n%s", found, tt.found, diff)
		}
	}
}
