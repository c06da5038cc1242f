package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// fixMark begins the part of a message that says what a person can do.
const fixMark = "Fix: "

// Fit returns a message as valid UTF-8 of at most the given number of bytes, which must be 64 or
// more. A message that is longer loses the end of what comes before its last "Fix: ", and shows how
// many bytes that is. Both parts keep at least half of the bytes if they need them. Unlike [Bound]
// it keeps line breaks. A message that fits is returned unchanged.
func Fit(message string, bytes int) string {
	message = strings.ToValidUTF8(message, "?")
	if len(message) <= bytes {
		return message
	}
	why, fix := message, ""
	if at := strings.LastIndex(message, fixMark); at >= 0 {
		why, fix = message[:at], message[at:]
	}
	fix = cut(fix, bytes-min(len(why), bytes/2), "")
	if fix == "" {
		return cut(why, bytes, "")
	}
	return cut(why, bytes-len(fix), " ") + fix
}

// cut returns a text of at most so many bytes. Where that is less than the text, it ends with how
// many bytes are missing, and after.
func cut(s string, bytes int, after string) string {
	if len(s) <= bytes {
		return s
	}
	mark := func(missing int) string { return fmt.Sprintf("... (%d more bytes)%s", missing, after) }
	end := max(bytes-len(mark(len(s))), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark(len(s)-end)
}
