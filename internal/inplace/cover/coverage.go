package cover

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
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
	notes                      []string
	from, to                   version.Version
}

// parts are all parts, in the order of reports.
var parts = [3]Part{PartMachine, PartInfrastructure, PartBootstrap}

// machineIndex is the index of PartMachine in parts.
const machineIndex = 0

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
	t, err := parse(raw)
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

func (c *Coverage) versionPath() string { return c.base() + "/version" }

// asMachine translates the path of a compared field to Machine scope.
func (c *Coverage) asMachine(path string) string {
	return machineBase + strings.TrimPrefix(path, c.base())
}

// compared returns what is compared of an object's spec.
func compared(i int, spec tree) tree {
	if i != machineIndex {
		return spec
	}
	for _, path := range uncompared {
		spec = carry(spec, absent{}, tokens(path))
	}
	return spec
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

// isCompared says whether a changed field, by its path in the object, is part of what is compared.
func (c *Coverage) isCompared(i int, path string) bool {
	if !within(path, c.base()) {
		return false
	}
	relative := strings.TrimPrefix(path, c.base())
	return i != machineIndex || !slices.ContainsFunc(uncompared, func(field string) bool {
		// A change of a parent of such a field as a whole changes that field too.
		return within(relative, field) || within(field, relative)
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
	// dirty are the fields that only ignoring has brought to desired; uncovered are those that still differ.
	dirty, uncovered []string
}

func (c *Coverage) outcome(i int) outcome {
	spec, desired := lookup(c.current[i], c.base()), lookup(c.desired[i], c.base())
	o := outcome{spec: spec}
	for _, path := range differences(c.base(), compared(i, spec), compared(i, desired)) {
		if c.isIgnored(parts[i], path) {
			o.dirty = append(o.dirty, path)
			o.spec = carry(o.spec, desired, tokens(strings.TrimPrefix(path, c.base())))
		}
	}
	o.uncovered = differences(c.base(), compared(i, o.spec), compared(i, desired))
	if kind(c.original[i]) != kind(c.desired[i]) {
		// Cluster API compares specs only, but an object cannot become one of another kind.
		o.uncovered = append(o.uncovered, "/kind")
	}
	return o
}

// kind returns an object's kind with its API group, whose versions are different views of one object.
func kind(object tree) [2]string {
	apiVersion, _ := field(object, "apiVersion").(string)
	group, _, _ := strings.Cut(apiVersion, "/")
	name, _ := field(object, "kind").(string)
	return [2]string{group, name}
}

func (c *Coverage) isIgnored(part Part, path string) bool {
	return slices.ContainsFunc(c.ignore, func(ignored Ignore) bool {
		return ignored.Part == part && within(c.asMachine(path), ignored.Path)
	})
}

// Result returns what is covered so far. It is the caller's own, but for the errors.
func (c *Coverage) Result() Result {
	r := Result{From: c.from, To: c.to, Errors: slices.Clone(c.errors), Notes: slices.Clone(c.notes), Uncompared: slices.Clone(c.uncompared)}
	for _, covered := range c.plan {
		covered.Pointers = slices.Clone(covered.Pointers)
		r.Plan = append(r.Plan, covered)
	}
	originals, desireds := map[string]any{}, map[string]any{}
	for i, part := range parts {
		o := c.outcome(i)
		for _, path := range o.uncovered {
			r.Uncovered = append(r.Uncovered, Pointer{Part: part, Path: path})
		}
		for _, path := range o.dirty {
			r.Dirty = append(r.Dirty, Pointer{Part: part, Path: c.asMachine(path)})
		}
		original, desired := compared(i, lookup(c.original[i], c.base())), compared(i, lookup(c.desired[i], c.base()))
		r.Changes = append(r.Changes, c.changes(i, original, desired)...)
		if !isAbsent(original) {
			originals[string(part)] = original
		}
		if !isAbsent(desired) {
			desireds[string(part)] = desired
		}
	}
	slices.SortFunc(r.Uncovered, comparePointers)
	slices.SortFunc(r.Uncompared, comparePointers)
	r.Uncompared = slices.Compact(r.Uncompared)
	r.Dirty = BoundPointers(r.Dirty)
	slices.SortFunc(r.Changes, func(a, b Change) int {
		return comparePointers(Pointer{a.Part, a.Path}, Pointer{b.Part, b.Path})
	})
	r.Changes = boundChanges(r.Changes)
	r.CurrentDigest, r.DesiredDigest = digest(originals), digest(desireds)
	return r
}

// changes returns the fields of a part that differ, without those that only ignoring has brought to desired.
func (c *Coverage) changes(i int, original, desired tree) []Change {
	var changes []Change
	for _, path := range differences(c.base(), original, desired) {
		want := lookup(c.desired[i], path)
		if c.isIgnored(parts[i], path) && !equal(lookup(c.current[i], path), want) {
			continue
		}
		changes = append(changes, Change{Part: parts[i], Path: c.asMachine(path), Digest: digest(want)})
	}
	return changes
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
