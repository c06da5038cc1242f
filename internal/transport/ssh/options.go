package ssh

import (
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windlass-dev/windlass/internal/port"
)

// Login is where to log in, as whom, and which keys to trust there.
type Login struct {
	// Address is host:port, or a host, which means port 22.
	Address string
	// User must be root, or may become root with sudo without a password. A bastion's user needs neither: it only forwards connections.
	User string
	// PrivateKeys are PEM or OpenSSH files without a passphrase. They are tried in this order; sshd allows six by default.
	PrivateKeys [][]byte
	// KnownHosts is what known_hosts files hold: names may be hashed, lines may begin with @cert-authority or @revoked.
	KnownHosts []byte
	// HostNames are other names under which the host's key may be pinned, such as the Machine's; with port 22 and with the port of Address. A key
	// that is pinned under any of the names is trusted.
	HostNames []string
}

// Options is what New needs.
type Options struct {
	Login
	// Bastion is logged in to first, if set; it forwards the connection, and sees nothing of what goes through it.
	Bastion *Login
	// ConnectTimeout bounds the time until a script can be sent, from the first packet on; 0 means 10 s. Each Exec may have a nearer end of its own.
	ConnectTimeout time.Duration
	// KeepAlive is how often the host is asked whether it is there; 0 means 5 s. The connection is lost when it has not answered for three times that.
	KeepAlive time.Duration
}

const (
	defaultConnectTimeout = 10 * time.Second
	defaultKeepAlive      = 5 * time.Second
	// missedKeepAlives is how many times KeepAlive a host may stay silent.
	missedKeepAlives = 3
	defaultPort      = "22"
)

// target is a Login that was checked.
type target struct {
	address string
	user    string
	signers []ssh.Signer
	trust   *trust
}

// parseLogin checks a login. No error holds anything of a key.
func parseLogin(l Login) (*target, error) {
	t := &target{address: withPort(l.Address), user: l.User}
	fail := func(problem error) (*target, error) {
		return nil, &port.HostError{Reason: port.HostSetup, Host: t.address, Err: problem}
	}
	host, number, err := net.SplitHostPort(t.address)
	switch {
	case err != nil || host == "" || number == "":
		return fail(fmt.Errorf("address %q is not host:port", l.Address))
	case l.User == "":
		return fail(errors.New("no user is given"))
	case len(l.PrivateKeys) == 0:
		return fail(errors.New("no private key is given"))
	}
	for i, content := range l.PrivateKeys {
		signer, err := parseKey(content)
		if err != nil {
			return fail(fmt.Errorf("private key %d: %w", i+1, err))
		}
		t.signers = append(t.signers, signer)
	}
	pinned, err := parseKnownHosts(l.KnownHosts)
	if err != nil {
		return fail(fmt.Errorf("known hosts: %w", err))
	}
	t.trust = newTrust(pinned, t.address, l.HostNames)
	return t, nil
}

func parseKey(content []byte) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(content)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, errors.New("it needs a passphrase, which nobody can type here. Fix: use a key without one (ssh-keygen -p)")
	case err != nil:
		// The parsers' words could hold a part of what they read.
		return nil, errors.New("it is not a private key in PEM or OpenSSH form")
	}
	return signer, nil
}

// withPort adds the port of SSH where there is none.
func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil || address == "" {
		return address
	}
	if ip := net.ParseIP(address); ip != nil {
		return net.JoinHostPort(address, defaultPort)
	}
	if joined := address + ":" + defaultPort; isHostPort(joined) {
		return joined
	}
	return address
}

func isHostPort(address string) bool {
	_, _, err := net.SplitHostPort(address)
	return err == nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
