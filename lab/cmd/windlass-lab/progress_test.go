package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// TestReminder: without a terminal, a step that takes long is named every 30 seconds.
func TestReminder(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{out: &out}
	p.remind(time.Unix(1_000, 0)) // There is no step yet.
	p.report(devplane.Event{Step: "a", Message: "building Kubernetes", Elapsed: 5 * time.Second})
	for _, after := range []int{29, 31, 60, 62} {
		p.remind(p.since.Add(time.Duration(after) * time.Second))
	}
	want := "   5.0s  building Kubernetes\n" +
		"  36.0s  building Kubernetes (still running)\n" +
		"  67.0s  building Kubernetes (still running)\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the lines (-want +got):\n%s", diff)
	}
}
