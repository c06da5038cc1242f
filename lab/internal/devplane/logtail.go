package devplane

import (
	"io"
	"os"
	"strings"
)

const (
	logTailLines      = 10
	logTailLineLength = 500
	logTailReadBytes  = 16 << 10
)

// logTail returns the last lines of a log. A log that cannot be read has none.
func logTail(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // only read from
	if info, err := file.Stat(); err == nil && info.Size() > logTailReadBytes {
		if _, err := file.Seek(-logTailReadBytes, io.SeekEnd); err != nil {
			return nil
		}
	}
	data, err := io.ReadAll(io.LimitReader(file, logTailReadBytes))
	if err != nil {
		return nil
	}
	return lastLines(string(data))
}

func lastLines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-logTailLines):]
	for i, line := range lines {
		if len(line) > logTailLineLength {
			lines[i] = line[:logTailLineLength] + " ..."
		}
	}
	return lines
}

func tailText(path string) string { return strings.Join(logTail(path), "\n") }
