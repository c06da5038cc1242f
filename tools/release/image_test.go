package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// pulled pushes the release's image to a registry of this process, and pulls it for this machine.
func pulled(t *testing.T, o options) (v1.ImageIndex, v1.Image) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	o.image = strings.TrimPrefix(server.URL, "http://") + "/windlass"
	if err := push(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	ref, err := imageReference(o.image, o.version)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref, remote.WithContext(t.Context()), remote.WithPlatform(v1.Platform{OS: host.os, Architecture: host.arch}))
	if err != nil {
		t.Fatal(err)
	}
	return index, image
}

func TestImage(t *testing.T) {
	t.Parallel()
	if host.os != "linux" {
		t.Skip("images are for Linux")
	}
	o := released(t)
	index, image := pulled(t, o)
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(string(read(t, o.output, digestFile))); digest.String() != want {
		t.Errorf("the image that was pulled is %s, the release names %s", digest, want)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []platform
	for _, m := range manifest.Manifests {
		platforms = append(platforms, platform{m.Platform.OS, m.Platform.Architecture})
	}
	wantPlatforms := []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	if diff := cmp.Diff(wantPlatforms, platforms, cmp.AllowUnexported(platform{})); diff != "" {
		t.Errorf("the platforms of the image (-want +got):\n%s", diff)
	}
	if media, err := image.MediaType(); manifest.MediaType != types.OCIImageIndex || media != types.OCIManifestSchema1 || err != nil {
		t.Errorf("the media types are %s and %s, %v", manifest.MediaType, media, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{
		"org.opencontainers.image.created": "2026-09-21T14:13:20Z", "org.opencontainers.image.revision": testCommit,
		"org.opencontainers.image.version": testVersion, "org.opencontainers.image.title": "windlass",
		"org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.source": "https://" + module,
		"org.opencontainers.image.description": manifest.Annotations["org.opencontainers.image.description"],
	}
	imageManifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]map[string]string{"labels": config.Config.Labels, "index": manifest.Annotations, "image": imageManifest.Annotations} {
		if diff := cmp.Diff(labels, got); diff != "" {
			t.Errorf("annotations of the %s (-want +got):\n%s", name, diff)
		}
	}
	want := v1.Config{User: "65532:65532", Entrypoint: []string{"/windlass"}, WorkingDir: "/", Env: []string{"PATH=/"}, Labels: labels}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("the config (-want +got):\n%s", diff)
	}
	checkFiles(t, image, o.created)
}

// checkFiles checks the whole content of the image, and runs its program.
func checkFiles(t *testing.T, image v1.Image, created time.Time) {
	t.Helper()
	extracted := mutate.Extract(image)
	defer func() { _ = extracted.Close() }()
	files := map[string][]byte{}
	modes := map[string]int64{}
	reader := tar.NewReader(extracted)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(created) {
			t.Errorf("%s is of %d:%d, from %v", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		modes[header.Name] = header.Mode
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int64{"etc": 0o755, "etc/ssl": 0o755, "etc/ssl/certs": 0o755, bundleFile: 0o644, "windlass": 0o755}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("the files of the image and their modes (-want +got):\n%s", diff)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(files[bundleFile]) || bytes.Count(files[bundleFile], []byte("BEGIN")) < 100 {
		t.Errorf("the image has %d CAs", bytes.Count(files[bundleFile], []byte("BEGIN")))
	}
	target := filepath.Join(t.TempDir(), "windlass")
	if err := os.WriteFile(target, files["windlass"], 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), target, "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "windlass version ") {
		t.Errorf("the program of the image: %v\n%s", err, out)
	}
}

// TestImageReproducible: the image depends on the program and the time of the commit alone. It packs the
// stub, which is small.
func TestImageReproducible(t *testing.T) {
	t.Parallel()
	digests := make([]string, 0, 3)
	for _, later := range []time.Duration{0, 0, time.Second} {
		o, err := testOptions(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		o.created = o.created.Add(later)
		o.platforms = slices.DeleteFunc(slices.Clone(releasePlatforms), func(p platform) bool { return p == host })
		digest, err := releaseImage(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest.String())
	}
	if digests[0] != digests[1] || digests[1] == digests[2] {
		t.Errorf("built twice, and again of a later commit, the images are %q", digests)
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	o := released(t)
	// The image of a release, beside the digest of another one.
	other := t.TempDir()
	if err := os.Symlink(filepath.Join(o.output, imageFolder), filepath.Join(other, imageFolder)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, digestFile), []byte("sha256:"+strings.Repeat("a", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const image = "127.0.0.1:1/windlass"
	for name, c := range map[string]struct{ image, version, output, want string }{
		"no registry":     {"windlass", testVersion, o.output, "it has no registry. Fix: IMAGE=REGISTRY/windlass"},
		"no tag":          {image, "not a tag", o.output, "Fix: IMAGE=REGISTRY/windlass VERSION=v0.1.0"},
		"no answer":       {image, testVersion, o.output, "connection refused. Fix: check IMAGE"},
		"not released":    {image, testVersion, t.TempDir(), "Fix: make release"},
		"another version": {image, "v0.2.0", o.output, `is of version "v0.1.0", not v0.2.0. Fix: push with VERSION=v0.1.0`},
		"another digest":  {image, testVersion, other, "image-digest.txt names sha256:aaa"},
	} {
		refused := o
		refused.image, refused.version, refused.output = c.image, c.version, c.output
		if err := push(t.Context(), refused); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
