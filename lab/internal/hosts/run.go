//go:build linux

package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// ExitError says that a script of Run ended with another status than 0.
type ExitError struct {
	// Code is the exit status; 128 and the signal's number for one that was killed.
	Code int
	// Output is what the script wrote.
	Output string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("exit status %d: %s", e.Code, strings.TrimSpace(e.Output))
}

// errOff says that the host has no power.
var errOff = errors.New("the power is off")

// Run runs a bash script as root in the host, not over ssh, and returns what it writes to both of its outputs. A status other
// than 0 is an *ExitError. A script that has not ended when ctx does is killed. It returns an error, too, when the power is cut
// while it runs. Any goroutine may call it.
func (h *Host) Run(ctx context.Context, script string) (string, error) {
	response, err := h.call(ctx, wire.Request{Script: script})
	if err != nil {
		return "", err
	}
	output := string(response.Stdout) + string(response.Stderr)
	if response.Code != 0 {
		return output, &ExitError{Code: response.Code, Output: output}
	}
	return output, nil
}

func (h *Host) ask(request wire.Request) {
	h.tb.Helper()
	response, err := h.call(h.tb.Context(), request)
	h.check(err)
	if response.Code != 0 {
		h.tb.Fatalf("host %s: %s", h.options.Name, response.Stderr)
	}
}

func (h *Host) call(ctx context.Context, request wire.Request) (wire.Response, error) {
	var response wire.Response
	if h.PID() == 0 {
		return response, errOff
	}
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", filepath.Join(h.Root(), wire.Socket))
	if err != nil {
		return response, fmt.Errorf("connecting to PID 1: %w", err)
	}
	defer func() { _ = connection.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	err = json.NewEncoder(connection).Encode(request)
	if err == nil {
		err = json.NewDecoder(connection).Decode(&response)
	}
	if ctx.Err() != nil {
		return response, ctx.Err()
	}
	if err != nil {
		return response, fmt.Errorf("asking PID 1: %w", err)
	}
	return response, nil
}
