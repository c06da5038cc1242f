package engine

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestSaidIsForgotten holds that what is said about objects that are gone is not remembered for long, and what is said again and again is.
func TestSaidIsForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSaid(func() time.Time { return now })
	for i := range 1000 {
		now = now.Add(time.Minute)
		s.changed(types.UID(fmt.Sprintf("gone-%d", i)), "blocked")
		if s.changed("there", "blocked") != (i == 0) {
			t.Fatalf("after %d minutes: what was said last is not known", i)
		}
	}
	if n := len(s.last); n > 2*60+1 {
		t.Errorf("%d objects are remembered", n)
	}
	s.forget("there")
	if !s.changed("there", "blocked") {
		t.Error("it is not forgotten")
	}
}
