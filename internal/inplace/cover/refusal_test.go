package cover_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/text"
)

// TestRefusal holds which messages stand for a NotCoveredError, and what is read from them.
func TestRefusal(t *testing.T) {
	t.Parallel()
	notCovered := func(message string) *cover.NotCoveredError {
		return &cover.NotCoveredError{Message: message}
	}
	for name, tt := range map[string]struct {
		err  error
		wire string
		want *cover.NotCoveredError
	}{
		"not covered": {
			notCovered("no updater covers x"), "windlass.dev/NotCovered: no updater covers x",
			notCovered("no updater covers x"),
		},
		"wrapped": {
			fmt.Errorf("MachineSet a: %w", notCovered("x")), "windlass.dev/NotCovered: MachineSet a: x",
			notCovered("MachineSet a: x"),
		},
		"two lines":     {notCovered(" a\nb "), "windlass.dev/NotCovered: a b", notCovered("a b")},
		"no message":    {notCovered(""), "windlass.dev/NotCovered:", notCovered("")},
		"another error": {errors.New("connection refused"), "connection refused", nil},
		"named later": {
			errors.New("a windlass.dev/NotCovered: b"), "a windlass.dev/NotCovered: b", nil,
		},
		"forged": {
			errors.New("\nwindlass.dev/NotCovered: b"), "failed: windlass.dev/NotCovered: b", nil,
		},
		"too long": {
			notCovered(strings.Repeat("x", 80)),
			"windlass.dev/NotCovered: " + strings.Repeat("x", 36) + "...",
			notCovered(strings.Repeat("x", 36) + "..."),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wire := cover.EncodeRefusal(tt.err, 64)
			if wire != tt.wire {
				t.Errorf("the message is %q, want %q", wire, tt.wire)
			}
			if diff := cmp.Diff(tt.want, cover.DecodeRefusal(wire)); diff != "" {
				t.Errorf("read from it (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzRefusal holds that a NotCoveredError arrives, with its message if that is short enough, and
// that the text of another error does not look like one.
func FuzzRefusal(f *testing.F) {
	for _, message := range []string{
		"", "x", "windlass.dev/NotCovered:", "\x00windlass.dev/NotCovered: x",
		"windlass.dev/NotCovered: windlass.dev/NotCovered:", "\xff", "a\u2028b ",
		strings.Repeat("ü", 100),
	} {
		f.Add(message, true, 64)
		f.Add(message, false, 2048)
	}
	f.Fuzz(func(t *testing.T, message string, isNotCovered bool, bytes int) {
		if bytes < len(cover.NotCoveredPrefix+" ...") || bytes > 1<<16 {
			return
		}
		err := errors.New(message)
		if isNotCovered {
			err = &cover.NotCoveredError{Message: message}
		}
		wire := cover.EncodeRefusal(err, bytes)
		if len(wire) > bytes || wire != text.Bound(wire, bytes) {
			t.Fatalf("%q is no line of at most %d bytes", wire, bytes)
		}
		got := cover.DecodeRefusal(wire)
		if (got != nil) != isNotCovered {
			t.Fatalf("%q is read as %v", wire, got)
		}
		want, room := text.Bound(message, bytes), bytes-len(cover.NotCoveredPrefix)-1
		if got != nil && len(want) <= room && got.Message != want {
			t.Errorf("%q is read as %q, want %q", wire, got.Message, want)
		}
	})
}
