package linuxhost

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// LogEntry is what one step of an attempt printed, so far.
type LogEntry struct {
	// Time is when that was seen, in whole seconds.
	Time time.Time
	// Operation names the attempt.
	Operation string
	// Step is empty for what is no step's, such as a host that cannot be upgraded.
	Step  Name
	State LogState
	// Output is the last of what the step printed, without secrets, and why it failed.
	Output string
}

// LogState is how a step of a log is.
type LogState string

// The states of a log's entries.
const (
	LogRunning LogState = "running"
	LogWaiting LogState = "waiting"
	LogDone    LogState = "done"
	LogFailed  LogState = "failed"
)

const (
	// LogLimit is how long a log may be, in bytes.
	LogLimit = 32 << 10
	// LogEntryLimit is what one entry takes of it at most, in bytes.
	LogEntryLimit = 4 << 10

	// entryMark begins the line of an entry; what was printed is indented, so that no output looks like one.
	entryMark    = "== "
	outputIndent = "  "
	// nothing stands for an empty word.
	nothing = "-"
	// cutMark is the first line of an output that was cut.
	cutMark = "[...]"
)

// AppendLog adds an entry to the text of a log. It takes the place of one of the same operation and step, whose output it continues. Where the log
// is longer than LogLimit then, its oldest entries go.
func AppendLog(log string, entry LogEntry) string {
	entries := slices.DeleteFunc(ParseLog(log), func(e LogEntry) bool {
		return e.Operation == word(entry.Operation) && string(e.Step) == trimWord(string(entry.Step))
	})
	return formatLog(append(entries, entry), LogLimit)
}

// CutLog gives the newest entries of a log that take at most limit bytes: what stays of a log that nobody adds to any more.
func CutLog(log string, limit int) string { return formatLog(ParseLog(log), limit) }

// ParseLog parses the text of a log. Entries are in the order in which they were added. Lines that are of no entry are left alone.
func ParseLog(log string) []LogEntry {
	var entries []LogEntry
	var output []string
	open := false
	end := func() {
		if open {
			entries[len(entries)-1].Output = strings.Join(output, "\n")
		}
		output = nil
	}
	for line := range strings.SplitSeq(log, "\n") {
		if printed, ok := strings.CutPrefix(line, outputIndent); ok && open {
			output = append(output, printed)
			continue
		}
		if !strings.HasPrefix(line, entryMark) {
			if line == "" && open {
				output = append(output, "")
			}
			continue
		}
		end()
		var entry LogEntry
		if entry, open = parseHead(line); open {
			entries = append(entries, entry)
		}
	}
	end()
	for i := range entries {
		entries[i].Output = strings.TrimRight(entries[i].Output, "\n")
	}
	return entries
}

func parseHead(line string) (LogEntry, bool) {
	fields := strings.Fields(strings.TrimPrefix(line, entryMark))
	if len(fields) != 4 {
		return LogEntry{}, false
	}
	at, err := time.Parse(time.RFC3339, fields[0])
	if err != nil {
		return LogEntry{}, false
	}
	entry := LogEntry{Time: at.UTC(), Operation: fields[3], Step: Name(fields[1]), State: LogState(fields[2])}
	if fields[1] == nothing {
		entry.Step = ""
	}
	return entry, true
}

// formatLog writes the newest entries that fit.
func formatLog(entries []LogEntry, limit int) string {
	var parts []string
	size := 0
	for _, entry := range slices.Backward(entries) {
		part := formatEntry(entry)
		if size += len(part); size > limit {
			break
		}
		parts = append(parts, part)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "")
}

func formatEntry(e LogEntry) string {
	head := entryMark + strings.Join([]string{e.Time.UTC().Format(time.RFC3339), word(string(e.Step)), word(string(e.State)), word(e.Operation)}, " ") + "\n"
	lines := strings.Split(cleanOutput(e.Output), "\n")
	room := LogEntryLimit - len(head)
	first := len(lines)
	for first > 0 && room >= len(lines[first-1])+len(outputIndent)+1 {
		first--
		room -= len(lines[first]) + len(outputIndent) + 1
	}
	var b strings.Builder
	b.WriteString(head)
	if first > 0 {
		// The mark takes the place of the first lines that fit, where it must.
		for need := len(outputIndent) + len(cutMark) + 1; room < need && first < len(lines); first++ {
			room += len(lines[first]) + len(outputIndent) + 1
		}
		b.WriteString(outputIndent + cutMark + "\n")
	}
	for _, line := range lines[first:] {
		if line == "" && len(lines) == 1 {
			continue
		}
		b.WriteString(strings.TrimRight(outputIndent+line, " ") + "\n")
	}
	return b.String()
}

// maxLine bounds a line in bytes, so that one line never takes a whole entry.
const maxLine = 512

// cleanOutput makes an output what kubectl shows unchanged: no secrets, no control characters, no blanks at the ends of lines. It
// masks last, because a control character in the middle of a secret's name hides it.
func cleanOutput(output string) string {
	output = strings.ToValidUTF8(strings.ReplaceAll(output, "\t", "    "), "")
	output = Mask(strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, output))
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		if len(line) > maxLine {
			end := maxLine
			for !utf8.RuneStart(line[end]) {
				end--
			}
			line = line[:end]
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// maxWord bounds a word of an entry's first line, in bytes.
const maxWord = 256

// word makes a text one word.
func word(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), "_")
	if len(s) > maxWord {
		s = strings.ToValidUTF8(s[:maxWord], "")
	}
	if s == "" {
		return nothing
	}
	return s
}

// trimWord is word as ParseLog gives it back.
func trimWord(s string) string {
	if s = word(s); s == nothing {
		return ""
	}
	return s
}
