package simulated

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// operation is what is known about one attempt on a machine. It is what the journal holds.
type operation struct {
	Machine string `json:"machine"`
	ID      string `json:"id"`
	// Accepted is when it was first asked for, Started when work began.
	Accepted time.Time `json:"accepted"`
	Started  time.Time `json:"started,omitzero"`
	// Digest is of what it applies besides the version.
	Digest string `json:"digest,omitempty"`
	// Completed says that the work was really done; Lied that only the answer said so; Failed why it failed.
	Completed bool   `json:"completed,omitempty"`
	Lied      bool   `json:"lied,omitempty"`
	Failed    string `json:"failed,omitempty"`
}

// journal keeps operations in a file: one JSON document a line, the last one about an operation counts. The zero value keeps
// nothing. It is safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	file *os.File
}

// openJournal opens or makes a journal and reads it. A last line that was cut short by a crash is dropped: what it would have
// recorded was not acted on yet, or is found on the node.
func openJournal(path string) (*journal, []operation, error) {
	if path == "" {
		return &journal{}, nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading the state file: %w", err)
	}
	whole := content[:bytes.LastIndexByte(content, '\n')+1]
	if !isTorn(content[len(whole):]) {
		return nil, nil, fmt.Errorf("reading the state file: %s is no state file; choose another path", path)
	}
	var operations []operation
	for number, line := range bytes.Split(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var o operation
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, nil, fmt.Errorf("reading the state file: line %d of %s: %w; delete the file to forget all operations", number+1, path, err)
		}
		operations = append(operations, o)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the state file: %w", err)
	}
	if err := errors.Join(file.Truncate(int64(len(whole))), seekEnd(file), syncFolder(filepath.Dir(path))); err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("preparing the state file: %w", err)
	}
	return &journal{file: file}, operations, nil
}

// recordStart is how every record starts.
const recordStart = `{"machine":`

// isTorn says whether the end of a file is the start of a record, or nothing. What is something else was not written here, and
// must not be cut off.
func isTorn(end []byte) bool {
	return bytes.HasPrefix(end, []byte(recordStart)) || bytes.HasPrefix([]byte(recordStart), end)
}

func seekEnd(file *os.File) error {
	_, err := file.Seek(0, 2)
	return err
}

// syncFolder makes a new file's name durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// record returns once the operation is on the disk.
func (j *journal) record(o operation) error {
	if j.file == nil {
		return nil
	}
	line, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("writing the operation: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
