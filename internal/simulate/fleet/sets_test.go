package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/pool"
)

// counted is a worker group in numbers, between two versions.
type counted struct {
	desired, surge, unavailable int32
	inPlace                     bool
	// waiting, fresh and changing are as in group; earlier are those of changing that were made for
	// an earlier version.
	waiting, fresh    int
	changing, earlier changing
	// lost machines of the new MachineSet are gone, and not made anew yet.
	lost int
}

func (c counted) group() *group {
	g := &group{
		kind: "MachineDeployment", desired: int(c.desired), limits: pool.NewBudget(c.desired, c.surge, c.unavailable),
		update: &Update{InPlace: c.inPlace}, old: make([]*machine, c.waiting), fresh: c.fresh, changing: c.changing,
	}
	g.sets.earlier = c.earlier
	g.sets.earlierReplicas = c.waiting + c.earlier.updating + c.earlier.coming
	g.sets.replicas = c.fresh + g.moving() - c.earlier.updating - c.earlier.coming - c.earlier.going + c.lost
	return g
}

func modelled() *sim { return &sim{engine: Engine{}.withDefaults()} }

func TestScaleSets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pool counted
		want RolloutMove
	}{
		"nothing to do":                   {pool: counted{desired: 3, fresh: 3, surge: 1}},
		"a surge before anything goes":    {pool: counted{desired: 3, waiting: 3, surge: 1}, want: RolloutMove{Create: 1}},
		"then the old one goes":           {pool: counted{desired: 3, waiting: 3, fresh: 1, surge: 1}, want: RolloutMove{Delete: 1}},
		"nothing while it is coming":      {pool: counted{desired: 3, waiting: 3, changing: changing{coming: 1}, surge: 1}},
		"old ones go first, no surge":     {pool: counted{desired: 5, waiting: 5, unavailable: 2}, want: RolloutMove{Delete: 2}},
		"then new ones come":              {pool: counted{desired: 5, waiting: 3, unavailable: 2}, want: RolloutMove{Create: 2}},
		"neither allowed counts as one":   {pool: counted{desired: 5, waiting: 5}, want: RolloutMove{Delete: 1}},
		"in place as many as may be down": {pool: counted{desired: 5, waiting: 5, unavailable: 2, inPlace: true}, want: RolloutMove{Update: 2}},
		"in place with one spare machine": {pool: counted{desired: 3, waiting: 3, surge: 1, inPlace: true}, want: RolloutMove{Create: 1}},
		"in place nothing while it comes": {pool: counted{desired: 3, waiting: 3, changing: changing{coming: 1}, surge: 1, inPlace: true}},
		"in place then one is updated":    {pool: counted{desired: 3, waiting: 3, fresh: 1, surge: 1, inPlace: true}, want: RolloutMove{Update: 1}},
		"in place the last one is deleted": {
			pool: counted{desired: 3, waiting: 1, fresh: 3, surge: 1, inPlace: true}, want: RolloutMove{Delete: 1},
		},
		"in place no surge where one may be down": {
			pool: counted{desired: 3, waiting: 3, surge: 1, unavailable: 1, inPlace: true}, want: RolloutMove{Update: 1},
		},
		"none in the place of one that goes": {
			pool: counted{desired: 3, waiting: 2, changing: changing{going: 1}, earlier: changing{going: 1}, unavailable: 1},
		},
		"in place no more than there are": {
			pool: counted{desired: 5, waiting: 1, fresh: 4, unavailable: 3, inPlace: true}, want: RolloutMove{Update: 1},
		},
		"in place nothing while one is updated": {
			pool: counted{desired: 2, waiting: 1, changing: changing{updating: 1}, inPlace: true},
		},
		// Stock counts a machine in deletion twice against maxUnavailable: it is not available, and it is a
		// pending scale down.
		"none goes while another one is going": {
			pool: counted{
				desired: 10, waiting: 8, fresh: 1, unavailable: 2,
				changing: changing{going: 1}, earlier: changing{going: 1},
			},
		},
		"a machine of the new set that is lost is made anew": {
			pool: counted{desired: 5, waiting: 1, fresh: 3, lost: 1, unavailable: 1, inPlace: true}, want: RolloutMove{Create: 1},
		},
		"also while others are updated": {
			pool: counted{desired: 5, fresh: 3, changing: changing{updating: 1}, lost: 1, surge: 2, inPlace: true}, want: RolloutMove{Create: 1},
		},
		"not before it is gone": {
			pool: counted{desired: 5, waiting: 1, fresh: 3, changing: changing{going: 1}, unavailable: 1, inPlace: true},
		},
		"one that is updated to an earlier version counts as down": {
			pool: counted{
				desired: 5, waiting: 4, changing: changing{updating: 1}, earlier: changing{updating: 1}, unavailable: 2, inPlace: true,
			},
			want: RolloutMove{Update: 1},
		},
		// Stock takes it for a machine that never becomes available, and goes beyond maxUnavailable.
		"one that is updated to an earlier version blocks nothing": {
			pool: counted{
				desired: 3, waiting: 2, changing: changing{updating: 1}, earlier: changing{updating: 1}, unavailable: 1, inPlace: true,
			},
			want: RolloutMove{Update: 1},
		},
		"and does not leave before it is": {
			pool: counted{
				desired: 1, changing: changing{updating: 1}, earlier: changing{updating: 1}, unavailable: 1, inPlace: true,
			},
		},
	} {
		if diff := cmp.Diff(tt.want, modelled().scaleSets(tt.pool.group())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPoolEnds walks every group to its end, in any order of what machines do, and never beyond its
// bounds.
func TestPoolEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := func(most int, name string) int { return rapid.IntRange(0, most).Draw(t, name) }
		c := counted{
			desired: int32Of(number(20, "desired")), surge: int32Of(number(5, "maxSurge")),
			unavailable: int32Of(number(5, "maxUnavailable")), inPlace: rapid.Bool().Draw(t, "in place"),
		}
		c.waiting = int(c.desired)
		w := walk{T: t, sim: modelled(), g: c.group(), failures: number(5, "failures")}
		for step := 0; w.g.fresh < w.g.desired || w.g.waiting() > 0; step++ {
			if step > 500 {
				t.Fatalf("it does not end: %+v", w.g)
			}
			began := w.move()
			// What happened is no reason to do more.
			if w.move() {
				t.Fatalf("a second look does more: %+v", w.g)
			}
			if !began && w.g.moving() == 0 {
				t.Fatalf("nothing happens: %+v", w.g)
			}
			w.arrive(number)
		}
	})
}

// walk is a group under way.
type walk struct {
	*rapid.T
	sim      *sim
	g        *group
	failures int
}

// move lets the controllers act once. It reports whether they did anything.
func (w *walk) move() bool {
	g := w.g
	m := w.sim.scaleSets(g)
	g.coming += m.Create
	g.next += m.Delete + m.Update
	g.updating += m.Update
	g.going += m.Delete
	g.sets.earlier.going += m.Delete
	if total := g.present() + g.going; total > g.desired+int(g.limits.Surge) {
		w.Fatalf("%d machines: %+v", total, g)
	}
	if available := g.waiting() + g.fresh; available < int(g.limits.MinAvailable()) {
		w.Fatalf("%d are available: %+v", available, g)
	}
	if g.sets.replicas > g.desired {
		w.Fatalf("the new MachineSet asks for %d machines: %+v", g.sets.replicas, g)
	}
	return m != RolloutMove{}
}

// arrive ends some of the changes, as many as number says.
func (w *walk) arrive(number func(int, string) int) {
	g, e := w.g, &w.g.sets.earlier
	some := func(n int, what string) int { return min(n, number(3, what)+1) }
	came, updated, left := some(g.coming, "came"), some(g.updating, "updated"), some(g.going, "left")
	g.fresh += came + updated
	g.coming -= came
	g.updating -= updated
	g.going -= left
	e.going -= min(e.going, left)
	if w.failures == 0 {
		return
	}
	w.failures--
	switch {
	case g.updating > 0:
		// It is remediated.
		g.updating--
		g.going++
	case g.coming > 0:
		g.coming--
	}
}
