package cover

import (
	"fmt"
	"strings"
)

// maxText is how many bytes of an updater's own text an error repeats: errors end up in conditions and events.
const maxText = 512

// Error says whose answer is wrong, where, and what would be right.
func (e *UpdaterError) Error() string {
	where := ""
	if e.Pointer.Path != "" {
		where = fmt.Sprintf(" at %s of the %s", shorten(e.Pointer.Path), e.Pointer.Part)
	} else if e.Pointer.Part != "" {
		where = fmt.Sprintf(" in the %s", e.Pointer.Part)
	}
	if e.Err != nil {
		return fmt.Sprintf("updater %q: %s%s: %s", e.Updater, e.Problem, where, shorten(e.Err.Error()))
	}
	return fmt.Sprintf("updater %q: %s%s", e.Updater, e.Problem, where)
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
