package porttest_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

func TestLocalHost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("scripts must run as root, and this test does not")
	}
	porttest.RunHostSuite(t, func(*testing.T) port.Host { return &porttest.LocalHost{} })
}

func TestLocalHostLosesConnections(t *testing.T) {
	lost := &port.HostError{Reason: port.HostLost, Host: "there", Err: errors.New("cut")}
	file := t.TempDir() + "/ran"
	script := port.HostCommand{Script: "touch " + file}
	h := &porttest.LocalHost{Before: func(port.HostCommand) error { return lost }}
	if _, err := h.Exec(t.Context(), script); !errors.Is(err, lost) {
		t.Errorf("before: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the script ran")
	}
	var seen port.HostResult
	h = &porttest.LocalHost{
		Env: []string{"WORD=here"}, Dir: t.TempDir(),
		After: func(_ port.HostCommand, r port.HostResult) error { seen = r; return lost },
	}
	script.Script += "; echo $WORD $PWD"
	if _, err := h.Exec(t.Context(), script); !errors.Is(err, lost) {
		t.Errorf("after: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the script did not run: %v", err)
	}
	if want := "here " + h.Dir; strings.TrimSpace(string(seen.Stdout)) != want {
		t.Errorf("it printed %q, want %q", seen.Stdout, want)
	}
}
