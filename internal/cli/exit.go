package cli

import (
	"fmt"
	"strings"
)

// ExitCode is how a command ends. Scripts rely on the numbers: a number never changes its meaning.
type ExitCode int

// The exit codes of every command.
const (
	ExitOK      ExitCode = 0
	ExitFailure ExitCode = 1
	ExitRefused ExitCode = 3
	// ExitUnfinished is not a failure: the same command continues to follow.
	ExitUnfinished ExitCode = 4
	ExitUnsafe     ExitCode = 5
)

// exitCodes is the table that --help and docs/exit-codes.md show.
var exitCodes = []struct {
	code    ExitCode
	meaning string
}{
	{ExitOK, "the command did what it was asked to do, or the answer is yes"},
	{ExitFailure, "wrong usage or input, a command that could not do its work, or a check that found an error"},
	{ExitRefused, "the input is valid, but its goal is not reached: no legal plan exists, or an upgrade is refused, fails or is cancelled"},
	{ExitUnfinished, "the upgrade continues, but the command no longer follows it"},
	{ExitUnsafe, "a simulated run violated a safety property"},
}

// ExitCodes returns the table of exit codes as text, one line a code.
func ExitCodes() string {
	var lines strings.Builder
	lines.WriteString("Exit codes:\n")
	for _, row := range exitCodes {
		fmt.Fprintf(&lines, "  %d  %s\n", row.code, row.meaning)
	}
	return strings.TrimSuffix(lines.String(), "\n")
}

// ExitError is an error with the exit code of the command that it ends.
type ExitError struct {
	Code ExitCode
	// Silent means that the command has already printed the error, in the format that the user chose.
	Silent bool
	Err    error
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the error without its code.
func (e *ExitError) Unwrap() error { return e.Err }
