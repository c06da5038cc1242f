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
	"sync/atomic"
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
	message, ok := p.Message.ProtoReflect().New().Interface().(M)
	if !ok {
		return fmt.Errorf("a new %T has another type", p.Message)
	}
	p.Message = message
	return protojson.Unmarshal(data, message)
}

// sandbox is one pod. Its fields but Stopped do not change.
type sandbox struct {
	ID      string
	Created time.Time
	IP      string
	Stopped bool
	Config  protoJSON[*runtime.PodSandboxConfig]
}

// containerRecord is one container. Its exported fields do not change.
type containerRecord struct {
	ID, Sandbox string
	Created     time.Time
	// Image is a reference, ImageID the image's digest when the container was created.
	Image, ImageID string
	Log            string
	Config         protoJSON[*runtime.ContainerConfig]

	process *container.Container
	// removing is true while the container is being removed: it must not start any more.
	removing atomic.Bool
}

// recordFile is in the folder of a container. It is written last and removed first: a folder
// without it contains no container.
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

// load reads what an earlier runtime has recorded. A record that cannot be read is an error,
// because its processes would run unseen.
func (s *server) load() error {
	files, err := filepath.Glob(s.sandboxFile("*"))
	if err != nil {
		return fmt.Errorf("listing sandboxes: %w", err)
	}
	for _, file := range files {
		b := &sandbox{}
		if err := jsonfile.Read(file, b); err != nil || s.sandboxFile(b.ID) != file {
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
	const fix = "end its processes, then remove it; or restart the host"
	return fmt.Errorf("reading the record %s: %w. Fix: %s", path, err, fix)
}

// remove kills a container and forgets it.
func (s *server) remove(c *containerRecord) error {
	c.removing.Store(true)
	err := c.process.Stop(killSignal, 0)
	if err == nil {
		err = os.Remove(filepath.Join(s.containerFolder(c.ID), recordFile))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.removing.Store(false)
		return err
	}
	s.mu.Lock()
	delete(s.containers, c.ID)
	s.mu.Unlock()
	// Nobody reads the folder any more. If it stays, the next runtime removes it.
	return c.process.Remove()
}
