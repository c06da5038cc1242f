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
	// key signs the checksums. Without a key the release is not signed.
	key *ecdsa.PrivateKey
	// compile writes the program for each of the platforms.
	platforms []platform
	compile   func(ctx context.Context, p platform, target string) error
	log       io.Writer
}

var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// release writes all files of a release. What can be refused without compiling is refused first.
func release(ctx context.Context, o options) error {
	files, err := rendered(o)
	if err != nil {
		return err
	}
	if err := releaseImage(ctx, o); err != nil {
		return err
	}
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

// rendered returns the files that do not depend on the binaries: notes, manifests and the chart.
func rendered(o options) ([]file, error) {
	if !versionPattern.MatchString(o.version) {
		return nil, fmt.Errorf("the version %q is not vX.Y.Z. Fix: make release VERSION=v0.1.0", o.version)
	}
	if _, err := imageReference(o.image, o.version); err != nil {
		return nil, err
	}
	changelog, err := os.ReadFile(o.changelog)
	if err != nil {
		return nil, fmt.Errorf("reading the changelog: %w", err)
	}
	notes, err := notesFor(string(changelog), o.version)
	if err != nil {
		return nil, err
	}
	manifests, err := loadManifests(filepath.Join(o.root, "config"))
	if err != nil {
		return nil, err
	}
	files, err := manifests.clusterctl(o.image, o.version)
	if err != nil {
		return nil, err
	}
	chart, err := manifests.chart(o.image, o.version)
	if err != nil {
		return nil, err
	}
	packed, err := packChart(chart, strings.TrimPrefix(o.version, "v"), o.created)
	if err != nil {
		return nil, err
	}
	return append(files, packed, file{name: "release-notes.md", content: []byte(notes)}), nil
}

// releaseImage replaces the output folder by the binaries and the image.
func releaseImage(ctx context.Context, o options) error {
	if err := emptyFolder(o.output); err != nil {
		return err
	}
	binaries := map[platform]string{}
	for _, p := range o.platforms {
		fmt.Fprintf(o.log, "compiling %s\n", p.binary())
		target := filepath.Join(o.output, p.binary())
		if err := o.compile(ctx, p, target); err != nil {
			return err
		}
		if p.os == "linux" {
			binaries[p] = target
		}
	}
	digest, err := writeImage(o, binaries)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.log, "image %s:%s@%s\n", o.image, o.version, digest)
	return nil
}

// emptyFolder makes a folder, or removes the last release from it. It refuses a folder with anything else.
func emptyFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the folder of the release: %w", err)
	}
	isRelease := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "windlass-") })
	if len(entries) > 0 && !isRelease {
		return fmt.Errorf("the folder %s has files, and none is of a release. Fix: remove it, or name another with --output", folder)
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
