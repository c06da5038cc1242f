package controllers

import (
	"cmp"
	"fmt"
	"slices"
)

// memberSpec is what a machine of a pool is made from.
type memberSpec struct {
	version, dataSecretName, diskSize string
}

// member is a machine of a pool.
type member struct {
	name string
	spec memberSpec
	// deleting members are about to go. available ones run pods.
	deleting, available bool
	// preferred members go first when the pool shrinks.
	preferred bool
}

// poolDecision is what happens to a pool next.
type poolDecision struct {
	create int
	remove []string
	// message tells what is missing; empty for a pool that is as it should be.
	message string
}

// decidePool adds missing members, removes those that are too many, and replaces those that are outdated: one more than
// replicas exists at most meanwhile, and no available member goes before there are enough others.
func decidePool(replicas int, desired memberSpec, members []member) poolDecision {
	updated, outdated, available := sortMembers(desired, members)
	limit := replicas
	if len(outdated) > 0 {
		limit++
	}
	d := poolDecision{create: max(0, min(replicas-len(updated), limit-len(members)))}
	removable := outdated
	if len(outdated) == 0 {
		removable = updated[:max(0, len(updated)-replicas)]
	}
	left := available
	for _, m := range removable {
		if m.available && left <= replicas {
			continue
		}
		if m.available {
			left--
		}
		d.remove = append(d.remove, m.name)
	}
	if len(updated) != replicas || len(outdated) > 0 || available < replicas {
		d.message = fmt.Sprintf("%d of %d machines are up to date, %d are available, %d are outdated",
			len(updated), replicas, available, len(outdated))
	}
	return d
}

// sortMembers returns the members that are not being deleted, in the order in which they go, and counts those that are available.
func sortMembers(desired memberSpec, members []member) (updated, outdated []member, available int) {
	for _, m := range members {
		switch {
		case m.deleting:
			continue
		case m.spec == desired:
			updated = append(updated, m)
		default:
			outdated = append(outdated, m)
		}
		if m.available {
			available++
		}
	}
	slices.SortFunc(updated, removeFirst)
	slices.SortFunc(outdated, removeFirst)
	return updated, outdated, available
}

// removeFirst orders members: those that a user prefers to go, those that are not available, and then by name.
func removeFirst(a, b member) int {
	rank := func(m member) int {
		switch {
		case m.preferred:
			return 0
		case !m.available:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name, b.name))
}
