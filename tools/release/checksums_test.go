package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// TestChecksums: every file is listed with its sum, except the list and what verifies it.
func TestChecksums(t *testing.T) {
	t.Parallel()
	o := released(t)
	var want, top []string
	err := filepath.WalkDir(o.output, func(path string, entry fs.DirEntry, err error) error {
		relative, _ := filepath.Rel(o.output, path)
		if !strings.Contains(relative, "/") {
			top = append(top, relative)
		}
		if err != nil || entry.IsDir() || slices.Contains([]string{checksumsFile, signatureFile, publicKeyFile}, relative) {
			return err
		}
		want = append(want, fmt.Sprintf("%x  %s", sha256.Sum256(read(t, path)), relative))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Join(want, "\n")+"\n", string(read(t, o.output, checksumsFile))); diff != "" {
		t.Errorf("checksums (-want +got):\n%s", diff)
	}
	files := []string{
		".", checksumsFile, signatureFile, imageFolder, digestFile, "manager-components.yaml", "metadata.yaml", "release-notes.md",
		"runtime-extension-components.yaml", "windlass-0.1.0.tgz", "windlass-darwin-amd64", "windlass-darwin-amd64.spdx.json",
		"windlass-darwin-arm64", "windlass-darwin-arm64.spdx.json", "windlass-linux-amd64", "windlass-linux-amd64.spdx.json",
		"windlass-linux-arm64", "windlass-linux-arm64.spdx.json", publicKeyFile,
	}
	if diff := cmp.Diff(files, top); diff != "" {
		t.Errorf("files of the release (-want +got):\n%s", diff)
	}
}

// TestSignature verifies with the library of cosign verify-blob --key, and with openssl.
func TestSignature(t *testing.T) {
	t.Parallel()
	o := released(t)
	public, err := cryptoutils.UnmarshalPEMToPublicKey(read(t, o.output, publicKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.LoadDefaultVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(read(t, o.output, signatureFile))))
	if err != nil {
		t.Fatal(err)
	}
	list := read(t, o.output, checksumsFile)
	if err := verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(list)); err != nil {
		t.Error(err)
	}
	if err := verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(list[1:])); err == nil {
		t.Error("the signature verifies another list")
	}
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("there is no openssl")
	}
	decoded := filepath.Join(t.TempDir(), "sig")
	if err := os.WriteFile(decoded, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), openssl, "dgst", "-sha256", "-verify", filepath.Join(o.output, publicKeyFile),
		"-signature", decoded, filepath.Join(o.output, checksumsFile)).CombinedOutput()
	if err != nil {
		t.Errorf("openssl: %v: %s", err, out)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	marshal := func(curve elliptic.Curve) (pkcs8, sec1 string) {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		one, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		other, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		encode := func(kind string, content []byte) string {
			return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
		}
		return encode("PRIVATE KEY", one), encode("EC PRIVATE KEY", other)
	}
	pkcs8, sec1 := marshal(elliptic.P256())
	larger, _ := marshal(elliptic.P384())
	parameters := string(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{1}}))
	encrypted := string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte{1}}))
	const noBlock = "it has no PEM block PRIVATE KEY or EC PRIVATE KEY. Fix: "
	for name, c := range map[string]struct{ text, want string }{
		"PKCS#8": {pkcs8, ""}, "SEC 1": {sec1, ""}, "openssl ecparam": {parameters + sec1, ""},
		"another curve":    {larger, "it must be ECDSA P-256, not P-384. Fix: "},
		"encrypted":        {encrypted, "it is encrypted, which is not supported. Fix: "},
		"parameters alone": {parameters, noBlock}, "no PEM": {"key", noBlock},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, load := range []func() (*ecdsa.PrivateKey, error){
			func() (*ecdsa.PrivateKey, error) { return loadKey(path, "") },
			func() (*ecdsa.PrivateKey, error) { return loadKey("", c.text) },
		} {
			key, err := load()
			want := c.want
			if want != "" {
				want += "make one with `openssl genpkey"
			}
			ok := want == ""
			if (key != nil) != ok || (err == nil) != ok || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if key, err := loadKey("", ""); key != nil || err != nil {
		t.Errorf("without a key: %v, %v", key, err)
	}
	if _, err := loadKey(filepath.Join(t.TempDir(), "missing"), pkcs8); err == nil {
		t.Error("a file that does not exist counts as no key")
	}
}
