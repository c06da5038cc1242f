//go:build linux

package hosts_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

func TestShutdownEndsServicesBeforeThePower(t *testing.T) {
	const unit = `[Service]
ExecStart=/bin/bash -c 'trap "echo ended >/var/lib/service; exit" TERM; while :; do sleep 1000 & wait; done'
[Install]
WantedBy=multi-user.target
`
	h := hosts.Start(t, hosts.Options{
		Files: map[string][]byte{"/etc/systemd/system/orderly.service": []byte(unit)}, Enable: []string{"orderly"},
	})
	h.MustRun(`setsid bash -c 'trap "echo ended >/var/lib/stray; exit" TERM; touch /run/ready; while :; do sleep 1000 & wait; done' &
until [ -e /run/ready ]; do sleep 0.01; done`)
	h.Shutdown()
	if h.PID() != 0 {
		t.Error("the power is on")
	}
	for _, path := range []string{"/var/lib/service", "/var/lib/stray"} {
		if text, err := h.Read(path); err != nil || string(text) != "ended\n" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	h.Shutdown()
	h.Boot()
	if _, err := h.Read("/run/ready"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the boot: %v", err)
	}
}

func TestASessionReturnsWhatEndsATest(t *testing.T) {
	s := hosts.NewSession(t.Context())
	var h *hosts.Host
	if err := s.Do(func() error { h = hosts.Start(s, hosts.Options{}); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.Do(func() error { h.MustRun("exit 3"); return nil }); err == nil {
		t.Error("a script failed, and Do returned no error")
	}
	if err := s.Do(func() error { h.MustRun("true"); return nil }); err != nil {
		t.Error(err)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
	if _, err := h.Run(t.Context(), "true"); err == nil {
		t.Error("the host outlived its session")
	}
}

func TestListenIsInTheHostsNetwork(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	listener, err := h.Listen(6443)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte("hello\n"))
			_ = connection.Close()
		}
	}()
	if got := run(t, h, "head -n1 </dev/tcp/"+h.Address()+"/6443"); got != "hello" {
		t.Errorf("%q", got)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	h.PowerCut()
	if _, err := h.Listen(6443); err == nil {
		t.Error("it listens in a host without power")
	}
}
