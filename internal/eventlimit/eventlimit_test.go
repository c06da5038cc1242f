package eventlimit_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

	"github.com/windlass-dev/windlass/internal/eventlimit"
)

type manager struct {
	new  *events.FakeRecorder
	core *record.FakeRecorder
}

func (m manager) GetEventRecorder(string) events.EventRecorder    { return m.new }
func (m manager) GetEventRecorderFor(string) record.EventRecorder { return m.core }

// TestNotesAreBounded: each way to record an Event bounds its note and keeps its Fix.
func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	m := manager{new: events.NewFakeRecorder(1), core: record.NewFakeRecorder(1)}
	pod := &corev1.Pod{}
	const kind, reason, fix = "Normal", "Why", "Fix: wait 100 %"
	long := strings.Repeat("é", 2000)
	for name, record := range map[string]func(){
		"new":            func() { eventlimit.For(m, "a").Eventf(pod, nil, kind, reason, "Do", "%s. %s", long, fix) },
		"core":           func() { eventlimit.CoreFor(m, "a").Event(pod, kind, reason, long+". "+fix) },
		"core format":    func() { eventlimit.CoreFor(m, "a").Eventf(pod, kind, reason, "%s. %s", long, fix) },
		"core annotated": func() { eventlimit.CoreFor(m, "a").AnnotatedEventf(pod, nil, kind, reason, "%s. %s", long, fix) },
	} {
		record()
		var got string
		select {
		case got = <-m.new.Events:
		case got = <-m.core.Events:
		default:
			t.Fatalf("%s: no Event", name)
		}
		note, ok := strings.CutPrefix(strings.TrimSpace(got), kind+" "+reason+" ")
		if !ok || len(note) > eventlimit.MaxBytes || !strings.HasPrefix(note, "éé") || !strings.HasSuffix(note, " more bytes) "+fix) {
			t.Errorf("%s: a note of %d bytes: %q", name, len(note), got)
		}
	}
}
