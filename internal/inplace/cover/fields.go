package cover

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fields are the fields in which two trees differ, as a tree of their own. It has at most as many
// nodes as the trees, and no paths: the paths of all fields together can be thousands of times as
// long as the trees. limit.pointers writes out as many as there may be. nil is no field. It is never
// changed once it is built.
type fields struct {
	// token is the last one of the field's JSON pointer, with escapes.
	token string
	// below are the fields in it that differ. If there are none, the field itself does.
	below []*fields
}

// compare returns the fields in which two trees differ. descends reports whether a difference between
// two trees is one of their fields. Lists of one length are compared element by element.
func compare(token string, a, b tree, descends func(a, b tree) bool) *fields {
	var below []*fields
	add := func(f *fields) {
		if f != nil {
			below = append(below, f)
		}
	}
	switch listA, listB, ok := sameLength(a, b); {
	case descends(a, b):
		for _, key := range keysOf(a, b) {
			add(compare(escape(key), field(a, key), field(b, key), descends))
		}
	case ok:
		for i := range listA {
			add(compare(strconv.Itoa(i), listA[i], listB[i], descends))
		}
	case !equal(a, b):
		return &fields{token: token}
	}
	return above(token, below)
}

// above returns the field that has these below it; nil if there are none.
func above(token string, below []*fields) *fields {
	if len(below) == 0 {
		return nil
	}
	return &fields{token: token, below: below}
}

// differences returns the leaves at which two trees differ.
func differences(a, b tree) *fields { return compare("", a, b, descends) }

// lacks returns the leaves of want that have does not carry.
func lacks(want, have tree) *fields {
	return compare("", want, have, func(want, _ tree) bool {
		_, ok := want.(map[string]any)
		return ok
	}).filter(func(_ []string, at []tree) bool { return !isAbsent(at[0]) }, want)
}

// pathsOf returns the fields that JSON pointers name. One that is below another is left out.
func pathsOf(paths ...string) *fields {
	split := make([][]string, 0, len(paths))
	for _, path := range paths {
		split = append(split, strings.Split(path, "/"))
	}
	slices.SortFunc(split, slices.Compare)
	root := &fields{}
	for i, tokens := range split {
		f := root
		if i > 0 && len(tokens) >= len(split[i-1]) && slices.Equal(tokens[:len(split[i-1])], split[i-1]) {
			split[i] = split[i-1] // Below the one before it.
			continue
		}
		for _, token := range tokens {
			if last := len(f.below) - 1; last >= 0 && f.below[last].token == token {
				f = f.below[last]
				continue
			}
			next := &fields{token: token}
			f.below = append(f.below, next)
			f = next
		}
	}
	return above("", root.below)
}

// at returns fields of an object, for those below a path of it.
func (f *fields) at(path string) *fields {
	if f == nil {
		return nil
	}
	tokens := strings.Split(path, "/")
	slices.Reverse(tokens)
	for i, token := range tokens {
		below := []*fields{f}
		if i == 0 {
			below = f.below
		}
		f = &fields{token: token, below: below}
	}
	return &fields{below: []*fields{f}}
}

// merge returns the fields of both.
func merge(a, b *fields) *fields {
	switch {
	case a == nil || b != nil && len(b.below) == 0:
		return b
	case b == nil || len(a.below) == 0:
		return a
	}
	merged := &fields{token: a.token, below: slices.Clone(a.below)}
	index := make(map[string]int, len(a.below))
	for i, f := range a.below {
		index[f.token] = i
	}
	for _, f := range b.below {
		if i, ok := index[f.token]; ok {
			merged.below[i] = merge(merged.below[i], f)
		} else {
			merged.below = append(merged.below, f)
		}
	}
	return merged
}

// filter returns the fields that keep accepts. keep is given the tokens below f, which it must not
// keep, and what the trees have there.
func (f *fields) filter(keep func(path []string, at []tree) bool, trees ...tree) *fields {
	var path []string
	var walk func(f *fields, at []tree) *fields
	walk = func(f *fields, at []tree) *fields {
		if len(f.below) == 0 {
			if keep(path, at) {
				return f
			}
			return nil
		}
		var below []*fields
		inner := make([]tree, len(at))
		for _, child := range f.below {
			for i := range at {
				inner[i] = step(at[i], child.token)
			}
			path = append(path, child.token)
			if kept := walk(child, inner); kept != nil {
				below = append(below, kept)
			}
			path = path[:len(path)-1]
		}
		return above(f.token, below)
	}
	if f == nil {
		return nil
	}
	return walk(f, trees)
}

// carry returns t with what desired has at fields. An object that gets empty thereby, and that
// desired does not have, goes too; the root stays.
func carry(t, desired tree, f *fields) tree {
	switch {
	case f == nil:
		return t
	case len(f.below) == 0:
		return desired
	}
	switch t := t.(type) {
	case []any:
		list := slices.Clone(t)
		for _, child := range f.below {
			if i, err := strconv.Atoi(child.token); err == nil && i >= 0 && i < len(t) {
				list[i] = carryBelow(t[i], step(desired, child.token), child)
			}
		}
		return list
	case map[string]any:
		return carryFields(t, desired, f)
	case absent:
		if object := carryFields(nil, desired, f); len(object) > 0 {
			return object
		}
	}
	return t
}

// carryFields is carry for an object.
func carryFields(object map[string]any, desired tree, f *fields) map[string]any {
	changed := make(map[string]any, len(object)+1)
	maps.Copy(changed, object)
	for _, child := range f.below {
		key := unescape(child.token)
		value := carryBelow(field(object, key), field(desired, key), child)
		if isAbsent(value) {
			delete(changed, key)
		} else {
			changed[key] = value
		}
	}
	return changed
}

func carryBelow(t, desired tree, f *fields) tree {
	carried := carry(t, desired, f)
	if object, ok := carried.(map[string]any); ok && len(object) == 0 && isAbsent(desired) {
		return absent{}
	}
	return carried
}

// sorted returns fields in the order of their paths.
func (f *fields) sorted() *fields {
	if f == nil || len(f.below) == 0 {
		return f
	}
	s := &fields{token: f.token, below: make([]*fields, len(f.below))}
	for i, child := range f.below {
		s.below[i] = child.sorted()
	}
	slices.SortFunc(s.below, compareStarts)
	return s
}

// compareStarts compares the starts of the paths of two fields of one object: a slash follows the
// token of one that has others below it.
func compareStarts(a, b *fields) int {
	n := min(len(a.token), len(b.token))
	return cmp.Or(cmp.Compare(a.token[:n], b.token[:n]), cmp.Compare(a.next(n), b.next(n)))
}

// next returns the byte of a path after the first n of the token; -1 at its end.
func (f *fields) next(n int) int {
	switch {
	case n < len(f.token):
		return int(f.token[n])
	case len(f.below) > 0:
		return '/'
	default:
		return -1
	}
}

// each calls yield with the path of each field until it returns false. A field in standing is given
// in the place of those below it. yield must not keep path. f has the first tokens of the paths
// below it, and none itself.
func (f *fields) each(standing map[*fields]bool, yield func(f *fields, path []byte) bool) {
	if f == nil {
		return
	}
	var path []byte
	var walk func(f *fields) bool
	walk = func(f *fields) bool {
		path = append(path, f.token...)
		if len(f.below) == 0 || standing[f] {
			return yield(f, path)
		}
		path = append(path, '/')
		start := len(path)
		for _, child := range f.below {
			if path = path[:start]; !walk(child) {
				return false
			}
		}
		return true
	}
	for _, child := range f.below {
		if path = path[:0]; !walk(child) {
			return
		}
	}
}
