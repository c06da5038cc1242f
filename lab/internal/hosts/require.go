//go:build linux

package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// TB is the part of a [testing.TB] that a host uses. A program that is no test implements it to run hosts.
// Fatal, Fatalf and Skipf do not return.
type TB interface {
	Context() context.Context
	Cleanup(end func())
	Helper()
	Error(args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Require skips the test where this machine cannot run hosts, and says what is missing. Where the environment variable CI is
// "true" it fails the test instead: there, nothing is left out in silence.
func Require(tb TB) {
	tb.Helper()
	require(tb, os.Getenv("CI"), canRun())
}

func require(tb TB, ci string, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case ci == "true":
		tb.Fatalf("hosts for tests: %v", err)
	default:
		tb.Skipf("hosts for tests: %v", err)
	}
}

// canRun tries everything once in a process.
var canRun = sync.OnceValue(func() error {
	if os.Geteuid() != 0 {
		return errors.New("they need root, for namespaces and mounts")
	}
	for program, source := range map[string]string{
		"ip": "iproute2", "nsenter": "util-linux", "bash": "bash", sshd: "openssh-server", "go": "Go's toolchain",
	} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing; it comes with %s", program, source)
		}
	}
	m, err := startMachine(1 << 20)
	if err != nil {
		return fmt.Errorf("namespaces, tmpfs and overlay mounts, and routes must be allowed: %w", err)
	}
	return m.close()
})

const sshd = "/usr/sbin/sshd"
