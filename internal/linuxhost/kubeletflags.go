package linuxhost

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// kubeletFlagsFile is an EnvironmentFile of systemd with one variable, which kubeadm writes.
const kubeletFlagsFile = "/var/lib/kubelet/kubeadm-flags.env"

const kubeletFlagsVariable = "KUBELET_KUBEADM_ARGS"

// ComputeKubeletFlags returns kubeadm's file with some of the kubelet's arguments set. Other arguments keep their order and their spelling, because kubeadm
// set some of them. The result is the same again for what it returned.
//
// systemd reads the file (EnvironmentFile=), removes the quotes around the value, and splits the value into words, which may be quoted themselves. There is
// no shell. An error says that the file has a form which systemd, Go and kubeadm would not read in the same way; such a file is not changed.
func ComputeKubeletFlags(content string, args []Arg) (string, error) {
	file, err := parseKubeletFlags(content)
	if err != nil {
		return "", err
	}
	set := map[string]bool{}
	for _, arg := range args {
		set[arg.Name] = true
	}
	file.words = without(file.words, set)
	for _, arg := range args {
		w, err := newWord("--" + arg.Name + "=" + arg.Value)
		if err != nil {
			return "", err
		}
		file.words = append(file.words, w)
	}
	made := file.String()
	again, err := parseKubeletFlags(made)
	if err != nil || again.String() != made || !slices.Equal(again.words, file.words) {
		return "", errors.Join(errors.New("the arguments would not be read as they were written"), err)
	}
	return made, nil
}

// kubeletFlags is the file, parsed: the arguments, and the other lines.
type kubeletFlags struct {
	words []flagWord
	rest  []string
}

// flagWord is one argument: as it is spelled in the value, and as the kubelet gets it.
type flagWord struct{ raw, text string }

// name is the name of the argument, without dashes.
func (w flagWord) name() string {
	name, _, _ := strings.Cut(strings.TrimLeft(w.text, "-"), "=")
	return name
}

// without drops the arguments of some names. The value of --name value is a word of its own.
func without(words []flagWord, names map[string]bool) []flagWord {
	var left []flagWord
	for i := 0; i < len(words); i++ {
		if !names[words[i].name()] || !strings.HasPrefix(words[i].text, "-") {
			left = append(left, words[i])
			continue
		}
		if !strings.Contains(words[i].text, "=") && i+1 < len(words) && !strings.HasPrefix(words[i+1].text, "-") {
			i++
		}
	}
	return left
}

// newWord makes a word that needs no quotes.
func newWord(text string) (flagWord, error) {
	if text == "" || strings.ContainsFunc(text, needsQuotes) {
		return flagWord{}, fmt.Errorf("the argument %q has a character that needs quotes", text)
	}
	return flagWord{raw: text, text: text}, nil
}

// needsQuotes reports whether a character does not stand for itself in the value, or is not printable ASCII.
func needsQuotes(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\$", r) }

// String is the file with one line for the arguments, in double quotes as kubeadm writes it.
func (f kubeletFlags) String() string {
	raw := make([]string, 0, len(f.words))
	for _, w := range f.words {
		raw = append(raw, w.raw)
	}
	value := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(strings.Join(raw, " "))
	return strings.Join(append([]string{kubeletFlagsVariable + `="` + value + `"`}, f.rest...), "\n") + "\n"
}

func parseKubeletFlags(content string) (kubeletFlags, error) {
	var file kubeletFlags
	found := false
	for line := range strings.Lines(content) {
		line = strings.TrimSuffix(line, "\n")
		name, value, isVariable := strings.Cut(line, "=")
		switch {
		case strings.HasSuffix(line, `\`):
			return file, fmt.Errorf("the line %q continues in the next line. Fix: write it as one line", line)
		case !isVariable || strings.TrimSpace(name) != kubeletFlagsVariable:
			if strings.Count(line, `"`)%2 != 0 || strings.Count(line, "'")%2 != 0 {
				return file, fmt.Errorf("the line %q has a quote that is not closed", line)
			}
			if line != "" {
				file.rest = append(file.rest, line)
			}
			continue
		case name != kubeletFlagsVariable:
			return file, fmt.Errorf("there are blanks around %s; remove them", kubeletFlagsVariable)
		case found:
			return file, fmt.Errorf("%s is set twice; keep one line", kubeletFlagsVariable)
		}
		found = true
		inner, err := unquoteValue(value)
		if err != nil {
			return file, err
		}
		if file.words, err = splitWords(inner); err != nil {
			return file, err
		}
	}
	return file, nil
}

// quotedValue is a value in double quotes. Of escapes it has those that systemd and Go's %q have in common. plainValue needs no quotes.
var (
	quotedValue = regexp.MustCompile(`^"((?:[^"\\]|\\["\\])*)"$`)
	plainValue  = regexp.MustCompile("^(?:[^ \t\"'`\\\\$](?:[^\"'`\\\\$]*[^ \t\"'`\\\\$])?)?$")
)

// unquoteValue removes the quotes of a value.
func unquoteValue(value string) (string, error) {
	if match := quotedValue.FindStringSubmatch(value); match != nil {
		return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(match[1]), nil
	}
	if plainValue.MatchString(value) {
		return value, nil
	}
	return "", fmt.Errorf(`the value of %s must be in one pair of double quotes, with no other escapes than \" and \\`, kubeletFlagsVariable)
}

// oneWord is a word of a value, with quotes around any part of it; quotedPart is such a part.
var (
	oneWord    = regexp.MustCompile(`(?:[^ \t"']|"[^"]*"|'[^']*')+`)
	quotedPart = regexp.MustCompile(`"([^"]*)"|'([^']*)'`)
)

// splitWords splits a value as systemd splits $VARIABLE of ExecStart. A backslash, and what systemd and shells expand, is an error.
func splitWords(value string) ([]flagWord, error) {
	ambiguous := func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') || strings.ContainsRune("`\\$", r) }
	if strings.ContainsFunc(value, ambiguous) {
		return nil, fmt.Errorf("the value of %s has a character that systemd, kubeadm and shells read in different ways; use printable ASCII without backslash, $ and backquote",
			kubeletFlagsVariable)
	}
	if rest := oneWord.ReplaceAllString(value, ""); strings.Trim(rest, " \t") != "" {
		return nil, fmt.Errorf("an argument in %s has no closing quote", kubeletFlagsVariable)
	}
	var words []flagWord
	for _, raw := range oneWord.FindAllString(value, -1) {
		words = append(words, flagWord{raw: raw, text: quotedPart.ReplaceAllString(raw, "$1$2")})
	}
	return words, nil
}
