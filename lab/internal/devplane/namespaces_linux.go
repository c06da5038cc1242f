package devplane

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolations are the ways to isolate a supervisor, best first. Without privileges a user namespace gives the rights over the
// others; inside, the user's id is shown as root's.
func isolations() []*syscall.SysProcAttr {
	const spaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWPID
	rootless := func(flags uintptr) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{
			Setsid:      true,
			Cloneflags:  flags | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
	}
	all := []*syscall.SysProcAttr{rootless(spaces), rootless(syscall.CLONE_NEWNET)}
	if os.Geteuid() == 0 {
		all = append([]*syscall.SysProcAttr{{Setsid: true, Cloneflags: spaces}, {Setsid: true, Cloneflags: syscall.CLONE_NEWNET}}, all...)
	}
	return all
}

// loopbackUp makes 127.0.0.1 work in a new network namespace.
func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket for the loopback interface: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("naming the loopback interface: %w", err)
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, request); err != nil {
		return fmt.Errorf("reading the loopback interface: %w", err)
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bringing the loopback interface up: %w", err)
	}
	return nil
}

// openPeerNamespace opens the namespace that a Veth leads to. The file is handed to the supervisor, who could not find a
// process by its id from inside a PID namespace.
func openPeerNamespace(name string) (*os.File, error) {
	path := "/var/run/netns/" + name
	if _, err := strconv.Atoi(name); err == nil {
		path = "/proc/" + name + "/ns/net"
	} else if strings.ContainsRune(name, '/') {
		path = name
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the veth's peer namespace %q: %w", name, err)
	}
	return file, nil
}

// connectVeth makes the pair from the plane's namespace, the current one.
func connectVeth(v Veth, peer *os.File) error {
	if err := runIP(peer, "link", "add", v.Name, "type", "veth", "peer", "name", v.PeerName, "netns", "/proc/self/fd/3"); err != nil {
		return err
	}
	if err := configureLink(v.Name, v.Address); err != nil {
		return err
	}
	if !v.PeerAddress.IsValid() {
		return nil
	}
	return inNamespace(peer, func() error { return configureLink(v.PeerName, v.PeerAddress) })
}

func configureLink(name string, address netip.Prefix) error {
	if err := runIP(nil, "address", "add", address.String(), "dev", name); err != nil {
		return err
	}
	return runIP(nil, "link", "set", name, "up")
}

// runIP runs iproute2 in the namespace of the calling thread; peer becomes its descriptor 3.
func runIP(peer *os.File, args ...string) error {
	path, err := exec.LookPath("ip")
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("a veth needs the command ip: install iproute2")
	}
	if err != nil {
		return fmt.Errorf("looking for the command ip: %w", err)
	}
	cmd := exec.Command(path, args...) //nolint:gosec,noctx // G204: ip with the names that validate has seen; it ends at once
	if peer != nil {
		cmd.ExtraFiles = []*os.File{peer}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// inNamespace runs f on a thread that has entered the network namespace, and drops that thread afterwards.
func inNamespace(namespace *os.File, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread with the goroutine
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("entering the veth's peer namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// controlAddress reaches a socket in dir however long dir's path is: the kernel limits the path in the address, not the one it
// resolves to. The file must stay open while the address is in use.
func controlAddress(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketName)
}

func attributesFlags(a *syscall.SysProcAttr) uintptr { return a.Cloneflags }

// childrenSurvive says whether children outlive a supervisor that crashes: here the kernel ends them.
const childrenSurvive = false
