package hookclient

import (
	"errors"
	"fmt"
	"time"

	"github.com/windlass-dev/windlass/internal/text"
)

// Every error that the Client returns names the hook and the extension, says what is wrong and what would fix it. It never
// holds a URL's path, credentials or settings; text that came from an extension is bounded to one line. The words for one fault
// are always the same, so that a condition made of them does not change from call to call.

// Call names what an error is about.
type Call struct {
	// Hook is the name of the hook, such as "BeforeClusterUpgrade".
	Hook string
	// Handler is the name that the extension gave its handler; Discovery has none.
	Handler string
	// ExtensionConfig is the name of the ExtensionConfig; empty for a fallback.
	ExtensionConfig string
	// Fallback is set for a handler of Options.Fallback.
	Fallback bool
}

// Extension is the name under which a handler is registered, or that of the ExtensionConfig where no handler is meant. That of a
// fallback has no dot, so no registered handler has it.
func (c Call) Extension() string {
	if c.Handler == "" {
		return c.ExtensionConfig
	}
	if c.Fallback {
		return c.Handler
	}
	return c.Handler + "." + c.ExtensionConfig
}

func (c Call) String() string {
	if c.Handler == "" {
		return fmt.Sprintf("hook %s of ExtensionConfig %q", c.Hook, c.ExtensionConfig)
	}
	if c.Fallback {
		return fmt.Sprintf("hook %s, handler %q of this process", c.Hook, c.Handler)
	}
	return fmt.Sprintf("hook %s, handler %q of ExtensionConfig %q", c.Hook, c.Handler, c.ExtensionConfig)
}

// NotReadyError says that the registered extensions are not known yet, so that nothing can be called.
type NotReadyError struct {
	// Doing is what was asked for.
	Doing string
}

func (e *NotReadyError) Error() string {
	return e.Doing + ": the extensions are not known yet; they are once this replica leads and the handlers of every ExtensionConfig have been discovered"
}

// NotRegisteredError says that no such extension is registered for the hook and the object.
type NotRegisteredError struct {
	Call
	// Detail says what is missing, Remedy what would fix it.
	Detail, Remedy string
}

func (e *NotRegisteredError) Error() string {
	return fmt.Sprintf("%s: %s; %s", e.Call, e.Detail, e.Remedy)
}

// MisconfiguredError says that an ExtensionConfig cannot be used as it is. A failure policy does not apply to it.
type MisconfiguredError struct {
	// ExtensionConfig is the name of the ExtensionConfig, Field the path of what is wrong in it.
	ExtensionConfig, Field string
	// Detail says what is wrong, Remedy what would fix it.
	Detail, Remedy string
}

func (e *MisconfiguredError) Error() string {
	return fmt.Sprintf("ExtensionConfig %q: %s %s. Fix: %s", e.ExtensionConfig, e.Field, e.Detail, e.Remedy)
}

// Fault is why an extension was not reached.
type Fault string

// The faults.
const (
	// FaultTimeout: the time for the call was over before the answer was complete.
	FaultTimeout Fault = "Timeout"
	// FaultTLS: one of both sides does not trust the other's certificate, or does not speak TLS.
	FaultTLS Fault = "TLS"
	// FaultConnection: everything else between the request and the answer's last byte.
	FaultConnection Fault = "Connection"
)

// UnreachableError says that no complete answer came. Whether the extension has done what it was asked for is not known.
type UnreachableError struct {
	Call
	// Host is where the extension should be, as host:port.
	Host string
	// Fault is the kind of failure, Detail says more about it in words that do not change from call to call.
	Fault  Fault
	Detail string
	// Timeout is how long the call was allowed to take.
	Timeout time.Duration

	cause error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s: no answer from %s: %s. Fix: %s", e.Call, e.Host, e.Detail, e.remedy())
}

// Unwrap returns what the network said.
func (e *UnreachableError) Unwrap() error { return e.cause }

func (e *UnreachableError) remedy() string {
	if _, panicked := errors.AsType[*panicError](e.cause); panicked {
		return "report this bug with the stack from the log of this process"
	}
	switch e.Fault {
	case FaultTimeout:
		return "see whether the extension runs and is overloaded; it may announce a timeoutSeconds of up to 30 for this handler"
	case FaultTLS:
		return "see that spec.clientConfig.caBundle of the ExtensionConfig holds the CA of the extension's certificate, that the certificate " +
			"is for this host, and which client certificates the extension accepts"
	case FaultConnection:
		return "see that the extension runs and that spec.clientConfig of the ExtensionConfig leads to it"
	}
	return ""
}

// BadResponseError says that an answer came that is none to this hook.
type BadResponseError struct {
	Call
	// StatusCode is the HTTP status of the answer.
	StatusCode int
	// Detail says what is wrong with it.
	Detail string

	// understood is set where the answer could be read as one to this hook, and only says what it must not.
	understood bool
}

func (e *BadResponseError) Error() string {
	return fmt.Sprintf("%s: the answer does not fit this hook: %s. Fix: check the extension's log, and that it serves this hook at this version", e.Call, e.Detail)
}

// RefusedError says that the extension answered with the status Failure.
type RefusedError struct {
	Call
	// Message is what the extension says about it; it may be empty.
	Message string
}

func (e *RefusedError) Error() string {
	message := e.Message
	if message == "" {
		message = "it gives no reason. Fix: see its log"
	}
	return fmt.Sprintf("%s: the extension answered Failure: %s", e.Call, message)
}

// The bounds of text from outside in an error.
const (
	maxMessageBytes = 2048
	maxBodyBytes    = 512
)

func boundMessage(s string) string { return text.Bound(s, maxMessageBytes) }

// quote shows text from outside.
func quote(s string) string { return fmt.Sprintf("%q", text.Bound(s, maxBodyBytes)) }
