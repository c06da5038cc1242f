package k8sdtest_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
)

// TestChanges keeps all changes of a machine with their times, the forgotten ones too.
func TestChanges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, err := k8sdtest.New(k8sdtest.Options{Duration: time.Minute, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.AddMachine("a", "token", k8sdtest.Option{}); err != nil {
		t.Fatal(err)
	}
	begin := func(o k8sdtest.Option) k8sdtest.Change {
		id, err := s.Begin("a", o)
		if err != nil {
			t.Fatal(err)
		}
		return k8sdtest.Change{ID: id, Option: o, Begun: now}
	}
	first := begin(k8sdtest.Option{Revision: "1"})
	now = now.Add(2 * time.Minute)
	first.Ended = now
	if diff := cmp.Diff([]k8sdtest.Change{first}, s.Changes("a")); diff != "" {
		t.Errorf("after the first (-want +got):\n%s", diff)
	}
	if err := s.ForgetChanges("a"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetFaults("a", k8sdtest.Faults{FailChanges: "no space"}); err != nil {
		t.Fatal(err)
	}
	second := begin(k8sdtest.Option{Revision: "2"})
	now = now.Add(time.Minute)
	second.Ended, second.Failed = now, "no space"
	third := begin(k8sdtest.Option{Revision: "3"})
	if diff := cmp.Diff([]k8sdtest.Change{first, second, third}, s.Changes("a")); diff != "" {
		t.Errorf("after the third (-want +got):\n%s", diff)
	}
	if got := s.Changes("b"); got != nil {
		t.Errorf("a machine that does not exist has changes: %v", got)
	}
}
