package settle_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/engine/settle"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	messages := settle.New()
	for _, step := range []struct {
		uid, text string
		after     time.Duration
		want      string
	}{
		{"a", "3 pods", 0, "3 pods"}, {"a", "2 pods", settle.For - 1, "3 pods"}, {"b", "9 pods", settle.For - 1, "9 pods"}, {"a", "1 pod", settle.For, "1 pod"},
	} {
		if got := messages.Settle(types.UID(step.uid), step.text, now.Add(step.after)); got != step.want {
			t.Errorf("%s after %s: %q, want %q", step.text, step.after, got, step.want)
		}
	}
}
