package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/kustomize/api/types"
)

const (
	// defaultImage is the name that config/ has in its Deployments, to be replaced.
	defaultImage = "windlass"
	module       = "github.com/windlass-dev/windlass"
)

// platform is a GOOS and a GOARCH.
type platform struct{ os, arch string }

// binary returns the file name of the program for the platform.
func (p platform) binary() string { return "windlass-" + p.os + "-" + p.arch }

var releasePlatforms = []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}}

type options struct {
	// root is the folder of the sources, changelog a file, output the folder to write to.
	root, changelog, output string
	// version is vX.Y.Z, image the name of the image without a tag.
	version, image string
	// commit and created describe the sources. Every timestamp in the release is created.
	commit  string
	created time.Time
	// key signs the checksums. A release without a key needs unsigned.
	key      *ecdsa.PrivateKey
	unsigned bool
	// compile writes the program for each of the platforms.
	platforms []platform
	compile   func(ctx context.Context, p platform, target string) error
	log       io.Writer
}

var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// release writes all files of a release. What can be refused without compiling is refused first.
func release(ctx context.Context, o options) error {
	if o.key == nil && !o.unsigned {
		return errors.New("there is no key to sign the release with. Fix: KEY=FILE or $" + keyVariable + ", or UNSIGNED=yes")
	}
	m, notes, err := checked(o)
	if err != nil {
		return err
	}
	digest, err := releaseImage(ctx, o)
	if err != nil {
		return err
	}
	files, err := rendered(o, m, digest)
	if err != nil {
		return err
	}
	built, err := buildNote(o)
	if err != nil {
		return err
	}
	files = append(files, file{name: "release-notes.md", content: []byte(notes + built)})
	for _, p := range o.platforms {
		sbom, err := sbomFor(filepath.Join(o.output, p.binary()), o.version, o.created)
		if err != nil {
			return err
		}
		files = append(files, file{name: p.binary() + ".spdx.json", content: sbom})
	}
	for _, f := range files {
		if err := o.write(f.name, f.content); err != nil {
			return err
		}
	}
	return writeChecksums(o)
}

// checked returns the manifests and the notes of a version. It returns an error if they, the version or
// the image's name cannot be those of a release.
func checked(o options) (m manifests, notes string, err error) {
	if !versionPattern.MatchString(o.version) {
		return nil, "", fmt.Errorf("the version %q is not vX.Y.Z. Fix: make release VERSION=v0.1.0", o.version)
	}
	if _, err := imageReference(o.image, o.version); err != nil {
		return nil, "", err
	}
	changelog, err := os.ReadFile(o.changelog)
	if err != nil {
		return nil, "", fmt.Errorf("reading the changelog: %w", err)
	}
	if notes, err = notesFor(string(changelog), o.version, o.commit); err != nil {
		return nil, "", err
	}
	if m, err = loadManifests(filepath.Join(o.root, "config")); err != nil {
		return nil, "", err
	}
	return m, notes, checkSeries(m[metadataFile], o.version)
}

// rendered returns the manifests and the chart. They name the image by its digest, so that the signature
// of the release covers what runs.
func rendered(o options, m manifests, digest v1.Hash) ([]file, error) {
	image := types.Image{NewName: o.image, NewTag: o.version, Digest: digest.String()}
	files, err := m.clusterctl(image)
	if err != nil {
		return nil, err
	}
	chart, err := m.chart(image)
	if err != nil {
		return nil, err
	}
	packed, err := packChart(chart, strings.TrimPrefix(o.version, "v"), o.created)
	if err != nil {
		return nil, err
	}
	return append(files, packed), nil
}

// releaseImage replaces the output folder by the binaries and the image, and returns the image's digest.
func releaseImage(ctx context.Context, o options) (v1.Hash, error) {
	if err := emptyFolder(o.output); err != nil {
		return v1.Hash{}, err
	}
	binaries := map[platform]string{}
	for _, p := range o.platforms {
		fmt.Fprintf(o.log, "compiling %s\n", p.binary())
		target := filepath.Join(o.output, p.binary())
		if err := o.compile(ctx, p, target); err != nil {
			return v1.Hash{}, err
		}
		if p.os == "linux" {
			binaries[p] = target
		}
	}
	digest, err := writeImage(o, binaries)
	if err != nil {
		return v1.Hash{}, err
	}
	fmt.Fprintf(o.log, "image %s:%s@%s\n", o.image, o.version, digest)
	return digest, nil
}

// releaseNames matches the names of all files and folders that a release, of any version, has at its top.
var releaseNames = regexp.MustCompile(`^(windlass-(darwin|linux)-(amd64|arm64)(\.spdx\.json)?|windlass-\d[^/]*\.tgz|windlass\.pub|` +
	`image|image-digest\.txt|(metadata|manager-components|runtime-extension-components)\.yaml|release-notes\.md|checksums\.txt(\.sig)?)$`)

// emptyFolder makes a folder, or removes the last release from it. It refuses a folder with any other entry,
// and one without a program.
func emptyFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the folder of the release: %w", err)
	}
	for _, e := range entries {
		if !releaseNames.MatchString(e.Name()) {
			return fmt.Errorf("the folder %s is to be replaced, and its entry %s is not of a release. "+
				"Fix: move it, or name another folder with --output", folder, e.Name())
		}
	}
	isProgram := func(e fs.DirEntry) bool {
		return slices.ContainsFunc(releasePlatforms, func(p platform) bool { return e.Name() == p.binary() })
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, isProgram) {
		return fmt.Errorf("the folder %s is to be replaced, and it has no program of a release. "+
			"Fix: move it, or name another folder with --output", folder)
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("removing the last release: %w", err)
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("making the folder of the release: %w", err)
	}
	return nil
}

// write writes a file of the release, for everybody to read.
func (o options) write(name string, content []byte) error {
	//nolint:gosec // what is published is no secret
	if err := os.WriteFile(filepath.Join(o.output, name), content, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
