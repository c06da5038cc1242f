//go:build linux

package hosts

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// defaultSize is room for a few copies of stand-ins.
const defaultSize = 256 << 20

// Options of a host. The zero value is a host with a small disk.
type Options struct {
	// Name is the host name; "host" where it is empty.
	Name string
	// Size of the disk in bytes: what can be written beside what the machine's own root has. 256 MiB where it is 0. It takes
	// memory only as it is used.
	Size int64
	// Files to write before the first boot: path -> content. See Host.Write.
	Files map[string][]byte
	// Links to make before the first boot: path -> target. What is at the path is replaced.
	Links map[string]string
	// Enable are units to be started at boot, besides ssh. Their files must be among Files, or on the machine.
	Enable []string
	// RootKey is the key with which root logs in. Without one, the host makes one.
	RootKey *Key
	// Routed hosts reach each other: the machine forwards packets that come from one of them.
	Routed bool
	// Off leaves the power off: Start does not boot.
	Off bool
	// Behind is a bastion: the host's only cable leads to that host, and not to the machine. The bastion must be on whenever
	// this host boots; when it loses power this host has no network until it is booted again.
	Behind *Host
}

// Host is one host. Its methods fail the test on errors, and so must be called by the test's own goroutine, unless they say
// otherwise.
type Host struct {
	tb      TB
	options Options
	machine *machine
	pid     atomic.Int64 // of PID 1; 0 while the power is off
	keys    map[string]Key
	hostKey Key

	readOnly []string
	delay    time.Duration // of synchronous writes
	relays   []string      // addresses besides the host's own at which its sshd answers
	forwards map[int]*forward
}

// Start makes a host and boots it. It returns when the services that are enabled, sshd among them, have started. The host is
// gone when the test is over. It calls Require.
func Start(tb TB, options Options) *Host {
	tb.Helper()
	Require(tb)
	options.Name = cmp.Or(options.Name, "host")
	m, err := startMachine(cmp.Or(options.Size, defaultSize))
	if err != nil {
		tb.Fatal(err)
	}
	h := &Host{tb: tb, options: options, machine: m, forwards: map[int]*forward{}}
	tb.Cleanup(h.end)
	h.install()
	if !options.Off {
		h.Boot()
	}
	return h
}

func (h *Host) end() {
	for port := range h.forwards {
		h.stopListening(port)
	}
	if err := h.machine.close(); err != nil {
		h.tb.Error(err)
	}
}

func (h *Host) check(err error) {
	h.tb.Helper()
	if err != nil {
		h.tb.Fatalf("host %s: %v", h.options.Name, err)
	}
}

func (h *Host) command(action wire.Action) int {
	h.tb.Helper()
	c := wire.Command{Action: action}
	if action == wire.Boot {
		c.Options = wire.BootOptions{
			Hostname: h.options.Name, ReadOnly: h.readOnly, SyncDelay: h.delay, Routed: h.options.Routed,
		}
		if h.options.Behind != nil {
			c.Options.GatewayPID = h.options.Behind.PID()
		}
	}
	done, err := h.machine.command(c)
	h.check(err)
	return done.PID
}

// Name is the host name.
func (h *Host) Name() string { return h.options.Name }

// Address is the host's IPv4 address, the same after every boot. sshd listens on port 22 of it. The machine reaches it, and
// nobody else does, unless it is Routed or Behind another host.
func (h *Host) Address() string { return h.machine.ready.Host }

// PID is PID 1's number on the machine; 0 while the power is off.
func (h *Host) PID() int { return int(h.pid.Load()) }

// PowerCut kills everything in the host at once. The disk stays as it is, and so does the journal; /run and /tmp are lost.
// Connections are not closed: the other end hears nothing more, and its next packets are answered only after the next boot.
func (h *Host) PowerCut() {
	h.tb.Helper()
	for port := range h.forwards {
		h.stopListening(port)
	}
	h.command(wire.Cut)
	h.pid.Store(0)
}

// Shutdown stops the host in order, as a person does: its services end, then all processes, and then the power is cut. A
// host whose power is off is left alone.
func (h *Host) Shutdown() {
	h.tb.Helper()
	if h.PID() == 0 {
		return
	}
	h.ask(wire.Request{Shutdown: true})
	h.PowerCut()
}

// Boot turns the power on, after a cut where it was on. It returns when the enabled services have started, or failed. What
// Forward and ReadOnly have set up is there again; the cable is plugged in.
func (h *Host) Boot() {
	h.tb.Helper()
	if h.PID() != 0 {
		h.PowerCut()
	}
	h.pid.Store(int64(h.command(wire.Boot)))
	for port := range h.forwards {
		h.listen(port)
	}
}

// FillDisk leaves no room on the disk: whoever writes gets "no space left on device".
func (h *Host) FillDisk() {
	h.tb.Helper()
	h.command(wire.Fill)
}

// FreeDisk undoes FillDisk.
func (h *Host) FreeDisk() {
	h.tb.Helper()
	h.command(wire.Free)
}

// DelaySyncs makes each fsync and fdatasync take longer by d, also after the next boot, as on a slow disk. 0 undoes it.
func (h *Host) DelaySyncs(d time.Duration) {
	h.tb.Helper()
	if h.PID() != 0 {
		h.ask(wire.Request{SyncDelay: &d})
	}
	h.delay = d
}

// ReadOnly makes a folder read-only, also after the next boot.
func (h *Host) ReadOnly(folder string) {
	h.tb.Helper()
	if h.PID() != 0 {
		h.ask(wire.Request{ReadOnly: folder})
	}
	h.readOnly = append(h.readOnly, folder)
}

// Writable undoes ReadOnly.
func (h *Host) Writable(folder string) {
	h.tb.Helper()
	if h.PID() != 0 {
		h.ask(wire.Request{Writable: folder})
	}
	h.readOnly = slices.DeleteFunc(h.readOnly, func(other string) bool { return other == folder })
}
