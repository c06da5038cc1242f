package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "..."

// minFix is the least number of bytes in which Bound keeps a Fix.
const minFix = 160

// Bound returns s as one line of valid UTF-8 of at most the given number of bytes. What is cut off at the end shows as "...", where
// there is room for that. A space stands for each control character, line break and mark that changes the direction of text, a
// question mark for what is not UTF-8; white space at both ends is left out.
//
// Like [Fit], it cuts what comes before the last "Fix: ", and what is from there on, so that both keep
// at least half of the bytes if they need them. Where the bytes are fewer than minFix, a part of each
// says less than a whole sentence: only the end is cut. It is safe for concurrent use.
func Bound(s string, bytes int) string {
	at := strings.LastIndex(s, fixMark)
	if at <= 0 || len(s) <= bytes || bytes < minFix {
		return boundEnd(s, bytes)
	}
	fix := boundEnd(s[at:], bytes-min(at, bytes/2))
	return boundEnd(s[:at], bytes-len(fix)-1) + " " + fix
}

// boundEnd is Bound, and cuts only the end.
func boundEnd(s string, bytes int) string {
	bytes = max(bytes, 0)
	// What replaces a character is never longer, and four bytes are the longest; the rest need not be looked at.
	whole := len(s) <= 4*bytes+utf8.UTFMax
	if !whole {
		s = s[:4*bytes+utf8.UTFMax]
	}
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
	if whole && len(s) <= bytes {
		return s
	}
	mark := ellipsis
	if bytes < len(ellipsis) {
		mark = ""
	}
	end := min(bytes-len(mark), len(s))
	for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
