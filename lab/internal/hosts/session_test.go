//go:build linux

package hosts_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

// TestSession: what ends a test is an error of the program, each cleanup runs, and the last one
// comes first. Another panic stays one.
func TestSession(t *testing.T) {
	t.Parallel()
	session := hosts.NewSession(t.Context())
	var order []string
	session.Cleanup(func() { order = append(order, "first"); session.Error("left behind") })
	session.Cleanup(func() { order = append(order, "second"); session.Fatalf("no %s", "network") })
	if err := session.Do(func() error { session.Fatal("no power"); return nil }); err == nil || err.Error() != "no power" {
		t.Errorf("Fatal returns %v", err)
	}
	err := session.End()
	if got := strings.Join(order, " "); got != "second first" || err == nil ||
		!strings.Contains(err.Error(), "no network") || !strings.Contains(err.Error(), "left behind") {
		t.Errorf("the cleanups %q return %v", got, err)
	}
	defer func() {
		if cause, ok := recover().(error); !ok || cause.Error() != "a bug" {
			t.Errorf("a panic became %v", cause)
		}
	}()
	_ = session.Do(func() error { panic(errors.New("a bug")) })
}
