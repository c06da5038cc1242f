package chain

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestHasten: once something changes that a hook depends on, it is asked again at once, and soon again if
// its answer is still the old one. Of other Clusters nothing changes, nor after a while.
func TestHasten(t *testing.T) {
	t.Parallel()
	one, other := types.NamespacedName{Name: "one"}, types.NamespacedName{Name: "other"}
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	answer := func(given time.Time) Answer {
		return Answer{Hook: BeforeClusterUpgrade, Since: now, Given: given, Until: given.Add(time.Minute)}
	}
	var answers Answers
	answers.Hasten(one, now.Add(-time.Hour))
	for _, key := range []types.NamespacedName{one, other} {
		if kept := answers.Remember(key, answer(now)); kept.Until != now.Add(time.Minute) {
			t.Fatalf("%s: until %s", key.Name, kept.Until)
		}
	}
	at := now.Add(10 * time.Second)
	answers.Hasten(one, at)
	if got := answers.Of(one); len(got) != 1 || got[0].Until.After(at) || got[0].Since != now {
		t.Errorf("hastened: %+v", got)
	}
	if got := answers.Of(other); got[0].Until != now.Add(time.Minute) {
		t.Errorf("another Cluster: %+v", got)
	}
	if kept := answers.Remember(one, answer(at)); kept.Until != at.Add(soon) || answers.Of(one)[0] != kept {
		t.Errorf("the old answer counts until %s", kept.Until)
	}
	later := at.Add(hurry)
	if kept := answers.Remember(one, answer(later)); kept.Until != later.Add(time.Minute) {
		t.Errorf("after a while: until %s", kept.Until)
	}
}
