package linuxhost

import (
	"encoding/base64"
	"regexp"
	"strings"
	"unicode"
)

// masked stands for a secret of no particular kind.
const masked = "[masked]"

// shapes are secrets that can be told by their own form. What they are replaced with names the kind.
var shapes = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|$)`), "[private key]"},
	// The rest of a key whose beginning was cut off.
	//nolint:gocritic // With (?m), the second ^ begins the line after the group.
	{regexp.MustCompile(`(?m)(^[ \t]*[A-Za-z0-9+/=]+[ \t\r]*\n)*^[ \t]*[A-Za-z0-9+/=]*-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----`), "[private key]"},
	{regexp.MustCompile(`(?m)^([ \t]*)[A-Za-z0-9+/]{40,}={0,2}([ \t\r]*)$`), "${1}[encoded]${2}"},
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), "[bootstrap token]"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), "[token]"},
	{regexp.MustCompile(`\bK10[0-9a-f]{64}::\S+`), "[token]"},
	// Makers give their tokens prefixes for programs like this one: GitHub, GitLab, Slack, npm, Docker, Vault, Google, AWS, age.
	{regexp.MustCompile(`\b(gh[opusr]_|github_pat_|gl(pat|ptt|dt|rt|soat|cbt|ft|agent)-|xox[abeoprs]-|npm_|dckr_(pat|oat)_|hv[sbr]\.|ya29\.)[A-Za-z0-9._-]{10,}`), "[token]"},
	{regexp.MustCompile(`\b(AIza[A-Za-z0-9_-]{30,}|(AKIA|ASIA)[A-Z0-9]{16}\b|AGE-SECRET-KEY-1[A-Z0-9]{10,})`), "[token]"},
	// A password in a URL; a user without a password is a token over HTTP, and a login's name elsewhere.
	{regexp.MustCompile(`(://[^/\s:@"']*:)[^/\s"']+@`), "${1}" + masked + "@"},
	{regexp.MustCompile(`(?i)(\bhttps?://)[^/\s:@"'\[\]]+@`), "${1}" + masked + "@"},
}

var (
	// scheme is the credentials of HTTP, with or without the name of their header.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic)[ \t]+([A-Za-z0-9._~+/=-]{8,})`)
	// login is a user with a password as curl takes them.
	login = regexp.MustCompile(`((?:^|\s)(?:-u|--user|--proxy-user)[ =]["']?[^\s:"']+:)([^\s"']+)`)
	// block is the key of a YAML value on the lines below it.
	block = regexp.MustCompile(`^([ \t]*)(?:- +)?["']?([A-Za-z0-9_.-]+)["']?:[ \t]*([|>][+-]?[0-9]?[+-]?)?[ \t\r]*$`)
	// entry begins a line that is a mapping's or a list's, so that the key above it has no value of its own.
	entry = regexp.MustCompile(`^[ \t]*(?:-(?:[ \t]|$)|[{}\[\]#]|["']?[A-Za-z0-9_./-]+["']?[ \t]*:(?:[ \t\r]|$))`)
	// assignment is a name and what divides it from its value. A blank divides only a flag from its value.
	assignment = regexp.MustCompile(`(--?)?(\\*["'])?([A-Za-z_][A-Za-z0-9_.-]*)(\\*["'])?([ \t]*(?:=>|:=|[:=])[ \t]*|[ \t]+(?:\\\r?\n[ \t]*)?)`)
)

// Mask replaces what looks like a secret in the output of commands: private keys, tokens by their form, and the values of names
// such as password, AWS_SECRET_ACCESS_KEY, apiKey or passphrase. A secret of several lines must be in output as a whole, or else
// its first line must be cut off as a whole. Mask may replace more than secrets, but no digest and no version. To mask twice
// changes nothing.
func Mask(output string) string {
	for _, s := range shapes {
		output = s.pattern.ReplaceAllString(output, s.with)
	}
	output = replace(scheme, output, func(found []string) string {
		if isWord(found[2]) {
			return found[0]
		}
		return strings.TrimSuffix(found[0], found[2]) + masked
	})
	output = replace(login, output, func(found []string) string {
		if strings.Trim(found[2], "0123456789") == "" {
			return found[0] // The ids of a user and a group.
		}
		return found[1] + masked
	})
	return maskNamed(maskBlocks(output))
}

func replace(pattern *regexp.Regexp, text string, with func(found []string) string) string {
	return pattern.ReplaceAllStringFunc(text, func(match string) string { return with(pattern.FindStringSubmatch(match)) })
}

// isWord reports whether a text reads as a word: "basic authentication" is no credential.
func isWord(s string) bool {
	const longest = 20
	return len(s) < longest && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-.") == ""
}

// maskBlocks masks values of YAML that are on lines of their own.
func maskBlocks(output string) string {
	lines := strings.Split(output, "\n")
	var kept []string
	for i := 0; i < len(lines); i++ {
		kept = append(kept, lines[i])
		found := block.FindStringSubmatch(lines[i])
		if len(found) == 0 || !isSecret(found[2]) {
			continue
		}
		end := i + 1
		for end < len(lines) && isBelow(lines[end], found[1]) {
			end++
		}
		if end == i+1 || found[3] == "" && entry.MatchString(lines[i+1]) {
			continue
		}
		kept = append(kept, found[1]+"  "+masked)
		i = end - 1
	}
	return strings.Join(kept, "\n")
}

// isBelow reports whether a line is indented deeper than its key.
func isBelow(line, indent string) bool {
	rest, ok := strings.CutPrefix(line, indent)
	return ok && strings.TrimSpace(line) != "" && (rest[0] == ' ' || rest[0] == '\t')
}

// maskNamed masks the values of names that are those of secrets.
func maskNamed(output string) string {
	var b strings.Builder
	written, at := 0, 0
	for {
		found := assignment.FindStringSubmatchIndex(output[at:])
		if found == nil {
			break
		}
		for i := range found {
			if found[i] >= 0 {
				found[i] += at
			}
		}
		at = found[1]
		a := parseAssignment(output, found)
		if !a.isSecret() {
			continue
		}
		value := a.value(output[at:])
		if value.end == value.begin || isHarmless(a.name, output[at+value.begin:at+value.end]) {
			continue
		}
		b.WriteString(output[written:at+value.begin] + masked)
		written = at + value.end
		at = written
	}
	b.WriteString(output[written:])
	return b.String()
}

// named is an assignment in an output.
type named struct {
	name string
	// isFlag: it begins with dashes. isDivided: more than a blank is between name and value.
	isFlag, isDivided bool
	// open is the quote that is open at the value, as in "TOKEN=x"; empty if there is none.
	open string
	// isLine: nothing but blanks, a list's dash or an export is before it in its line.
	isLine bool
}

func parseAssignment(output string, found []int) named {
	group := func(i int) string {
		if found[2*i] < 0 {
			return ""
		}
		return output[found[2*i]:found[2*i+1]]
	}
	a := named{name: group(3), isFlag: group(1) != "", isDivided: strings.ContainsAny(group(5), "=:")}
	if group(4) == "" {
		a.open = group(2)
	}
	if a.isSecret() {
		before := output[max(0, found[0]-longestIndent):found[0]]
		line := strings.LastIndexByte(before, '\n')
		switch strings.TrimSpace(before[line+1:]) {
		case "", "-", "+", "export", "declare -x":
			a.isLine = !a.isFlag && (line >= 0 || len(before) == found[0])
		}
	}
	return a
}

func (a named) isSecret() bool { return (a.isDivided || a.isFlag) && isSecret(a.name) }

// span is a part of a text.
type span struct{ begin, end int }

// longestIndent bounds what may be before a name that begins a line.
const longestIndent = 128

// longestQuoted bounds the value in quotes, so that quotes that do not close cost little.
const longestQuoted = 16 << 10

// value returns where the value is in what follows an assignment.
func (a named) value(rest string) span {
	near := rest[:min(len(rest), longestQuoted)]
	if quote := quoteAt(near); quote != "" {
		if length := closing(near[len(quote):], quote); length >= 0 {
			return span{len(quote), len(quote) + length}
		}
		return span{len(quote), max(lineLength(rest), len(quote))}
	}
	if a.open != "" {
		if length := closing(near, a.open); length >= 0 {
			return span{0, length}
		}
		return span{0, lineLength(rest)}
	}
	switch {
	case isHeader(a.name):
		length := lineLength(rest)
		if quote := strings.IndexAny(rest[:length], `"'`); quote >= 0 {
			length = quote
		}
		return span{0, length}
	case a.isLine:
		return span{0, lineLength(rest)}
	}
	if end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '\'' }); end >= 0 {
		return span{0, end}
	}
	return span{0, len(rest)}
}

// lineLength returns how long a text's first line is, without blanks at its end.
func lineLength(s string) int {
	line, _, _ := strings.Cut(s, "\n")
	return len(strings.TrimRight(line, " \t\r"))
}

// quoteAt returns the quote that a text begins with, with the backslashes that escape it.
func quoteAt(s string) string {
	quote := len(s) - len(strings.TrimLeft(s, `\`))
	if quote < len(s) && (s[quote] == '"' || s[quote] == '\'') {
		return s[:quote+1]
	}
	return ""
}

// closing returns how long a quoted text is; -1 if the quote is not closed. A quote behind more backslashes than the first one is
// part of the text.
func closing(s, quote string) int {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' && s[i] != quote[len(quote)-1] {
			continue
		}
		escapes := 0
		for i+escapes < len(s) && s[i+escapes] == '\\' {
			escapes++
		}
		if i+escapes < len(s) && s[i+escapes] == quote[len(quote)-1] && escapes < len(quote) {
			return i
		}
		i += escapes
	}
	return -1
}

// isHarmless reports whether the value of a secret's name is none.
func isHarmless(name, value string) bool {
	value = strings.TrimSpace(strings.TrimRight(value, ",;"))
	switch strings.ToLower(value) {
	case "", `\`, "|", "|-", "|+", ">", ">-", ">+", "true", "false", "null", "nil", "none", "~", "<nil>", "<none>", "<unset>", "[masked]", "[token]", "[bootstrap token]", "[private key]", "[encoded]":
		return true
	}
	if composite.MatchString(value) || strings.HasPrefix(value, "[bootstrap") {
		return true
	}
	words := wordsOf(name)
	switch words[len(words)-1] {
	case "auth":
		return !isBasicAuth(value)
	case "pass", "tokens", "secrets", "passwords", "credentials", "cookies":
		return strings.Trim(value, "0123456789.,") == "" // How many there are.
	}
	return false
}

// composite begins a mapping or a list, whose members are masked by their own names.
var composite = regexp.MustCompile(`^(?:\{\s*(?:\}|\\*["']|[A-Za-z_][\w.-]*\s*:|$)|\[\s*(?:\]|\\*["'{]|$)|(?:map|\[\]|&?[a-z0-9]+\.[A-Z])[\[{A-Za-z])`)

// isBasicAuth reports whether a value is a user and a password in base64, as in Docker's configuration. Its end may be missing.
func isBasicAuth(value string) bool {
	value = strings.TrimRight(value, "=")
	const quantum = 4
	decoded, err := base64.RawStdEncoding.DecodeString(value[:len(value)/quantum*quantum])
	return err == nil && strings.Contains(string(decoded), ":")
}
