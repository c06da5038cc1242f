package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var shellBlock = regexp.MustCompile("(?ms)^ *```sh\n(.*?)\n *```$")

// TestPageCommands runs the commands "windlass ..." of the shell blocks of all pages. Those that need
// no cluster run as they are, in order, and succeed. Of all others the command and its flags exist.
func TestPageCommands(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	binary := linkToTest(t)
	parsed, planned := 0, 0
	for _, page := range readPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			script := strings.ReplaceAll(block[1], "\\\n", " ")
			for line := range strings.Lines(script) {
				words, ok := readCommand(line)
				if !ok {
					continue
				}
				parsed++
				if needsNothing(words) {
					planned++
				} else {
					words = append(words, "--help")
				}
				cmd := exec.CommandContext(t.Context(), binary, words...)
				cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: windlass %s: %v\n%s", page, strings.Join(words, " "), err, out)
				}
			}
		}
	}
	if parsed < 50 || planned < 3 {
		t.Errorf("the pages have only %d commands, %d of them plans from flags", parsed, planned)
	}
}

// needsNothing reports whether a command is a plan from flags alone.
func needsNothing(words []string) bool {
	return words[0] == "plan" && slices.Contains(words, "--from") && !slices.Contains(words, "-f")
}

// readCommand returns the arguments of windlass in a line that begins with it, up to a comment, a
// redirection or the next command.
func readCommand(line string) (words []string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "windlass ")
	if !ok {
		return nil, false
	}
	var word strings.Builder
	quote, inside := rune(0), false
	end := func() {
		if inside {
			words = append(words, word.String())
		}
		word.Reset()
		inside = false
	}
scan:
	for _, r := range rest {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inside = r, true
		case r == ' ':
			end()
		case strings.ContainsRune("|<>&;)", r), r == '#' && !inside:
			break scan
		default:
			inside = true
			word.WriteRune(r)
		}
	}
	end()
	// A completion script runs no command: its arguments are words to complete.
	return words, len(words) > 0 && words[0] != "completion"
}
