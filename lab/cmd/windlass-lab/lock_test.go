package main

import (
	"path/filepath"
	"testing"
)

func TestLockFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "host")
	unlock, err := lockFolder(folder, "busy: %s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockFolder(folder, "busy: %s"); err == nil || err.Error() != "busy: "+folder {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	if unlock, err = lockFolder(folder, "busy: %s"); err != nil {
		t.Fatal(err)
	}
	unlock()
}
