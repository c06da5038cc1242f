package journal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Operation is what an attempt asks of the API.
type Operation string

// Write stores a new object. Read gets the last object whose write was acknowledged.
const (
	Write Operation = "write"
	Read  Operation = "read"
)

// Attempt is one request of the client. The attempts of one operation follow each other; they do
// not overlap.
type Attempt struct {
	Operation Operation `json:"operation"`
	// Number is that of the write. It begins at 1, and each write has another one.
	Number int `json:"number"`
	// Began and Ended are the client's times, before the request and after the answer.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
	// Revision is etcd's revision of an acknowledged write.
	Revision int64 `json:"revision,omitempty"`
	// Error says why the attempt failed; it is empty otherwise. A failed write may be stored.
	Error string `json:"error,omitempty"`
	// Wrong says how the answer of a read contradicts an acknowledged write; it is empty otherwise.
	Wrong string `json:"wrong,omitempty"`
}

// Failed reports whether the API did not answer.
func (a Attempt) Failed() bool { return a.Error != "" }

// Value is what the write of a number stores.
func Value(number int) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "write %d", number)))
}

// Append adds an attempt to a journal: one line of JSON.
func Append(w io.Writer, a Attempt) error {
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encoding an attempt: %w", err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

// Parse reads a journal. A last line without its end is ignored, because its writer was killed.
func Parse(data []byte) ([]Attempt, error) {
	var attempts []Attempt
	complete := data[:bytes.LastIndexByte(data, '\n')+1]
	lines := bufio.NewScanner(bytes.NewReader(complete))
	for n := 1; lines.Scan(); n++ {
		var a Attempt
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return nil, fmt.Errorf("reading line %d of the journal: %w", n, err)
		}
		attempts = append(attempts, a)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return attempts, nil
}

// Acknowledged returns the writes that the API acknowledged, in order.
func Acknowledged(attempts []Attempt) []Attempt {
	var writes []Attempt
	for _, a := range attempts {
		if a.Operation == Write && !a.Failed() {
			writes = append(writes, a)
		}
	}
	return writes
}
