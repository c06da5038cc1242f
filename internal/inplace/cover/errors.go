package cover

import (
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// maxText is how many bytes of an updater's own text an error repeats: errors end up in conditions and events.
const maxText = 512

// Error says whose answer is wrong, where, and what would be right.
func (e *UpdaterError) Error() string {
	said := fmt.Sprintf("updater %q: ", e.Updater)
	if e.Pointer.Part != "" {
		said += strings.TrimSpace(fmt.Sprintf("%s %s", e.Pointer.Part, text.Bound(e.Pointer.Path, maxText))) + ": "
	}
	said += e.Problem
	if e.Err != nil {
		said += ": " + text.Bound(e.Err.Error(), maxText)
	}
	return said
}

// Unwrap returns the cause.
func (e *UpdaterError) Unwrap() error { return e.Err }

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
		return fmt.Sprintf("%s: %s: %s", e.Input, e.Problem, text.Bound(e.Err.Error(), maxText))
	}
	return e.Input + ": " + e.Problem
}

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }
