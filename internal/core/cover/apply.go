package cover

import (
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Apply adds an updater's answer. It returns a new Coverage, also with an error, which is an *UpdaterError that is in the
// new Coverage's Result too; then the answer covers nothing. An updater that changes nothing is not in the plan.
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
	covered := Covered{Updater: u.Name}
	for i, patch := range p.list() {
		object, pointers, wrong := c.acceptPart(i, patch)
		if wrong != nil {
			wrong.Updater = u.Name
			return nil, wrong
		}
		next.current[i] = object
		covered.Pointers = append(covered.Pointers, pointers...)
	}
	if len(covered.Pointers) == 0 {
		return &next, nil
	}
	covered.SetsVersion = slices.Contains(covered.Pointers, Pointer{PartMachine, c.versionPath()})
	if problem := c.checkVersion(u, covered.SetsVersion); problem != "" {
		return nil, &UpdaterError{Updater: u.Name, Pointer: Pointer{PartMachine, c.versionPath()}, Problem: problem}
	}
	slices.SortFunc(covered.Pointers, comparePointers)
	next.plan = append(slices.Clip(c.plan), covered)
	return &next, nil
}

// acceptPart returns a part of c with a patch, and the fields that the patch covers.
func (c *Coverage) acceptPart(i int, patch Patch) (tree, []Pointer, *UpdaterError) {
	part, before := parts[i], c.current[i]
	wrong := func(path, problem string, err error) (tree, []Pointer, *UpdaterError) {
		return nil, nil, &UpdaterError{Pointer: Pointer{part, path}, Problem: problem, Err: err}
	}
	object := before
	if isAbsent(before) {
		object = map[string]any{}
	}
	after, changed, problem := applyPatch(object, patch)
	switch {
	case problem != nil:
		return wrong("", problem.problem, problem.err)
	case !changed:
		return before, nil, nil
	case isAbsent(before):
		return wrong("", "it patches an object that the machine does not have", nil)
	}
	for _, path := range differences("", before, after) {
		if !c.isCompared(i, path) {
			return wrong(path, fmt.Sprintf("it changes a field that updaters must leave alone; change fields below %s that Cluster API compares",
				c.base()), nil)
		}
	}
	specBefore, specAfter := lookup(before, c.base()), lookup(after, c.base())
	if isAbsent(specAfter) && !isAbsent(specBefore) {
		// Cluster API takes over what a spec has, but never that there is none: CopyFields in its internal/util/patch/patch.go.
		return wrong(c.base(), "it removes the whole spec; remove the fields in it", nil)
	}
	spec, conflict := advance(c.base(), specBefore, specAfter, lookup(c.desired[i], c.base()))
	if conflict != "" {
		return wrong(conflict, "it changes the field, but not to what is desired", nil)
	}
	if isAbsent(spec) {
		// Emptied, and desired has none; see above why it stays.
		spec = specAfter
	}
	result := put(before, tokens(c.base()), spec)
	var pointers []Pointer
	for _, path := range differences("", before, result) {
		pointers = append(pointers, Pointer{part, path})
	}
	return result, pointers, nil
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
