//go:build linux

package site_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/provider/loadbalancer"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

// start serves a site until the test ends.
func start(t *testing.T, options site.Node) *site.Client {
	t.Helper()
	hosts.Require(t)
	s := site.New(options)
	socket := filepath.Join(t.TempDir(), "site.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		_ = listener.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return site.NewClient(socket)
}

func plain(_, version string) (hosts.Options, error) {
	if version == "v0" {
		return hosts.Options{}, errors.New("no such version")
	}
	return hosts.Options{Files: map[string][]byte{"/etc/version": []byte(version)}}, nil
}

const unit = `[Service]
Type=oneshot
ExecStart=/bin/bash -c 'echo boot >>/var/lib/boots'
`

// checkLogins sees that the identity of host 1 is that of another host, and that the host's key is its own.
func checkLogins(ctx context.Context, t *testing.T, c *site.Client, address string) {
	t.Helper()
	if _, err := c.Ensure(ctx, "2", site.Host{Name: "second"}); err != nil {
		t.Fatal(err)
	}
	first, err := c.Login(ctx, "1")
	second, errSecond := c.Login(ctx, "2")
	if err := errors.Join(err, errSecond); err != nil {
		t.Fatal(err)
	}
	if len(first.Identity) == 0 || !bytes.Equal(first.Identity, second.Identity) {
		t.Error("two hosts have different identities to log in with")
	}
	if !strings.HasPrefix(string(first.KnownHosts), address+" ") || bytes.Equal(first.KnownHosts, second.KnownHosts) {
		t.Errorf("the keys of hosts: %s%s", first.KnownHosts, second.KnownHosts)
	}
	if err := c.Delete(ctx, "2"); err != nil {
		t.Error(err)
	}
}

func TestAHostIsAsAsked(t *testing.T) {
	c := start(t, plain)
	ctx := t.Context()
	spec := site.Host{
		Name: "worker", Version: "v1", Unit: "once",
		Files: map[string][]byte{"/etc/systemd/system/once.service": []byte(unit)},
	}
	made, err := c.Ensure(ctx, "1", spec)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Ensure(ctx, "1", site.Host{Name: "other"})
	if err != nil || again.Name != "worker" || again.Address != made.Address {
		t.Errorf("a host was made twice: %+v, %v", again, err)
	}
	awaitUnit(ctx, t, c, "1")
	if content, err := c.Read(ctx, "1", "/etc/version"); err != nil || string(content) != "v1" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := c.Read(ctx, "1", "/nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if got, err := c.Run(ctx, "1", "hostname; exit 3"); err != nil || got != (site.Script{Output: "worker\n", Code: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
	checkLogins(ctx, t, c, made.Address)
	for _, condition := range []site.Condition{
		{DiskFull: true}, {Disconnected: true, SyncDelay: 1}, {PowerOff: true, DiskFull: true}, {PowerOff: true, DiskFull: true}, {Disconnected: true}, {},
	} {
		got, err := c.SetCondition(ctx, "1", condition)
		if err != nil || got.Condition != condition {
			t.Errorf("%+v, want %+v: %v", got.Condition, condition, err)
		}
	}
	awaitUnit(ctx, t, c, "1")
	if content, err := c.Read(ctx, "1", "/var/lib/boots"); err != nil || string(content) != "boot\nboot\n" {
		t.Errorf("the unit ran %q, %v", content, err)
	}
	for range 2 {
		if err := c.Delete(ctx, "1"); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Host(ctx, "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a deleted host: %v", err)
	}
}

// orderly is a service that keeps a connection to a port of the machine that has the host, and
// sends a line when it has started and when it is asked to end.
const orderly = `[Service]
ExecStart=/bin/bash -c 'exec 3<>"/dev/tcp/$(ip route show default | cut -d" " -f3)/%s"; \
  trap "echo ended >&3; exit" TERM; echo started >&3; while :; do sleep 1000 & wait; done'
`

func TestADeletedHostShutsDownInOrder(t *testing.T) {
	c := start(t, plain)
	ctx := t.Context()
	listener, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	unit := fmt.Appendf(nil, orderly, port)
	if _, err := c.Ensure(ctx, "1", site.Host{
		Name: "worker", Unit: "orderly",
		Files: map[string][]byte{"/etc/systemd/system/orderly.service": unit},
	}); err != nil {
		t.Fatal(err)
	}
	connection, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	lines := bufio.NewReader(connection)
	if line, err := lines.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("the service sent %q: %v", line, err)
	}
	if err := c.Delete(ctx, "1"); err != nil {
		t.Error(err)
	}
	// The service has sent its words by now.
	if err := connection.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); err != nil || line != "ended\n" {
		t.Errorf("the service of a deleted host sent %q: %v", line, err)
	}
}

// awaitUnit waits until the host's unit has ended since the last boot.
func awaitUnit(ctx context.Context, t *testing.T, c *site.Client, id string) {
	t.Helper()
	for revision := int64(-1); ; {
		next, err := c.Wait(ctx, revision)
		if err != nil {
			t.Fatal(err)
		}
		revision = next
		if status, err := c.Host(ctx, id); err != nil {
			t.Fatal(err)
		} else if status.UnitEnded {
			return
		}
	}
}

func TestAHostThatCannotBeMadeIsNotThere(t *testing.T) {
	c := start(t, plain)
	ctx := t.Context()
	if _, err := c.Ensure(ctx, "1", site.Host{Name: "a", Version: "v0"}); err == nil {
		t.Error("a host without its programs was made")
	}
	if all, err := c.Hosts(ctx); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := c.Ensure(ctx, "1", site.Host{Name: "a", Version: "v1"}); err != nil {
		t.Error(err)
	}
}

// TestHostsReachLoadBalancers has a network of its own, which begins as one that forwards nothing.
func TestHostsReachLoadBalancers(t *testing.T) {
	hosts.Require(t)
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const script = `echo 0 >/proc/sys/net/ipv4/ip_forward && exec "$0" -test.v -test.run "^$1$"`
	const reaches = "TestALoadBalancerKeepsItsAddress"
	run := exec.CommandContext(t.Context(), "unshare", "--net", "sh", "-c", script, test, reaches)
	out, err := run.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+reaches)) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestALoadBalancerKeepsItsAddress(t *testing.T) {
	c := start(t, plain)
	ctx := t.Context()
	if has, err := c.HasBalancer(ctx, "1"); err != nil || has {
		t.Errorf("%t, %v", has, err)
	}
	first, err := c.EnsureBalancer(ctx, "1", loadbalancer.Backends{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.EnsureBalancer(ctx, "1", loadbalancer.Backends{Addresses: []string{"127.0.0.1:1"}})
	if diff := cmp.Diff(first, second); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	// Hosts reach it.
	if _, err := c.Ensure(ctx, "a", site.Host{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Run(ctx, "a", "exec 3<>/dev/tcp/"+first.Address+"/6443")
	if err != nil || got.Code != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for range 2 {
		if err := c.DeleteBalancer(ctx, "1"); err != nil {
			t.Error(err)
		}
	}
	if has, err := c.HasBalancer(ctx, "1"); err != nil || has {
		t.Errorf("after the deletion: %t, %v", has, err)
	}
}
