package record_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
)

func canaries(from, to int) (names []string) {
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("m%0252d", i))
	}
	return names
}

// TestCanariesAreBounded: a record with the longest names never becomes full, however many canaries
// fail, one after another or at once, and counts all of them.
func TestCanariesAreBounded(t *testing.T) {
	t.Parallel()
	const key = v1alpha1.FailedCanariesAnnotation
	set := strings.Repeat("s", 253)
	for name, at := range map[string]int{"one after another": 1, "many at once": 50, "more than fit": 450} {
		var c *record.FailedCanaries
		text := ""
		for from := 0; from < 900; from += at {
			names := canaries(from, from+at)
			if c = c.With(set, names); c == nil {
				t.Fatalf("%s: %d adds nothing", name, from)
			}
			if again := c.With(set, names); again != nil {
				t.Errorf("%s: %d is added again", name, from)
			}
			var err error
			if text, err = record.Encode(map[string]string{key: text}, key, *c); err != nil {
				t.Fatalf("%s: %d: %v", name, from, err)
			}
		}
		got, err := record.FailedCanariesOf(map[string]string{key: text})
		if diff := cmp.Diff(c, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if sum := len(c.Machines) + c.Others; len(c.Machines) != 200 || sum != 900 {
			t.Errorf("%s: %d names and %d others", name, len(c.Machines), c.Others)
		}
		if last := canaries(899, 900)[0]; at < 200 && !slices.Contains(c.Machines, last) {
			t.Errorf("%s: the last name is forgotten", name)
		}
	}
	if _, err := record.FailedCanariesOf(map[string]string{key: `{"machineSet":"s","machines":["m"],"others":-1}`}); err == nil {
		t.Error("fewer than none are counted")
	}
}
