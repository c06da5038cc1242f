package cover_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	const current = `{"kind":"DevMachine","spec":{"list":[null],"secret":"old","a":{"b":1}}}`
	const desired = `{"kind":"DevMachine","spec":{"list":[null],"secret":"new","a":{"b":1}}}`
	deep := strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000)
	tests := []struct {
		name  string
		patch cover.Patch
		path  string
		want  string
	}{
		{"type left out", cover.Patch{Data: []byte(`{}`)}, "", `unknown type ""`},
		{"data left out", jsonPatch(``), "", "it is empty"},
		{"too large", merge(`{"spec":{"secret":"` + strings.Repeat("x", cover.MaxPatchBytes) + `"}}`), "", "at most 1048576 are accepted"},
		{"merge patch nests too deep", merge(deep), "", "nests deeper"},
		{"patch nests too deep", jsonPatch(`[{"op":"add","path":"/spec/a","value":` + deep + `}]`), "", "nests deeper"},
		{"result nests too deep", jsonPatch(nesting(100)), "", "nests deeper"},
		{"copies without end", jsonPatch(doubling(40)), "", "copy"},
		{"too many operations", jsonPatch("[" + strings.Repeat(`{"op":"test","path":"/spec/a/b","value":1},`, 4096) + `{"op":"remove","path":"/spec/a"}]`), "", "4097 operations"},
		{"library panics", jsonPatch(`[{"op":"test","path":"/spec/list","value":[1]}]`), "", "the patch library panics"},
		{"no path", jsonPatch(`[{"op":"remove"}]`), "", "operation 0 of its JSONPatch has no path"},
		{"no value", jsonPatch(`[{"op":"add","path":"/spec/a"}]`), "", "has no value"},
		{"no from", jsonPatch(`[{"op":"move","path":"/spec/a"}]`), "", "has no from"},
		{"operation is a string", jsonPatch(`["remove"]`), "", "is not an object"},
		{"merge patch is a list", merge(`[]`), "", "is not an object"},
		{"merge patch is null", merge(`null`), "", "is not an object"},
		{"null where desired has a value", jsonPatch(`[{"op":"replace","path":"/spec/secret","value":null}]`), "/spec/secret", "desired"},
		{"removes what stays", merge(`{"spec":{"a":null}}`), "/spec/a/b", "desired"},
		{"empties what stays", merge(`{"spec":{"a":{"b":null}}}`), "/spec/a/b", "desired"},
		{"other kind of value", merge(`{"spec":{"a":[]}}`), "/spec/a", "desired"},
		{"spec becomes null", jsonPatch(`[{"op":"replace","path":"/spec","value":null}]`), "/spec", "desired"},
		{"long names are cut", merge(`{"spec":{"` + strings.Repeat("n", 5000) + `":1}}`), "/spec/" + strings.Repeat("n", 5000), "n...: "},
		{"kind removed", merge(`{"kind":null,"spec":{"secret":"new"}}`), "/kind", "cannot read an object without it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := infrastructure(t, current, desired)
			got, err := c.Apply(cover.Updater{Name: "u"}, cover.Patches{Infrastructure: tt.patch})
			var wrong *cover.UpdaterError
			if !errors.As(err, &wrong) {
				t.Fatalf("got error %v, want an UpdaterError", err)
			}
			if diff := cmp.Diff(cover.Pointer{Part: cover.PartInfrastructure, Path: tt.path}, wrong.Pointer); diff != "" {
				t.Errorf("pointer (-want +got):\n%s", diff)
			}
			text := err.Error()
			if wrong.Updater != "u" || !strings.Contains(text, tt.want) || strings.Contains(text, "new") || len(text) > 2000 {
				t.Errorf("got %q, want it to contain %q, to name the updater, and to be short", text, tt.want)
			}
			want := c.Result()
			want.Errors = []*cover.UpdaterError{wrong}
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, got.Result())); diff != "" {
				t.Errorf("the answer covers something (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(infrastructure(t, current, desired).Current(), got.Current()); diff != "" {
				t.Errorf("the answer changes current (-want +got):\n%s", diff)
			}
		})
	}
}

// nesting makes a value that is n levels deep twice over, by moving one half into the other.
func nesting(n int) string {
	half := strings.Repeat(`{"a":`, n) + "{}" + strings.Repeat("}", n)
	return fmt.Sprintf(`[{"op":"add","path":"/spec/x","value":%s},{"op":"copy","from":"/spec/x","path":"/spec/x%s/a"}]`, half, strings.Repeat("/a", n))
}

func doubling(n int) string {
	operations := []string{`{"op":"add","path":"/spec/x","value":{"a":1}}`}
	for i := range n {
		operations = append(operations, fmt.Sprintf(`{"op":"copy","from":"/spec/x","path":"/spec/x/%d"}`, i))
	}
	return "[" + strings.Join(operations, ",") + "]"
}

func TestMaxMinors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, to string
		most     int
		want     string
	}{
		{"v1.30.1", "v1.31.0", 1, ""},
		{"v1.30.1", "v1.30.9", 1, ""},
		{"v1.30.1", "v1.33.0", 3, ""},
		{"v1.30.1", "v1.33.0", 0, ""},
		{"v1.30.1", "v1.33.0", -1, ""},
		{"v1.30.1", "v1.32.0", 1, "moves a kubelet at most 1 minor at once; from v1.30.1 to v1.32.0 are 2"},
		{"v1.30.1", "v1.33.0", 2, "moves a kubelet at most 2 minors at once; from v1.30.1 to v1.33.0 are 3"},
		{"v1.33.0", "v1.30.1", 2, "from v1.33.0 to v1.30.1 are 3"},
		{"v1.33.0", "v2.0.0", 5, "from v1.33.0 to v2.0.0: the distance between two majors is not known"},
		{"", "v1.33.0", 1, ""},
		{"v1.33.0", "", 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.from+" to "+tt.to, func(t *testing.T) {
			t.Parallel()
			c, err := cover.New(cover.Machine, machine(tt.from), machine(tt.to), nil)
			if err != nil {
				t.Fatal(err)
			}
			patch := cover.Patches{Machine: jsonPatch(`[{"op":"add","path":"/spec","value":{"version":"` + tt.to + `"}}]`)}
			got, err := c.Apply(cover.Updater{Name: "u", MaxMinors: tt.most}, patch)
			if tt.want == "" {
				if err != nil || len(got.Result().Uncovered) != 0 || !got.Result().Plan[0].SetsVersion {
					t.Errorf("got %v and %+v, want the version covered", err, got.Result())
				}
				return
			}
			var wrong *cover.UpdaterError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) || wrong.Pointer.Path != "/spec/version" {
				t.Errorf("got %v, want %q at /spec/version", err, tt.want)
			}
		})
	}
}

// What other updaters do with the version is no business of one that leaves it alone.
func TestMaxMinorsCountsOnlyOwnSteps(t *testing.T) {
	t.Parallel()
	current := cover.Objects{Machine: json.RawMessage(`{"spec":{"version":"v1.30.1"}}`)}
	desired := cover.Objects{Machine: json.RawMessage(`{"spec":{"version":"v1.33.0","failureDomain":"b"}}`)}
	free := cover.Updater{Name: "free"}
	one := cover.Updater{Name: "one", MaxMinors: 1}
	version := cover.Patches{Machine: merge(`{"spec":{"version":"v1.33.0"}}`)}
	domain := cover.Patches{Machine: merge(`{"spec":{"failureDomain":"b"}}`)}
	both := cover.Patches{Machine: merge(`{"spec":{"version":"v1.33.0","failureDomain":"b"}}`)}
	tests := []struct {
		name          string
		first, second cover.Patches
		updaters      [2]cover.Updater
		want          []bool
	}{
		{"before", domain, version, [2]cover.Updater{one, free}, []bool{false, true}},
		{"after", version, both, [2]cover.Updater{free, one}, []bool{true, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := cover.New(cover.Machine, current, desired, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, patches := range []cover.Patches{tt.first, tt.second} {
				if c, err = c.Apply(tt.updaters[i], patches); err != nil {
					t.Fatal(err)
				}
			}
			var sets []bool
			for _, covered := range c.Result().Plan {
				sets = append(sets, covered.SetsVersion)
			}
			if diff := cmp.Diff(tt.want, sets); diff != "" {
				t.Errorf("who sets the version (-want +got):\n%s", diff)
			}
		})
	}
}

// Coverages that grow from the same one do not share what they add.
func TestBranchesStandAlone(t *testing.T) {
	t.Parallel()
	c := infrastructure(t, `{"spec":{"a":1,"b":1,"c":1,"d":1,"e":1}}`, `{"spec":{"a":2,"b":2,"c":2,"d":2,"e":2}}`)
	apply := func(c *cover.Coverage, field string) *cover.Coverage {
		next, err := c.Apply(cover.Updater{Name: field}, cover.Patches{Infrastructure: merge(`{"spec":{"` + field + `":2}}`)})
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	// Three leave room for a fourth in a slice that has grown by doubling.
	for _, field := range []string{"a", "b", "c"} {
		c = apply(c, field).Fail(cover.Updater{Name: field}, "away", nil)
	}
	left := apply(c, "d").Fail(cover.Updater{Name: "d"}, "away", nil)
	want := asJSON(t, left.Result())
	apply(c, "e").Fail(cover.Updater{Name: "e"}, "away", nil)
	if diff := cmp.Diff(want, asJSON(t, left.Result())); diff != "" {
		t.Errorf("another branch changes this one (-before +after):\n%s", diff)
	}
}

func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	fields := map[string]map[string]int{"spec": {}}
	for i := range 3 * cover.MaxChanges {
		fields["spec"][fmt.Sprintf("f%04d", i)] = i
	}
	desired, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	r := infrastructure(t, `{"spec":{}}`, string(desired)).Result()
	if len(r.Changes) != cover.MaxChanges || r.Changes[cover.MaxChanges-1].Path != "/spec/f0127" {
		t.Errorf("got %d changes, the last of which is %v", len(r.Changes), r.Changes[len(r.Changes)-1])
	}
	if len(r.Uncovered) != 3*cover.MaxChanges {
		t.Errorf("got %d uncovered fields; only changes are bounded", len(r.Uncovered))
	}
}

func TestResultIsTheCallers(t *testing.T) {
	t.Parallel()
	c, err := infrastructure(t, `{"spec":{"a":1,"b":1}}`, `{"spec":{"a":2,"b":2}}`).
		Apply(cover.Updater{Name: "u"}, cover.Patches{Infrastructure: merge(`{"spec":{"a":2}}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := asJSON(t, c.Result())
	r := c.Result()
	r.Plan[0].Pointers[0].Path = "changed"
	r.Plan[0].Updater = "changed"
	r.Uncovered[0].Path = "changed"
	o := c.Current()
	copy(o.Machine, "changed")
	if diff := cmp.Diff(want, asJSON(t, c.Result())); diff != "" {
		t.Errorf("changing a Result changes the Coverage (-want +got):\n%s", diff)
	}
	if string(c.Current().Machine) != machineWithout {
		t.Errorf("changing Current's objects changes the Coverage: %s", c.Current().Machine)
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	cause := errors.New("no route to host")
	c := infrastructure(t, `{"spec":{"a":1}}`, `{"spec":{"a":2}}`)
	got := c.Fail(cover.Updater{Name: "u"}, "it cannot be reached", cause).Fail(cover.Updater{Name: "v"}, "it is not Ready", nil)
	texts := make([]string, 0, 2)
	for _, err := range got.Result().Errors {
		texts = append(texts, err.Error())
	}
	want := []string{`updater "u": it cannot be reached: no route to host`, `updater "v": it is not Ready`}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if !errors.Is(got.Result().Errors[0], cause) {
		t.Error("the cause is lost")
	}
	if len(c.Result().Errors) != 0 {
		t.Error("Fail changes its receiver")
	}
}

func TestDrifted(t *testing.T) {
	t.Parallel()
	changes := infrastructure(t, `{"spec":{"a":1,"gone":1,"list":[1]}}`, `{"spec":{"a":2,"list":[1,2],"o":{}}}`).Result().Changes
	all := []string{"/spec/a", "/spec/gone", "/spec/list", "/spec/o"}
	tests := []struct {
		name, object string
		want         []string
	}{
		{"carried", `{"spec":{"o":{},"list":[1,2],"a":2,"more":true}}`, nil},
		{"another value", `{"spec":{"a":3,"list":[1,2],"o":{}}}`, []string{"/spec/a"}},
		{"removed field is back", `{"spec":{"a":2,"gone":null,"list":[1,2],"o":{}}}`, []string{"/spec/gone"}},
		{"another order", `{"spec":{"a":2,"list":[2,1],"o":{}}}`, []string{"/spec/list"}},
		{"no spec", `{}`, []string{"/spec/a", "/spec/list", "/spec/o"}},
		{"no object", ``, []string{"/spec/a", "/spec/list", "/spec/o"}},
		{"no JSON", `{`, all},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			reversed := slices.Clone(changes)
			slices.Reverse(reversed)
			for _, pointer := range cover.Drifted(reversed, cover.Objects{Infrastructure: json.RawMessage(tt.object)}) {
				got = append(got, pointer.Path)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("drifted (-want +got):\n%s", diff)
			}
		})
	}
	unknown := []cover.Change{{Part: "MachinePool", Path: "/spec/a", Digest: changes[0].Digest}}
	if got := cover.Drifted(unknown, cover.Objects{}); len(got) != 1 {
		t.Errorf("a change of an unknown object is carried: %v", got)
	}
}

func TestNewNamesItsInput(t *testing.T) {
	t.Parallel()
	_, err := cover.New(cover.Machine, cover.Objects{Machine: json.RawMessage(`{"spec":{"version":"one"}}`)}, machine(""), nil)
	var wrong *cover.InputError
	if !errors.As(err, &wrong) || wrong.Input != "current Machine" || wrong.Unwrap() == nil {
		t.Errorf("got %v, want an InputError about the current Machine with its cause", err)
	}
}

func TestUncomparedMachineFields(t *testing.T) {
	t.Parallel()
	current := cover.Objects{Machine: json.RawMessage(`{"spec":{"clusterName":"a","bootstrap":{"dataSecretName":"a"},"infrastructureRef":{"name":"a"},
		"providerID":"a","minReadySeconds":1,"readinessGates":[{"conditionType":"a"}],"taints":[{"key":"a"}],
		"deletion":{"nodeDrainTimeoutSeconds":1,"nodeVolumeDetachTimeoutSeconds":1,"nodeDeletionTimeoutSeconds":1}}}`)}
	c, err := cover.New(cover.Machine, current, cover.Objects{Machine: json.RawMessage(`{"spec":{}}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := c.Result()
	if len(r.Uncovered) != 0 || len(r.Changes) != 0 || r.CurrentDigest != r.DesiredDigest {
		t.Errorf("fields that Cluster API does not compare are compared: %+v", r)
	}
	for _, field := range []string{"clusterName", "bootstrap", "infrastructureRef", "providerID", "minReadySeconds", "readinessGates", "taints", "deletion"} {
		ignores(t, c, cover.Patches{Machine: merge(`{"spec":{"` + field + `":null}}`)}, cover.PartMachine, "/spec/"+field)
	}
	bare, err := cover.New(cover.Machine, cover.Objects{Machine: json.RawMessage(`{"spec":{}}`)}, cover.Objects{Machine: json.RawMessage(`{"spec":{}}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, patch := range []string{`{"spec":{"deletion":{}}}`, `{"spec":{"bootstrap":1}}`} {
		ignores(t, bare, cover.Patches{Machine: merge(patch)}, cover.PartMachine, "/spec/")
	}
	scalar, err := cover.New(cover.Machine, cover.Objects{Machine: json.RawMessage(`{"spec":{}}`)}, cover.Objects{Machine: json.RawMessage(`{"spec":1}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scalar.Apply(cover.Updater{Name: "u"}, cover.Patches{Machine: merge(`{"spec":1}`)}); err == nil {
		t.Error("a spec that is a number is accepted")
	}
	// The same names in other objects are ordinary fields.
	other := infrastructure(t, `{"spec":{"providerID":"a","taints":[1]}}`, `{"spec":{"providerID":"b","taints":[2]}}`)
	if got := len(other.Result().Uncovered); got != 2 {
		t.Errorf("%d fields of the infrastructure machine are compared, want 2", got)
	}
}

// ignores checks that a patch is accepted and has no effect, and that the part's uncompared fields begin with a path.
func ignores(t *testing.T, c *cover.Coverage, patches cover.Patches, part cover.Part, path string) {
	t.Helper()
	next, err := c.Apply(cover.Updater{Name: "u"}, patches)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	got, want := next.Result(), c.Result()
	if len(got.Uncompared) == 0 || got.Uncompared[0].Part != part || !strings.HasPrefix(got.Uncompared[0].Path, path) {
		t.Errorf("uncompared fields: %v, want %s %s", got.Uncompared, part, path)
	}
	got.Uncompared = nil
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
		t.Errorf("%s: the patch covers something (-want +got):\n%s", path, diff)
	}
	if diff := cmp.Diff(c.Current(), next.Current()); diff != "" {
		t.Errorf("%s: the patch changes what the next updater is shown (-want +got):\n%s", path, diff)
	}
}

// TestIgnoresWhatClusterAPIIgnores checks patches against the cases of ApplyPatchToObject and matchesMachine in Cluster API.
func TestIgnoresWhatClusterAPIIgnores(t *testing.T) {
	t.Parallel()
	objects := func(version, image string) cover.Objects {
		return cover.Objects{
			Machine:        json.RawMessage(`{"kind":"Machine","metadata":{"name":"m"},"spec":{"version":"` + version + `","bootstrap":{"dataSecretName":"s"}}}`),
			Infrastructure: json.RawMessage(`{"kind":"DevMachine","metadata":{"name":"m","creationTimestamp":null},"spec":{"image":"` + image + `"}}`),
		}
	}
	c, err := cover.New(cover.Machine, objects("v1.30.1", "a"), objects("v1.31.0", "b"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		part  cover.Part
		path  string
		patch cover.Patch
	}{
		{"status of a typed object", cover.PartInfrastructure, "/status", jsonPatch(`[{"op":"add","path":"/status","value":{}}]`)},
		{"status fields", cover.PartInfrastructure, "/status/phase", merge(`{"status":{"phase":"Updated"}}`)},
		{"creationTimestamp", cover.PartInfrastructure, "/metadata/creationTimestamp", jsonPatch(`[{"op":"remove","path":"/metadata/creationTimestamp"}]`)},
		{"labels", cover.PartInfrastructure, "/metadata/labels/a", merge(`{"metadata":{"labels":{"a":"b"}}}`)},
		{"another kind", cover.PartInfrastructure, "/kind", merge(`{"kind":"OtherMachine"}`)},
		{"the whole spec removed", cover.PartInfrastructure, "/spec", jsonPatch(`[{"op":"remove","path":"/spec"}]`)},
		{"a bootstrap config that is absent", cover.PartBootstrap, "", merge(`{"spec":{"files":[]}}`)},
		{"a reference", cover.PartMachine, "/spec/infrastructureRef/name", merge(`{"spec":{"infrastructureRef":{"name":"x"}}}`)},
		{"an uncompared field removed", cover.PartMachine, "/spec/bootstrap/dataSecretName", merge(`{"spec":{"bootstrap":{"dataSecretName":null}}}`)},
		{"a parent of uncompared fields", cover.PartMachine, "/spec/deletion/nodeDrainTimeoutSeconds", merge(`{"spec":{"deletion":{"nodeDrainTimeoutSeconds":1}}}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			patches := cover.Patches{}
			switch tt.part {
			case cover.PartMachine:
				patches.Machine = tt.patch
			case cover.PartInfrastructure:
				patches.Infrastructure = tt.patch
			case cover.PartBootstrap:
				patches.Bootstrap = tt.patch
			}
			ignores(t, c, patches, tt.part, tt.path)
		})
	}
}

// TestEmptyFieldsOfAMachine checks that an empty field of a Machine's spec equals an absent one.
func TestEmptyFieldsOfAMachine(t *testing.T) {
	t.Parallel()
	c, err := cover.New(cover.Machine, cover.Objects{Machine: json.RawMessage(`{"spec":{"version":"v1.30.1","failureDomain":""}}`)},
		cover.Objects{Machine: json.RawMessage(`{"spec":{"version":"v1.31.0","deletion":{}}}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	next, err := c.Apply(cover.Updater{Name: "u"}, cover.Patches{Machine: jsonPatch(
		`[{"op":"add","path":"/spec/version","value":"v1.31.0"},{"op":"add","path":"/spec/failureDomain","value":null},{"op":"add","path":"/spec/taints","value":[]}]`)})
	if err != nil {
		t.Fatal(err)
	}
	r := next.Result()
	if diff := cmp.Diff([]cover.Pointer{{Part: cover.PartMachine, Path: "/spec/version"}}, r.Plan[0].Pointers); diff != "" || len(r.Uncovered) > 0 {
		t.Errorf("covered (-want +got):\n%suncovered: %v", diff, r.Uncovered)
	}
}

const machineWithout = `{"spec":{"clusterName":"c"}}`

// infrastructure returns the coverage of a difference in the infrastructure machine only.
func infrastructure(t *testing.T, current, desired string, ignore ...string) *cover.Coverage {
	t.Helper()
	var ignored []cover.Ignore
	for _, path := range ignore {
		ignored = append(ignored, cover.Ignore{Part: cover.PartInfrastructure, Path: path})
	}
	c, err := cover.New(cover.Machine,
		cover.Objects{Machine: json.RawMessage(machineWithout), Infrastructure: json.RawMessage(current)},
		cover.Objects{Machine: json.RawMessage(machineWithout), Infrastructure: json.RawMessage(desired)}, ignored)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func machine(version string) cover.Objects {
	return cover.Objects{Machine: json.RawMessage(`{"spec":{"version":"` + version + `"}}`)}
}

func jsonPatch(patch string) cover.Patch {
	return cover.Patch{Type: cover.JSONPatch, Data: []byte(patch)}
}

func asJSON(t interface{ Fatal(args ...any) }, r cover.Result) string {
	errorTexts := make([]string, 0, len(r.Errors))
	for _, err := range r.Errors {
		errorTexts = append(errorTexts, err.Error())
	}
	r.Errors = nil
	data, err := json.MarshalIndent(struct {
		Result cover.Result
		Errors []string
	}{r, errorTexts}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
