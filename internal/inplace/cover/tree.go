package cover

import (
	"encoding/json"
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

// keysOf returns the keys of two trees that are objects, sorted.
func keysOf(a, b tree) []string {
	objectA, _ := a.(map[string]any)
	objectB, _ := b.(map[string]any)
	keys := slices.AppendSeq(make([]string, 0, max(len(objectA), len(objectB))), maps.Keys(objectA))
	for key := range objectB {
		if _, both := objectA[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
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

// lookup returns what stands at a JSON pointer.
func lookup(t tree, path string) tree {
	if path == "" {
		return t
	}
	return lookupTokens(t, strings.Split(strings.TrimPrefix(path, "/"), "/"))
}

// lookupTokens is lookup for the tokens of a JSON pointer, with their escapes.
func lookupTokens(t tree, path []string) tree {
	for _, token := range path {
		t = step(t, token)
	}
	return t
}

// step returns what an object or a list has at a token of a JSON pointer.
func step(t tree, token string) tree {
	list, ok := t.([]any)
	if !ok {
		return field(t, unescape(token))
	}
	if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(list) {
		return list[i]
	}
	return absent{}
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

// The escapes of JSON pointers, RFC 6901 section 3.
var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// escape copies nothing where nothing has to be escaped, as is usual; and so does unescape.
func escape(key string) string {
	if !strings.ContainsAny(key, "~/") {
		return key
	}
	return escaper.Replace(key)
}

func unescape(token string) string {
	if !strings.Contains(token, "~") {
		return token
	}
	return unescaper.Replace(token)
}

// tokens splits a JSON pointer; the empty one names the root.
func tokens(path string) []string {
	if path == "" {
		return nil
	}
	split := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range split {
		split[i] = unescape(split[i])
	}
	return split
}

// within says whether a path is another one, or below it.
func within(path, above string) bool {
	return path == above || strings.HasPrefix(path, above+"/")
}
