package cover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A tree is JSON as encoding/json decodes it, with numbers as they are written, or absent. Trees are never changed once
// they are built, so that they can be shared.
type tree = any

// absent is the tree of a field that is not there, which is not the same as null.
type absent struct{}

// maxDepth bounds how deep objects and patches nest. The patch library reads what it descends into again at each level, so
// that a megabyte that nests as deep as encoding/json lets it would keep it busy for minutes. No API comes near to 128.
const maxDepth = 128

// parse decodes one JSON value. Numbers keep their spelling, so that large ones stay exact.
func parse(data []byte) (tree, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var t tree
	if err := decoder.Decode(&t); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON value")
	}
	if depth(t) > maxDepth {
		return nil, fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	return t, nil
}

func depth(t tree) int {
	deepest := 0
	switch t := t.(type) {
	case map[string]any:
		for _, child := range t {
			deepest = max(deepest, depth(child))
		}
	case []any:
		for _, child := range t {
			deepest = max(deepest, depth(child))
		}
	default:
		return 0
	}
	return deepest + 1
}

// canonical encodes a tree: keys sorted, no white space, numbers as they were written.
func canonical(t tree) []byte {
	data, err := json.Marshal(t)
	if err != nil {
		// Trees come from parse, and what it returns can always be encoded.
		return nil
	}
	return data
}

func isAbsent(t tree) bool {
	_, ok := t.(absent)
	return ok
}

func equal(a, b tree) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	default:
		// What is left is comparable: strings, numbers, booleans, null, absent. Different types are not ==; a map or list in
		// b is of another type too, so that == does not look into it.
		return a == b
	}
}

// field returns what an object has under a key.
func field(t tree, key string) tree {
	if object, ok := t.(map[string]any); ok {
		if value, ok := object[key]; ok {
			return value
		}
	}
	return absent{}
}

// keysOf returns the keys of all objects among the trees, sorted.
func keysOf(trees ...tree) []string {
	all := map[string]bool{}
	for _, t := range trees {
		if object, ok := t.(map[string]any); ok {
			for key := range object {
				all[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// descends says whether a difference between two trees is a difference of their fields: both are objects, or one is and
// the other is not there. An empty object beside nothing has no fields that could differ.
func descends(a, b tree) bool {
	objectA, okA := a.(map[string]any)
	objectB, okB := b.(map[string]any)
	return okA && okB || okA && len(objectA) > 0 && isAbsent(b) || okB && len(objectB) > 0 && isAbsent(a)
}

// sameLength returns two lists if both are lists of the same length.
func sameLength(a, b tree) (listA, listB []any, ok bool) {
	listA, okA := a.([]any)
	listB, okB := b.([]any)
	return listA, listB, okA && okB && len(listA) == len(listB)
}

// differences returns the JSON pointers of the leaves at which two trees differ, sorted by the trees' order.
func differences(path string, a, b tree) []string {
	if descends(a, b) {
		var found []string
		for _, key := range keysOf(a, b) {
			found = append(found, differences(path+"/"+escape(key), field(a, key), field(b, key))...)
		}
		return found
	}
	if listA, listB, ok := sameLength(a, b); ok {
		var found []string
		for i := range listA {
			found = append(found, differences(path+"/"+strconv.Itoa(i), listA[i], listB[i])...)
		}
		return found
	}
	if equal(a, b) {
		return nil
	}
	return []string{path}
}

// lookup returns what stands at a JSON pointer.
func lookup(t tree, path string) tree {
	for _, token := range tokens(path) {
		if list, ok := t.([]any); ok {
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(list) {
				return absent{}
			}
			t = list[i]
			continue
		}
		t = field(t, token)
	}
	return t
}

// put returns t with a value at a path of object keys; an absent value removes what is there. Objects on the way that are
// not there are made.
func put(t tree, path []string, value tree) tree {
	if len(path) == 0 {
		return value
	}
	object, ok := t.(map[string]any)
	if isAbsent(value) && (!ok || isAbsent(field(t, path[0]))) {
		return t
	}
	return with(object, path[0], put(field(t, path[0]), path[1:], value))
}

// with returns a copy of an object with another value under a key.
func with(object map[string]any, key string, value tree) map[string]any {
	changed := make(map[string]any, len(object)+1)
	maps.Copy(changed, object)
	if isAbsent(value) {
		delete(changed, key)
	} else {
		changed[key] = value
	}
	return changed
}

// carry returns t with what desired has at a path. An object that gets empty thereby, and that desired does not have, goes
// too; the root stays.
func carry(t, desired tree, path []string) tree {
	if len(path) == 0 {
		return desired
	}
	switch t := t.(type) {
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(t) {
			return t
		}
		list := slices.Clone(t)
		list[i] = carryBelow(t[i], lookup(desired, "/"+path[0]), path[1:])
		return list
	case map[string]any:
		return with(t, path[0], carryBelow(field(t, path[0]), field(desired, path[0]), path[1:]))
	case absent:
		if value := carryBelow(t, field(desired, path[0]), path[1:]); !isAbsent(value) {
			return map[string]any{path[0]: value}
		}
	}
	return t
}

func carryBelow(t, desired tree, path []string) tree {
	carried := carry(t, desired, path)
	if object, ok := carried.(map[string]any); ok && len(object) == 0 && isAbsent(desired) {
		return absent{}
	}
	return carried
}

// The escapes of JSON pointers, RFC 6901 section 3.
var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

func escape(key string) string { return escaper.Replace(key) }

// tokens splits a JSON pointer; the empty one names the root.
func tokens(path string) []string {
	if path == "" {
		return nil
	}
	split := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range split {
		split[i] = unescaper.Replace(split[i])
	}
	return split
}

// within says whether a path is another one, or below it.
func within(path, above string) bool {
	return path == above || strings.HasPrefix(path, above+"/")
}
