package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// trust says whether a key is a host's. It is read only.
type trust struct {
	// addresses are the names of the host, each with a port.
	addresses []string
	// pinned are the lines about the host; revoked are the keys of all lines that revoke one, whatever host they name.
	pinned, revoked []pinnedKey
}

func newTrust(lines []pinnedKey, address string, names []string) *trust {
	t := &trust{addresses: []string{address}}
	_, number, err := net.SplitHostPort(address)
	for _, name := range names {
		t.addresses = append(t.addresses, net.JoinHostPort(name, defaultPort))
		if err == nil && number != defaultPort {
			t.addresses = append(t.addresses, net.JoinHostPort(name, number))
		}
	}
	for _, line := range lines {
		switch {
		case line.revoked:
			t.revoked = append(t.revoked, line)
		case slices.ContainsFunc(t.addresses, line.matches):
			t.pinned = append(t.pinned, line)
		}
	}
	return t
}

// check is nil for a key that is pinned and not revoked, and for a certificate that is valid now, for one of the host's names, and signed by
// an authority that is pinned for it.
func (t *trust) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	if certificate, ok := key.(*ssh.Certificate); ok {
		return t.checkCertificate(certificate)
	}
	if t.isRevoked(key) {
		return fmt.Errorf("the host shows the key %s, which known hosts revoke; do not trust it, give the host a new key", fingerprint(key))
	}
	for _, line := range t.pinned {
		if !line.authority && sameKey(line.key, key) {
			return nil
		}
	}
	if len(t.pinned) == 0 {
		return fmt.Errorf("known hosts pin no key for %s; the host shows %s. Fix: compare that with its console, then add the line: %s",
			strings.Join(t.addresses, ", "), fingerprint(key), knownhosts.Line(t.addresses[:1], key))
	}
	return fmt.Errorf("the host shows the key %s, but known hosts pin %s; if the host was reinstalled, compare the key with its console and replace the line, "+
		"otherwise another machine may intercept the connection", fingerprint(key), t.fingerprints())
}

func (t *trust) checkCertificate(certificate *ssh.Certificate) error {
	problem := errors.New("known hosts pin no certificate authority for it")
	for _, address := range t.addresses {
		checker := ssh.CertChecker{
			IsRevoked: func(c *ssh.Certificate) bool { return t.isRevoked(c.Key) || t.isRevoked(c.SignatureKey) },
			IsHostAuthority: func(authority ssh.PublicKey, address string) bool {
				return slices.ContainsFunc(t.pinned, func(line pinnedKey) bool {
					return line.authority && sameKey(line.key, authority) && line.matches(address)
				})
			},
		}
		err := checker.CheckHostKey(address, nil, certificate)
		if err == nil {
			return nil
		}
		if slices.ContainsFunc(t.pinned, func(line pinnedKey) bool { return line.authority && line.matches(address) }) {
			problem = err
		}
	}
	return fmt.Errorf("the host shows a certificate for the key %s, signed by %s: %w; pinned are %s",
		fingerprint(certificate.Key), fingerprint(certificate.SignatureKey), problem, t.fingerprints())
}

func (t *trust) isRevoked(key ssh.PublicKey) bool {
	return slices.ContainsFunc(t.revoked, func(line pinnedKey) bool { return sameKey(line.key, key) })
}

// fingerprints are those of the pinned keys, sorted.
func (t *trust) fingerprints() string {
	var all []string
	for _, line := range t.pinned {
		word := fingerprint(line.key)
		if line.authority {
			word = "the authority " + word
		}
		all = append(all, word)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

func fingerprint(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }
