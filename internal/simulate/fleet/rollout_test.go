package fleet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

func TestDecidePool(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pool fleet.Rollout
		want fleet.RolloutMove
	}{
		"nothing to do":                       {pool: fleet.Rollout{Desired: 3, New: 3, MaxSurge: 1}},
		"a surge before anything goes":        {pool: fleet.Rollout{Desired: 3, Old: 3, MaxSurge: 1}, want: fleet.RolloutMove{Create: 1}},
		"the old one goes when it is there":   {pool: fleet.Rollout{Desired: 3, Old: 3, New: 1, MaxSurge: 1}, want: fleet.RolloutMove{Delete: 1}},
		"nothing while it is coming":          {pool: fleet.Rollout{Desired: 3, Old: 3, Coming: 1, MaxSurge: 1}},
		"old ones go first without a surge":   {pool: fleet.Rollout{Desired: 5, Old: 5, MaxUnavailable: 2}, want: fleet.RolloutMove{Delete: 2}},
		"then new ones come":                  {pool: fleet.Rollout{Desired: 5, Old: 3, MaxUnavailable: 2}, want: fleet.RolloutMove{Create: 2}},
		"neither allowed counts as one":       {pool: fleet.Rollout{Desired: 5, Old: 5}, want: fleet.RolloutMove{Delete: 1}},
		"in place as many as may be missing":  {pool: fleet.Rollout{Desired: 5, Old: 5, MaxUnavailable: 2, InPlace: true}, want: fleet.RolloutMove{Update: 2}},
		"in place one more where none may":    {pool: fleet.Rollout{Desired: 3, Old: 3, MaxSurge: 1, InPlace: true}, want: fleet.RolloutMove{Create: 1}},
		"in place nothing while it comes":     {pool: fleet.Rollout{Desired: 3, Old: 3, Coming: 1, MaxSurge: 1, InPlace: true}},
		"in place then one is updated":        {pool: fleet.Rollout{Desired: 3, Old: 3, New: 1, MaxSurge: 1, InPlace: true}, want: fleet.RolloutMove{Update: 1}},
		"in place the last one is deleted":    {pool: fleet.Rollout{Desired: 3, Old: 1, New: 3, MaxSurge: 1, InPlace: true}, want: fleet.RolloutMove{Delete: 1}},
		"in place no surge where one may":     {pool: fleet.Rollout{Desired: 3, Old: 3, MaxSurge: 1, MaxUnavailable: 1, InPlace: true}, want: fleet.RolloutMove{Update: 1}},
		"none in the place of one that goes":  {pool: fleet.Rollout{Desired: 3, Old: 2, Going: 1, MaxUnavailable: 1}},
		"in place no more than there are":     {pool: fleet.Rollout{Desired: 5, Old: 1, New: 4, MaxUnavailable: 3, InPlace: true}, want: fleet.RolloutMove{Update: 1}},
		"in place what was remediated comes":  {pool: fleet.Rollout{Desired: 5, Old: 2, New: 2, MaxUnavailable: 1, InPlace: true}, want: fleet.RolloutMove{Create: 1}},
		"in place nothing while one is at it": {pool: fleet.Rollout{Desired: 2, Old: 1, Updating: 1, InPlace: true}},
	} {
		if diff := cmp.Diff(tt.want, fleet.DecidePool(tt.pool)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDecideControlPlane(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		controlPlane fleet.Rollout
		want         fleet.RolloutMove
	}{
		"nothing to do":            {controlPlane: fleet.Rollout{Desired: 3, New: 3}},
		"one is made first":        {controlPlane: fleet.Rollout{Desired: 3, Old: 3, MaxSurge: 1}, want: fleet.RolloutMove{Create: 1}},
		"then one goes":            {controlPlane: fleet.Rollout{Desired: 3, Old: 3, New: 1, MaxSurge: 1}, want: fleet.RolloutMove{Delete: 1}},
		"one goes without a surge": {controlPlane: fleet.Rollout{Desired: 3, Old: 3}, want: fleet.RolloutMove{Delete: 1}},
		"then one is made":         {controlPlane: fleet.Rollout{Desired: 3, Old: 2}, want: fleet.RolloutMove{Create: 1}},
		"in place":                 {controlPlane: fleet.Rollout{Desired: 3, Old: 2, New: 1, InPlace: true}, want: fleet.RolloutMove{Update: 1}},
		"in place one more first":  {controlPlane: fleet.Rollout{Desired: 3, Old: 3, MaxSurge: 1, InPlace: true}, want: fleet.RolloutMove{Create: 1}},
		"in place with one more":   {controlPlane: fleet.Rollout{Desired: 3, Old: 3, New: 1, MaxSurge: 1, InPlace: true}, want: fleet.RolloutMove{Update: 1}},
		"in place, and one less":   {controlPlane: fleet.Rollout{Desired: 3, Old: 1, New: 3, MaxSurge: 1, InPlace: true}, want: fleet.RolloutMove{Delete: 1}},
		"while one moves":          {controlPlane: fleet.Rollout{Desired: 3, Old: 2, Updating: 1, MaxSurge: 1}},
	} {
		if diff := cmp.Diff(tt.want, fleet.DecideControlPlane(tt.controlPlane)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPoolEnds walks every pool to its end, in any order of what others do, and never beyond its bounds.
func TestPoolEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := func(most int, name string) int { return rapid.IntRange(0, most).Draw(t, name) }
		p := fleet.Rollout{Desired: number(20, "desired"), MaxSurge: number(5, "maxSurge"), MaxUnavailable: number(5, "maxUnavailable"), InPlace: rapid.Bool().Draw(t, "in place")}
		p.Old = p.Desired
		for step := 0; p.New < p.Desired || p.Old > 0; step++ {
			if step > 200 {
				t.Fatalf("it does not end: %+v", p)
			}
			move := fleet.DecidePool(p)
			p.Coming += move.Create
			p.Old -= move.Delete + move.Update
			p.Updating += move.Update
			if total := p.Old + p.Updating + p.New + p.Coming; total > p.Desired+p.MaxSurge {
				t.Fatalf("%d machines: %+v", total, p)
			}
			if available := p.Old + p.New; available < p.Desired-fleet.MaxUnavailable(p.MaxSurge, p.MaxUnavailable) {
				t.Fatalf("%d are available: %+v", available, p)
			}
			if p.Old < 0 || move == (fleet.RolloutMove{}) && p.Coming+p.Updating == 0 {
				t.Fatalf("%+v, and %+v follows", p, move)
			}
			// Some of what moves arrives.
			if arrive := min(p.Coming, number(3, "arrive")+1); arrive > 0 {
				p.Coming, p.New = p.Coming-arrive, p.New+arrive
			}
			if arrive := min(p.Updating, number(3, "updated")+1); arrive > 0 {
				p.Updating, p.New = p.Updating-arrive, p.New+arrive
			}
		}
	})
}
