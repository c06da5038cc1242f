//go:build linux

package cri

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/container"
	"github.com/windlass-dev/windlass/lab/internal/cri/internal/jsonfile"
)

// protoJSON is a message inside a record.
type protoJSON[M proto.Message] struct{ Message M }

func (p protoJSON[M]) MarshalJSON() ([]byte, error) { return protojson.Marshal(p.Message) }

func (p *protoJSON[M]) UnmarshalJSON(data []byte) error {
	p.Message = p.Message.ProtoReflect().New().Interface().(M) //nolint:forcetypeassert // New returns the same type.
	return protojson.Unmarshal(data, p.Message)
}

// sandbox is one pod. Its fields but Stopped do not change.
type sandbox struct {
	ID      string
	Created time.Time
	IP      string
	Stopped bool
	Config  protoJSON[*runtime.PodSandboxConfig]
}

// containerRecord is one container. Its fields do not change.
type containerRecord struct {
	ID, Sandbox string
	Created     time.Time
	// Image is a reference, ImageID the image's digest when the container was created.
	Image, ImageID string
	Log            string
	Config         protoJSON[*runtime.ContainerConfig]

	process *container.Container
}

// recordFile is in the folder of a container. It is written last and removed first: a folder without
// it contains no container.
const recordFile = "record.json"

func newID() string {
	id := make([]byte, 32)
	_, _ = rand.Read(id) // It never fails.
	return hex.EncodeToString(id)
}

func (s *server) sandboxFile(id string) string {
	return filepath.Join(s.options.State, "sandboxes", id+".json")
}

func (s *server) containerFolder(id string) string {
	return filepath.Join(s.options.State, "containers", id)
}

// load reads what an earlier runtime has recorded. A record that cannot be read is an error, because
// its processes would run unseen.
func (s *server) load() error {
	files, err := filepath.Glob(s.sandboxFile("*"))
	if err != nil {
		return fmt.Errorf("listing sandboxes: %w", err)
	}
	for _, file := range files {
		b := &sandbox{}
		if err := jsonfile.Read(file, b); err != nil || b.ID != strings.TrimSuffix(filepath.Base(file), ".json") {
			return brokenRecord(file, err)
		}
		s.sandboxes[b.ID] = b
	}
	folders, err := filepath.Glob(s.containerFolder("*"))
	if err != nil {
		return fmt.Errorf("listing containers: %w", err)
	}
	for _, folder := range folders {
		c := &containerRecord{process: container.Open(folder)}
		err := jsonfile.Read(filepath.Join(folder, recordFile), c)
		if errors.Is(err, fs.ErrNotExist) {
			if err := os.RemoveAll(folder); err != nil {
				return fmt.Errorf("removing what is left of a container: %w", err)
			}
			continue
		}
		if err != nil || c.ID != filepath.Base(folder) {
			return brokenRecord(folder, err)
		}
		s.containers[c.ID] = c
	}
	return nil
}

func brokenRecord(path string, err error) error {
	if err == nil {
		err = errors.New("it has another ID than its name")
	}
	return fmt.Errorf("reading the record %s: %w. Fix: end its processes, then remove it; or restart the host", path, err)
}

// remove kills a container and forgets it.
func (s *server) remove(c *containerRecord) error {
	folder := s.containerFolder(c.ID)
	if err := c.process.Stop(killSignal, 0); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(folder, recordFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := c.process.Remove(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, c.ID)
	return nil
}
