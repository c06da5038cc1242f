package ssh

import (
	"errors"
	"testing"

	"golang.org/x/crypto/ssh"
)

// FuzzKnownHosts parses lines of known_hosts, and checks keys against them. A key that no line has is never trusted, and one that is revoked neither.
func FuzzKnownHosts(f *testing.F) {
	const line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJkqg0a0cJZr5b0n7Jd3vQd2Gk4mQ7jS8o1xqzq3y0Yb"
	for _, text := range []string{
		"10.0.0.7 " + line, "[h]:22 " + line, "@cert-authority *,!x.* " + line, "@revoked * " + line, "|1|a|b " + line, "|1|AAAA|BBBB| " + line,
		"a\x00b " + line, "****?*? " + line, "# comment\n\n10.0.0.7 " + line + " name\r\n",
	} {
		f.Add([]byte(text), "10.0.0.7:22", "node-a")
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDcsFTUhGnoRPj2mMQqZ2/6y3Y1VkRwXvkvMXBFtfmtk"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte, address, name string) {
		lines, err := parseKnownHosts(content)
		if err != nil {
			return
		}
		trust := newTrust(lines, withPort(address), []string{name})
		_ = algorithms(trust.pinned)
		_ = trust.fingerprints()
		known := false
		for _, line := range lines {
			known = known || sameKey(line.key, key)
			if checked := trust.check("", nil, line.key); line.revoked && checked == nil {
				t.Fatalf("a revoked key is trusted: %s", fingerprint(line.key))
			}
		}
		if !known && trust.check("", nil, key) == nil {
			t.Fatal("a key that is in no line is trusted")
		}
		if problem := errors.Join(trust.check("", nil, key)); known && len(trust.pinned) == 0 && problem == nil {
			t.Fatal("a key is trusted for a host that no line names")
		}
	})
}
