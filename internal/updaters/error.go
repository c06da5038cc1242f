package updaters

import (
	"fmt"
	"strings"
)

// Class is the kind of an Error.
type Class string

// The classes.
const (
	// Unreachable: no complete answer came: no connection, no trust, or no time left.
	Unreachable Class = "Unreachable"
	// Refused: the updater understood the request and said no, with the status Failure.
	Refused Class = "Refused"
	// Nonsense: an answer came that is not one by the protocol.
	Nonsense Class = "Nonsense"
)

// Error says what is wrong with an updater or its answer. It never holds any part of a request, because bootstrap configs
// hold secrets, nor of the body of an answer but the message that the protocol has for people.
type Error struct {
	Class Class
	// Updater is the updater's name.
	Updater string
	// URL is what was asked; empty where nothing was.
	URL string
	// Problem says what is wrong. Fix says what would make it right; empty where the updater said what is wrong itself.
	Problem, Fix string
	// Err is the cause, if there is one.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "updater %s", e.Updater)
	if e.URL != "" {
		fmt.Fprintf(&b, " at %s", e.URL)
	}
	fmt.Fprintf(&b, ": %s", e.Problem)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Fix != "" {
		fmt.Fprintf(&b, ". Fix: %s", e.Fix)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
