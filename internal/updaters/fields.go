package updaters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// Fields gives the names of the fields on the way to a pointer of Machine scope, in the objects of a scope. The error says
// what is wrong with the pointer's path.
func Fields(path string, scope cover.Scope) ([]string, error) {
	below, found := strings.CutPrefix(path, "/spec/")
	if !found || below == "" {
		return nil, errors.New("it must be a JSON pointer below /spec, as in /spec/files")
	}
	fields := []string{"spec"}
	if scope == cover.MachineSet {
		fields = append(fields, "template", "spec")
	}
	for field := range strings.SplitSeq(below, "/") {
		if field == "" {
			return nil, errors.New("it must name a field after each slash")
		}
		fields = append(fields, strings.NewReplacer("~1", "/", "~0", "~").Replace(field))
	}
	return fields, nil
}

// Patches gives the merge patches that bring the fields at some pointers, whose paths are of Machine scope, to what the
// desired objects say. A pointer into a list stands for the whole list.
func Patches(pointers []cover.Pointer, scope cover.Scope, current, desired cover.Objects) (cover.Patches, error) {
	var patches cover.Patches
	for _, part := range []struct {
		part     cover.Part
		from, to json.RawMessage
		patch    *cover.Patch
	}{
		{cover.PartMachine, current.Machine, desired.Machine, &patches.Machine},
		{cover.PartInfrastructure, current.Infrastructure, desired.Infrastructure, &patches.Infrastructure},
		{cover.PartBootstrap, current.Bootstrap, desired.Bootstrap, &patches.Bootstrap},
	} {
		patch, err := computePatch(pointers, scope, part.part, part.from, part.to)
		if err != nil {
			return cover.Patches{}, fmt.Errorf("comparing the %s: %w", part.part, err)
		}
		*part.patch = patch
	}
	return patches, nil
}

func computePatch(pointers []cover.Pointer, scope cover.Scope, part cover.Part, from, to json.RawMessage) (cover.Patch, error) {
	source, err := DecodeObject(from)
	if err != nil {
		return cover.Patch{}, err
	}
	target, err := DecodeObject(from)
	if err != nil {
		return cover.Patch{}, err
	}
	desired, err := DecodeObject(to)
	if err != nil || source == nil || desired == nil {
		return cover.Patch{}, err
	}
	for _, pointer := range pointers {
		if pointer.Part != part {
			continue
		}
		fields, err := Fields(pointer.Path, scope)
		if err != nil {
			return cover.Patch{}, err
		}
		set(target, desired, fields)
	}
	return mergePatch(source, target)
}

// mergePatch gives the merge patch between two objects: the kind of patch that needs nothing to be there already.
func mergePatch(source, target map[string]any) (cover.Patch, error) {
	before, err := json.Marshal(source)
	if err != nil {
		return cover.Patch{}, fmt.Errorf("writing the current object: %w", err)
	}
	after, err := json.Marshal(target)
	if err != nil {
		return cover.Patch{}, fmt.Errorf("writing the patched object: %w", err)
	}
	data, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return cover.Patch{}, fmt.Errorf("comparing them: %w", err)
	}
	if bytes.Equal(data, []byte("{}")) {
		return cover.Patch{}, nil
	}
	return cover.Patch{Type: cover.JSONMergePatch, Data: data}, nil
}

// DecodeObject decodes an object. It gives nil for an object that is not there.
func DecodeObject(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // A nil map is an object without fields, which is what is meant.
	}
	tree, err := untrusted.Object.Tree(raw)
	if err != nil {
		return nil, fmt.Errorf("reading it as a JSON object: %w", err)
	}
	object, ok := tree.(map[string]any)
	if !ok && tree != nil {
		return nil, errors.New("reading it as a JSON object: it is none")
	}
	return object, nil
}

// LookUp finds a field through objects.
func LookUp(object map[string]any, fields []string) (value any, found bool) {
	value = object
	for _, field := range fields {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = inner[field]; !ok {
			return nil, false
		}
	}
	return value, true
}

// set makes a field of target what it is in desired.
func set(target, desired map[string]any, fields []string) {
	for i, field := range fields {
		wanted, found := desired[field]
		if !found {
			delete(target, field)
			return
		}
		nextDesired, wantsObject := wanted.(map[string]any)
		nextTarget, hasObject := target[field].(map[string]any)
		switch {
		case i == len(fields)-1 || !wantsObject:
			target[field] = wanted
			return
		case !hasObject && !reaches(nextDesired, fields[i+1:]):
			// Not even the objects on the way are there to be removed from.
			return
		case !hasObject:
			nextTarget = map[string]any{}
			target[field] = nextTarget
		}
		target, desired = nextTarget, nextDesired
	}
}

// reaches says whether an object has a field, or a list or value on the way to it.
func reaches(object map[string]any, fields []string) bool {
	for _, field := range fields {
		value, found := object[field]
		if !found {
			return false
		}
		inner, ok := value.(map[string]any)
		if !ok {
			return true
		}
		object = inner
	}
	return true
}

// SpecObjects turns the objects of a request into JSON. Machine is a Machine or MachineSet.
func SpecObjects(machine any, infrastructure, bootstrap runtime.RawExtension) (cover.Objects, error) {
	encoded, err := json.Marshal(machine)
	if err != nil {
		return cover.Objects{}, fmt.Errorf("writing the machine: %w", err)
	}
	objects := cover.Objects{Machine: encoded}
	if objects.Infrastructure, err = raw(infrastructure); err != nil {
		return cover.Objects{}, fmt.Errorf("writing the infrastructure machine: %w", err)
	}
	if objects.Bootstrap, err = raw(bootstrap); err != nil {
		return cover.Objects{}, fmt.Errorf("writing the bootstrap config: %w", err)
	}
	return objects, nil
}

func raw(extension runtime.RawExtension) (json.RawMessage, error) {
	if extension.Object == nil && len(extension.Raw) == 0 {
		return nil, nil
	}
	return json.Marshal(extension)
}
