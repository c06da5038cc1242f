package devplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// ProbeFlag makes the supervisor's command call [Probe] instead of [Supervise].
const ProbeFlag = "--probe"

const probeTimeout = 10 * time.Second

// The in-memory provider's ports cannot be set: one for debugging, and one for each workload cluster from the second on.
const (
	providerDebugPort = 19000
	providerFirstPort = 20000
)

// Probe is what the supervisor's command does to find out whether the namespaces that it was started in are of use: some
// systems let anyone make a user namespace and then grant no rights in it.
func Probe() error { return loopbackUp() }

// isolate chooses how the supervisor is started.
func (s *starter) isolate(ctx context.Context) error {
	var reasons []error
	if s.config.Isolation != IsolationNone {
		for _, attributes := range isolations() {
			err := s.probe(ctx, attributes)
			if err == nil {
				s.attributes, s.isolated = attributes, true
				return nil
			}
			reasons = append(reasons, err)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("starting the plane: %w", context.Cause(ctx))
	}
	why := errors.Join(append([]error{errors.New("this system does not permit network namespaces")}, reasons...)...)
	if s.config.Isolation == IsolationRequired {
		return fmt.Errorf("the plane cannot be isolated: %w", why)
	}
	if s.config.Veth != nil {
		return fmt.Errorf("a veth needs a network namespace: %w", why)
	}
	s.attributes = &syscall.SysProcAttr{Setsid: true}
	return s.shareNetwork(ctx)
}

func (s *starter) probe(ctx context.Context, attributes *syscall.SysProcAttr) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	args := append(slices.Clone(s.config.SupervisorArgs), ProbeFlag)
	cmd := exec.CommandContext(ctx, s.config.SupervisorPath, args...) //nolint:gosec // G204: the caller names its own binary
	cmd.SysProcAttr = attributes
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("trying namespaces (clone flags %#x): %w %s", attributesFlags(attributes), err, out)
	}
	return nil
}

// shareNetwork warns of what a plane without a network namespace opens, and refuses when its fixed ports are taken.
func (s *starter) shareNetwork(ctx context.Context) error {
	if slices.Contains(s.config.Without, InMemoryManager) {
		s.report(Event{Step: "network", Warning: true, Message: "no network namespace: the managers' webhook ports are open on all interfaces of this machine"})
		return nil
	}
	var lc net.ListenConfig
	for _, port := range []int{providerDebugPort, providerFirstPort} {
		listener, err := lc.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
		if err != nil {
			return fmt.Errorf("without a network namespace the in-memory provider needs port %d, which is taken (by another plane?): %w", port, err)
		}
		if err := listener.Close(); err != nil {
			return fmt.Errorf("releasing port %d: %w", port, err)
		}
	}
	s.report(Event{Step: "network", Warning: true, Message: fmt.Sprintf(
		"no network namespace: ports %d, %d and up, and the managers' webhook ports are open on all interfaces of this machine, and no second plane can run beside this one",
		providerDebugPort, providerFirstPort)})
	return nil
}
