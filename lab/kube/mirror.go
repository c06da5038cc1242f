package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Mirror is a folder with the binaries that an upgrade of a host installs. Hosts see it at the same
// path, as they see the [Store] that it is in.
type Mirror struct {
	// Dir has a file VERSION/linux/ARCH/NAME for each binary, as an Updater's hostFolder has.
	Dir string
	// Digests is the manifest of the binaries, as sha256sum prints it.
	Digests string
}

// mirrored are the programs that an upgrade of a host installs.
var mirrored = []string{"kubeadm", "kubelet", "kubectl"}

// Mirror adds a mirror of releases that the store has, with its manifest as the file SHA256SUMS. It
// adds what is missing.
func (s Store) Mirror(releases ...Release) (Mirror, error) {
	m := Mirror{Dir: filepath.Join(s.Dir, "mirror")}
	var manifest strings.Builder
	for _, r := range releases {
		for _, name := range mirrored {
			binary := fmt.Sprintf("%s/linux/%s/%s", r.Version, runtime.GOARCH, name)
			source := s.Program(r.Version, name)
			if err := link(source, filepath.Join(m.Dir, filepath.FromSlash(binary))); err != nil {
				return Mirror{}, err
			}
			digest, err := digestOf(source)
			if err != nil {
				return Mirror{}, fmt.Errorf("computing the digest of %s: %w", source, err)
			}
			fmt.Fprintf(&manifest, "%s  %s\n", digest, binary)
		}
	}
	m.Digests = manifest.String()
	return m, add(filepath.Join(m.Dir, "SHA256SUMS"), []byte(m.Digests), 0o644)
}

func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, file.Close())
}
