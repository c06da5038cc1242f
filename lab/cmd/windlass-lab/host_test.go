//go:build linux

package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestLockFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "host")
	unlock, err := lockFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockFolder(folder); err == nil || !strings.HasPrefix(err.Error(), "another host runs already") {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	if unlock, err = lockFolder(folder); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// TestHostSession: what ends a test is an error of the program, each cleanup runs, and the last one
// comes first. Another panic stays one.
func TestHostSession(t *testing.T) {
	t.Parallel()
	session := &hostSession{ctx: t.Context()}
	var order []string
	session.Cleanup(func() { order = append(order, "first"); session.Error("left behind") })
	session.Cleanup(func() { order = append(order, "second"); session.Fatalf("no %s", "network") })
	if err := session.protect(func() error { session.Fatal("no power"); return nil }); err == nil || err.Error() != "no power" {
		t.Errorf("Fatal returns %v", err)
	}
	err := session.end()
	if got := strings.Join(order, " "); got != "second first" || err == nil ||
		!strings.Contains(err.Error(), "no network") || !strings.Contains(err.Error(), "left behind") {
		t.Errorf("the cleanups %q return %v", got, err)
	}
	defer func() {
		if cause, ok := recover().(error); !ok || cause.Error() != "a bug" {
			t.Errorf("a panic became %v", cause)
		}
	}()
	_ = session.protect(func() error { panic(errors.New("a bug")) })
}
