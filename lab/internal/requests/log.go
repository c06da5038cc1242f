package requests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Request is one answered request about a resource.
type Request struct {
	User string
	// Verb is that of RBAC: an apply is a patch.
	Verb string
	// Resource has its subresource after a slash.
	Group, Resource string
	Namespace, Name string
	// Code is the HTTP status of the answer.
	Code int
	// DryRun reports that nothing would be stored.
	DryRun bool
}

// Log reads the audit log of an API server, with one event a line. The API server starts another
// file when one is large, and renames the old file with its time. Log reads the files in order.
// It is not safe for concurrent use.
type Log struct {
	// path is the file that the API server writes now.
	path string
	// read is how many bytes of all files, old ones first, were read.
	read int64
}

// NewLog returns the log whose present file has this path. Nothing is read yet.
func NewLog(path string) *Log { return &Log{path: path} }

// Next returns the requests that were answered since the last call, in the log's order. Requests
// that are no request about a resource, and those that last (watches), are left out.
func (l *Log) Next() ([]Request, error) {
	const attempts = 3
	for range attempts {
		data, err := l.tail()
		if errors.Is(err, errRenamed) {
			continue
		}
		if err != nil {
			return nil, err
		}
		events, read, err := DecodeEvents(data)
		if err != nil {
			return nil, err
		}
		l.read += int64(read)
		return answered(events), nil
	}
	return nil, fmt.Errorf("reading the audit log %s: %w %d times", l.path, errRenamed, attempts)
}

var errRenamed = errors.New("its files were renamed meanwhile")

// tail returns what the files have after the part that was read. It returns errRenamed if a file was
// renamed meanwhile.
func (l *Log) tail() ([]byte, error) {
	files, err := l.files()
	if err != nil {
		return nil, err
	}
	var data []byte
	skip := l.read
	for _, file := range files {
		part, size, err := readFrom(file, skip)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errRenamed
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		data = append(data, part...)
		skip = max(0, skip-size)
	}
	after, err := l.files()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(files, after) {
		return nil, errRenamed
	}
	return data, nil
}

// files lists the log's files, oldest first. The names of old files end with their time, in a format
// that sorts.
func (l *Log) files() ([]string, error) {
	extension := filepath.Ext(l.path)
	old, err := filepath.Glob(strings.TrimSuffix(l.path, extension) + "-*" + extension)
	if err != nil {
		return nil, fmt.Errorf("listing the files of the audit log: %w", err)
	}
	slices.Sort(old)
	return append(old, l.path), nil
}

// readFrom returns what a file has after skip bytes, and its size up to there.
func readFrom(file string, skip int64) (part []byte, size int64, err error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = opened.Close() }() // only read from
	info, err := opened.Stat()
	if err != nil {
		return nil, 0, err
	}
	if info.Size() <= skip {
		return nil, info.Size(), nil
	}
	part = make([]byte, info.Size()-skip)
	_, err = io.ReadFull(io.NewSectionReader(opened, skip, info.Size()-skip), part)
	return part, info.Size(), err
}

// Event is what is read of an audit event of audit.k8s.io/v1.
type Event struct {
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	// ObjectRef is nil if the request is not about a resource.
	ObjectRef      *ObjectRef `json:"objectRef"`
	ResponseStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// ObjectRef is what a request is about. Name is empty for a list, Namespace for all of them.
type ObjectRef struct {
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// Path returns the resource with its subresource after a slash, as rules of RBAC name it.
func (r ObjectRef) Path() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// DecodeEvents reads the events of an audit log with one event a line. A last line without end is
// still being written, and is left out: read is how many bytes the others have.
func DecodeEvents(data []byte) (events []Event, read int, err error) {
	complete := data[:bytes.LastIndexByte(data, '\n')+1]
	for line := range bytes.Lines(complete) {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, 0, fmt.Errorf("decoding the audit event %q: %w", line, err)
		}
		events = append(events, e)
	}
	return events, len(complete), nil
}

// stageComplete is the stage of an event about a request that was answered in full.
const stageComplete = "ResponseComplete"

const verbWatch = "watch"

// answered returns the requests of events. See Next for what is left out.
func answered(events []Event) []Request {
	var found []Request
	for _, e := range events {
		if e.Stage != stageComplete || e.ObjectRef == nil || e.Verb == verbWatch {
			continue
		}
		found = append(found, Request{
			User: e.User.Username, Verb: e.Verb, Group: e.ObjectRef.APIGroup,
			Resource: e.ObjectRef.Path(), Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
			Code: e.ResponseStatus.Code, DryRun: isDryRun(e.RequestURI),
		})
	}
	return found
}

func isDryRun(uri string) bool {
	_, query, _ := strings.Cut(uri, "?")
	values, err := url.ParseQuery(query)
	return err == nil && values.Has("dryRun")
}
