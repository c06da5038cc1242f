package topology

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestOldestWorkers: extensions are told the oldest version of the groups that are there to stay.
func TestOldestWorkers(t *testing.T) {
	t.Parallel()
	v := version.MustParse
	group := func(oldest string, change ...func(*chain.Group)) chain.Group {
		g := chain.Group{Exists: true, Oldest: v(oldest)}
		for _, c := range change {
			c(&g)
		}
		return g
	}
	deleting := func(g *chain.Group) { g.Deleting = true }
	absent := func(g *chain.Group) { g.Exists = false }
	for name, tt := range map[string]struct {
		groups []chain.Group
		want   version.Version
	}{
		"none":                       {nil, version.Version{}},
		"the oldest, wherever it is": {[]chain.Group{group("v1.31.2"), group("v1.30.1"), group("v1.30.5")}, v("v1.30.1")},
		"a group that goes":          {[]chain.Group{group("v1.31.2"), group("v1.28.1", deleting)}, v("v1.31.2")},
		"a group that is not there":  {[]chain.Group{group("v1.28.1", absent), group("v1.31.2")}, v("v1.31.2")},
		"builds without an order":    {[]chain.Group{group("v1.31.2+b"), group("v1.31.2+a")}, v("v1.31.2+a")},
	} {
		if got := oldestWorkers(tt.groups, v("v1.31.2+b")); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
