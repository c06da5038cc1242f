//go:build linux

// Command init is everything of a test host that is ours, in one binary: the machine that holds its disk, PID 1, systemctl,
// systemd-run, journalctl, a stand-in for sudo, and, with a trailer behind it, stand-ins for Kubernetes' programs.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/machine"
	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/pid1"
	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/standin"
	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/sudo"
	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

func main() {
	status, err := run(os.Args, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test host:", err)
		status = 1
	}
	os.Exit(status)
}

func run(args []string, stdout, stderr io.Writer) (int, error) {
	trailer, found, err := standin.Read("/proc/self/exe")
	if err != nil {
		return 1, fmt.Errorf("reading the program that this replaces: %w", err)
	}
	if found {
		return standin.Run(trailer, args[1:], stdout, stderr), nil
	}
	if filepath.Base(args[0]) == "sudo" {
		return sudo.Main(args[1:], stderr), nil
	}
	switch os.Getenv(wire.ModeVariable) {
	case wire.ModeMachine:
		return 0, machine.Main(os.Stdin, stdout)
	case wire.ModePID1:
		return 0, errors.Join(os.Unsetenv(wire.ModeVariable), pid1.Main(os.NewFile(3, "config"), os.NewFile(4, "ready")))
	}
	return client(args, stdout, stderr)
}

// client has PID 1 do what systemctl or another of its clients is asked for.
func client(args []string, stdout, stderr io.Writer) (int, error) {
	connection, err := net.Dial("unix", wire.Socket)
	if err != nil {
		return 1, fmt.Errorf("connecting to PID 1: %w", err)
	}
	defer func() { _ = connection.Close() }()
	if err := json.NewEncoder(connection).Encode(wire.Request{Args: args}); err != nil {
		return 1, fmt.Errorf("asking PID 1: %w", err)
	}
	var response wire.Response
	if err := json.NewDecoder(connection).Decode(&response); err != nil {
		return 1, fmt.Errorf("reading the answer of PID 1: %w", err)
	}
	_, outErr := stdout.Write(response.Stdout)
	_, errErr := stderr.Write(response.Stderr)
	return response.Code, errors.Join(outErr, errErr)
}
