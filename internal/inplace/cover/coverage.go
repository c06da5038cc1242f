package cover

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/untrusted"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Coverage is a difference, and what updaters cover of it so far. It is a value: what adds to it returns a new one. It is
// safe for concurrent use.
type Coverage struct {
	scope Scope
	// raw are the original current objects as they were given.
	raw [3]json.RawMessage
	// original, current and desired are the objects by part; absent where there is none. current is original with all
	// accepted patches.
	original, current, desired [3]tree
	ignore                     []Ignore
	plan                       []Covered
	uncompared                 []Pointer
	errors                     []*UpdaterError
	notes, warnings            []string
	from, to                   version.Version
}

// parts are all parts, in the order of reports.
var parts = [3]Part{PartMachine, PartInfrastructure, PartBootstrap}

// The indexes of PartMachine and PartBootstrap in parts.
const machineIndex, bootstrapIndex = 0, 2

// machineBase is where the compared spec of Machine-scope objects stands.
const machineBase = "/spec"

// uncompared are the fields of a Machine's spec that make no difference, relative to it. Cluster API leaves out the same:
// CleanupMachineSpecForDiff in its internal/util/inplace/inplace.go. They never change, or reach a running Machine without
// any update.
var uncompared = []string{
	"/clusterName",
	"/bootstrap",
	"/infrastructureRef",
	"/providerID",
	"/minReadySeconds",
	"/readinessGates",
	"/deletion/nodeDrainTimeoutSeconds",
	"/deletion/nodeVolumeDetachTimeoutSeconds",
	"/deletion/nodeDeletionTimeoutSeconds",
	"/taints",
}

// uncomparedFields are the same, and uncomparedTokens their tokens.
var (
	uncomparedFields = pathsOf(uncompared...).below[0]
	uncomparedTokens = splitAll(uncompared)
)

func splitAll(paths []string) (split [][]string) {
	for _, path := range paths {
		split = append(split, strings.Split(strings.TrimPrefix(path, "/"), "/"))
	}
	return split
}

// New compares current and desired. An ignored path is a field below /spec, but not the Machine's version. The error is an
// *InputError.
func New(scope Scope, current, desired Objects, ignore []Ignore) (*Coverage, error) {
	c := &Coverage{scope: scope, ignore: slices.Clone(ignore)}
	for _, ignored := range ignore {
		if err := checkIgnore(ignored); err != nil {
			return nil, err
		}
	}
	currentRaw, desiredRaw := current.list(), desired.list()
	for i, part := range parts {
		if err := c.parsePart(i, currentRaw[i], desiredRaw[i]); err != nil {
			return nil, err
		}
		if isAbsent(c.original[i]) != isAbsent(c.desired[i]) {
			return nil, &InputError{Input: string(part), Problem: "only one of current and desired has it. Fix: give both or none"}
		}
	}
	if isAbsent(c.original[machineIndex]) {
		return nil, &InputError{Input: string(PartMachine), Problem: "it is missing. Fix: give its current and desired state"}
	}
	var err error
	if c.from, err = c.versionOf("current", c.original[machineIndex]); err != nil {
		return nil, err
	}
	c.to, err = c.versionOf("desired", c.desired[machineIndex])
	if err != nil {
		return nil, err
	}
	return c, nil
}

func checkIgnore(ignored Ignore) error {
	input := fmt.Sprintf("ignored field %s of the %s", text.Bound(ignored.Path, maxText), text.Bound(string(ignored.Part), maxText))
	switch {
	case !slices.Contains(parts[:], ignored.Part):
		return &InputError{Input: input, Problem: fmt.Sprintf("there is no such object. Fix: write %s, %s or %s", parts[0], parts[1], parts[2])}
	case !strings.HasPrefix(ignored.Path, machineBase+"/"):
		return &InputError{Input: input, Problem: "it is not a field below /spec. Fix: write a JSON pointer such as /spec/image"}
	case ignored.Part == PartMachine && within(ignored.Path, machineBase+"/version"):
		return &InputError{Input: input, Problem: "the version cannot be ignored: an update is done when the node runs it"}
	default:
		return nil
	}
}

func (c *Coverage) parsePart(i int, current, desired json.RawMessage) (err error) {
	c.raw[i] = bytes.Clone(current)
	if c.original[i], err = parseObject(current); err != nil {
		return &InputError{Input: "current " + string(parts[i]), Problem: "it cannot be read as a JSON object", Err: err}
	}
	if c.desired[i], err = parseObject(desired); err != nil {
		return &InputError{Input: "desired " + string(parts[i]), Problem: "it cannot be read as a JSON object", Err: err}
	}
	if i == machineIndex {
		for _, machine := range []*tree{&c.original[i], &c.desired[i]} {
			*machine = put(*machine, tokens(c.base()), withoutEmpty(lookup(*machine, c.base())))
		}
	}
	c.current[i] = c.original[i]
	return nil
}

func parseObject(raw json.RawMessage) (tree, error) {
	if isNone(raw) {
		return absent{}, nil
	}
	t, err := untrusted.Object.Tree(raw)
	if err != nil {
		return nil, err
	}
	if _, ok := t.(map[string]any); !ok {
		return nil, fmt.Errorf("it is %s", kindOf(t))
	}
	return t, nil
}

// isNone says whether an object was not given: no JSON, or null, which is how an empty runtime.RawExtension is written.
func isNone(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) == 0 || string(trimmed) == "null"
}

func kindOf(t tree) string {
	switch t.(type) {
	case []any:
		return "a list"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	default:
		return "no object"
	}
}

func (c *Coverage) versionOf(side string, machine tree) (version.Version, error) {
	input := side + " " + string(PartMachine)
	switch found := lookup(machine, c.versionPath()).(type) {
	case absent:
		return version.Version{}, nil
	case string:
		if found == "" {
			return version.Version{}, nil
		}
		v, err := version.Parse(found)
		if err != nil {
			return v, &InputError{Input: input, Problem: "reading " + c.versionPath(), Err: err}
		}
		return v, nil
	default:
		return version.Version{}, &InputError{Input: input, Problem: c.versionPath() + " is not a string. Fix: write a version such as v1.31.2"}
	}
}

// base is where the compared spec stands.
func (c *Coverage) base() string {
	switch c.scope {
	case MachineSet:
		return "/spec/template/spec"
	case Machine:
	}
	return machineBase
}

func (c *Coverage) baseTokens() []string {
	return strings.Split(strings.TrimPrefix(c.base(), "/"), "/")
}

func (c *Coverage) versionPath() string { return c.base() + "/version" }

// compared returns what is compared of an object's spec.
func compared(i int, spec tree) tree {
	if i != machineIndex {
		return spec
	}
	return carry(spec, absent{}, uncomparedFields)
}

// takeCompared returns after with the fields of before that are not compared.
func takeCompared(i int, before, after tree) tree {
	if _, ok := after.(map[string]any); !ok || i != machineIndex {
		return after
	}
	after = withoutEmpty(compared(i, after))
	for _, path := range uncompared {
		after = put(after, tokens(path), lookup(before, path))
	}
	return after
}

// withoutEmpty returns the spec of a Machine without its empty fields. Cluster API compares Machines as Go values, in which a
// field that is empty and one that is absent are the same.
func withoutEmpty(spec tree) tree {
	if _, ok := spec.(map[string]any); !ok {
		return spec
	}
	if spec = prune(spec); isAbsent(spec) {
		return map[string]any{} // Cluster API keeps an empty spec.
	}
	return spec
}

// isCompared reports whether a changed field, by the tokens of its path in the object, is part of
// what is compared.
func (c *Coverage) isCompared(i int, path []string) bool {
	base := c.baseTokens()
	if !isWithin(path, base) {
		return false
	}
	relative := path[len(base):]
	return i != machineIndex || !slices.ContainsFunc(uncomparedTokens, func(field []string) bool {
		// A change of a parent of such a field as a whole changes that field too.
		return isWithin(relative, field) || isWithin(field, relative)
	})
}

// Current returns the objects that the next updater is shown: the original ones, with all accepted patches.
func (c *Coverage) Current() Objects {
	var objects [3]json.RawMessage
	for i := range parts {
		objects[i] = bytes.Clone(c.raw[i])
		if !equal(c.original[i], c.current[i]) {
			objects[i] = canonical(c.current[i])
		}
	}
	return Objects{Machine: objects[0], Infrastructure: objects[1], Bootstrap: objects[2]}
}

// Patches returns what makes the original current objects carry everything that is covered and everything that is ignored,
// as JSON patches for Cluster API. A part that does not change has the zero Patch.
func (c *Coverage) Patches() Patches {
	var patches [3]Patch
	for i := range parts {
		patches[i] = makePatch(c.original[i], put(c.current[i], tokens(c.base()), c.outcome(i).spec))
	}
	return Patches{Machine: patches[0], Infrastructure: patches[1], Bootstrap: patches[2]}
}

// outcome is how a spec looks once everything that is covered or ignored has been applied.
type outcome struct {
	spec tree
	// dirty are the fields of the spec that only ignoring has brought to desired; uncovered are those
	// that still differ.
	dirty, uncovered *fields
}

func (c *Coverage) outcome(i int) outcome {
	spec, desired := lookup(c.current[i], c.base()), lookup(c.desired[i], c.base())
	ignored := c.ignored(parts[i])
	dirty := differences(compared(i, spec), compared(i, desired)).filter(func(path []string, _ []tree) bool { return ignored(path) })
	spec = carry(spec, desired, dirty)
	return outcome{spec: spec, dirty: dirty, uncovered: differences(compared(i, spec), compared(i, desired))}
}

// kind returns an object's kind with its API group, whose versions are different views of one object.
func kind(object tree) [2]string {
	apiVersion, _ := field(object, "apiVersion").(string)
	group, _, _ := strings.Cut(apiVersion, "/")
	name, _ := field(object, "kind").(string)
	return [2]string{group, name}
}

// ignored returns a function that reports whether a field of a part's compared spec is ignored.
func (c *Coverage) ignored(part Part) func(path []string) bool {
	var list [][]string
	for _, ignored := range c.ignore {
		if ignored.Part == part {
			list = append(list, strings.Split(strings.TrimPrefix(ignored.Path, machineBase+"/"), "/"))
		}
	}
	return func(path []string) bool {
		return slices.ContainsFunc(list, func(ignored []string) bool { return isWithin(path, ignored) })
	}
}

// isWithin reports whether a path is another one, or below it.
func isWithin(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}

// Result returns what is covered so far. It is the caller's own, but for the errors.
func (c *Coverage) Result() Result {
	r := Result{From: c.from, To: c.to, Errors: slices.Clone(c.errors), Notes: slices.Clone(c.notes), Uncompared: reported.bound(c.uncompared)}
	r.Warnings = slices.Clone(c.warnings)
	for _, covered := range c.plan {
		covered.Pointers = slices.Clone(covered.Pointers)
		r.Plan = append(r.Plan, covered)
	}
	originals, desireds := map[string]any{}, map[string]any{}
	uncovered, dirty, changes := make(map[Part]*fields), make(map[Part]*fields), make(map[Part]*fields)
	for i, part := range parts {
		o := c.outcome(i)
		uncovered[part], dirty[part] = o.uncovered.at(c.base()), o.dirty.at(machineBase)
		if kind(c.original[i]) != kind(c.desired[i]) {
			// Cluster API compares specs only, but an object cannot become one of another kind.
			uncovered[part] = merge(uncovered[part], pathsOf("/kind"))
		}
		original, desired := compared(i, lookup(c.original[i], c.base())), compared(i, lookup(c.desired[i], c.base()))
		changes[part] = c.changes(i, original, desired)
		if !isAbsent(original) {
			originals[string(part)] = original
		}
		if !isAbsent(desired) {
			desireds[string(part)] = desired
		}
	}
	r.Uncovered, r.Dirty, r.Changes = reported.pointers(uncovered), recorded.pointers(dirty), c.boundChanges(changes)
	r.CurrentDigest, r.DesiredDigest = digest(originals), digest(desireds)
	return r
}

// changes returns the fields of a part that differ, without those that only ignoring has brought to desired.
func (c *Coverage) changes(i int, original, desired tree) *fields {
	now, want := lookup(c.current[i], c.base()), lookup(c.desired[i], c.base())
	ignored := c.ignored(parts[i])
	return differences(original, desired).filter(func(path []string, at []tree) bool {
		return !ignored(path) || equal(at[0], at[1])
	}, now, want)
}

// boundChanges returns the first changes in the order of their paths, without those whose path is too long. A field above a
// change cannot stand for it: others write to its other fields, so its digest would not stay the same.
func (c *Coverage) boundChanges(all map[Part]*fields) []Change {
	var kept []Change
	total := 0
	for i, part := range parts {
		desired := lookup(c.desired[i], c.base())
		all[part].sorted().at(machineBase).each(nil, func(_ *fields, path []byte) bool {
			if len(path) > MaxPath {
				return true
			}
			total += len(path)
			if len(kept) == MaxChanges || total > MaxPaths {
				return false
			}
			value := lookup(desired, strings.TrimPrefix(string(path), machineBase))
			kept = append(kept, Change{Part: part, Path: string(path), Digest: digest(value)})
			return true
		})
	}
	return kept
}

func comparePointers(a, b Pointer) int {
	return cmp.Or(
		cmp.Compare(slices.Index(parts[:], a.Part), slices.Index(parts[:], b.Part)),
		cmp.Compare(a.Path, b.Path),
	)
}

func (o Objects) list() [3]json.RawMessage {
	return [3]json.RawMessage{o.Machine, o.Infrastructure, o.Bootstrap}
}

func (p Patches) list() [3]Patch { return [3]Patch{p.Machine, p.Infrastructure, p.Bootstrap} }
