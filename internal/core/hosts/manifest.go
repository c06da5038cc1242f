package hosts

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Digest is a SHA-256 in hexadecimal, in lower case.
type Digest string

// Manifest is the list of the digests that binaries must have. The zero value has none.
type Manifest struct {
	digests map[string]Digest
}

// ParseManifest parses lines as sha256sum prints them: a SHA-256, blanks, an optional asterisk, and VERSION/linux/ARCH/NAME. Empty lines and
// lines that begin with # do not count. Two different digests for one name are an error, and so is a manifest without any.
func ParseManifest(text string) (Manifest, error) {
	m := Manifest{digests: map[string]Digest{}}
	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		raw, err := hex.DecodeString(fields[0])
		if err != nil || len(raw) != sha256.Size || len(fields) != 2 {
			return Manifest{}, fmt.Errorf("line %d of the manifest of digests is not a SHA-256 and a name such as v1.36.3/linux/amd64/kubelet", number+1)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(fields[1], "*"), "./")
		digest := Digest(hex.EncodeToString(raw))
		if known, ok := m.digests[name]; ok && known != digest {
			return Manifest{}, fmt.Errorf("line %d of the manifest of digests has another digest for %s than an earlier line", number+1, name)
		}
		m.digests[name] = digest
	}
	if len(m.digests) == 0 {
		return Manifest{}, errors.New("the manifest of digests is empty: it needs a line SHA256 VERSION/linux/ARCH/NAME for each binary")
	}
	return m, nil
}

// ParsePinnedManifest parses a manifest whose SHA-256 is pinned.
func ParsePinnedManifest(text string, pinned Digest) (Manifest, error) {
	sum := sha256.Sum256([]byte(text))
	if found := Digest(hex.EncodeToString(sum[:])); found != pinned {
		return Manifest{}, fmt.Errorf("the manifest of digests has the SHA-256 %s, but %s is pinned: somebody changed it, or the pin must follow", found, pinned)
	}
	return ParseManifest(text)
}

// ParseSignedManifest parses a manifest with an Ed25519 signature in base64, of a public key in PEM.
func ParseSignedManifest(text, signature, publicKey string) (Manifest, error) {
	key, err := parsePublicKey(publicKey)
	if err != nil {
		return Manifest{}, err
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(signature))
	if err != nil {
		return Manifest{}, errors.New("the signature of the manifest of digests is not base64")
	}
	if !ed25519.Verify(key, []byte(text), raw) {
		return Manifest{}, errors.New("the signature of the manifest of digests is not by the public key that is configured: somebody changed the manifest, or it was signed with another key")
	}
	return ParseManifest(text)
}

func parsePublicKey(text string) (ed25519.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the public key for the manifest of digests is not in PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the public key for the manifest of digests: %w", err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("the public key for the manifest of digests is a %T; it must be an Ed25519 key", parsed)
	}
	return key, nil
}

// BinaryName is the name of a binary in a manifest, a bundle and a folder of binaries.
func BinaryName(v version.Version, arch, name string) string {
	return v.String() + "/linux/" + arch + "/" + name
}

// of gives what the manifest says of a version, in order.
func (m Manifest) of(v version.Version) []string {
	var lines []string
	for name, digest := range m.digests {
		if strings.HasPrefix(name, v.String()+"/") {
			lines = append(lines, name+" "+string(digest))
		}
	}
	slices.Sort(lines)
	return lines
}

// Digest gives the digest of a binary.
func (m Manifest) Digest(v version.Version, arch, name string) (Digest, bool) {
	digest, ok := m.digests[BinaryName(v, arch, name)]
	return digest, ok
}
