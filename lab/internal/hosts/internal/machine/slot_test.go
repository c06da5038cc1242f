//go:build linux

package machine

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestSlotsHaveNetworksOfTheirOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(0, slots-1).Draw(t, "number")
		s := newSlot(number, nil)
		got, ok := numberOf(fmt.Sprintf("unreachable %s metric 4000", s.network))
		if !ok || got != number {
			t.Errorf("%s: slot %d, want %d", s.network, got, number)
		}
		if len(s.link) > 15 {
			t.Errorf("%s: too long a name for a link", s.link)
		}
	})
}

func TestRoutesOfOthersAreNotOurs(t *testing.T) {
	for _, line := range []string{"", "unreachable 10.0.0.0/8", "10.231.0.0/30 dev wlhost0", "unreachable 10.230.0.4/30"} {
		if number, ok := numberOf(line); ok {
			t.Errorf("%q: slot %d", line, number)
		}
	}
}

func TestASlotIsTakenOnce(t *testing.T) {
	state := t.TempDir()
	// A number that no host of this machine gets: they start from 0.
	first, err := take(state, slots-1)
	if err != nil || first == nil {
		t.Fatalf("first: %v, %v", first, err)
	}
	second, err := take(state, slots-1)
	if err != nil || second != nil {
		t.Errorf("taken twice: %v, %v", second, err)
	}
	if err := first.lock.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := take(state, slots-1); err != nil || again == nil {
		t.Errorf("not free again: %v, %v", again, err)
	}
}
