package cover

import (
	"cmp"
	"slices"
	"strings"
)

// What is recorded of a difference stands in annotations, of which an object may have 256 KiB in all. Eight decisions, each with
// changes and dirty fields, have to fit beside what others put there.
const (
	// MaxChanges bounds how many fields Result.Changes and Result.Dirty have.
	MaxChanges = 128
	// MaxPath bounds the path of each, in bytes. It is as long as an UpdatePolicy's ignored path may be.
	MaxPath = 512
	// MaxPaths bounds all paths of Result.Changes together, in bytes, and those of Result.Dirty.
	MaxPaths = 8 << 10
)

// boundChanges keeps the first changes, which are sorted, without those whose path is too long. A parent could not stand for
// what it leaves out: others write to its other fields, so its digest would not stay the same.
func boundChanges(changes []Change) []Change {
	var kept []Change
	total := 0
	for _, c := range changes {
		if len(c.Path) > MaxPath {
			continue
		}
		total += len(c.Path)
		if len(kept) == MaxChanges || total > MaxPaths {
			break
		}
		kept = append(kept, c)
	}
	return kept
}

// BoundPointers returns at most MaxChanges pointers, sorted, with at most MaxPaths bytes of paths, that name all fields of list:
// where there are more, the deepest fields that several of them share stand for those. A path that is too long is cut to the
// field above it that is not. Paths stand below /spec.
func BoundPointers(list []Pointer) []Pointer {
	fields := make([]spelled, 0, len(list))
	for _, p := range list {
		f := spelled{part: p.Part, tokens: strings.Split(p.Path, "/")}
		for length := len(p.Path); length > MaxPath; {
			last := f.tokens[len(f.tokens)-1]
			f.tokens, length = f.tokens[:len(f.tokens)-1], length-len(last)-1
		}
		fields = append(fields, f)
	}
	fields = mergeFields(fields)
	for !isBounded(fields) {
		merged := raiseDeepest(fields)
		if len(merged) == len(fields) {
			// Nothing is shared: three objects, or paths that are not below /spec.
			break
		}
		fields = merged
	}
	var bounded []Pointer
	for _, f := range fields {
		bounded = append(bounded, Pointer{Part: f.part, Path: f.path()})
	}
	slices.SortFunc(bounded, comparePointers)
	return bounded
}

// spelled is a Pointer whose path is split, with the empty token before its first slash.
type spelled struct {
	part   Part
	tokens []string
}

func (f spelled) path() string { return strings.Join(f.tokens, "/") }

// shared is how many tokens two fields have in common from the root on; none in different objects.
func (f spelled) shared(other spelled) int {
	if f.part != other.part {
		return 0
	}
	n := 0
	for n < len(f.tokens) && n < len(other.tokens) && f.tokens[n] == other.tokens[n] {
		n++
	}
	return n
}

// mergeFields sorts fields token by token, so that each is followed by those below it, and leaves those out.
func mergeFields(fields []spelled) []spelled {
	slices.SortFunc(fields, func(a, b spelled) int {
		return cmp.Or(cmp.Compare(a.part, b.part), slices.Compare(a.tokens, b.tokens))
	})
	var merged []spelled
	for _, f := range fields {
		if len(merged) > 0 && merged[len(merged)-1].shared(f) == len(merged[len(merged)-1].tokens) {
			continue
		}
		merged = append(merged, f)
	}
	return merged
}

func isBounded(fields []spelled) bool {
	total := 0
	for _, f := range fields {
		total += len(f.path())
	}
	return len(fields) <= MaxChanges && total <= MaxPaths
}

// raiseDeepest puts the deepest fields that several of fields share in the place of those, the ones that stand for most first, until
// it is enough. fields are sorted and merged.
func raiseDeepest(fields []spelled) []spelled {
	deepest := 2 // The root and spec; nothing above it is a field.
	for i := range fields[:len(fields)-1] {
		deepest = max(deepest, fields[i].shared(fields[i+1]))
	}
	type family struct{ from, to int }
	var families []family
	for from := 0; from < len(fields); {
		to := from + 1
		for to < len(fields) && fields[from].shared(fields[to]) >= deepest {
			to++
		}
		if to-from > 1 {
			families = append(families, family{from, to})
		}
		from = to
	}
	slices.SortStableFunc(families, func(a, b family) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	raised := slices.Clone(fields)
	count, total := len(fields), 0
	for _, f := range fields {
		total += len(f.path())
	}
	for _, f := range families {
		if count <= MaxChanges && total <= MaxPaths {
			break
		}
		parent := spelled{part: fields[f.from].part, tokens: fields[f.from].tokens[:deepest]}
		for i := f.from; i < f.to; i++ {
			total -= len(fields[i].path())
			raised[i] = parent
		}
		count, total = count-(f.to-f.from)+1, total+len(parent.path())
	}
	return mergeFields(raised)
}
