package upgradegraph_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// match compares plan.Match, which is a comparable value with hidden fields.
var match = cmp.Comparer(func(a, b plan.Match) bool { return a == b })

func versions(items ...v1alpha1.Version) []v1alpha1.Version { return items }

func TestParse(t *testing.T) {
	t.Parallel()
	spec := v1alpha1.UpgradeGraphSpec{
		// The second lacks its v: files are not checked by an API server.
		Versions: versions("v1.30.3", "1.31.2", "v1.31.2+rke2r2", "v1.32.0-rc.1"),
		Classes:  []v1alpha1.ClassReference{{Name: "standard"}},
		Blocked: []v1alpha1.BlockedEdge{
			{From: "v1.30", To: "v1.31.2", Reason: "a"},
			{From: "v1.31.2", Reason: "b"},
			{To: "v1.32", Reason: "c"},
			{From: "v1.31.2", To: "v1.31.2+rke2r2", Reason: "d"},
			{From: "v1.31", To: "v1.31", Reason: "e"},
		},
		Floors: []v1alpha1.Floor{{Before: "v1.32", AtLeast: "v1.31.2", Reason: "f"}, {Before: "v1.40", AtLeast: "v1.39.9", Reason: "g"}},
	}
	want := plan.Graph{
		Versions: []version.Version{
			version.MustParse("v1.30.3"), version.MustParse("v1.31.2"), version.MustParse("v1.31.2+rke2r2"), version.MustParse("v1.32.0-rc.1"),
		},
		Blocked: []plan.BlockedEdge{
			{From: plan.MatchMinor(version.Minor{Major: 1, Minor: 30}), To: plan.MatchVersion(version.MustParse("v1.31.2")), Reason: "a"},
			{From: plan.MatchVersion(version.MustParse("v1.31.2")), Reason: "b"},
			{To: plan.MatchMinor(version.Minor{Major: 1, Minor: 32}), Reason: "c"},
			{From: plan.MatchVersion(version.MustParse("v1.31.2")), To: plan.MatchVersion(version.MustParse("v1.31.2+rke2r2")), Reason: "d"},
			{From: plan.MatchMinor(version.Minor{Major: 1, Minor: 31}), To: plan.MatchMinor(version.Minor{Major: 1, Minor: 31}), Reason: "e"},
		},
		Floors: []plan.Floor{
			{Before: version.Minor{Major: 1, Minor: 32}, AtLeast: version.MustParse("v1.31.2"), Reason: "f"},
			{Before: version.Minor{Major: 1, Minor: 40}, AtLeast: version.MustParse("v1.39.9"), Reason: "g"},
		},
	}
	before := spec.DeepCopy()
	got, err := upgradegraph.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, match); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*before, spec); diff != "" {
		t.Errorf("Parse changed its input (-before +after):\n%s", diff)
	}
}

func TestParseProblems(t *testing.T) {
	t.Parallel()
	some := versions("v1.30.3", "v1.31.2", "v1.31.5", "v1.33.0", "v2.0.0")
	edge := func(from, to v1alpha1.VersionMatch) v1alpha1.UpgradeGraphSpec {
		return v1alpha1.UpgradeGraphSpec{Versions: some, Blocked: []v1alpha1.BlockedEdge{{From: from, To: to, Reason: "r"}}}
	}
	floor := func(before v1alpha1.Minor, atLeast v1alpha1.Version) v1alpha1.UpgradeGraphSpec {
		return v1alpha1.UpgradeGraphSpec{Versions: some, Floors: []v1alpha1.Floor{{Before: before, AtLeast: atLeast, Reason: "r"}}}
	}
	tests := map[string]struct {
		spec v1alpha1.UpgradeGraphSpec
		// want are the problems' beginnings, in order.
		want []string
	}{
		"no versions":            {spec: v1alpha1.UpgradeGraphSpec{}, want: []string{"spec.versions: Required value: list the versions"}},
		"a minor as version":     {spec: v1alpha1.UpgradeGraphSpec{Versions: versions("v1.30.3", "v1.31")}, want: []string{`spec.versions[1]: Invalid value: "v1.31": write all three numbers`}},
		"a version twice":        {spec: v1alpha1.UpgradeGraphSpec{Versions: versions("v1.30.3", "v1.31.2", "1.30.3")}, want: []string{`spec.versions[2]: Duplicate value: "1.30.3"`}},
		"a class without a name": {spec: v1alpha1.UpgradeGraphSpec{Versions: some, Classes: []v1alpha1.ClassReference{{Namespace: "x"}}}, want: []string{"spec.classes[0].name: Required value"}},
		"an edge without ends":   {spec: edge("", ""), want: []string{"spec.blocked[0]: Required value: set from, to, or both"}},
		"an edge without a reason": {
			spec: v1alpha1.UpgradeGraphSpec{Versions: some, Blocked: []v1alpha1.BlockedEdge{{To: "v1.31"}}},
			want: []string{"spec.blocked[0].reason: Required value"},
		},
		"a floor without a reason": {
			spec: v1alpha1.UpgradeGraphSpec{Versions: some, Floors: []v1alpha1.Floor{{Before: "v1.32", AtLeast: "v1.31.2"}}},
			want: []string{"spec.floors[0].reason: Required value"},
		},
		"from does not parse":      {spec: edge("v1.x", ""), want: []string{`spec.blocked[0].from: Invalid value: "v1.x": write a minor release`}},
		"to does not parse":        {spec: edge("", "1"), want: []string{`spec.blocked[0].to: Invalid value: "1": write all three numbers`}},
		"from is not listed":       {spec: edge("v1.31.20", ""), want: []string{`spec.blocked[0].from: Invalid value: "v1.31.20": it matches none of spec.versions`}},
		"to is of no minor listed": {spec: edge("", "v1.32"), want: []string{`spec.blocked[0].to: Invalid value: "v1.32": it matches none of spec.versions`}},
		"an edge over two minors": {
			spec: edge("v1.31", "v1.33.0"),
			want: []string{`spec.blocked[0].to: Invalid value: "v1.33.0": a control plane moves one minor at a time, so no step goes there from v1.31; block the steps to v1.32 or from v1.31`},
		},
		"an edge back":                       {spec: edge("v1.31.5", "v1.31.2"), want: []string{`spec.blocked[0].to: Invalid value: "v1.31.2": it is not newer than v1.31.5`}},
		"an edge to itself":                  {spec: edge("v1.31.5", "v1.31.5"), want: []string{`spec.blocked[0].to: Invalid value: "v1.31.5": it is not newer`}},
		"an edge to an older minor":          {spec: edge("v1.31", "v1.30"), want: []string{`spec.blocked[0].to: Invalid value: "v1.30": it is not newer`}},
		"an edge to another major":           {spec: edge("v1.33", "v2.0.0"), want: []string{`spec.blocked[0].to: Invalid value: "v2.0.0": it is not newer`}},
		"a floor inside its own minor":       {spec: floor("v1.33", "v1.33.0"), want: []string{`spec.floors[0].atLeast: Invalid value: "v1.33.0": it must be of a minor older than v1.33`}},
		"a floor above":                      {spec: floor("v1.33", "v1.34.0"), want: []string{"spec.floors[0].atLeast: Invalid value"}},
		"a floor whose before is a version":  {spec: floor("v1.33.1", "v1.32.0"), want: []string{`spec.floors[0].before: Invalid value: "v1.33.1": write a minor release`}},
		"a floor whose atLeast is a minor":   {spec: floor("v1.33", "v1.32"), want: []string{`spec.floors[0].atLeast: Invalid value: "v1.32": write all three numbers`}},
		"a floor without either":             {spec: floor("", ""), want: []string{"spec.floors[0].before: Invalid value", "spec.floors[0].atLeast: Invalid value"}},
		"a version far too long":             {spec: v1alpha1.UpgradeGraphSpec{Versions: versions(v1alpha1.Version("v1.30.3+" + strings.Repeat("x", 1<<20)))}, want: []string{"spec.versions[0]: Invalid value"}},
		"problems everywhere, all are named": {spec: v1alpha1.UpgradeGraphSpec{Versions: versions("v1.30.3", "x"), Blocked: []v1alpha1.BlockedEdge{{}, {From: "y", Reason: "r"}}, Floors: []v1alpha1.Floor{{Before: "v1.30", AtLeast: "z"}}}, want: []string{"spec.versions[1]: ", "spec.blocked[0]: ", "spec.blocked[0].reason: ", "spec.blocked[1].from: ", "spec.floors[0].reason: ", "spec.floors[0].atLeast: "}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := upgradegraph.Parse(tt.spec)
			var invalid *upgradegraph.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("error is %v, want an InvalidError", err)
			}
			if len(invalid.Problems) != len(tt.want) {
				t.Fatalf("problems are %q, want %d", invalid.Problems, len(tt.want))
			}
			for i, want := range tt.want {
				if got := invalid.Problems[i].Error(); !strings.HasPrefix(got, want) {
					t.Errorf("problem %d is %q, want %q...", i, got, want)
				}
			}
			if len(err.Error()) > 4096 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestInvalidErrorIsBounded(t *testing.T) {
	t.Parallel()
	_, err := upgradegraph.Parse(v1alpha1.UpgradeGraphSpec{Versions: slices.Repeat(versions("nonsense"), 400)})
	if err == nil || !strings.HasSuffix(err.Error(), "; and 395 more") {
		t.Errorf("error is %v, want five problems and 395 more", err)
	}
}

// FuzzParse holds that no graph makes Parse panic, and that what it accepts is planned from without a panic.
func FuzzParse(f *testing.F) {
	f.Add("v1.30.3 v1.31.2", "v1.30.3", "v1.31", "why", "v1.31", "v1.30.3")
	f.Add("1.30.3+a v1.30.3+b", "v1.30.3+a", "1.30.3+b", "", "v1.32", "v1.31.0-rc.1")
	f.Add("", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, listed, from, to, reason, before, atLeast string) {
		spec := v1alpha1.UpgradeGraphSpec{
			Blocked: []v1alpha1.BlockedEdge{{From: v1alpha1.VersionMatch(from), To: v1alpha1.VersionMatch(to), Reason: reason}},
			Floors:  []v1alpha1.Floor{{Before: v1alpha1.Minor(before), AtLeast: v1alpha1.Version(atLeast), Reason: reason}},
		}
		for field := range strings.FieldsSeq(listed) {
			spec.Versions = append(spec.Versions, v1alpha1.Version(field))
		}
		g, err := upgradegraph.Parse(spec)
		if err != nil {
			var invalid *upgradegraph.InvalidError
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
				t.Fatalf("error is %#v, want an InvalidError with problems", err)
			}
			return
		}
		sorted := version.Sorted(g.Versions)
		request := plan.Request{Inventory: plan.Inventory{ControlPlane: sorted[0]}, Target: sorted[len(sorted)-1], Source: g}
		if _, err := plan.Compute(request); err != nil {
			if _, ok := errors.AsType[*plan.Error](err); !ok {
				t.Fatalf("error is %#v, want a plan.Error", err)
			}
		}
	})
}
