package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// verdict answers in one sentence whether the machines of a cluster can be updated in place. found begins with one
// finding for each group. It counts machines, or groups while no machine exists.
func verdict(f Facts, groups []group, found []Finding) string {
	what, total := "machine", 0
	for _, g := range groups {
		total += len(g.machines)
	}
	grouped := total == 0
	if grouped {
		what, total = "group", len(groups)
	}
	counts := make(map[Severity]int)
	replaced, blocked := 0, 0
	for i, g := range groups {
		n := len(g.machines)
		if grouped {
			n = 1
		} else {
			stopped := g.countStopped(found)
			n, blocked = n-stopped, blocked+stopped
		}
		if g.err == nil && !g.selected.InPlace {
			replaced += n
			continue
		}
		counts[found[i].Severity] += n
	}
	words := describeKept(total, counts, replaced, blocked, what)
	if n := countElsewhere(groups, found); n > 0 {
		words += fmt.Sprintf("; %s more blocked or failed now", text.CountAre(n, "update"))
	}
	if n := countUnrun(f, found); n > 0 {
		words += fmt.Sprintf("; %s could not run", text.Count(n, "check"))
	}
	return words + "."
}

func describeKept(
	total int, counts map[Severity]int, replaced, blocked int, what string,
) string {
	if total == 0 {
		return "The cluster has no groups of machines"
	}
	kinds := []struct {
		n                int
		one, many, whole string
	}{
		{
			counts[Error], "cannot be updated in place", "cannot be updated in place",
			"None of the %s can be updated in place",
		},
		{counts[OK], "can be updated in place", "can be updated in place", "All %s can be updated in place"},
		{
			counts[Warning], "can be updated in place unless a warning applies",
			"can be updated in place unless a warning applies", "All %s can be updated in place unless a warning applies",
		},
		{
			blocked, "has an update that is blocked or failed now",
			"have an update that is blocked or failed now",
			"All %s have an update that is blocked or failed now",
		},
		{
			replaced, "is replaced, because no UpdatePolicy keeps it", "are replaced, because no UpdatePolicy keeps them",
			"All %s are replaced, because no UpdatePolicy keeps them",
		},
	}
	var parts []string
	for _, k := range kinds {
		switch {
		case k.n == 0:
		case total == 1:
			parts = append(parts, "The only "+what+" "+k.one)
		case k.n == total:
			parts = append(parts, fmt.Sprintf(k.whole, text.Count(total, what)))
		case len(parts) > 0:
			parts = append(parts, fmt.Sprintf("%d %s", k.n, pick(k.n, k.one, k.many)))
		default:
			parts = append(parts, fmt.Sprintf("%d of %s %s", k.n, text.Count(total, what), pick(k.n, k.one, k.many)))
		}
	}
	return strings.Join(parts, ", ")
}

// stops reports whether a finding is about an update that cannot continue without a person.
func (f Finding) stops() bool { return f.ID == CheckMachines && f.Severity == Error }

// countStopped counts the machines of a group whose update cannot continue without a person: all of
// them if that holds for the group.
func (g group) countStopped(found []Finding) int {
	stopped := map[string]bool{}
	for _, f := range found {
		name, isMachine := strings.CutPrefix(f.Subject, "Machine ")
		switch {
		case f.stops() && f.Subject == g.Subject:
			return len(g.machines)
		case f.stops() && isMachine && g.has(name):
			stopped[name] = true
		}
	}
	return len(stopped)
}

// countElsewhere counts the updates that cannot continue and are about no machine of a group.
func countElsewhere(groups []group, found []Finding) int {
	elsewhere := 0
	for _, f := range found {
		name, _ := strings.CutPrefix(f.Subject, "Machine ")
		known := slices.ContainsFunc(groups, func(g group) bool {
			return len(g.machines) > 0 && f.Subject == g.Subject || g.has(name)
		})
		if f.stops() && !known {
			elsewhere++
		}
	}
	return elsewhere
}

// countUnrun counts the checks that were left out, or that could not tell something.
func countUnrun(f Facts, found []Finding) int {
	unrun := 0
	for _, c := range checks {
		about := func(f Finding) bool { return f.ID == c.id }
		unknown := func(f Finding) bool { return f.ID == c.id && f.Unknown }
		// CheckGuard needs sources only if a policy forbids replacement. It has a finding unless they are unread.
		silent := c.id == CheckGuard && !slices.ContainsFunc(found, about)
		unread := slices.ContainsFunc(c.needs, f.unread)
		if c.id != CheckUnread && (silent || unread || slices.ContainsFunc(found, unknown)) {
			unrun++
		}
	}
	return unrun
}

func pick(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
