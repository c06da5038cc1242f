package engine_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/inplace/engine"
)

func TestDebouncer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	messages := engine.NewDebouncer()
	for _, step := range []struct {
		uid, text string
		after     time.Duration
		want      string
	}{
		{"a", "3 pods", 0, "3 pods"}, {"a", "2 pods", engine.DebounceTime - 1, "3 pods"}, {"b", "9 pods", engine.DebounceTime - 1, "9 pods"}, {"a", "1 pod", engine.DebounceTime, "1 pod"},
	} {
		if got := messages.Settle(types.UID(step.uid), step.text, now.Add(step.after)); got != step.want {
			t.Errorf("%s after %s: %q, want %q", step.text, step.after, got, step.want)
		}
	}
}
