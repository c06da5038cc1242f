package cover

import (
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Apply adds an updater's answer. Like Cluster API, it ignores changes of fields that are not compared; they are in
// Result.Uncompared. Apply returns a new Coverage, also with an error. The error is an *UpdaterError that is in the new
// Coverage's Result too; the answer covers nothing then. An updater that changes nothing is not in the plan.
func (c *Coverage) Apply(u Updater, p Patches) (*Coverage, error) {
	next, wrong := c.accept(u, p)
	if wrong != nil {
		return c.withError(wrong), wrong
	}
	return next, nil
}

// Fail adds an updater that could not be asked. It returns a new Coverage, with an *UpdaterError in its Result. err may be nil.
func (c *Coverage) Fail(u Updater, problem string, err error) *Coverage {
	return c.withError(&UpdaterError{Updater: u.Name, Problem: problem, Err: err})
}

func (c *Coverage) withError(wrong *UpdaterError) *Coverage {
	next := *c
	next.errors = append(slices.Clip(c.errors), wrong)
	return &next
}

func (c *Coverage) accept(u Updater, p Patches) (*Coverage, *UpdaterError) {
	next := *c
	next.uncompared = slices.Clip(c.uncompared)
	next.notes = append(slices.Clip(c.notes), p.Notes...)
	next.warnings = append(slices.Clip(c.warnings), p.Warnings...)
	covered, uncompared := make(map[Part]*fields), make(map[Part]*fields)
	for i, patch := range p.list() {
		accepted, wrong := c.acceptPart(i, patch)
		if wrong != nil {
			wrong.Updater = u.Name
			return nil, wrong
		}
		next.current[i] = accepted.object
		covered[parts[i]], uncompared[parts[i]] = accepted.covered, accepted.uncompared
	}
	next.uncompared = append(next.uncompared, reported.pointers(uncompared)...)
	versionPath := c.versionPath()
	sets := !equal(lookup(c.current[machineIndex], versionPath), lookup(next.current[machineIndex], versionPath))
	if sets {
		config := next.withLocalMode()
		changed := differences(next.current[bootstrapIndex], config).at("")
		covered[PartBootstrap] = merge(covered[PartBootstrap], changed)
		next.current[bootstrapIndex] = config
	}
	entry := Covered{Updater: u.Name, Pointers: reported.pointers(covered), SetsVersion: sets}
	if len(entry.Pointers) == 0 {
		return &next, nil
	}
	if problem := c.checkVersion(u, entry.SetsVersion); problem != "" {
		return nil, &UpdaterError{Updater: u.Name, Pointer: Pointer{Part: PartMachine, Path: versionPath}, Problem: problem}
	}
	next.plan = append(slices.Clip(c.plan), entry)
	return &next, nil
}

// acceptedPart is one object after a patch.
type acceptedPart struct {
	object tree
	// covered are the compared fields that the patch brings to desired; uncompared are the other fields that it changes.
	covered, uncompared *fields
}

// acceptPart applies a patch to one part of c. It takes over what Cluster API takes over and compares: the fields of the spec.
func (c *Coverage) acceptPart(i int, patch Patch) (acceptedPart, *UpdaterError) {
	part, before := parts[i], c.current[i]
	accepted := acceptedPart{object: before}
	if isAbsent(before) {
		// Cluster API ignores a patch of a bootstrap config that the MachineSet does not have.
		if !patch.isZero() {
			accepted.uncompared = pathsOf("")
		}
		return accepted, nil
	}
	after, changed, problem := applyPatch(before, patch)
	switch {
	case problem != nil:
		return acceptedPart{}, &UpdaterError{Pointer: Pointer{Part: part}, Problem: problem.problem, Err: problem.err}
	case !changed:
		return accepted, nil
	case isAbsent(field(after, "kind")) && !isAbsent(field(before, "kind")):
		return acceptedPart{}, &UpdaterError{Pointer: Pointer{Part: part, Path: "/kind"}, Problem: "it removes the field, and Cluster API cannot read an object without it"}
	}
	return c.takeSpec(i, before, after)
}

// takeSpec returns before with the compared fields of after that lead to desired.
func (c *Coverage) takeSpec(i int, before, after tree) (acceptedPart, *UpdaterError) {
	part := parts[i]
	wrong := func(path, problem string) (acceptedPart, *UpdaterError) {
		return acceptedPart{}, &UpdaterError{Pointer: Pointer{Part: part, Path: path}, Problem: problem}
	}
	accepted := acceptedPart{object: before, uncompared: c.uncomparedChanges(i, before, after)}
	specBefore, specAfter := lookup(before, c.base()), lookup(after, c.base())
	if isAbsent(specAfter) {
		// Cluster API copies a spec that the patched object has. It ignores that a patch removes the whole spec.
		return accepted, nil
	}
	if _, ok := specAfter.(map[string]any); !ok && !equal(specBefore, specAfter) {
		return wrong(c.base(), "it makes the spec something that is not an object. Fix: change its fields to what is desired")
	}
	specAfter = takeCompared(i, specBefore, specAfter)
	spec, conflict := advance(&place{token: c.base()}, specBefore, specAfter, lookup(c.desired[i], c.base()))
	if conflict != nil {
		return wrong(conflict.String(), "it changes the field, but not to what is desired")
	}
	if isAbsent(spec) {
		// The patch removes all fields of a spec that desired does not have. Cluster API keeps the empty spec.
		spec = specAfter
	}
	accepted.object = put(before, tokens(c.base()), spec)
	accepted.covered = differences(before, accepted.object).at("")
	return accepted, nil
}

// uncomparedChanges returns the fields that differ and that Cluster API does not compare.
func (c *Coverage) uncomparedChanges(i int, before, after tree) *fields {
	if isAbsent(lookup(after, c.base())) && !isAbsent(lookup(before, c.base())) {
		return pathsOf(c.base())
	}
	isUncompared := func(path []string, _ []tree) bool { return !c.isCompared(i, path) }
	return differences(before, after).filter(isUncompared).at("")
}

// checkVersion says what is wrong if an updater sets the version that is desired from the one that c has. That the current
// or the desired Machine has no version is not the updater's fault.
func (c *Coverage) checkVersion(u Updater, sets bool) (problem string) {
	from, err := c.versionOf("current", c.current[machineIndex])
	if !sets || u.MaxMinors <= 0 || err != nil || from.IsZero() || c.to.IsZero() {
		return ""
	}
	minors, err := minorsBetween(from, c.to)
	if err != nil {
		return fmt.Sprintf("it moves a kubelet at most %s at once; from %s to %s: %v", countMinors(u.MaxMinors), from, c.to, err)
	}
	if int64(minors) <= int64(u.MaxMinors) {
		return ""
	}
	return fmt.Sprintf("it moves a kubelet at most %s at once; from %s to %s are %d", countMinors(u.MaxMinors), from, c.to, minors)
}

// minorsBetween counts minors in either direction.
func minorsBetween(from, to version.Version) (uint32, error) {
	older, newer := from.Minor(), to.Minor()
	if newer.Before(older) {
		older, newer = newer, older
	}
	minors, ok := older.Lag(newer)
	if !ok {
		return 0, errors.New("the distance between two majors is not known")
	}
	return minors, nil
}

func countMinors(n int) string {
	if n == 1 {
		return "1 minor"
	}
	return fmt.Sprintf("%d minors", n)
}
