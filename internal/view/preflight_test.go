package view_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/version"
)

func preflight() view.Preflight {
	return view.Preflight{
		Namespace: "team-a", Cluster: "prod", Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		From: version.MustParse("v1.33.0"), To: version.MustParse("v1.36.1"),
		Verdict: "Fix what was found.", Worst: clustercheck.Failed,
		Findings: []clustercheck.Finding{
			clustercheck.Pass("Nodes", "3 Nodes are Ready"),
			{ID: "WebhookScope", Outcome: clustercheck.Warned, Subject: "webhook <script>alert(1)</script>\x1b[2J", Message: "it must admit Pods", Fix: "exempt it"},
			clustercheck.Skip("RoomForDrains", "forbidden"),
			clustercheck.Fail("EtcdHealthy", "restore it", "it is not Ready"),
		},
	}
}

func writePreflight(t *testing.T, f view.Format) string {
	t.Helper()
	var buffer bytes.Buffer
	if err := view.WritePreflight(&buffer, f, view.Screen{}, preflight()); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

// TestPreflightPage holds that the page shows what failed first, needs nothing from elsewhere, and runs nothing.
func TestPreflightPage(t *testing.T) {
	t.Parallel()
	page := writePreflight(t, view.HTML)
	at := -1
	for _, words := range []string{
		"<h1>Preflight of prod: v1.33.0 to v1.36.1</h1>", "Cluster team-a/prod, as of 2026-03-01 12:00:00 UTC",
		"Fix what was found.", "<h2>Failed</h2>", "EtcdHealthy", "<h2>Not checked</h2>", "RoomForDrains",
		"<h2>Warned</h2>", "&lt;script&gt;alert(1)", "exempt it", "<h2>Passed</h2>", "3 Nodes are Ready",
	} {
		next := strings.Index(page, words)
		if next <= at {
			t.Errorf("%q is not in its place", words)
		}
		at = next
	}
	for _, words := range []string{"<script", "http://", "https://", "\x1b"} {
		if strings.Contains(page, words) {
			t.Errorf("the page contains %q", words)
		}
	}
}

func TestPreflightTable(t *testing.T) {
	t.Parallel()
	table := writePreflight(t, view.Table)
	if verdict, _, _ := strings.Cut(table, "\n"); verdict != "Fix what was found." {
		t.Errorf("the first line is %q", verdict)
	}
	if strings.Contains(table, "\x1b") || !strings.Contains(table, "| WebhookScope  | warned      | webhook <script>alert(1)</script>\ufffd[2J: it must admit Pods. Fix: exempt it |") {
		t.Errorf("got:\n%s", table)
	}
}

// TestPreflightJSON holds the fields that scripts rely on.
func TestPreflightJSON(t *testing.T) {
	t.Parallel()
	var document map[string]any
	if err := json.Unmarshal([]byte(writePreflight(t, view.JSON)), &document); err != nil {
		t.Fatal(err)
	}
	want := []string{"cluster", "findings", "from", "namespace", "time", "to", "verdict", "worst"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(document))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	findings, ok := document["findings"].([]any)
	if !ok || len(findings) != 4 {
		t.Fatalf("findings are %v", document["findings"])
	}
	first := map[string]any{"id": "Nodes", "outcome": "Passed", "message": "3 Nodes are Ready", "fix": ""}
	if diff := cmp.Diff(any(first), findings[0]); diff != "" {
		t.Errorf("the first finding (-want +got):\n%s", diff)
	}
}
