package cover

import (
	"cmp"
	"maps"
	"slices"
)

// Annotations record a difference, and an object may have 256 KiB of them. Eight decisions, each with
// changes and dirty fields, have to fit beside what others put there.
const (
	// MaxChanges bounds how many fields Result.Changes and Result.Dirty have.
	MaxChanges = 128
	// MaxPath bounds the path of each, in bytes. It is as long as an UpdatePolicy's ignored path may be.
	MaxPath = 512
	// MaxPaths bounds all paths of Result.Changes together, in bytes, and those of Result.Dirty.
	MaxPaths = 8 << 10
)

// MaxPointers and MaxPointerPaths bound all other lists of fields that this package returns, and the
// operations of a patch.
const (
	MaxPointers     = 1024
	MaxPointerPaths = 64 << 10
)

// limit bounds a list of fields.
type limit struct {
	// count is the number of fields, bytes the length of all paths together, and path that of one.
	count, bytes, path int
	// above is the number of the first tokens that every path keeps.
	above int
}

var (
	// recorded fields are below /spec.
	recorded = limit{count: MaxChanges, bytes: MaxPaths, path: MaxPath, above: 2}
	reported = limit{count: MaxPointers, bytes: MaxPointerPaths, path: 4 << 10, above: 1}
	operated = limit{count: MaxPointers, bytes: MaxPointerPaths, path: 4 << 10, above: 2}
)

// BoundPointers returns at most MaxChanges pointers, sorted, with at most MaxPaths bytes of paths, that name all fields of list:
// where there are more, the deepest fields that several of them share stand for those. A path that is too long is cut to the
// field above it that is not. Paths are below /spec.
func BoundPointers(list []Pointer) []Pointer { return recorded.bound(list) }

// bound returns pointers that name all fields of list, and are within the limit.
func (l limit) bound(list []Pointer) []Pointer {
	paths := make(map[Part][]string)
	for _, p := range list {
		paths[p.Part] = append(paths[p.Part], p.Path)
	}
	all := make(map[Part]*fields)
	for part, of := range paths {
		all[part] = pathsOf(of...)
	}
	return l.pointers(all)
}

// pointers returns pointers that name all fields, sorted, and are within the limit. No path is
// written before it is known which ones will be.
func (l limit) pointers(all map[Part]*fields) []Pointer {
	s := standing{limit: l, fields: map[*fields]bool{}}
	order := slices.SortedFunc(maps.Keys(all), func(a, b Part) int {
		return cmp.Or(comparePointers(Pointer{Part: a}, Pointer{Part: b}), cmp.Compare(a, b))
	})
	for _, part := range order {
		if all[part] != nil {
			s.total = s.total.plus(s.measure(all[part], 0, 0))
		}
	}
	s.raise()
	var pointers []Pointer
	for _, part := range order {
		all[part].each(s.fields, func(_ *fields, path []byte) bool {
			pointers = append(pointers, Pointer{Part: part, Path: string(path)})
			return true
		})
	}
	slices.SortFunc(pointers, comparePointers)
	return pointers
}

// standing finds fields that stand for those below them.
type standing struct {
	limit

	fields map[*fields]bool
	// total is the extent of all fields. shared are the fields with several below them.
	total  extent
	shared []family
}

// extent is a number of fields, and the length of their paths together.
type extent struct{ count, bytes int }

func (e extent) plus(other extent) extent {
	return extent{e.count + other.count, e.bytes + other.bytes}
}

// family is a field with several below it. Its path has so many tokens and bytes.
type family struct {
	*fields

	tokens, length int
	extent         extent
}

// measure returns the extent of what is below f, whose path has so many tokens and bytes. f stands
// for all of it if a path would be too long.
func (s *standing) measure(f *fields, tokens, length int) extent {
	if len(f.below) == 0 {
		return extent{1, length}
	}
	start := length + min(tokens, 1) // There is no slash before the first token.
	isTooLong := func(child *fields) bool { return start+len(child.token) > s.path }
	if tokens >= s.above && slices.ContainsFunc(f.below, isTooLong) {
		s.fields[f] = true
		return extent{1, length}
	}
	if tokens >= s.above && len(f.below) > 1 {
		s.shared = append(s.shared, family{fields: f, tokens: tokens, length: length})
	}
	var sum extent
	for _, child := range f.below {
		sum = sum.plus(s.measure(child, tokens+1, start+len(child.token)))
	}
	return sum
}

// extentOf is measure with what stands already.
func (s *standing) extentOf(f *fields, tokens, length int) (sum extent) {
	if len(f.below) == 0 || s.fields[f] {
		return extent{1, length}
	}
	for _, child := range f.below {
		sum = sum.plus(s.extentOf(child, tokens+1, length+min(tokens, 1)+len(child.token)))
	}
	return sum
}

// raise puts the deepest shared fields in the place of those below them, the ones that stand for most
// first, until that is enough.
func (s *standing) raise() {
	slices.SortStableFunc(s.shared, func(a, b family) int { return cmp.Compare(b.tokens, a.tokens) })
	for len(s.shared) > 0 && !s.isEnough() {
		depth := s.shared[0].tokens
		end := slices.IndexFunc(s.shared, func(f family) bool { return f.tokens < depth })
		if end < 0 {
			end = len(s.shared)
		}
		deepest := s.shared[:end]
		s.shared = s.shared[end:]
		for i, f := range deepest {
			deepest[i].extent = s.extentOf(f.fields, f.tokens, f.length)
		}
		slices.SortStableFunc(deepest, func(a, b family) int { return cmp.Compare(b.extent.count, a.extent.count) })
		for _, f := range deepest {
			if s.isEnough() {
				return
			}
			s.fields[f.fields] = true
			s.total = s.total.plus(extent{1 - f.extent.count, f.length - f.extent.bytes})
		}
	}
}

func (s *standing) isEnough() bool { return s.total.count <= s.count && s.total.bytes <= s.bytes }
