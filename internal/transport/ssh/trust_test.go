package ssh_test

import (
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
)

func fingerprint(k keyPair) string { return gossh.FingerprintSHA256(k.signer.PublicKey()) }

// certify makes a certificate for a host's key.
func certify(t *testing.T, host, authority keyPair, names []string, before time.Time) []byte {
	t.Helper()
	certificate := &gossh.Certificate{
		Key: host.signer.PublicKey(), CertType: gossh.HostCert, ValidPrincipals: names,
		ValidAfter: 0, ValidBefore: uint64(before.Unix()),
	}
	if err := certificate.SignCert(rand.Reader, authority.signer); err != nil {
		t.Fatal(err)
	}
	return gossh.MarshalAuthorizedKey(certificate)
}

func TestPinnedKeys(t *testing.T) {
	s := startSSHD(t)
	other := newKey(t, "ed25519")
	otherEC := newKey(t, "ecdsa")
	_, number, _ := strings.Cut(s.address, ":")
	line := func(name string, key keyPair) string {
		return knownhosts.Line([]string{name}, key.signer.PublicKey()) + "\n"
	}
	key := func(k keyPair) string {
		return strings.TrimSpace(string(gossh.MarshalAuthorizedKey(k.signer.PublicKey()))) + "\n"
	}
	for name, test := range map[string]struct {
		known string
		names []string
		words []string // of the error; none where it is trusted
	}{
		"pinned":                            {known: line(s.address, s.ed)},
		"only the other of two keys":        {known: line(s.address, s.ec)},
		"both":                              {known: line(s.address, s.ed) + line(s.address, s.ec)},
		"hashed":                            {known: knownhosts.HashHostname(knownhosts.Normalize(s.address)) + " " + key(s.ec)},
		"hashed, another host":              {known: knownhosts.HashHostname("else") + " " + key(s.ec), words: []string{"pin no key"}},
		"a pattern":                         {known: "[127.0.*]:" + number + " " + key(s.ed)},
		"a pattern that leaves it out":      {known: "[127.0.*]:" + number + ",![127.0.0.1]:" + number + " " + key(s.ed), words: []string{"pin no key"}},
		"another port":                      {known: "127.0.0.1 " + key(s.ed), words: []string{"pin no key"}},
		"the Machine's name":                {known: "machine-1 " + key(s.ed), names: []string{"Machine-1"}},
		"the Machine's name, with a port":   {known: "[machine-1]:" + number + " " + key(s.ec), names: []string{"machine-1"}},
		"another Machine's name":            {known: "machine-2 " + key(s.ed), names: []string{"machine-1"}, words: []string{"pin no key", "machine-1", fingerprint(s.ed)[:7]}},
		"nothing":                           {words: []string{"pin no key for " + s.address, "SHA256:", "add the line: [127.0.0.1]:" + number}},
		"changed":                           {known: line(s.address, other), words: []string{fingerprint(s.ed), fingerprint(other), "reinstalled"}},
		"changed, with two pinned":          {known: line(s.address, other) + line(s.address, otherEC), words: []string{fingerprint(other), fingerprint(otherEC)}},
		"revoked":                           {known: line(s.address, s.ed) + "@revoked * " + key(s.ed), words: []string{fingerprint(s.ed), "revoke"}},
		"the other one is revoked":          {known: line(s.address, s.ed) + "@revoked * " + key(s.ec)},
		"a CA's key as the host's":          {known: "@cert-authority [*]:" + number + " " + key(s.ed), words: []string{"authority " + s.ed.signer.PublicKey().Type()}},
		"a comment, CRLF and an empty line": {known: "# comment\r\n\r\n" + strings.TrimSpace(line(s.address, s.ed)) + " a comment\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			login := s.login()
			login.KnownHosts, login.HostNames = []byte(test.known), test.names
			h := open(t, ssh.Options{Login: login})
			if test.words == nil {
				wantRuns(t, h)
				return
			}
			_, err := run(t, h)
			wantReason(t, err, port.HostNotTrusted, test.words...)
		})
	}
}

func TestHostHasNoKeyOfThePinnedType(t *testing.T) {
	s := startSSHD(t, "HostKeyAlgorithms ssh-ed25519")
	login := s.login()
	login.KnownHosts = pin(s.address, s.ec)
	_, err := run(t, open(t, ssh.Options{Login: login}))
	wantReason(t, err, port.HostNotTrusted, "ssh-ed25519", fingerprint(s.ec))
}

func TestCertificates(t *testing.T) {
	authority, stranger := newKey(t, "ed25519"), newKey(t, "ecdsa")
	later := time.Now().Add(time.Hour)
	ca := func(k keyPair, names string) string {
		return "@cert-authority " + names + " " + string(gossh.MarshalAuthorizedKey(k.signer.PublicKey()))
	}
	for name, test := range map[string]struct {
		principals []string
		before     time.Time
		known      func(s *server) string
		names      []string
		words      []string
	}{
		"for port 22 only":    {principals: []string{"127.0.0.1"}, before: later, known: func(*server) string { return ca(authority, "*,[*]:*") }, words: []string{"no certificate authority"}},
		"for the address":     {principals: []string{"127.0.0.1"}, before: later, known: func(s *server) string { return ca(authority, knownhosts.Normalize(s.address)) }},
		"for the node's name": {principals: []string{"node-1"}, before: later, known: func(*server) string { return ca(authority, "node-*") }, names: []string{"node-1"}},
		"for another name":    {principals: []string{"node-2"}, before: later, known: func(*server) string { return ca(authority, "node-*") }, names: []string{"node-1"}, words: []string{"node-1"}},
		"expired":             {principals: []string{"node-1"}, before: time.Unix(1, 0), known: func(*server) string { return ca(authority, "node-*") }, names: []string{"node-1"}, words: []string{"expired"}},
		"of somebody else":    {principals: []string{"node-1"}, before: later, known: func(*server) string { return ca(stranger, "node-*") }, names: []string{"node-1"}, words: []string{"no authorities", fingerprint(stranger), fingerprint(authority)}},
		"revoked authority": {principals: []string{"node-1"}, before: later, known: func(*server) string {
			return ca(authority, "node-*") + strings.Replace(ca(authority, "*"), "cert-authority", "revoked", 1)
		}, names: []string{"node-1"}, words: []string{"revoked"}},
		"the key is revoked":        {principals: []string{"node-1"}, before: later, known: func(s *server) string { return ca(authority, "node-*") + "@revoked " + string(pin("*", s.ed)) }, names: []string{"node-1"}, words: []string{"revoked"}},
		"the plain key counts, too": {principals: []string{"node-2"}, before: later, known: func(s *server) string { return string(pin(s.address, s.ec)) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSSHD(t, "HostCertificate DIR/certificate")
			s.write(t, "certificate", certify(t, s.ed, authority, test.principals, test.before))
			s.stop()
			s.run(t)
			login := s.login()
			login.KnownHosts, login.HostNames = []byte(test.known(s)), test.names
			h := open(t, ssh.Options{Login: login})
			if test.words == nil {
				wantRuns(t, h)
				return
			}
			_, err := run(t, h)
			wantReason(t, err, port.HostNotTrusted, test.words...)
		})
	}
}

// Names must be matched as the library does, whose reader of files cannot be used.
func TestMatchesAsTheLibraryDoes(t *testing.T) {
	key := newKey(t, "ed25519").signer.PublicKey()
	patterns := []string{
		"a", "*", "?", "*a", "a.b", "*.b", "a,!a", "*,!a.b", "!a,*", "[a]:2222", "[*]:2222", "[*]:22", "a:22", "a:2222", "a**b", "*a*b", "??", "a?b",
		"10.0.0.1", "10.0.*", "[10.0.0.1]:2222", "[::1]:2222", "[::1]:22", "!*", "b,a", "aab", "*ab", "a*ab",
		knownhosts.HashHostname("a"), knownhosts.HashHostname("[a]:2222"), knownhosts.HashHostname("[::1]:2222"), knownhosts.HashHostname("10.0.0.1"),
	}
	addresses := []string{"a:22", "a:2222", "b:22", "a.b:22", "a.b:2222", "ab:22", "aab:22", "axxb:22", "10.0.0.1:22", "10.0.0.1:2222", "[::1]:22", "[::1]:2222"}
	for _, pattern := range patterns {
		line := pattern + " " + string(gossh.MarshalAuthorizedKey(key))
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		check, err := knownhosts.New(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range addresses {
			want := check(address, &net.TCPAddr{}, key) == nil
			if got, err := ssh.Trusts([]byte(line), address, key); got != want || err != nil {
				t.Errorf("%q for %s: %v, %v; the library says %v", pattern, address, got, err, want)
			}
		}
	}
	// Here the library is wrong: a star may stand for nothing, as in OpenSSH.
	for _, pattern := range []string{"a*", "*a*", "a**"} {
		if got, err := ssh.Trusts([]byte(pattern+" "+string(gossh.MarshalAuthorizedKey(key))), "a:22", key); !got || err != nil {
			t.Errorf("%q for a: %v, %v", pattern, got, err)
		}
	}
}
