package hosts_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/core/hosts"
	"github.com/windlass-dev/windlass/pkg/version"
)

const kubeletLine = "# digests\n\n" + "ABCDEF0000000000000000000000000000000000000000000000000000000000 *./v1.36.3/linux/amd64/kubelet\n"

func TestParseManifest(t *testing.T) {
	t.Parallel()
	parsed, err := hosts.ParseManifest(kubeletLine)
	if err != nil {
		t.Fatal(err)
	}
	digest, ok := parsed.Digest(version.MustParse("v1.36.3"), "amd64", "kubelet")
	if want := hosts.Digest("abcdef" + strings.Repeat("0", 58)); !ok || digest != want {
		t.Errorf("%s %v, want %s", digest, ok, want)
	}
	if _, ok := parsed.Digest(version.MustParse("v1.36.3"), "arm64", "kubelet"); ok {
		t.Error("a binary of another architecture has a digest")
	}
	for name, text := range map[string]string{
		"empty": "# nothing\n", "short": "abc v1.36.3/linux/amd64/kubelet\n", "no name": strings.Repeat("a", 64) + "\n",
		"two digests": kubeletLine + strings.Repeat("1", 64) + " v1.36.3/linux/amd64/kubelet\n",
	} {
		if _, err := hosts.ParseManifest(text); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestPinnedManifest(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte(kubeletLine))
	if _, err := hosts.ParsePinnedManifest(kubeletLine, hosts.Digest(hex.EncodeToString(sum[:]))); err != nil {
		t.Error(err)
	}
	if _, err := hosts.ParsePinnedManifest(kubeletLine+"\n", hosts.Digest(hex.EncodeToString(sum[:]))); err == nil {
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
	signature := base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(kubeletLine)))
	if _, err := hosts.ParseSignedManifest(kubeletLine, signature+"\n", key); err != nil {
		t.Error(err)
	}
	for name, test := range map[string][3]string{
		"changed":      {kubeletLine + " ", signature, key},
		"no signature": {kubeletLine, "", key},
		"no base64":    {kubeletLine, "%", key},
		"no key":       {kubeletLine, signature, "key"},
		"another kind": {kubeletLine, signature, "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE7x3Sb5WRyOkdL3Y2GoZa0cGVRHnB\n-----END PUBLIC KEY-----\n"},
	} {
		if _, err := hosts.ParseSignedManifest(test[0], test[1], test[2]); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{
		"hunter2hunter2", "abcdef.0123456789abcdef", "c2VjcmV0a2V5c2VjcmV0a2V5c2VjcmV0a2V5c2VjcmV0a2V5",
	} {
		for _, form := range []string{
			"password: %s", "token=%s", "Authorization: Bearer %s", "kubeadm join --token %s", "https://me:%s@host/", `"secret": "%s"`,
			"-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n%s", "client-key-data: %s", "x\n%s\n-----END PRIVATE KEY-----",
		} {
			text := strings.ReplaceAll(form, "%s", secret)
			if strings.HasPrefix(form, "x\n") && !strings.HasPrefix(secret, "c2") {
				continue
			}
			if masked := hosts.Mask(text); strings.Contains(masked, secret) {
				t.Errorf("%q shows in %q", secret, masked)
			}
		}
	}
	if masked := hosts.Mask("token: abcdef.0123456789abcdef"); masked != "token: [bootstrap token]" {
		t.Errorf("what is masked is masked again: %q", masked)
	}
	for _, harmless := range []string{"[upgrade] The configuration for this node was successfully upgraded!", "error: exit status 1", "https://10.0.0.1:6443/version", "v1.36.3"} {
		if masked := hosts.Mask(harmless); masked != harmless {
			t.Errorf("%q became %q", harmless, masked)
		}
	}
}
