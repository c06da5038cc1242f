package container

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func testLog(t interface {
	Helper()
	Fatal(...any)
}, path string) *logFile {
	t.Helper()
	l := &logFile{path: path, now: func() time.Time { return time.Unix(0, 0) }}
	if err := l.reopen(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLogKeepsEveryByte writes output in random pieces, and puts it together again from the entries.
func TestLogKeepsEveryByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	rapid.Check(t, func(t *rapid.T) {
		_ = os.Remove(path)
		piece := rapid.OneOf(
			rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n ")), 0, 20),
			rapid.Map(rapid.IntRange(maxLine-2, 2*maxLine+2), func(n int) []byte { return bytes.Repeat([]byte("x"), n) }),
		)
		stream := testLog(t, path).stream("stdout")
		var want []byte
		for _, text := range rapid.SliceOf(piece).Draw(t, "pieces") {
			want = append(want, text...)
			if n, err := stream.Write(text); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
		}
		stream.flush()
		if len(want) > 0 && want[len(want)-1] != '\n' {
			want = append(want, '\n') // flush ends a line
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var joined []byte
		for line := range bytes.Lines(got) {
			const stamp = "1970-01-01T00:00:00Z stdout "
			text, found := bytes.CutPrefix(line, []byte(stamp))
			if !found || len(text) > maxLine+len("F \n") {
				t.Fatalf("entry %q", line)
			}
			end := len(text)
			if text[0] == 'P' {
				end--
			}
			joined = append(joined, text[2:end]...)
		}
		// A line of exactly maxLine that the output ends with has no entry F.
		if !bytes.Equal(bytes.TrimSuffix(joined, []byte("\n")), bytes.TrimSuffix(want, []byte("\n"))) {
			t.Fatalf("%q\n%q", joined, want)
		}
	})
}

func TestLogOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := testLog(t, path)
	stream := l.stream("stdout")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	disk := l.file
	for _, step := range []struct {
		file *os.File
		text string
	}{{disk, "1\n"}, {full, "2\n3\n"}, {disk, "4\n"}, {full, "5\n"}, {disk, "6\n"}} {
		l.file = step.file
		if n, err := stream.Write([]byte(step.text)); err != nil || n != len(step.text) {
			t.Errorf("%q: %d, %v", step.text, n, err)
		}
	}
	l.torn = true // The disk was full in the middle of an entry.
	fmt.Fprintln(stream, "7")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `stdout F 1
stderr F runtime: 2 entries of this log did not fit on the disk
stdout F 4
stderr F runtime: 1 entries of this log did not fit on the disk
stdout F 6

stdout F 7
`
	if diff := cmp.Diff(want, strings.ReplaceAll(string(got), "1970-01-01T00:00:00Z ", "")); diff != "" {
		t.Error(diff)
	}
}
