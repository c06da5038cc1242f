package main

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestDownRemovesSocketOfKilledSite: the next "up" refuses a state directory with unknown files.
func TestDownRemovesSocketOfKilledSite(t *testing.T) { //nolint:paralleltest // It changes directory.
	t.Chdir(t.TempDir()) // The name of a socket is short.
	const state = "state"
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "windlass-dev.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var listening net.ListenConfig
	socket, err := listening.Listen(t.Context(), "unix", filepath.Join(state, "site.sock"))
	if err != nil {
		t.Fatal(err)
	}
	unix, ok := socket.(*net.UnixListener)
	if !ok {
		t.Fatalf("it listens with a %T", socket)
	}
	unix.SetUnlinkOnClose(false)
	if err := socket.Close(); err != nil {
		t.Fatal(err)
	}
	if err := runDown(t.Context(), state, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory is still there: %v", err)
	}
}
