package cover_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// maxGrowth is how many bytes a comparison may allocate for each byte of the objects. An object of 6
// bytes, as in `{"a":1`, takes about 400 as a tree, and a comparison makes several trees.
const maxGrowth = 400

// spread returns a spec of n fields below keys whose paths have so many bytes together. The paths of
// all fields have n times as many.
func spread(levels, key, n int) string {
	var b strings.Builder
	for range levels {
		fmt.Fprintf(&b, `{"%s":`, strings.Repeat("k", key))
	}
	b.WriteString("{")
	for i := range n {
		fmt.Fprintf(&b, `"%x":1,`, i)
	}
	return b.String() + `"z":1}` + strings.Repeat("}", levels)
}

// broad returns a spec of n fields.
func broad(n int) string { return spread(0, 0, n) }

// lists returns a spec of a list of n objects that differ from those with another value.
func lists(n int, value string) string {
	return `{"l":[` + strings.Repeat(`{"a":`+value+`,"b":[`+value+`]},`, n) + `1]}`
}

func ofInfrastructure(spec string) cover.Objects {
	return cover.Objects{
		Machine:        json.RawMessage(machineWithout),
		Infrastructure: json.RawMessage(`{"apiVersion":"i/v1","kind":"I","metadata":{"name":"m"},"spec":` + spec + `}`),
	}
}

// allocated returns how many bytes f allocates. No other test runs at the same time.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// bytesOf returns the length of all paths, and fails the test if a list is too long.
func bytesOf(t *testing.T, what string, lists ...[]cover.Pointer) {
	t.Helper()
	for _, list := range lists {
		bytes := 0
		for _, p := range list {
			bytes += len(p.Path)
		}
		if len(list) > cover.MaxPointers || bytes > cover.MaxPointerPaths {
			t.Errorf("%s: %d pointers with %d bytes", what, len(list), bytes)
		}
	}
}

// TestMemoryIsLinear: whatever a caller or a tenant writes, a comparison allocates at most so many
// times as many bytes as the objects have. It is not parallel, because it counts allocations.
func TestMemoryIsLinear(t *testing.T) {
	const empty = `{}`
	for shape, specs := range map[string][2]string{
		"many fields below long keys":    {spread(20, 500, 15_000), empty},
		"fewer below longer keys":        {spread(100, 2_000, 5_000), empty},
		"fields below many levels":       {spread(120, 1, 15_000), empty},
		"many fields":                    {broad(15_000), empty},
		"one key longer than all others": {`{"` + strings.Repeat("k", 1<<19) + `":` + broad(15_000) + `}`, empty},
		"elements of lists":              {lists(3_000, "1"), lists(3_000, "2")},
		"objects of one field each":      {`{"l":[` + strings.Repeat(strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100)+",", 150) + "1]}", empty},
	} {
		for side, objects := range map[string][2]cover.Objects{
			"added": {ofInfrastructure(specs[1]), ofInfrastructure(specs[0])}, "removed": {ofInfrastructure(specs[0]), ofInfrastructure(specs[1])},
		} {
			current, desired := objects[0], objects[1]
			size := len(current.Infrastructure) + len(desired.Infrastructure)
			for what, compare := range map[string]func() error{
				"Differing": func() error {
					found, err := cover.Differing(cover.Machine, current, desired)
					bytesOf(t, shape, found)
					return err
				},
				"NotLive": func() error {
					found, err := cover.NotLive(current, desired, current)
					bytesOf(t, shape, found)
					return err
				},
				"Unasked": func() error {
					found, err := cover.Unasked(current, desired, cover.Objects{Infrastructure: current.Infrastructure})
					bytesOf(t, shape, found)
					return err
				},
				"Missing": func() error {
					template := fmt.Appendf(nil, `{"spec":{"template":%s}}`, current.Infrastructure)
					found, err := cover.Missing(cover.Objects{Infrastructure: template}, desired)
					bytesOf(t, shape, found)
					return err
				},
				"Drifted": func() error {
					changes := make([]cover.Change, 3_000)
					for i := range changes {
						changes[i] = cover.Change{Part: cover.PartInfrastructure, Path: "/spec"}
					}
					if found := cover.Drifted(changes, current); len(found) != len(changes) {
						t.Errorf("%d changes drifted", len(found))
					}
					return nil
				},
				"Fingerprint": func() error { _, err := cover.Fingerprint(current); return err },
				"Result": func() error {
					c, err := cover.New(cover.Machine, current, desired, []cover.Ignore{{Part: cover.PartInfrastructure, Path: "/spec/l"}})
					if err != nil {
						return err
					}
					r := c.Result()
					bytesOf(t, shape, r.Uncovered, r.Dirty)
					return nil
				},
				"Result of ignored fields": func() error {
					c, err := cover.New(cover.Machine, current, desired, []cover.Ignore{
						{Part: cover.PartInfrastructure, Path: "/spec/" + strings.Repeat("k", 500)}, {Part: cover.PartInfrastructure, Path: "/spec/l"},
					})
					if err != nil {
						return err
					}
					r := c.Result()
					bytesOf(t, shape, r.Uncovered, r.Dirty)
					return nil
				},
				"All and Patches": func() error {
					c, err := cover.New(cover.Machine, current, desired, []cover.Ignore{{Part: cover.PartInfrastructure, Path: "/spec/l"}})
					if err != nil {
						return err
					}
					for _, patch := range [][]byte{c.All().Infrastructure.Data, c.Patches().Infrastructure.Data} {
						if limit := size + 2*cover.MaxPointerPaths + 100*cover.MaxPointers; len(patch) > limit {
							t.Errorf("%s, %s: a patch has %d bytes", shape, side, len(patch))
						}
					}
					return nil
				},
				"Apply": func() error {
					c, err := cover.New(cover.Machine, current, desired, nil)
					if err != nil {
						return err
					}
					next, err := c.Apply(cover.Updater{Name: "u"}, c.All())
					if err != nil {
						return err
					}
					r := next.Result()
					if len(r.Uncovered) > 0 || len(r.Plan) != 1 {
						t.Errorf("%s, %s: the patch of everything leaves %d fields", shape, side, len(r.Uncovered))
						return nil
					}
					bytesOf(t, shape, r.Plan[0].Pointers, r.Uncompared)
					return nil
				},
			} {
				var err error
				got := allocated(func() { err = compare() })
				if err != nil {
					t.Errorf("%s of %s, %s: %v", what, shape, side, err)
				}
				if got > maxGrowth*size {
					t.Errorf("%s of %s, %s: objects of %d KiB, and it allocates %d KiB", what, shape, side, size>>10, got>>10)
				}
			}
		}
	}
}
