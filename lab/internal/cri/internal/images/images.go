// Package images is the image store of the process runtime. A folder that nobody writes to takes
// the place of registries: REGISTRY/REPOSITORY/TAG/ in it is an image, and contains its programs. A
// second folder, on the host's disk, records which images were pulled.
package images

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/jsonfile"
)

// configFile is the file of an image that contains its Config. It is optional.
const configFile = "image.json"

// Config is what an image says about its containers.
type Config struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Env        []string `json:"env,omitempty"`
}

// Image is one pulled reference.
type Image struct {
	// Reference is the full name with a tag: registry.k8s.io/pause:3.10.
	Reference string
	// ID is a digest of the content: sha256:HEX. Images with the same content have the same ID.
	ID string
	// Size of all files in bytes.
	Size uint64
}

// Digest returns the reference with the ID in the place of the tag.
func (i Image) Digest() string {
	name, _ := cutTag(i.Reference)
	return name + "@" + i.ID
}

// NotFoundError reports a reference for which the store has no folder.
type NotFoundError struct {
	Reference, Reason string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("failed to pull and unpack image %q: %s: not found", e.Reference, e.Reason)
}

// Store is the image store of one host. Its methods may be called concurrently.
type Store struct {
	folder, records string
}

// Open returns the store with images from folder, which records pulls in the folder records.
func Open(folder, records string) (*Store, error) {
	if err := os.MkdirAll(records, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of image records: %w", err)
	}
	return &Store{folder: folder, records: records}, nil
}

// Folder is where the images are.
func (s *Store) Folder() string { return s.folder }

// Pull records that the host has the image. It returns a *NotFoundError if the store lacks it.
func (s *Store) Pull(name string) (Image, error) {
	full, err := parseTagged(name)
	if err != nil {
		return Image{}, err
	}
	dir := s.dir(full)
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return Image{}, &NotFoundError{Reference: full, Reason: "the store has no folder " + dir}
	}
	id, size, err := digest(dir)
	if err != nil {
		return Image{}, fmt.Errorf("reading image %s: %w", full, err)
	}
	image := Image{Reference: full, ID: id, Size: size}
	if err := jsonfile.Write(s.record(full), image); err != nil {
		return Image{}, fmt.Errorf("recording image %s: %w", full, err)
	}
	return image, nil
}

// List returns the pulled images, by reference. It skips records that cannot be read: the next pull
// writes them again.
func (s *Store) List() ([]Image, error) {
	files, err := filepath.Glob(filepath.Join(s.records, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing image records: %w", err)
	}
	var list []Image
	for _, file := range files {
		var image Image
		if jsonfile.Read(file, &image) == nil && s.record(image.Reference) == file {
			list = append(list, image)
		}
	}
	slices.SortFunc(list, func(a, b Image) int { return cmp.Compare(a.Reference, b.Reference) })
	return list, nil
}

// Find returns the pulled images that a name means: an ID, a reference with a tag, or one with a
// digest.
func (s *Store) Find(name string) ([]Image, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	means := func(i Image) bool { return i.ID == name || i.ID == "sha256:"+name }
	if full, err := parse(name); err == nil {
		means = func(i Image) bool {
			return i.ID == name || i.Reference == full.String() || i.Digest() == full.String()
		}
	}
	return slices.DeleteFunc(list, func(i Image) bool { return !means(i) }), nil
}

// Remove forgets an image under all its references. An image that was not pulled is no error.
func (s *Store) Remove(name string) error {
	named, err := s.Find(name)
	if err != nil || len(named) == 0 {
		return err
	}
	same, err := s.Find(named[0].ID)
	for _, image := range same {
		if e := os.Remove(s.record(image.Reference)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("forgetting image %s: %w", image.Reference, e))
		}
	}
	return err
}

// Contents returns the folder of a pulled image's programs, and its configuration.
func (s *Store) Contents(image Image) (string, Config, error) {
	var config Config
	dir := s.dir(image.Reference)
	if _, err := os.Stat(dir); err != nil {
		return "", config, fmt.Errorf("image %s left the store: %w", image.Reference, err)
	}
	err := jsonfile.Read(filepath.Join(dir, configFile), &config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", config, fmt.Errorf("reading image %s: %w", image.Reference, err)
	}
	return dir, config, nil
}

func (s *Store) dir(full string) string {
	name, tag := cutTag(full)
	return filepath.Join(s.folder, name, tag)
}

func (s *Store) record(full string) string {
	sum := sha256.Sum256([]byte(full))
	return filepath.Join(s.records, hex.EncodeToString(sum[:])+".json")
}

// parse returns the full form of a name. The grammar of references has no "..", so a name cannot
// lead out of the store.
func parse(name string) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, fmt.Errorf("parsing image reference %q: %w", name, err)
	}
	if digested, ok := named.(reference.Digested); ok {
		return reference.WithDigest(reference.TrimNamed(named), digested.Digest())
	}
	return reference.TagNameOnly(named), nil
}

// parseTagged parses a name for which the store can have a folder.
func parseTagged(name string) (string, error) {
	full, err := parse(name)
	if err != nil {
		return "", err
	}
	if _, ok := full.(reference.Tagged); !ok {
		return "", &NotFoundError{Reference: name, Reason: "the store has tags, and no digests"}
	}
	return full.String(), nil
}

// cutTag splits a full reference. A port of the registry is no tag: a slash follows it.
func cutTag(full string) (name, tag string) {
	i := strings.LastIndexByte(full, ':')
	if i < strings.LastIndexByte(full, '/') {
		return full, ""
	}
	return full[:i], full[i+1:]
}

// digest covers the names, the executable bits and the bytes of all files below dir.
func digest(dir string) (id string, size uint64, err error) {
	hash := sha256.New()
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%q %t %d\n", relative, info.Mode()&0o111 != 0, info.Size())
		n, err := io.Copy(hash, file)
		size += uint64(n)
		return err
	})
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), size, err
}
