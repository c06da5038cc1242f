package risks

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// errSignature is why a file does not count.
var errSignature = errors.New("its signature is not by this key: it was changed, or signed with " +
	"another key. Fix: sign it again, or correct the key")

// ParseSigned reads a file that must have a signature of a key. signature is base64, as `cosign
// sign-blob` and openssl write it: ECDSA over the SHA-256 of the file in ASN.1, or Ed25519 over the
// file. key is a public key in PEM. Nothing of a file without a valid signature is parsed.
func ParseSigned(data, signature, key []byte) (*Set, error) {
	if err := verify(data, signature, key); err != nil {
		return nil, fmt.Errorf("verifying known risks: %w", err)
	}
	return Parse(data)
}

func verify(data, signature, key []byte) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("the file has more than %d bytes. Fix: make it smaller", MaxBytes)
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return errors.New("the public key is not in PEM. " +
			"Fix: give the file that cosign calls cosign.pub")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("reading the public key: %w", err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(signature)))
	if err != nil {
		return errors.New("the signature is not base64. " +
			"Fix: write it with cosign sign-blob, or with openssl and base64")
	}
	switch public := parsed.(type) {
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(data)
		if ecdsa.VerifyASN1(public, digest[:], raw) {
			return nil
		}
	case ed25519.PublicKey:
		if ed25519.Verify(public, data, raw) {
			return nil
		}
	default:
		return fmt.Errorf("the public key is a %T. Fix: use an ECDSA or Ed25519 key", parsed)
	}
	return errSignature
}
