package fleet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

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
