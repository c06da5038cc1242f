package updaters

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxMessageBytes bounds what an updater may say to people in one answer.
const MaxMessageBytes = 1 << 10

const ellipsis = "..."

// CleanMessage makes what an updater says fit for conditions, annotations and logs: one line of valid UTF-8 without control
// characters, at most MaxMessageBytes long.
func CleanMessage(s string) string {
	if len(s) > 4*MaxMessageBytes {
		// Enough to fill the bound whatever is replaced below; the rest need not be looked at.
		s = s[:4*MaxMessageBytes]
	}
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		// Cf holds the marks that reverse text on a terminal.
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
	if len(s) <= MaxMessageBytes {
		return s
	}
	cut := MaxMessageBytes - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}

// maxWordBytes bounds a word of an answer that an error quotes.
const maxWordBytes = 64

// CleanWord is CleanMessage for one word, such as a kind, at most maxWordBytes long.
func CleanWord(s string) string {
	if len(s) > maxWordBytes {
		s = s[:maxWordBytes] + ellipsis
	}
	return CleanMessage(s)
}
