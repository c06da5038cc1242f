//go:build linux

package hosts

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Key is a pair of keys as files.
type Key struct {
	private, authorized []byte
}

// NewKey makes a pair of keys.
func NewKey() (Key, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return Key{}, fmt.Errorf("writing a key: %w", err)
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return Key{}, fmt.Errorf("writing a key: %w", err)
	}
	return Key{private: pem.EncodeToMemory(block), authorized: ssh.MarshalAuthorizedKey(sshPublic)}, nil
}

func (h *Host) newHostKey() error {
	k, err := NewKey()
	if err != nil {
		return err
	}
	h.hostKey = k
	return h.write("/etc/ssh/ssh_host_ed25519_key", k.private, 0o600)
}

// Key is the private key of a user: "root", Ops or NoSudo.
func (h *Host) Key(user string) []byte {
	h.tb.Helper()
	k, ok := h.keys[user]
	if !ok {
		h.tb.Fatalf("host %s: no user %q has a key", h.options.Name, user)
	}
	return k.private
}

// KnownHosts is the host's key as it is now, in the form of known_hosts: for its address and for those of all relays that
// DropConnectionsEvery has made.
func (h *Host) KnownHosts() []byte {
	names := []string{h.Address()}
	for _, relay := range h.relays {
		host, port, err := net.SplitHostPort(relay)
		h.check(err)
		names = append(names, fmt.Sprintf("[%s]:%s", host, port))
	}
	return fmt.Appendf(nil, "%s %s", strings.Join(names, ","), h.hostKey.authorized)
}

// ChangeHostKey gives the host another key, and ends all sessions, as a machine that was installed anew does.
func (h *Host) ChangeHostKey() {
	h.tb.Helper()
	h.check(h.newHostKey())
	if h.PID() != 0 {
		// Sessions outlive the server that made them.
		h.MustRun("pkill -KILL '^sshd' || true; systemctl restart ssh")
	}
}

// MustRun is Run for what must not fail.
func (h *Host) MustRun(script string) string {
	h.tb.Helper()
	output, err := h.Run(context.WithoutCancel(h.tb.Context()), script)
	h.check(err)
	return output
}
