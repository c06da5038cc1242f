package linuxhost_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/pkg/version"
)

const kubeletLine = "# digests\n\n" + "ABCDEF0000000000000000000000000000000000000000000000000000000000 *./v1.36.3/linux/amd64/kubelet\n"

func TestParseManifest(t *testing.T) {
	t.Parallel()
	parsed, err := linuxhost.ParseManifest(kubeletLine)
	if err != nil {
		t.Fatal(err)
	}
	digest, ok := parsed.Digest(version.MustParse("v1.36.3"), "amd64", "kubelet")
	if want := linuxhost.Digest("abcdef" + strings.Repeat("0", 58)); !ok || digest != want {
		t.Errorf("%s %v, want %s", digest, ok, want)
	}
	if _, ok := parsed.Digest(version.MustParse("v1.36.3"), "arm64", "kubelet"); ok {
		t.Error("a binary of another architecture has a digest")
	}
	for name, text := range map[string]string{
		"empty": "# nothing\n", "short": "abc v1.36.3/linux/amd64/kubelet\n", "no name": strings.Repeat("a", 64) + "\n",
		"two digests": kubeletLine + strings.Repeat("1", 64) + " v1.36.3/linux/amd64/kubelet\n",
	} {
		if _, err := linuxhost.ParseManifest(text); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestPinnedManifest(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte(kubeletLine))
	if _, err := linuxhost.ParsePinnedManifest(kubeletLine, linuxhost.Digest(hex.EncodeToString(sum[:]))); err != nil {
		t.Error(err)
	}
	if _, err := linuxhost.ParsePinnedManifest(kubeletLine+"\n", linuxhost.Digest(hex.EncodeToString(sum[:]))); err == nil {
		t.Error("a manifest that was changed is accepted")
	}
}

func TestSignedManifest(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	sign := func(text string) string {
		return base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(text)))
	}
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	terms := linuxhost.Terms{Serial: 7, Expires: now.Add(time.Hour)}
	text := terms.String() + "\n" + kubeletLine
	trust := linuxhost.Trust{PublicKey: key, MinSerial: 7}
	if m, err := linuxhost.ParseSignedManifest(text, sign(text)+"\n", trust, now); err != nil || m.Terms() != terms {
		t.Errorf("%+v, %v", m.Terms(), err)
	}
	unversioned := linuxhost.Trust{PublicKey: key, AllowUnversioned: true, MinSerial: 7}
	if m, err := linuxhost.ParseSignedManifest(kubeletLine, sign(kubeletLine), unversioned, now); err != nil || m.Terms() != (linuxhost.Terms{}) {
		t.Errorf("one without terms that is allowed: %+v, %v", m.Terms(), err)
	}
	signed := func(text string) [2]string { return [2]string{text, sign(text)} }
	const kind = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE7x3Sb5WRyOkdL3Y2GoZa0cGVRHnB\n-----END PUBLIC KEY-----\n"
	for name, test := range map[string]struct {
		given [2]string
		trust linuxhost.Trust
		at    time.Time
		want  string
	}{
		"changed":           {[2]string{text + " ", sign(text)}, trust, now, "somebody changed the manifest"},
		"serial changed":    {[2]string{strings.Replace(text, "serial=7", "serial=8", 1), sign(text)}, trust, now, "somebody changed the manifest"},
		"no signature":      {[2]string{text, ""}, trust, now, "not by the public key"},
		"no base64":         {[2]string{text, "%"}, trust, now, "not base64"},
		"no key":            {signed(text), linuxhost.Trust{PublicKey: "key"}, now, "not in PEM"},
		"another kind":      {signed(text), linuxhost.Trust{PublicKey: kind}, now, "public key"},
		"no terms":          {signed(kubeletLine), trust, now, "--serial N --expires DATE"},
		"terms further on":  {signed("\n" + text), trust, now, "no serial and no expiry"},
		"expired":           {signed(text), trust, terms.Expires, "has expired at 2026-11-23T10:00:00Z"},
		"expired, allowed":  {signed(text), unversioned, terms.Expires, "has expired"},
		"an older one":      {signed(text), linuxhost.Trust{PublicKey: key, MinSerial: 8}, now, "8 is the lowest that counts"},
		"another version":   {signed(strings.Replace(text, " v1 ", " v2 ", 1)), unversioned, now, "first line"},
		"no number":         {signed(strings.Replace(text, "=7", "=x", 1)), unversioned, now, "first line"},
		"zero":              {signed(strings.Replace(text, "=7", "=0", 1)), unversioned, now, "first line"},
		"no date":           {signed(strings.Replace(text, "=2026", "=", 1)), unversioned, now, "first line"},
		"no digests at all": {signed(terms.String() + "\n"), trust, now, "empty"},
	} {
		if _, err := linuxhost.ParseSignedManifest(test.given[0], test.given[1], test.trust, test.at); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
