package cover

import (
	"errors"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// NotCoveredError reports that updaters do not cover a change, and that a policy keeps the machines:
// they are neither updated nor replaced. All updaters have answered, so the same question has the same
// answer until a person acts.
type NotCoveredError struct {
	// Message says on which object, and why.
	Message string
}

// Error returns the message.
func (e *NotCoveredError) Error() string { return e.Message }

// NotCoveredClass begins the message of a Failure, the answer of an extension to CanUpdateMachine or
// CanUpdateMachineSet, that stands for a NotCoveredError. To Cluster API it is an answer like any
// other Failure.
const NotCoveredClass = "windlass.dev/NotCovered:"

// EncodeRefusal returns the message of a Failure for an error, as one line of at most so many bytes.
// DecodeRefusal finds a NotCoveredError in it if and only if err is or wraps one. bytes must leave room
// for NotCoveredClass and " ...".
func EncodeRefusal(err error, bytes int) string {
	message := text.Bound(err.Error(), bytes)
	if _, ok := errors.AsType[*NotCoveredError](err); ok {
		return text.Bound(NotCoveredClass+" "+message, bytes)
	}
	if strings.HasPrefix(message, NotCoveredClass) {
		// Text from outside does not choose the class.
		return text.Bound("failed: "+message, bytes)
	}
	return message
}

// DecodeRefusal returns the NotCoveredError that the message of a Failure stands for; nil if it stands
// for another error.
func DecodeRefusal(message string) *NotCoveredError {
	message, ok := strings.CutPrefix(message, NotCoveredClass)
	if !ok {
		return nil
	}
	return &NotCoveredError{Message: strings.TrimSpace(message)}
}
