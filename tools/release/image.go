package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// imageFolder is the folder of the OCI layout in the output folder.
	imageFolder = "image"
	// digestFile holds the digest of the image's index, for manifests that pin it.
	digestFile = "image-digest.txt"
	// refName is the annotation of the layout's entry with the version.
	refName = "org.opencontainers.image.ref.name"
	// bundleFile is where Go's crypto/x509 looks for the system's CAs on Linux first.
	bundleFile = "etc/ssl/certs/ca-certificates.crt"
	// user is the user and group of the pods in config/.
	user = "65532:65532"
)

// writeImage writes the image of the binaries to the output folder as an OCI layout, and returns its
// digest. The layout has one entry, an index with an image per platform.
func writeImage(o options, binaries map[platform]string) (v1.Hash, error) {
	annotations := map[string]string{
		"org.opencontainers.image.created":     o.created.Format("2006-01-02T15:04:05Z"),
		"org.opencontainers.image.description": "Upgrades of Kubernetes clusters by Cluster API",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.revision":    o.commit,
		"org.opencontainers.image.source":      "https://" + module,
		"org.opencontainers.image.title":       "windlass",
		"org.opencontainers.image.version":     o.version,
	}
	platforms := make([]platform, 0, len(binaries))
	for p := range binaries {
		platforms = append(platforms, p)
	}
	slices.SortFunc(platforms, func(a, b platform) int { return strings.Compare(a.arch, b.arch) })
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		image, err := imageFor(o, p, binaries[p], annotations)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("making the image for %s/%s: %w", p.os, p.arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	annotated, ok := mutate.Annotations(index, annotations).(v1.ImageIndex)
	if !ok {
		return v1.Hash{}, fmt.Errorf("making the image: an index with annotations is a %T", index)
	}
	digest, err := annotated.Digest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("making the image: %w", err)
	}
	target, err := layout.Write(filepath.Join(o.output, imageFolder), empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("writing the image: %w", err)
	}
	tag := layout.WithAnnotations(map[string]string{refName: o.version})
	if err := target.AppendIndex(annotated, tag); err != nil {
		return v1.Hash{}, fmt.Errorf("writing the image: %w", err)
	}
	return digest, o.write(digestFile, []byte(digest.String()+"\n"))
}

// imageFor returns an image of two layers on an empty base: public CAs, and the program.
func imageFor(o options, p platform, binary string, annotations map[string]string) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: o.created}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: p.os, Architecture: p.arch, Created: created, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: user, Entrypoint: []string{"/windlass"}, WorkingDir: "/", Env: []string{"PATH=/"}, Labels: annotations},
	})
	if err != nil {
		return nil, err
	}
	for _, layer := range []struct {
		comment string
		file    file
	}{
		{"public CAs, from golang.org/x/crypto/x509roots/fallback", file{name: bundleFile, content: publicCAs()}},
		{"windlass " + o.version, file{name: "windlass", content: program, mode: 0o755}},
	} {
		content, err := archive([]file{layer.file}, o.created)
		if err != nil {
			return nil, err
		}
		opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
		added, err := tarball.LayerFromOpener(opener, tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: added, History: v1.History{Created: created, CreatedBy: "make release", Comment: layer.comment},
		})
		if err != nil {
			return nil, err
		}
	}
	annotated, ok := mutate.Annotations(image, annotations).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("an image with annotations is a %T", image)
	}
	return annotated, nil
}

// publicCAs returns the CAs that the program is compiled with, in PEM. A bundle cannot express that a
// CA is trusted for older certificates only, so it omits such CAs.
func publicCAs() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// imageReference returns an image of a version. The name must have a registry: clusterctl refuses other
// images, and there is no default.
func imageReference(image, version string) (name.Tag, error) {
	tag, err := name.NewTag(image+":"+version, name.WithDefaultRegistry(""))
	if err == nil && tag.RegistryStr() == "" {
		err = errors.New("it has no registry")
	}
	if err != nil {
		return name.Tag{}, fmt.Errorf("the image %s:%s: %w. Fix: IMAGE=REGISTRY/windlass VERSION=v0.1.0", image, version, err)
	}
	return tag, nil
}

// push pushes the image of the output folder, which must be of the version, and the one whose digest the
// release names. Credentials are those of `docker login`.
func push(ctx context.Context, o options) error {
	ref, err := imageReference(o.image, o.version)
	if err != nil {
		return err
	}
	folder := filepath.Join(o.output, imageFolder)
	entries, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return fmt.Errorf("reading the image in %s: %w. Fix: make release or make image first", folder, err)
	}
	manifest, err := entries.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		return fmt.Errorf("reading the image in %s: want one entry, got %+v, %w", folder, manifest, err)
	}
	entry := manifest.Manifests[0]
	named, err := os.ReadFile(filepath.Join(o.output, digestFile))
	if err != nil {
		return fmt.Errorf("reading the digest of the image: %w. Fix: make release or make image first", err)
	}
	if version := entry.Annotations[refName]; version != o.version {
		return fmt.Errorf("the image in %s is of version %q, not %s. "+
			"Fix: push with VERSION=%s, or make the image again", folder, version, o.version, version)
	}
	if digest := strings.TrimSpace(string(named)); digest != entry.Digest.String() {
		return fmt.Errorf("the image in %s is %s, but %s names %s. Fix: make release again", folder, entry.Digest, digestFile, digest)
	}
	index, err := entries.ImageIndex(entry.Digest)
	if err != nil {
		return fmt.Errorf("reading the image in %s: %w", folder, err)
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w. Fix: check IMAGE, the way to the registry, and `docker login`",
			ref, err)
	}
	fmt.Fprintf(o.log, "pushed %s@%s\n", ref, entry.Digest)
	return nil
}
