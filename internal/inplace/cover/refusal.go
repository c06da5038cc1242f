package cover

import (
	"errors"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// NotCoveredError reports that updaters do not cover a change, and that a policy keeps the
// machines: they are neither updated nor replaced. All updaters have answered, so the same question
// has the same answer until a person acts.
type NotCoveredError struct {
	// Message says on which object, and why.
	Message string
}

// Error returns the message.
func (e *NotCoveredError) Error() string { return e.Message }

// NotCoveredPrefix begins the message of a Failure that stands for a NotCoveredError. An extension
// answers so to CanUpdateMachine or CanUpdateMachineSet. To Cluster API it is a Failure like any
// other.
const NotCoveredPrefix = "windlass.dev/NotCovered:"

// EncodeRefusal returns the message of a Failure for an error, as one line of at most so many
// bytes. DecodeRefusal finds a NotCoveredError in it if and only if err is or wraps one. bytes must
// leave room for NotCoveredPrefix and " ...".
func EncodeRefusal(err error, bytes int) string {
	message := text.Bound(err.Error(), bytes)
	if _, ok := errors.AsType[*NotCoveredError](err); ok {
		return text.Bound(NotCoveredPrefix+" "+message, bytes)
	}
	if strings.HasPrefix(message, NotCoveredPrefix) {
		// Text from outside must not look like a NotCoveredError.
		return text.Bound("failed: "+message, bytes)
	}
	return message
}

// DecodeRefusal returns the NotCoveredError that the message of a Failure stands for; nil if it
// stands for another error.
func DecodeRefusal(message string) *NotCoveredError {
	message, ok := strings.CutPrefix(message, NotCoveredPrefix)
	if !ok {
		return nil
	}
	return &NotCoveredError{Message: strings.TrimSpace(message)}
}
