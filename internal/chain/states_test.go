package chain_test

import (
	"time"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// foreign is an upgrade that another engine began and took a step of: it records no target, and
// leaves no stamp.
func foreign(s *chain.State) {
	s.ChainTarget, s.ControlPlane.Stamp = version.Version{}, version.Version{}
}

// short is a first group that lacks machines.
func short(s *chain.State) { s.Groups[0].Missing = 1 }

// lacked is what the first group lacked before the step to 1.minor.
func lacked(minor int, machines int32) func(*chain.State) {
	return func(s *chain.State) { s.Lacked, s.LackedAt = map[string]int32{"a": machines}, v(minor) }
}

// moving is the first group on its way, moved and allMoved are groups that have come.
func moving(s *chain.State) { s.Groups[0].Version, s.Groups[0].Upgrading = v(31), true }
func moved(s *chain.State)  { s.Groups[0].Version, s.Groups[0].Oldest = v(31), v(31) }
func allMoved(s *chain.State) {
	for i := range s.Groups {
		s.Groups[i].Version, s.Groups[i].Oldest = v(31), v(31)
	}
}

func three(s *chain.State) {
	s.Groups = []chain.Group{group("a", plan.MachineDeployment), group("b", plan.MachineDeployment), group("c", plan.MachineDeployment)}
}

func answered(step int, holds time.Duration, failed bool) func(*chain.State) {
	return func(s *chain.State) {
		s.Answers = []chain.Answer{{Hook: chain.BeforeClusterUpgrade, Step: v(step), Failed: failed, Message: "no", Since: now, Until: now.Add(holds)}}
	}
}
