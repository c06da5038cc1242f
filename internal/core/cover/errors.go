package cover

import (
	"fmt"
	"strings"
)

// maxText is how many bytes of an updater's own text an error repeats: errors end up in conditions and events.
const maxText = 512

// Error says whose answer is wrong, where, and what would be right.
func (e *UpdaterError) Error() string {
	text := fmt.Sprintf("updater %q: ", e.Updater)
	if e.Pointer.Part != "" {
		text += strings.TrimSpace(fmt.Sprintf("%s %s", e.Pointer.Part, shorten(e.Pointer.Path))) + ": "
	}
	text += e.Problem
	if e.Err != nil {
		text += ": " + shorten(e.Err.Error())
	}
	return text
}

// Unwrap returns the cause.
func (e *UpdaterError) Unwrap() error { return e.Err }

func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// InputError says which of the objects or ignored fields that a Coverage is made of is wrong.
type InputError struct {
	// Input names it, such as "current Machine".
	Input string
	// Problem says what is wrong, and what would be right.
	Problem string
	// Err is the cause, if there is one.
	Err error
}

// Error says what is wrong, and with what.
func (e *InputError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %s", e.Input, e.Problem, shorten(e.Err.Error()))
	}
	return e.Input + ": " + e.Problem
}

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }
