//go:build linux

package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

// state is the folder in which hosts of all tests on this machine see each other's locks.
const state = "/run/windlass-hosts"

// empty are the folders of a host that show nothing of the machine's: its users' files, its units, its keys, and what a
// Kubernetes node consists of.
var empty = []string{
	"/root", "/home", "/etc/ssh", "/etc/sudoers.d", "/etc/systemd/system", "/etc/kubernetes", "/etc/rancher", "/etc/stand-in",
	"/var/lib/kubelet", "/var/lib/rancher", "/var/lib/windlass", "/var/lib/etcd",
}

// machine is a running machine process.
type machine struct {
	process  *exec.Cmd
	stdin    io.WriteCloser
	requests *json.Encoder
	answers  *json.Decoder
	stderr   *bytes.Buffer
	ready    wire.Ready
}

func startMachine(size int64) (*machine, error) {
	program, err := multiCall()
	if err != nil {
		return nil, err
	}
	m := &machine{process: exec.Command(program.path()), stderr: &bytes.Buffer{}}
	m.process.Args = []string{"windlass-host"}
	m.process.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", wire.ModeVariable + "=" + wire.ModeMachine}
	m.process.Stderr = m.stderr
	// A process group of its own: an interrupt is for the test, whose end is then the machine's.
	m.process.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC, Setpgid: true}
	if m.stdin, err = m.process.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := m.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.process.Start(); err != nil {
		return nil, fmt.Errorf("starting a machine: %w", err)
	}
	m.requests, m.answers = json.NewEncoder(m.stdin), json.NewDecoder(stdout)
	err = m.requests.Encode(wire.Setup{State: state, Size: size, Empty: empty})
	if err == nil {
		err = m.answers.Decode(&m.ready)
	}
	if err == nil && m.ready.Error != "" {
		err = errors.New(m.ready.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("starting a machine: %w", errors.Join(err, m.close()))
	}
	return m, nil
}

func (m *machine) command(c wire.Command) (wire.Done, error) {
	var done wire.Done
	if err := m.requests.Encode(c); err != nil {
		return done, fmt.Errorf("telling the machine to %s: %w", c.Action, err)
	}
	if err := m.answers.Decode(&done); err != nil {
		return done, fmt.Errorf("telling the machine to %s: %w", c.Action, errors.Join(err, m.close()))
	}
	if done.Error != "" {
		return done, fmt.Errorf("machine: %s: %s", c.Action, done.Error)
	}
	return done, nil
}

// path is where something that the machine's process sees is for this process.
func (m *machine) path(inside string) string {
	return fmt.Sprintf("/proc/%d/root%s", m.process.Process.Pid, inside)
}

// close ends the machine, and returns when everything of it is gone.
func (m *machine) close() error {
	_ = m.stdin.Close()
	if err := m.process.Wait(); err != nil {
		return fmt.Errorf("the machine ended with %w: %s", err, m.stderr)
	}
	return nil
}
