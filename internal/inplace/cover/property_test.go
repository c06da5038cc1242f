package cover_test

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// missing is a value that is not there, in the specs that these tests draw.
type missing struct{}

// drawValue draws JSON from so few keys and values that two draws have much in common. Lists of equal values, empty
// containers, nulls and keys that must be escaped are among them.
func drawValue(t *rapid.T, depth int, lists bool) any {
	kinds := []string{"number", "string", "null"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "object")
		if lists {
			kinds = append(kinds, "list", "list")
		}
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "number":
		return json.Number(rapid.SampledFrom([]string{"1", "2", "1.0", "9007199254740993"}).Draw(t, "number"))
	case "string":
		return rapid.SampledFrom([]string{"", "a", "<&>"}).Draw(t, "string")
	case "object":
		return drawObject(t, depth, lists)
	case "list":
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, drawValue(t, depth-1, lists))
		}
		return list
	default:
		return nil
	}
}

func drawObject(t *rapid.T, depth int, lists bool) map[string]any {
	object := map[string]any{}
	for _, key := range []string{"a", "b", "c/d", "e~f", "", "0"} {
		if rapid.Bool().Draw(t, "has "+key) {
			object[key] = drawValue(t, depth-1, lists)
		}
	}
	return object
}

// drawSpecs draws a current and a desired spec that have parts in common.
func drawSpecs(t *rapid.T, lists bool) (current, desired map[string]any) {
	current, other := drawObject(t, 3, lists), drawObject(t, 3, lists)
	keep := rapid.Uint64().Draw(t, "keep")
	mixed, ok := blend("", current, other, func(path string) bool { return pathHash(keep, path)%2 == 0 }).(map[string]any)
	if !ok {
		t.Fatal("two objects blend into something else")
	}
	return current, mixed
}

func pathHash(seed uint64, path string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strconv.FormatUint(seed, 16) + path))
	return h.Sum64() >> 8
}

// blend takes desired's leaf where take says so, and current's elsewhere. Lists count as leaves.
func blend(path string, current, desired any, take func(path string) bool) any {
	objectCurrent, ok1 := current.(map[string]any)
	objectDesired, ok2 := desired.(map[string]any)
	gone1, gone2 := current == missing{}, desired == missing{}
	descends := ok1 && ok2 || ok1 && gone2 && len(objectCurrent) > 0 || ok2 && gone1 && len(objectDesired) > 0
	if !descends {
		if take(path) {
			return desired
		}
		return current
	}
	blended := map[string]any{}
	for _, key := range keys(objectCurrent, objectDesired) {
		value := blend(path+"/"+key, at(objectCurrent, key), at(objectDesired, key), take)
		if (value != missing{}) {
			blended[key] = value
		}
	}
	if len(blended) == 0 && (gone1 || gone2) {
		return missing{}
	}
	return blended
}

func keys(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func at(object map[string]any, key string) any {
	if value, ok := object[key]; ok {
		return value
	}
	return missing{}
}

func object(t *rapid.T, spec any) json.RawMessage {
	data, err := json.Marshal(map[string]any{"kind": "DevMachine", "metadata": map[string]any{"name": "m"}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func specOf(t *rapid.T, raw []byte) map[string]any {
	var decoded struct{ Spec map[string]any }
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&decoded); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return decoded.Spec
}

func newCoverage(t *rapid.T, current, desired json.RawMessage, ignore ...cover.Ignore) *cover.Coverage {
	c, err := cover.New(cover.Machine,
		cover.Objects{Machine: json.RawMessage(machineWithout), Infrastructure: current},
		cover.Objects{Machine: json.RawMessage(machineWithout), Infrastructure: desired}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// applyHonest lets an updater take some leaves from desired, from what it is shown.
func applyHonest(t *rapid.T, c *cover.Coverage, name string, desired map[string]any, take func(path string) bool) *cover.Coverage {
	spec := blend("", specOf(t, c.Current().Infrastructure), desired, take)
	patch, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/spec", "value": spec}})
	if err != nil {
		t.Fatal(err)
	}
	next, err := c.Apply(cover.Updater{Name: name}, cover.Patches{Infrastructure: jsonPatch(string(patch))})
	if err != nil {
		t.Fatalf("an honest updater is refused: %v\ncurrent %s\nshown %s\npatch %s", err, c.Current().Infrastructure, asJSON(t, c.Result()), patch)
	}
	return next
}

// Whatever honest updaters do, in however many steps: the patches make of current something that differs from desired in
// just the uncovered fields; nothing is uncovered that was not before; and no old Coverage changes.
func TestPropertyPatchesLeaveTheUncovered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		current, desired := drawSpecs(t, true)
		var ignore []cover.Ignore
		if rapid.Bool().Draw(t, "ignores") {
			ignore = append(ignore, cover.Ignore{Part: cover.PartInfrastructure, Path: "/spec/a"})
		}
		c := newCoverage(t, object(t, current), object(t, desired), ignore...)
		var steps []*cover.Coverage
		var results []string
		for i := range rapid.IntRange(0, 4).Draw(t, "updaters") {
			steps, results = append(steps, c), append(results, asJSON(t, c.Result()))
			seed := rapid.Uint64().Draw(t, "takes")
			c = applyHonest(t, c, strconv.Itoa(i), desired, func(path string) bool { return pathHash(seed, path)%2 == 0 })
		}
		for i, step := range steps {
			if diff := cmp.Diff(results[i], asJSON(t, step.Result())); diff != "" {
				t.Fatalf("step %d has changed (-then +now):\n%s", i, diff)
			}
		}

		patched := applyAll(t, object(t, current), c.Patches().Infrastructure)
		after := newCoverage(t, patched, object(t, desired)).Result()
		if diff := cmp.Diff(c.Result().Uncovered, after.Uncovered); diff != "" {
			t.Fatalf("uncovered and what differs after the patches (-uncovered +differs):\n%s", diff)
		}
		if got := specOf(t, patched); (len(after.Uncovered) == 0) != reflect.DeepEqual(got, desired) {
			t.Fatalf("uncovered %v, but the patches give %v, and desired is %v", after.Uncovered, got, desired)
		}
		if (after.CurrentDigest == after.DesiredDigest) != (len(after.Uncovered) == 0) {
			t.Fatalf("digests %s and %s with uncovered %v", after.CurrentDigest, after.DesiredDigest, after.Uncovered)
		}
	})
}

func applyAll(t *rapid.T, raw []byte, patch cover.Patch) []byte {
	if patch.Type == "" {
		return raw
	}
	operations, err := jsonpatch.DecodePatch(patch.Data)
	if err != nil {
		t.Fatalf("%s: %v", patch.Data, err)
	}
	patched, err := operations.Apply(raw)
	if err != nil {
		t.Fatalf("%s on %s: %v", patch.Data, raw, err)
	}
	return patched
}

// Updaters that cover different leaves may be asked in any order.
func TestPropertyOrderOfDisjointUpdaters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		current, desired := drawSpecs(t, true)
		seed := rapid.Uint64().Draw(t, "owners")
		owners := []string{"a", "b", "c"}
		run := func(names []string) cover.Objects {
			c := newCoverage(t, object(t, current), object(t, desired))
			for _, name := range names {
				c = applyHonest(t, c, name, desired, func(path string) bool {
					owner := pathHash(seed, path) % 4
					return owner < 3 && owners[owner] == name
				})
			}
			// What is not as it was is written canonically; compare it all so.
			o := c.Current()
			o.Infrastructure = object(t, specOf(t, o.Infrastructure))
			return o
		}
		want := run(owners)
		if diff := cmp.Diff(want, run(rapid.Permutation(owners).Draw(t, "order"))); diff != "" {
			t.Fatalf("another order gives something else (-want +got):\n%s", diff)
		}
	})
}

// Updaters that each append their own elements to a list, and remove their own, cover it together in any order.
func TestPropertyListsBySeveralUpdaters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		elements := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{3}`), 0, 8, rapid.ID).Draw(t, "elements")
		var before, wanted []string
		for _, element := range elements {
			where := rapid.IntRange(0, 2).Draw(t, "where")
			if where != 1 {
				before = append(before, element)
			}
			if where != 0 {
				wanted = append(wanted, element)
			}
		}
		desired := map[string]any{"l": append([]string{}, wanted...)}
		c := newCoverage(t, object(t, map[string]any{"l": append([]string{}, before...)}), object(t, desired))
		for _, owner := range rapid.Permutation([]uint64{0, 1, 2}).Draw(t, "order") {
			owned := func(element string) bool { return pathHash(0, element)%3 == owner }
			var list []string
			for _, text := range listOf(t, c.Current().Infrastructure) {
				if !owned(text) || slices.Contains(wanted, text) {
					list = append(list, text)
				}
			}
			for _, element := range wanted {
				if owned(element) && !slices.Contains(list, element) {
					list = append(list, element)
				}
			}
			patch, err := json.Marshal(map[string]any{"spec": map[string]any{"l": append([]string{}, list...)}})
			if err != nil {
				t.Fatal(err)
			}
			next, err := c.Apply(cover.Updater{Name: strconv.FormatUint(owner, 10)}, cover.Patches{Infrastructure: merge(string(patch))})
			if err != nil {
				t.Fatalf("%v: %s on %s", err, patch, c.Current().Infrastructure)
			}
			c = next
		}
		if uncovered := c.Result().Uncovered; len(uncovered) != 0 {
			t.Fatalf("uncovered %v: got %s, want %v", uncovered, c.Current().Infrastructure, desired)
		}
	})
}

func listOf(t *rapid.T, raw []byte) []string {
	var decoded struct{ Spec struct{ L []string } }
	if err := json.Unmarshal(raw, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded.Spec.L
}

// An answer that is accepted, wherever it comes from, makes no new differences.
func TestPropertyNothingMovesAway(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		current, desired := drawSpecs(t, false)
		other := drawObject(t, 3, false)
		seed := rapid.Uint64().Draw(t, "takes")
		// Mostly desired, with a few leaves of something else.
		spec := blend("", blend("", current, desired, func(path string) bool { return pathHash(seed, path)%2 == 0 }),
			other, func(path string) bool { return pathHash(seed+1, path)%16 == 0 })
		c := newCoverage(t, object(t, current), object(t, desired))
		patch, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/spec", "value": spec}})
		if err != nil {
			t.Fatal(err)
		}
		next, err := c.Apply(cover.Updater{Name: "u"}, cover.Patches{Infrastructure: jsonPatch(string(patch))})
		before, after := c.Result().Uncovered, next.Result().Uncovered
		if err != nil {
			if diff := cmp.Diff(before, after); diff != "" {
				t.Fatalf("a refused answer covers something (-before +after):\n%s", diff)
			}
			return
		}
		for _, pointer := range after {
			if !slices.Contains(before, pointer) {
				t.Fatalf("%v has become different: current %v, patch %s, desired %v", pointer, current, patch, desired)
			}
		}
		// What counts as covered is what no longer differs.
		covered := 0
		for _, entry := range next.Result().Plan {
			covered += len(entry.Pointers)
		}
		if covered != len(before)-len(after) {
			t.Fatalf("%d fields are covered, but %d differed, and %d do now", covered, len(before), len(after))
		}
	})
}

// Digests are equal if and only if the specs are; how they are written down makes no difference.
func TestPropertyDigests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		current, desired := drawSpecs(t, true)
		raw := object(t, current)
		r := newCoverage(t, raw, object(t, desired)).Result()
		if (r.CurrentDigest == r.DesiredDigest) != reflect.DeepEqual(current, desired) {
			t.Fatalf("digests %s and %s of %v and %v", r.CurrentDigest, r.DesiredDigest, current, desired)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, raw, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		if again := newCoverage(t, indented.Bytes(), raw).Result(); again.CurrentDigest != r.CurrentDigest || again.DesiredDigest != r.CurrentDigest {
			t.Fatalf("white space changes the digest: %+v", again)
		}
		if drifted := cover.Drifted(r.Changes, cover.Objects{Infrastructure: object(t, desired)}); len(drifted) != 0 {
			t.Fatalf("desired has drifted from itself: %v", drifted)
		}
		drifted := cover.Drifted(r.Changes, cover.Objects{Infrastructure: raw})
		if len(drifted) != len(r.Changes) {
			t.Fatalf("current carries some of the changes %v: only %v have drifted", r.Changes, drifted)
		}
	})
}

// The scope only says where the spec stands.
func TestPropertyScopesAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		current, desired := drawSpecs(t, true)
		template := func(spec any) cover.Objects {
			wrapped := object(t, map[string]any{"template": map[string]any{"spec": spec}})
			return cover.Objects{Machine: json.RawMessage(`{"spec":{"template":{"spec":{"clusterName":"c"}}}}`), Infrastructure: wrapped}
		}
		ignore := cover.Ignore{Part: cover.PartInfrastructure, Path: "/spec/a"}
		set, err := cover.New(cover.MachineSet, template(current), template(desired), []cover.Ignore{ignore})
		if err != nil {
			t.Fatal(err)
		}
		want, got := newCoverage(t, object(t, current), object(t, desired), ignore).Result(), set.Result()
		for i, pointer := range got.Uncovered {
			got.Uncovered[i].Path = "/spec" + strings.TrimPrefix(pointer.Path, "/spec/template/spec")
		}
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
			t.Fatalf("a Machine and a MachineSet differ (-Machine +MachineSet):\n%s", diff)
		}
	})
}
