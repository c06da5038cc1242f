package container

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxLine is the length at which a line is split into entries, as other runtimes do.
const maxLine = 16 << 10

// logFile writes a log in the format of CRI: TIME STREAM TAG TEXT, with the tag P for a part of a
// line and F for its end. Entries that do not fit on the disk are lost; the log then says how many.
type logFile struct {
	path string
	now  func() time.Time

	mu   sync.Mutex
	file *os.File
	// lost counts entries since the last one that was written.
	lost int
	// torn is true if the file ends within an entry.
	torn bool
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path, now: time.Now}
	return l, l.reopen()
}

// reopen continues in a new file if the old one was renamed. After an error it continues in the old one.
func (l *logFile) reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := createLog(l.path)
	if err != nil {
		return err
	}
	if l.file != nil {
		_ = l.file.Close() // Each entry was written at once.
	}
	l.file, l.torn = file, false
	return nil
}

func createLog(path string) (*os.File, error) {
	if path == "" {
		path = os.DevNull
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
}

// stream returns a writer for one of the two streams. Its Write never fails, because the container
// must not wait for the disk. One goroutine may use it.
func (l *logFile) stream(name string) *logStream { return &logStream{log: l, name: name} }

type logStream struct {
	log  *logFile
	name string
	rest []byte // the beginning of a line
}

func (s *logStream) Write(data []byte) (int, error) {
	n := len(data)
	for len(data) > 0 {
		room := data[:min(len(data), maxLine-len(s.rest))]
		end := bytes.IndexByte(room, '\n')
		switch {
		case end >= 0:
			s.log.write(s.name, "F", append(s.rest, room[:end]...))
			s.rest, data = s.rest[:0], data[end+1:]
		case len(s.rest)+len(room) == maxLine:
			s.log.write(s.name, "P", append(s.rest, room...))
			s.rest, data = s.rest[:0], data[len(room):]
		default:
			s.rest, data = append(s.rest, room...), data[len(room):]
		}
	}
	return n, nil
}

// flush writes what the container has left without an end of line.
func (s *logStream) flush() {
	if len(s.rest) > 0 {
		s.log.write(s.name, "F", s.rest)
		s.rest = nil
	}
}

func (l *logFile) write(stream, tag string, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 && l.entry("stderr", "F", fmt.Appendf(nil, "runtime: %d entries of this log did not fit on the disk", l.lost)) {
		l.lost = 0
	}
	if l.lost > 0 || !l.entry(stream, tag, text) {
		l.lost++
	}
}

// entry returns false if the entry was lost.
func (l *logFile) entry(stream, tag string, text []byte) bool {
	line := fmt.Appendf(nil, "%s %s %s %s\n", l.now().UTC().Format(time.RFC3339Nano), stream, tag, text)
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.file.Write(line)
	if n > 0 {
		l.torn = n < len(line)
	}
	return err == nil
}
