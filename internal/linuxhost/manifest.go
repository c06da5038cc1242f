package linuxhost

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
	"strconv"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Digest is a SHA-256 in hexadecimal, in lower case.
type Digest string

// Manifest is the list of the digests that binaries must have. The zero value has none.
type Manifest struct {
	digests map[string]Digest
	terms   Terms
}

// Terms say how long a signed manifest counts. The zero value is that of a manifest without them.
type Terms struct {
	// Serial numbers the manifests that are signed for the same hosts: a later one has a higher serial. It is at least 1.
	Serial int64
	// Expires is when the manifest ends to count.
	Expires time.Time
}

// termsMark begins the first line of a manifest with terms. It is a comment to sha256sum, and the signature covers it.
const termsMark = "# windlass-manifest"

// String is the first line of a manifest with these terms.
func (t Terms) String() string {
	return fmt.Sprintf("%s v1 serial=%d expires=%s", termsMark, t.Serial, t.Expires.UTC().Format(time.RFC3339))
}

// parseTerms reads the first line of a manifest. Without the mark there are no terms.
func parseTerms(text string) (Terms, error) {
	line, _, _ := strings.Cut(text, "\n")
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), termsMark)
	if !ok {
		return Terms{}, nil
	}
	var serial, expires string
	if fields := strings.Fields(rest); len(fields) == 3 && fields[0] == "v1" {
		serial, _ = strings.CutPrefix(fields[1], "serial=")
		expires, _ = strings.CutPrefix(fields[2], "expires=")
	}
	t := Terms{}
	var err error
	if t.Serial, err = strconv.ParseInt(serial, 10, 64); err == nil {
		t.Expires, err = time.Parse(time.RFC3339, expires)
	}
	if err != nil || t.Serial < 1 {
		return Terms{}, fmt.Errorf("the first line of the manifest of digests is not as %q", Terms{Serial: 7, Expires: time.Unix(0, 0)})
	}
	return t, nil
}

// Terms returns the terms of a signed manifest; zero of any other.
func (m Manifest) Terms() Terms { return m.terms }

// Trust is which signed manifests count.
type Trust struct {
	// PublicKey is the Ed25519 key that signs them, in PEM.
	PublicKey string
	// MinSerial is the lowest serial that counts.
	MinSerial int64
	// AllowUnversioned lets manifests without terms count, too. Such a manifest counts forever, also after it was withdrawn.
	AllowUnversioned bool
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
	if found := digestOf([]byte(text)); found != pinned {
		return Manifest{}, fmt.Errorf("the manifest of digests has the SHA-256 %s, but %s is pinned: somebody changed it, or the pin must follow", found, pinned)
	}
	return ParseManifest(text)
}

// ParseSignedManifest parses a manifest with an Ed25519 signature in base64. The manifest must have terms, unless trust says
// otherwise, and must count at a time.
func ParseSignedManifest(text, signature string, trust Trust, now time.Time) (Manifest, error) {
	key, err := ParsePublicKey(trust.PublicKey)
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
	terms, err := parseTerms(text)
	if err != nil {
		return Manifest{}, err
	}
	if err := trust.check(terms, now); err != nil {
		return Manifest{}, err
	}
	m, err := ParseManifest(text)
	m.terms = terms
	return m, err
}

func (t Trust) check(terms Terms, now time.Time) error {
	switch {
	case terms == Terms{} && t.AllowUnversioned:
		return nil
	case terms == Terms{}:
		return errors.New("the signed manifest of digests has no serial and no expiry, so that it counts even after it was withdrawn. " +
			"Fix: write it with windlass updater digests --serial N --expires DATE, and sign it again")
	case !now.Before(terms.Expires):
		return fmt.Errorf("the signed manifest of digests with the serial %d has expired at %s. Fix: sign one with a higher serial and a later expiry",
			terms.Serial, terms.Expires.UTC().Format(time.RFC3339))
	case terms.Serial < t.MinSerial:
		return fmt.Errorf("the signed manifest of digests has the serial %d; %d is the lowest that counts, so it is an older one. Fix: put the newest manifest in its place",
			terms.Serial, t.MinSerial)
	}
	return nil
}

// ParsePublicKey parses the public key of ParseSignedManifest, in PEM.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
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

// archives gives the archives of images for a goal's distribution, in the order of their names. Of an
// archive in several compressions, as releases publish it, it gives one: in zstd if there is such.
func (m Manifest) archives(g Goal, arch string) []binary {
	var found []binary
	for file, digest := range m.digests {
		name, ok := strings.CutPrefix(file, BinaryName(g.Version, arch, ""))
		if ok && archiveSyntax[g.Distribution].MatchString(name) {
			found = append(found, binary{name: name, digest: digest})
		}
	}
	slices.SortFunc(found, func(a, b binary) int { return strings.Compare(b.name, a.name) })
	stem := func(b binary) string { stem, _, _ := strings.Cut(b.name, ".tar"); return stem }
	found = slices.CompactFunc(found, func(a, b binary) bool { return stem(a) == stem(b) })
	slices.Reverse(found)
	return found
}
