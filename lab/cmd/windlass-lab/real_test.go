package main

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDownWhileAClusterStarts: "down" removes nothing that another command needs for its start.
func TestDownWhileAClusterStarts(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	unlock, err := lockFolder(state, busyState)
	if err != nil {
		t.Fatal(err)
	}
	folder := workloadFolder(state)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	err = runDown(t.Context(), state, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "another command is starting a cluster") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("what the other command needs is gone: %v", err)
	}
	unlock()
	if err := runDown(t.Context(), state, io.Discard); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the files of the real cluster are still there: %v", err)
	}
}

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
