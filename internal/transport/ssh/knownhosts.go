package ssh

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // The form of known_hosts files prescribes it, for hiding names, not for trust.
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// golang.org/x/crypto/ssh/knownhosts reads files only, and our containers have no place for one; so lines are matched here. A test
// compares the two.

// pinnedKey is a line of a known_hosts file.
type pinnedKey struct {
	names     []string
	key       ssh.PublicKey
	authority bool
	revoked   bool
}

const (
	markerAuthority = "cert-authority"
	markerRevoked   = "revoked"
)

// parseKnownHosts reads lines. It is strict: a line that is skipped could be the one that revokes a key.
func parseKnownHosts(content []byte) ([]pinnedKey, error) {
	var pinned []pinnedKey
	for i, line := range bytes.Split(content, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		entry, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		pinned = append(pinned, entry)
	}
	return pinned, nil
}

func parseLine(line []byte) (pinnedKey, error) {
	marker, names, key, _, _, err := ssh.ParseKnownHosts(line)
	switch {
	case errors.Is(err, io.EOF):
		return pinnedKey{}, errors.New("it has no key")
	case err != nil:
		return pinnedKey{}, err
	case marker != "" && marker != markerAuthority && marker != markerRevoked:
		return pinnedKey{}, fmt.Errorf("unknown marker @%s", marker)
	}
	return pinnedKey{names: names, key: key, authority: marker == markerAuthority, revoked: marker == markerRevoked}, nil
}

// matches reports whether a line is about an address, which is host:port.
func (p pinnedKey) matches(address string) bool {
	host, number, err := net.SplitHostPort(strings.ToLower(address))
	if err != nil {
		return false
	}
	matched := false
	for _, name := range p.names {
		if strings.HasPrefix(name, "|") {
			matched = matched || matchesHash(name, net.JoinHostPort(host, number))
			continue
		}
		pattern, negated := strings.CutPrefix(strings.ToLower(name), "!")
		if !matchesPattern(pattern, host, number) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// matchesHash compares with |1|salt|hash.
func matchesHash(name, address string) bool {
	parts := strings.Split(name, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	want, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(knownhosts.Normalize(address)))
	return hmac.Equal(mac.Sum(nil), want)
}

// matchesPattern compares with a name, or [name]:port; * and ? stand for any characters.
func matchesPattern(pattern, host, number string) bool {
	patternHost, patternPort := pattern, defaultPort
	if h, p, err := net.SplitHostPort(pattern); err == nil {
		patternHost, patternPort = h, p
	}
	return patternPort == number && glob(patternHost, host)
}

// glob takes time in proportion to both lengths: it remembers the last star only.
func glob(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// algorithms are what to ask a host for, so that it shows a key that is pinned: one with several keys would show another one, which would
// look as if its key had changed. Nothing where no key is pinned: then the host shows what it likes, and the error can name it.
func algorithms(pinned []pinnedKey) []string {
	var certificates, plain []string
	for _, p := range pinned {
		if p.authority {
			certificates = []string{
				ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
				ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
			}
			continue
		}
		offers := []string{p.key.Type()}
		if p.key.Type() == ssh.KeyAlgoRSA {
			offers = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, algorithm := range offers {
			if !slices.Contains(plain, algorithm) {
				plain = append(plain, algorithm)
			}
		}
	}
	return slices.Concat(certificates, plain)
}
