package simulated

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/windlass-dev/windlass/internal/core/cover"
)

// VersionClaim is the field that the simulated updater really changes: the Kubernetes version of a Machine.
var VersionClaim = cover.Pointer{Part: cover.PartMachine, Path: "/spec/version"}

// claimParts are the words for the parts in a claim.
var claimParts = map[string]cover.Part{
	"machine": cover.PartMachine, "infrastructure": cover.PartInfrastructure, "bootstrap": cover.PartBootstrap,
}

// ParseClaim parses a claim, as in bootstrap:/spec/files: one of machine, infrastructure and bootstrap, and a JSON pointer
// below /spec that goes through objects only.
func ParseClaim(s string) (cover.Pointer, error) {
	word, path, found := strings.Cut(s, ":")
	part, known := claimParts[word]
	if !found || !known {
		return cover.Pointer{}, fmt.Errorf("the claim %q is not of the form PART:/spec/FIELD with machine, infrastructure or bootstrap as PART", s)
	}
	claim := cover.Pointer{Part: part, Path: path}
	if _, err := fieldsOf(claim, cover.Machine); err != nil {
		return cover.Pointer{}, fmt.Errorf("the claim %q: %w", s, err)
	}
	return claim, nil
}

// fieldsOf gives the names of the fields on the way to a claim, in the objects of a scope.
func fieldsOf(claim cover.Pointer, scope cover.Scope) ([]string, error) {
	below, found := strings.CutPrefix(claim.Path, "/spec/")
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

// computePatches gives the patches that set the claimed fields of the current objects to what the desired ones say.
func computePatches(claims []cover.Pointer, scope cover.Scope, current, desired cover.Objects) (cover.Patches, error) {
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
		patch, err := computePatch(claims, scope, part.part, part.from, part.to)
		if err != nil {
			return cover.Patches{}, fmt.Errorf("comparing the %s: %w", part.part, err)
		}
		*part.patch = patch
	}
	return patches, nil
}

func computePatch(claims []cover.Pointer, scope cover.Scope, part cover.Part, from, to json.RawMessage) (cover.Patch, error) {
	source, err := decodeObject(from)
	if err != nil {
		return cover.Patch{}, err
	}
	target, err := decodeObject(from)
	if err != nil {
		return cover.Patch{}, err
	}
	desired, err := decodeObject(to)
	if err != nil || source == nil || desired == nil {
		return cover.Patch{}, err
	}
	for _, claim := range claims {
		if claim.Part != part {
			continue
		}
		fields, err := fieldsOf(claim, scope)
		if err != nil {
			return cover.Patch{}, err
		}
		value, found := lookUp(desired, fields)
		set(target, fields, value, found)
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

// decodeObject gives nil for an object that is not there.
func decodeObject(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // A nil map is an object without fields, which is what is meant.
	}
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	// Numbers stay as they are written.
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		return nil, fmt.Errorf("reading it as a JSON object: %w", err)
	}
	return object, nil
}

func lookUp(object map[string]any, fields []string) (value any, found bool) {
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

// set sets a field, or removes it where there is no value.
func set(object map[string]any, fields []string, value any, found bool) {
	for _, field := range fields[:len(fields)-1] {
		inner, ok := object[field].(map[string]any)
		if !ok {
			if !found {
				return
			}
			inner = map[string]any{}
			object[field] = inner
		}
		object = inner
	}
	last := fields[len(fields)-1]
	if found {
		object[last] = value
	} else {
		delete(object, last)
	}
}

// digestOf identifies what the desired objects say about the claims, the version left out: that one is looked up on the
// node. It is empty where there are no such claims.
func digestOf(claims []cover.Pointer, desired cover.Objects) (string, error) {
	objects := map[cover.Part]json.RawMessage{
		cover.PartMachine: desired.Machine, cover.PartInfrastructure: desired.Infrastructure, cover.PartBootstrap: desired.Bootstrap,
	}
	hash, claimed := sha256.New(), false
	for _, claim := range claims {
		if claim == VersionClaim {
			continue
		}
		claimed = true
		object, err := decodeObject(objects[claim.Part])
		if err != nil {
			return "", fmt.Errorf("the desired %s: %w", claim.Part, err)
		}
		fields, err := fieldsOf(claim, cover.Machine)
		if err != nil {
			return "", err
		}
		value, found := lookUp(object, fields)
		encoded, err := json.Marshal([]any{claim.Part, claim.Path, found, value})
		if err != nil {
			return "", fmt.Errorf("the desired %s: %w", claim.Part, err)
		}
		hash.Write(encoded)
	}
	if !claimed {
		return "", nil
	}
	return hex.EncodeToString(hash.Sum(nil)[:16]), nil
}

// sortedClaims gives the claims without repetitions, in a fixed order.
func sortedClaims(claims []cover.Pointer) []cover.Pointer {
	sorted := slices.Clone(claims)
	slices.SortFunc(sorted, func(a, b cover.Pointer) int {
		return strings.Compare(string(a.Part)+"\x00"+a.Path, string(b.Part)+"\x00"+b.Path)
	})
	return slices.Compact(sorted)
}
