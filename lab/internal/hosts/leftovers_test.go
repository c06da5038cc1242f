//go:build linux

package hosts_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

// inner tells a copy of this test binary that it is the test that does not end well.
const inner = "WINDLASS_HOSTS_TEST_INNER"

// TestInner starts a host, and ends badly where another test asks for it.
func TestInner(t *testing.T) {
	how := os.Getenv(inner)
	if how == "" {
		t.Skip("run by TestNothingIsLeft")
	}
	h := hosts.Start(t, hosts.Options{})
	machine := parent(t, h.PID())
	fmt.Fprintf(os.Stderr, "host %s %d %d\n", h.Address(), h.PID(), machine)
	switch how {
	case "kill both":
		if err := syscall.Kill(machine, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		t.Fatal("as told")
	case "panic":
		panic("as told")
	case "fail":
		t.Fatal("as told")
	default:
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	_, result, err := status(pid)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// status is a process's state, such as "Z", and its parent.
func status(pid int) (state string, parent int, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	_, err = fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent)
	return state, parent, err
}

func TestNothingIsLeft(t *testing.T) {
	hosts.Require(t)
	for _, how := range []string{"panic", "fail", "kill", "kill both"} {
		t.Run(how, func(t *testing.T) {
			network, processes := startInner(t, how)
			// The machine's process ends when its pipe does, which may be a moment later than the test.
			for _, pid := range processes {
				waitGone(t, pid)
			}
			again := hosts.Start(t, hosts.Options{})
			output, err := exec.Command("ip", "-4", "route").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			if network != networkOf(t, again.Address()) && strings.Contains(string(output), network) && !taken(t, network) {
				t.Errorf("%s is left:\n%s", network, output)
			}
		})
	}
}

// taken says whether another test on this machine has the network now.
func taken(t *testing.T, network string) bool {
	t.Helper()
	address := netip.MustParsePrefix(network).Addr().As4()
	file, err := os.OpenFile(fmt.Sprintf("/run/windlass-hosts/%d.lock", int(address[2])<<6|int(address[3])>>2), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

func networkOf(t *testing.T, address string) string {
	t.Helper()
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	return netip.PrefixFrom(parsed, 30).Masked().String()
}

// startInner runs a test that ends badly. It returns the network of its host, and the processes: PID 1 and the machine's.
func startInner(t *testing.T, how string) (network string, processes []int) {
	t.Helper()
	command := exec.Command("/proc/self/exe", "-test.run=^TestInner$", "-test.count=1")
	command.Env = append(os.Environ(), inner+"="+how)
	output, err := command.CombinedOutput()
	if err == nil {
		t.Error("the inner test went well")
	}
	_, line, _ := strings.Cut("\n"+string(output), "\nhost ")
	var address string
	var pid, machine int
	if _, err := fmt.Sscan(line, &address, &pid, &machine); err != nil {
		t.Fatalf("%s: %v", output, err)
	}
	return networkOf(t, address), []int{pid, machine}
}

// waitGone returns when the process has ended. It polls: nobody but its parent is told of a process's end.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for {
		state, _, err := status(pid)
		if err != nil || state == "Z" {
			return
		}
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACutMachineLeavesNoPID1(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	pid := h.PID()
	h.PowerCut()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !os.IsNotExist(err) {
		t.Errorf("PID 1 is there: %v", err)
	}
}
