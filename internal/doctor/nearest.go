package doctor

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxTypos is how many letters a name may differ by to be offered in place of another.
const maxTypos = 2

// distance returns how many letters have to be inserted, deleted, changed or swapped with the next
// one to make a name of another. Names are of ASCII.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := last[j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			row[j] = min(changed, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// describeNearest offers the name of candidates that is nearest to a wrong one; empty if none is
// near, or if the name is among them.
func describeNearest(wrong string, candidates []string) string {
	best, least := "", min(maxTypos, len(wrong)-1)+1
	for _, c := range candidates {
		if c == wrong {
			return ""
		}
		if len(c)-len(wrong) > maxTypos || len(wrong)-len(c) > maxTypos {
			continue
		}
		if d := distance(wrong, c); d < least {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; the nearest name is %q", best)
}

// checkPoolNames says which policies name a group that their Cluster does not have.
func checkPoolNames(f Facts, groups []group, into *findings) {
	var pools []string
	for _, g := range groups {
		if !g.ControlPlane {
			pools = append(pools, g.Topology)
		}
	}
	cluster := f.Objects.Cluster
	for i := range f.Policies {
		p := &f.Policies[i]
		wrong := text.Some{Most: shownMachines}
		for _, t := range p.Spec.Targets {
			if p.Namespace == cluster.Namespace && t.ClusterName == cluster.Name {
				addMissingPools(t.MachineDeployments, pools, &wrong)
			}
		}
		if wrong.Len() > 0 {
			into.add(Warning, "UpdatePolicy "+p.Name, "correct its targets",
				"Cluster %s has no MachineDeployment that its targets name: %s", cluster.Name,
				wrong.Join(", "))
		}
	}
}

func addMissingPools(named []v1alpha1.MachineDeploymentName, pools []string, into *text.Some) {
	for _, name := range named {
		if !slices.Contains(pools, string(name)) {
			into.Add(fmt.Sprintf("%q%s", name, describeNearest(string(name), pools)))
		}
	}
}
