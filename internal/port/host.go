package port

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Host runs scripts on one Linux machine, as root. Implementations are safe for concurrent use.
//
// All scripts of one Host run on the same machine, so what the first one finds out about it counts for
// the others. If an implementation cannot be sure of that any longer, such as after a lost connection,
// Exec returns HostLost from then on: the caller makes another Host, and identifies the machine again.
type Host interface {
	// Exec runs a bash script and waits for its end. What it prints is cut at the command's OutputLimit. A script that ran and failed is
	// no error but an ExitCode. Errors are *HostError: whether the script ran, or still runs, is then not known, except where its
	// Reason says that nobody was let in. Where ctx ends, Exec returns at once; what becomes of the script is not known.
	Exec(ctx context.Context, c HostCommand) (HostResult, error)
	// Close ends the connection. A Host that was closed cannot be used again.
	Close() error
}

// HostCommand is a script for a host.
type HostCommand struct {
	// Script is run by bash. It may have up to MaxHostScript bytes. It never shows in the host's process list or in sudo's log: it may
	// hold what nobody should read there.
	Script string
	// Stdin is what the script reads; nil for nothing.
	Stdin io.Reader
	// OutputLimit is how many bytes of stdout are kept: the first ones; 0 means DefaultOutputLimit. The script runs on where it prints more.
	OutputLimit int
}

const (
	// MaxHostScript is how long a script may be, in bytes.
	MaxHostScript = 1 << 20
	// DefaultOutputLimit is how much of stdout is kept, in bytes, unless a command says otherwise.
	DefaultOutputLimit = 256 << 10
	// StderrLimit is how much of stderr is kept, in bytes: the last ones.
	StderrLimit = 4 << 10
)

// HostResult is how a script ended.
type HostResult struct {
	Stdout []byte
	Stderr string
	// ExitCode is 128 plus the signal's number where a signal ended the script.
	ExitCode int
}

// HostReason says what kept a script from running, or its end from being seen.
type HostReason string

// The reasons of a HostError.
const (
	// HostConnecting: a connection is made while nobody waits for it. The host was not asked.
	HostConnecting HostReason = "HostConnecting"
	// HostUnreachable: there was no connection, such as a name that does not resolve or a port that is closed.
	HostUnreachable HostReason = "HostUnreachable"
	// HostLost: the connection ended before the script did. The script may have run to its end. The Host
	// cannot be used again if the connection was all it had.
	HostLost HostReason = "HostConnectionLost"
	// HostNotTrusted: the host's key is not the one that is pinned, or none is. Nothing was sent to the host.
	HostNotTrusted HostReason = "HostKeyNotTrusted"
	// HostLoginRefused: the host, or the bastion, does not accept the key or the user.
	HostLoginRefused HostReason = "HostLoginRefused"
	// HostNotRoot: the login works, but does not become root without a password.
	HostNotRoot HostReason = "HostNotRoot"
	// HostSetup: what is configured cannot be used, such as a private key that does not parse.
	HostSetup HostReason = "HostSetupInvalid"
)

// HostError is why a script could not be run, or its end not be seen. It never holds a key or what was sent.
type HostError struct {
	Reason HostReason
	// Host is the address or the name of the host, or of the bastion where that is what fails.
	Host string
	Err  error
	// RetryAfter is when another try can have another result; 0 means any time. It is set for HostConnecting and
	// HostUnreachable only.
	RetryAfter time.Duration
}

// Error says which host it is, and what would fix it.
func (e *HostError) Error() string { return fmt.Sprintf("host %s: %v", e.Host, e.Err) }

// Unwrap gives the cause.
func (e *HostError) Unwrap() error { return e.Err }

// Lasts reports whether trying again changes nothing until a person does something.
func (e *HostError) Lasts() bool {
	switch e.Reason {
	case HostNotTrusted, HostLoginRefused, HostNotRoot, HostSetup:
		return true
	case HostConnecting, HostUnreachable, HostLost:
	}
	return false
}

// ReasonOfHost gives the reason of a *HostError in a chain of errors; empty where there is none.
func ReasonOfHost(err error) HostReason {
	if failed, ok := errors.AsType[*HostError](err); ok {
		return failed.Reason
	}
	return ""
}
