//go:build linux

package main

import (
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
