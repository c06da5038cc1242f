package linuxhost_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

var logTime = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func logEntry(operation string, step linuxhost.Name, output string) linuxhost.LogEntry {
	return linuxhost.LogEntry{Time: logTime, Operation: operation, Step: step, State: linuxhost.LogRunning, Output: output}
}

func TestLogIsReadable(t *testing.T) {
	t.Parallel()
	log := linuxhost.AppendLog("", linuxhost.LogEntry{Time: logTime, Operation: "u1.1", State: linuxhost.LogFailed, Output: "VersionRefused: no"})
	log = linuxhost.AppendLog(log, logEntry("u1.2", linuxhost.KubeadmUpgrade, "[upgrade] Reading\n\n\tcontinues  \n"))
	want := `== 2026-05-04T03:02:01Z - failed u1.1
  VersionRefused: no
== 2026-05-04T03:02:01Z kubeadm-upgrade running u1.2
  [upgrade] Reading

      continues
`
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	entries := []linuxhost.LogEntry{
		{Time: logTime, Operation: "u1.1", State: linuxhost.LogFailed, Output: "VersionRefused: no"},
		logEntry("u1.2", linuxhost.KubeadmUpgrade, "[upgrade] Reading\n\n    continues"),
	}
	if diff := cmp.Diff(entries, linuxhost.ParseLog(log)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestLogTakesTheStepsPlace(t *testing.T) {
	t.Parallel()
	log := linuxhost.AppendLog("", logEntry("a", "", "refused"))
	log = linuxhost.AppendLog(log, logEntry("a", linuxhost.Restart, "one"))
	log = linuxhost.AppendLog(log, logEntry("b", linuxhost.Restart, "one"))
	log = linuxhost.AppendLog(log, logEntry("a", linuxhost.Restart, "one\ntwo"))
	log = linuxhost.AppendLog(log, logEntry("a", "", "refused again"))
	want := []linuxhost.LogEntry{logEntry("b", linuxhost.Restart, "one"), logEntry("a", linuxhost.Restart, "one\ntwo"), logEntry("a", "", "refused again")}
	if diff := cmp.Diff(want, linuxhost.ParseLog(log)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestLogKeepsNoOutputForAnEntry prints what looks like an entry.
func TestLogKeepsNoOutputForAnEntry(t *testing.T) {
	t.Parallel()
	output := "== 2026-05-04T03:02:01Z restart done evil"
	log := linuxhost.AppendLog("", logEntry("a", linuxhost.Restart, output))
	if diff := cmp.Diff([]linuxhost.LogEntry{logEntry("a", linuxhost.Restart, output)}, linuxhost.ParseLog(log)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	log := linuxhost.AppendLog("", logEntry("a", linuxhost.KubeadmUpgrade, "token: abcdef.0123456789abcdef\n-----BEGIN RSA PRIVATE KEY-----\nMIIplanted\n"+strings.Repeat("x\n", 4096)))
	if strings.Contains(log, "0123456789abcdef") || strings.Contains(log, "planted") {
		t.Errorf("the log has a secret:\n%s", log)
	}
}

func TestLogCutsToTheNewest(t *testing.T) {
	t.Parallel()
	log := ""
	for _, operation := range []string{"a", "b", "c"} {
		log = linuxhost.AppendLog(log, logEntry(operation, linuxhost.Restart, strings.Repeat(operation+"\n", 1500)))
	}
	got := linuxhost.ParseLog(linuxhost.CutLog(log, linuxhost.LogEntryLimit))
	if len(got) != 1 || got[0].Operation != "c" || !strings.HasPrefix(got[0].Output, "[...]\nc\n") || !strings.HasSuffix(got[0].Output, "\nc") {
		t.Errorf("left are %+v", got)
	}
}

func TestParseLogLeavesOtherLinesAlone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n\n", "hello", "  indented", "== ", "== yesterday restart done a", "== 2026-05-04T03:02:01Z restart done", "== x\n  output of nobody"} {
		if got := linuxhost.ParseLog(text); len(got) > 0 {
			t.Errorf("%q has %+v", text, got)
		}
	}
}

// TestLogStaysBounded appends whatever a host prints: the log is bounded, has the last entry, and is the same when it is written again.
func TestLogStaysBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.String().Draw(t, "what is there")
		for range rapid.IntRange(1, 8).Draw(t, "entries") {
			entry := logEntry(rapid.SampledFrom([]string{"a", "b", "", "c d"}).Draw(t, "operation"), linuxhost.Name(rapid.SampledFrom([]string{"", "restart", "drain", "-"}).Draw(t, "step")),
				rapid.OneOf(rapid.String(), rapid.Map(rapid.StringN(1, 40, -1), func(s string) string { return strings.Repeat(s, 200) }), rapid.StringMatching(`([a-z ]*\n)*`)).Draw(t, "output"))
			log = linuxhost.AppendLog(log, entry)
			if len(log) > linuxhost.LogLimit || !utf8.ValidString(log) {
				t.Fatalf("the log has %d bytes", len(log))
			}
			entries := linuxhost.ParseLog(log)
			if len(entries) == 0 || !entries[len(entries)-1].Time.Equal(entry.Time) {
				t.Fatalf("the last entry is not there: %q", log)
			}
			if again := linuxhost.AppendLog(log, entry); again != log {
				t.Fatalf("appended again, the log is\n%q\nnot\n%q", again, log)
			}
			if cut := linuxhost.CutLog(log, linuxhost.LogEntryLimit); len(cut) > linuxhost.LogEntryLimit || len(linuxhost.ParseLog(cut)) == 0 {
				t.Fatalf("cut, the log has %d bytes", len(cut))
			}
		}
	})
}
