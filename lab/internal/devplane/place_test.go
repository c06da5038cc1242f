package devplane

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPlaceIsTakenInTurns exchanges a stock manager and the child that replaces it. Both have the same ports, so they never run together.
func TestPlaceIsTakenInTurns(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	s := &supervisor{
		children: set, layout: set.layout, creds: &credentials{}, ports: &picker{used: map[uint16]bool{}, free: func(uint16) bool { return true }},
		places: map[string]place{CoreManager: {
			ports: map[string]uint16{portWebhook: 9443, portHealth: 9540}, certDir: "/certs", args: []string{"exec sleep 600", "--webhook-port=9443"},
		}},
	}
	stock := set.mustAdd(t, shell(CoreManager, "exec sleep 600"))
	ours := Child{Name: "ours", Path: "/bin/sh", Args: []string{"-c"}, Replaces: CoreManager, StockArgs: true, Env: []string{"PORT=$(HEALTH_PORT)"}}
	occupied := func(what string, err error, name string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), name+" is running: stop it before another takes its place") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := s.addChild(t.Context(), ours)
	occupied("adding ours beside the stock manager", err, CoreManager)
	set.stop(stock, 0)
	status, err := s.addChild(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/sh", "-c", "exec sleep 600", "--webhook-port=9443"}, status.Command); diff != "" {
		t.Errorf("the command (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]uint16{portWebhook: 9443, portHealth: 9540}, status.Ports); diff != "" {
		t.Errorf("the ports (-want +got):\n%s", diff)
	}
	_, err = s.startChild(t.Context(), stock)
	occupied("starting the stock manager beside ours", err, "ours")
	replacing, err := set.find("ours")
	if err != nil {
		t.Fatal(err)
	}
	if got := replacing.spec.Env[len(replacing.spec.Env)-1]; got != "PORT=9540" {
		t.Errorf("the environment has %q", got)
	}
	if again, err := s.startChild(t.Context(), replacing); err != nil || again.PID != status.PID {
		t.Errorf("starting ours, which runs: %+v, %v", again, err)
	}
	set.kill(replacing)
	if _, err := s.startChild(t.Context(), stock); err != nil {
		t.Errorf("starting the stock manager after ours was killed: %v", err)
	}
	_, err = s.startChild(t.Context(), replacing)
	occupied("starting ours beside the stock manager", err, CoreManager)
	set.stop(stock, 0)
	if _, err := s.startChild(t.Context(), replacing); err != nil {
		t.Errorf("starting ours again: %v", err)
	}
}
