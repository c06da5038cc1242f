//go:build linux

package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// slots is how many hosts may be up at once on one machine: a /30 each, out of 10.231.0.0/16.
const slots = 1 << 14

// slot is a host's number: its network and the name of its cable. A locked file keeps it; the lock ends with the process,
// however that ends, and whoever takes the slot next removes what was left.
type slot struct {
	lock                         *os.File
	link, network, gateway, host string
}

func newSlot(number int, lock *os.File) *slot {
	address := func(offset int) string { return fmt.Sprintf("10.231.%d.%d", number>>6, number&63<<2+offset) }
	return &slot{
		lock: lock, link: fmt.Sprintf("wlhost%d", number), network: address(0) + "/30", gateway: address(1), host: address(2),
	}
}

// allocate takes the first free slot.
func allocate(state string) (*slot, error) {
	for number := range slots {
		s, err := take(state, number)
		if err != nil || s != nil {
			return s, err
		}
	}
	return nil, fmt.Errorf("all of %d networks for test hosts are taken (locks in %s)", slots, state)
}

// take returns nil where somebody else has the slot.
func take(state string, number int) (*slot, error) {
	lock, err := os.OpenFile(filepath.Join(state, strconv.Itoa(number)+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, lock.Close()
	case err != nil:
		return nil, errors.Join(fmt.Errorf("locking %s: %w", lock.Name(), err), lock.Close())
	}
	s := newSlot(number, lock)
	s.clean()
	return s, nil
}

// sweep removes what machines that were killed have left: locks are theirs no more.
func sweep(state string) error {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	routes, err := exec.Command("ip", "-4", "route", "show", "type", "unreachable").Output()
	if err != nil {
		return fmt.Errorf("listing routes: %w", err)
	}
	for line := range strings.SplitSeq(string(routes), "\n") {
		number, ok := numberOf(line)
		if !ok {
			continue
		}
		s, err := take(state, number)
		if err != nil {
			return err
		}
		if s != nil {
			s.free()
		}
	}
	return nil
}

// numberOf is the slot whose route the line shows.
func numberOf(line string) (int, bool) {
	var high, low int
	if n, err := fmt.Sscanf(line, "unreachable 10.231.%d.%d/30", &high, &low); n != 2 || err != nil {
		return 0, false
	}
	return high<<6 | low>>2, true
}

// block keeps packets for a host that is off from leaving the machine.
func (s *slot) block() error {
	return ip("route add unreachable " + s.network + " metric 4000")
}

// plug connects the host with the network namespace of its gateway.
func (s *slot) plug(pid int, b wire.BootOptions) error {
	if b.GatewayPID == 0 {
		err := ip(fmt.Sprintf("link add %s type veth peer name eth0 netns %d", s.link, pid),
			fmt.Sprintf("addr add %s/30 dev %s", s.gateway, s.link), fmt.Sprintf("link set %s up", s.link))
		if err == nil && b.Routed {
			err = s.route()
		}
		return err
	}
	gateway := strconv.Itoa(b.GatewayPID)
	for _, args := range [][]string{
		{"ip", "link", "add", s.link, "netns", gateway, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)},
		{"nsenter", "-t", gateway, "-n", "ip", "addr", "add", s.gateway + "/30", "dev", s.link},
		{"nsenter", "-t", gateway, "-n", "ip", "link", "set", s.link, "up"},
	} {
		if output, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, output)
		}
	}
	return nil
}

// route forwards packets that come from the host, and only these: ip_forward would make the machine
// a router for all its networks, and would stay. The setting ends with the link.
func (s *slot) route() error {
	path := "/proc/sys/net/ipv4/conf/" + s.link + "/forwarding"
	if err := os.WriteFile(path, []byte("1"), 0); err != nil {
		return fmt.Errorf("forwarding packets of the host: %w", err)
	}
	return nil
}

// unplug takes the cable out of the host.
func (s *slot) unplug(pid int) {
	_ = exec.Command("nsenter", "-t", strconv.Itoa(pid), "-n", "ip", "link", "del", "eth0").Run()
}

// clean removes what is in the machine's own network namespace; most of the time nothing is.
func (s *slot) clean() {
	_ = ip("link del " + s.link)
	_ = ip("route del unreachable " + s.network)
}

func (s *slot) free() {
	s.clean()
	_ = s.lock.Close()
}

func ip(commands ...string) error {
	batch := exec.Command("ip", "-batch", "-")
	batch.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if output, err := batch.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %s: %w: %s", strings.Join(commands, "; "), err, output)
	}
	return nil
}
