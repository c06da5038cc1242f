package cover

import (
	"slices"
	"strconv"
	"strings"
)

// advance checks that what an updater leaves behind (after) is nearer to desired than what it found (before), and returns
// what counts as its work. conflict is the first field that it changes to something else than desired; empty if there is
// none. An object or list that it has emptied goes if desired does not have it, and stays if desired has it, whatever the
// updater has made of it: one that removes some of the fields cannot know that it is the last to do so.
func advance(path *place, before, after, desired tree) (result tree, conflict *place) {
	switch {
	case equal(before, after):
		return before, nil
	case equal(after, desired):
		return after, nil
	case descends(before, after) && isObjectOrAbsent(desired):
		return advanceObject(path, before, after, desired)
	default:
		return advanceList(path, before, after, desired)
	}
}

// place is the path of a field. It is written out only where somebody reads it.
type place struct {
	above *place
	token string
}

// String returns the JSON pointer. A place without one above it is what its token names.
func (p *place) String() string {
	var tokens []string
	for ; p != nil; p = p.above {
		tokens = append(tokens, p.token)
	}
	slices.Reverse(tokens)
	return strings.Join(tokens, "/")
}

func advanceObject(path *place, before, after, desired tree) (result tree, conflict *place) {
	object := map[string]any{}
	for _, key := range keysOf(before, after) {
		value, conflict := advance(&place{path, escape(key)}, field(before, key), field(after, key), field(desired, key))
		if conflict != nil {
			return nil, conflict
		}
		if !isAbsent(value) {
			object[key] = value
		}
	}
	if len(object) == 0 && isAbsent(desired) {
		return absent{}, nil
	}
	return object, nil
}

func isObjectOrAbsent(t tree) bool {
	_, ok := t.(map[string]any)
	return ok || isAbsent(t)
}

func advanceList(path *place, before, after, desired tree) (result tree, conflict *place) {
	listBefore, ok1 := asList(before)
	listAfter, ok2 := asList(after)
	listDesired, ok3 := asList(desired)
	if !ok1 || !ok2 || !ok3 {
		return nil, path
	}
	conflict = path
	if len(listBefore) == len(listAfter) && len(listAfter) == len(listDesired) {
		result, conflict = advanceElements(path, listBefore, listAfter, listDesired)
		if conflict == nil {
			return result, nil
		}
	}
	moved, ok := moveList(listBefore, listAfter, listDesired)
	if !ok {
		return nil, conflict
	}
	if len(moved) == 0 && isAbsent(desired) {
		return absent{}, nil
	}
	if len(moved) == 0 {
		// Not nil, which would be written as null.
		return []any{}, nil
	}
	return moved, nil
}

// asList takes a list that is not there for an empty one.
func asList(t tree) (list []any, ok bool) {
	if isAbsent(t) {
		return nil, true
	}
	list, ok = t.([]any)
	return list, ok
}

func advanceElements(path *place, before, after, desired []any) (result tree, conflict *place) {
	list := make([]any, len(before))
	for i := range before {
		list[i], conflict = advance(&place{path, strconv.Itoa(i)}, before[i], after[i], desired[i])
		if conflict != nil {
			return nil, conflict
		}
	}
	return list, nil
}

// moveList accepts elements that are added if desired has them and before had them not, and elements that are removed if
// desired has them not. Only how often an element is there counts; a list that differs in order only is not accepted.
func moveList(before, after, desired []any) (result []any, ok bool) {
	countBefore, countAfter, countDesired := count(before), count(after), count(desired)
	moved := false
	for _, counted := range []map[string]int{countBefore, countAfter, countDesired} {
		for element := range counted {
			b, a, d := countBefore[element], countAfter[element], countDesired[element]
			if a < min(b, d) || a > max(b, d) {
				return nil, false
			}
			moved = moved || a != b
		}
	}
	if !moved {
		return nil, false
	}
	return arrange(before, after, desired), true
}

// arrange puts the elements of after that desired has into desired's order, so that it does not matter which of two updaters
// adds its element first. Where the order of what was there before is itself a difference, nobody has covered that, and
// after stays as it is.
func arrange(before, after, desired []any) []any {
	arriving := common(count(after), count(desired))
	kept := common(count(before), arriving)
	if !slices.EqualFunc(pick(before, kept), pick(desired, kept), equal) {
		return after
	}
	next := pick(desired, arriving)
	left := count(next)
	arranged := slices.Clone(after)
	for i, element := range after {
		key := string(canonical(element))
		if left[key] > 0 {
			left[key]--
			arranged[i], next = next[0], next[1:]
		}
	}
	return arranged
}

func count(list []any) map[string]int {
	counted := make(map[string]int, len(list))
	for _, element := range list {
		counted[string(canonical(element))]++
	}
	return counted
}

// common returns how often both have each element.
func common(a, b map[string]int) map[string]int {
	both := make(map[string]int, len(a))
	for element, n := range a {
		both[element] = min(n, b[element])
	}
	return both
}

// pick returns the first elements of a list, as many of each as are counted.
func pick(list []any, counted map[string]int) []any {
	var picked []any
	taken := make(map[string]int, len(counted))
	for _, element := range list {
		key := string(canonical(element))
		if taken[key] < counted[key] {
			taken[key]++
			picked = append(picked, element)
		}
	}
	return picked
}
