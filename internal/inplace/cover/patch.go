package cover

import (
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// MaxPatchBytes is the size of the largest patch that is accepted for one object: about as much as the API server stores of
// an object. It bounds what copy operations add, too.
const MaxPatchBytes = 1 << 20

// maxOperations bounds the operations of a JSON patch. Each can move a whole list, so that their time grows with both.
const maxOperations = 4096

// patchProblem is what is wrong with a patch, before it is known whose it is.
type patchProblem struct {
	problem string
	err     error
}

// isZero says whether the updater has left this patch out.
func (p Patch) isZero() bool { return p.Type == "" && len(p.Data) == 0 }

// applyPatch returns the object that a patch makes of another one. It takes the same patches for empty as Cluster API
// (ApplyPatchToObject in its internal/util/patch/patch.go); for these, changed is false.
func applyPatch(object tree, p Patch) (patched tree, changed bool, problem *patchProblem) {
	if p.isZero() {
		return object, false, nil
	}
	empty, problem := checkPatch(p)
	if empty || problem != nil {
		return object, false, problem
	}
	data, err := callLibrary(canonical(object), p)
	if err != nil {
		return nil, false, &patchProblem{fmt.Sprintf("its %s does not apply", p.Type), err}
	}
	patched, err = untrusted.Object.Tree(data)
	if err != nil {
		return nil, false, &patchProblem{fmt.Sprintf("its %s leaves something that is not an object", p.Type), err}
	}
	if _, ok := patched.(map[string]any); !ok {
		return nil, false, &patchProblem{fmt.Sprintf("its %s leaves something that is not an object", p.Type), nil}
	}
	return patched, true, nil
}

// checkPatch reads a patch before the library does, so that problems are told without the patch's values, which may be secret.
func checkPatch(p Patch) (empty bool, problem *patchProblem) {
	switch p.Type {
	case JSONPatch, JSONMergePatch:
	default:
		return false, &patchProblem{fmt.Sprintf("its patch is of the unknown type %q. Fix: write %s or %s",
			text.Bound(string(p.Type), maxText), JSONPatch, JSONMergePatch), nil}
	}
	if len(p.Data) > MaxPatchBytes {
		return false, &patchProblem{fmt.Sprintf("its %s has %d bytes; at most %d are accepted", p.Type, len(p.Data), MaxPatchBytes), nil}
	}
	if len(p.Data) == 0 && p.Type == JSONMergePatch {
		return true, nil
	}
	parsed, err := untrusted.Object.Tree(p.Data)
	if err != nil {
		return false, &patchProblem{fmt.Sprintf("its %s cannot be read", p.Type), err}
	}
	if p.Type == JSONMergePatch {
		fields, ok := parsed.(map[string]any)
		if !ok {
			return false, &patchProblem{"its JSONMergePatch is not an object. Fix: write the fields that change", nil}
		}
		return len(fields) == 0, nil
	}
	return checkOperations(parsed)
}

func checkOperations(parsed tree) (empty bool, problem *patchProblem) {
	operations, ok := parsed.([]any)
	if !ok && parsed != nil {
		return false, &patchProblem{"its JSONPatch is not a list of operations. Fix: write [] for none", nil}
	}
	if len(operations) > maxOperations {
		return false, &patchProblem{fmt.Sprintf("its JSONPatch has %d operations; at most %d are accepted", len(operations), maxOperations), nil}
	}
	for i, operation := range operations {
		if wrong := checkOperation(operation); wrong != "" {
			return false, &patchProblem{fmt.Sprintf("operation %d of its JSONPatch %s", i, wrong), nil}
		}
	}
	return len(operations) == 0, nil
}

// needs is what an operation needs beside its path, by RFC 6902 section 4.
var needs = map[string]string{"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from", "remove": ""}

func checkOperation(operation tree) (wrong string) {
	if _, ok := operation.(map[string]any); !ok {
		return "is not an object"
	}
	op, _ := field(operation, "op").(string)
	need, known := needs[op]
	if !known {
		return "has no op, or an unknown one. Fix: write add, replace, remove, move, copy or test"
	}
	if _, ok := field(operation, "path").(string); !ok {
		return "has no path"
	}
	if need == "value" && isAbsent(field(operation, "value")) {
		return "has no value"
	}
	if _, ok := field(operation, "from").(string); need == "from" && !ok {
		return "has no from"
	}
	return ""
}

// callLibrary applies a patch. The library panics on some patches, such as a test of an element that is null.
func callLibrary(object []byte, p Patch) (patched []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			patched, err = nil, fmt.Errorf("the patch library panics: %v", r)
		}
	}()
	if p.Type == JSONMergePatch {
		return jsonpatch.MergePatch(object, slices.Clone(p.Data))
	}
	operations, err := jsonpatch.DecodePatch(slices.Clone(p.Data))
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = MaxPatchBytes
	return operations.ApplyWithOptions(object, options)
}

// makePatch returns the JSON patch that makes one object of another; the zero Patch if they are equal. Where it would have more
// than MaxPointers operations, or more bytes of paths than MaxPointerPaths, it replaces fields above those that differ.
func makePatch(from, to tree) Patch {
	changed := compare("", from, to, func(from, to tree) bool {
		objectFrom, okFrom := from.(map[string]any)
		objectTo, okTo := to.(map[string]any)
		return okFrom && okTo && descendable(objectFrom, objectTo)
	})
	if changed == nil {
		return Patch{}
	}
	all := make(map[Part]*fields)
	all[""] = changed.at("")
	var operations []any
	for _, p := range operated.pointers(all) {
		operations = append(operations, makeOperation(p.Path, lookup(from, p.Path), lookup(to, p.Path)))
	}
	return Patch{Type: JSONPatch, Data: canonical(operations)}
}

func makeOperation(path string, from, to tree) map[string]any {
	switch {
	case isAbsent(from):
		return map[string]any{"op": "add", "path": path, "value": to}
	case isAbsent(to):
		return map[string]any{"op": "remove", "path": path}
	default:
		return map[string]any{"op": "replace", "path": path, "value": to}
	}
}

// descendable says whether the library can reach what differs in two objects: it takes a path through an empty key for the
// object itself.
func descendable(a, b map[string]any) bool {
	return equal(field(a, ""), field(b, ""))
}
