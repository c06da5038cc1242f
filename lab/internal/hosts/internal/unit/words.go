package unit

import (
	"errors"
	"strings"
)

// errQuote is a quote that is never closed.
var errQuote = errors.New("unbalanced quoting")

// Argv is the command line with quotes removed and variables put in: $NAME as a word of its own becomes as many words as its
// value has, ${NAME} stays within its word. A variable that is not set is empty.
func Argv(line string, environment map[string]string) ([]string, error) {
	parts, err := split(line)
	if err != nil {
		return nil, err
	}
	var argv []string
	for _, part := range parts {
		name, ok := strings.CutPrefix(part, "$")
		if ok && isName(name) {
			more, err := split(environment[name])
			if err != nil {
				return nil, err
			}
			argv = append(argv, more...)
			continue
		}
		argv = append(argv, expand(part, environment))
	}
	return argv, nil
}

// expand puts in ${NAME}, and makes one of "$$" and of "%%".
func expand(word string, environment map[string]string) string {
	var out strings.Builder
	for word != "" {
		at := strings.IndexAny(word, "$%")
		if at < 0 {
			break
		}
		out.WriteString(word[:at])
		word = word[at:]
		name, after, closed := strings.Cut(strings.TrimPrefix(word, "${"), "}")
		switch {
		case strings.HasPrefix(word, "$$"), strings.HasPrefix(word, "%%"):
			out.WriteByte(word[0])
			word = word[2:]
		case strings.HasPrefix(word, "${") && closed && isName(name):
			out.WriteString(environment[name])
			word = after
		default:
			out.WriteByte(word[0])
			word = word[1:]
		}
	}
	return out.String() + word
}

func isName(word string) bool {
	for i, r := range word {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return word != ""
}

// split cuts a line into words at blanks outside quotes.
func split(line string) ([]string, error) {
	var result []string
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				result = append(result, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errQuote
	}
	if inWord {
		result = append(result, word.String())
	}
	return result, nil
}

// Variables reads an EnvironmentFile: NAME=VALUE lines, values in quotes or not, comments. Lines that are none are skipped,
// as systemd does.
func Variables(text string) []string {
	var result []string
	text = strings.ReplaceAll(text, "\\\n", "")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || !isName(strings.TrimSpace(name)) {
			continue
		}
		result = append(result, strings.TrimSpace(name)+"="+unquote(strings.TrimSpace(value)))
	}
	return result
}

func unquote(value string) string {
	if len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		inner := value[1 : len(value)-1]
		if value[0] == '"' {
			inner = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(inner)
		}
		return inner
	}
	return value
}
