package request

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOrder checks that what is not Ready comes first, then the oldest, and that what is being deleted does not count.
func TestOrder(t *testing.T) {
	at := func(day int) time.Time { return time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC) }
	members := []Member{
		{Name: "young", Created: at(3)}, {Name: "b", Created: at(1)}, {Name: "a", Created: at(1)}, {Name: "going", Created: at(1), Deleting: true},
		{Name: "sick", Created: at(9), NotReady: "no heartbeat"},
	}
	var got []string
	for _, m := range Order(members) {
		got = append(got, m.Name)
	}
	if diff := cmp.Diff([]string{"sick", "a", "b", "young"}, got); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
	if members[0].Name != "young" {
		t.Error("the input was changed")
	}
}
