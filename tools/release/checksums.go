package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	checksumsFile = "checksums.txt"
	// signatureFile is the base64 of an ASN.1 signature, as cosign verify-blob reads it.
	signatureFile = checksumsFile + ".sig"
	publicKeyFile = "windlass.pub"
)

// loadKey reads an ECDSA P-256 key from a file, or from PEM text if there is no file. It returns nil if
// there is neither.
func loadKey(path, text string) (*ecdsa.PrivateKey, error) {
	content, origin := []byte(text), "$"+keyVariable
	if path != "" {
		var err error
		if content, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("reading the key: %w", err)
		}
		origin = path
	}
	if len(bytes.TrimSpace(content)) == 0 && path == "" {
		return nil, nil //nolint:nilnil // without a key the release is not signed
	}
	key, err := parseKey(content)
	if err != nil {
		return nil, fmt.Errorf("the key in %s: %w. Fix: make one with "+
			"`openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`", origin, err)
	}
	return key, nil
}

func parseKey(content []byte) (*ecdsa.PrivateKey, error) {
	// openssl ecparam -genkey writes the curve first.
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		var parsed any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			parsed, err = x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("it is encrypted, which is not supported")
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("it must be ECDSA P-256, not %T", parsed)
		}
		if key.Curve != elliptic.P256() {
			return nil, fmt.Errorf("it must be ECDSA P-256, not %s", key.Curve.Params().Name)
		}
		return key, nil
	}
	return nil, errors.New("it has no PEM block PRIVATE KEY or EC PRIVATE KEY")
}

// writeChecksums writes the SHA-256 of every file of the release, in the format of sha256sum, and
// signs that list. One signature covers all files.
func writeChecksums(o options) error {
	var list bytes.Buffer
	written := os.DirFS(o.output)
	// WalkDir visits in lexical order.
	err := fs.WalkDir(written, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(written, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(content), path)
		return nil
	})
	if err != nil {
		return fmt.Errorf("computing checksums: %w", err)
	}
	if err := o.write(checksumsFile, list.Bytes()); err != nil {
		return err
	}
	if o.key == nil {
		fmt.Fprintln(o.log, "not signed")
		return nil
	}
	return sign(o, list.Bytes())
}

// sign writes the signature of a text, and the public key. The signature is deterministic (RFC 6979),
// so that two builds are the same.
func sign(o options, text []byte) error {
	digest := sha256.Sum256(text)
	signature, err := o.key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(o.key.Public())
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	return errors.Join(
		o.write(signatureFile, []byte(base64.StdEncoding.EncodeToString(signature)+"\n")),
		o.write(publicKeyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
	)
}
