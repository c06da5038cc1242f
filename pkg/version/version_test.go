package version_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/pkg/version"
)

func TestParse(t *testing.T) {
	tests := []struct {
		in, want string
		problem  string
	}{
		{in: "v1.31.2", want: "v1.31.2"},
		{in: "1.31.2", want: "v1.31.2"},
		{in: "v1.32.0-rc.1", want: "v1.32.0-rc.1"},
		{in: "v1.31.2+rke2r1", want: "v1.31.2+rke2r1"},
		{in: "v1.31.2-rc.0+build-7.x", want: "v1.31.2-rc.0+build-7.x"},
		{in: "v1.31.2+a-b", want: "v1.31.2+a-b"},
		{in: "", problem: "it is empty. Fix: write all three numbers"},
		{in: "v", problem: "it is empty"},
		{in: "v1.31", problem: "write all three numbers"},
		{in: "latest", problem: "write all three numbers"},
		{in: "v1.31.2.4", problem: "more than three numbers"},
		{in: "vv1.31.2", problem: "invalid character"},
		{in: " v1.31.2", problem: "invalid character"},
		{in: "v1.031.2", problem: "leading zero"},
		{in: "v1.31.x", problem: "invalid character"},
		{in: "v1.31.2+", problem: "build meta data is empty"},
		{in: "v1.99999999999.0", problem: "out of range"},
		{in: "v0.0.0", problem: "no such release"},
		{in: "v1.31.2+" + strings.Repeat("x", 256), problem: "longer than 256 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := version.Parse(tt.in)
			if tt.problem != "" {
				var parseError *version.ParseError
				if !errors.As(err, &parseError) || !strings.Contains(parseError.Problem, tt.problem) {
					t.Fatalf("Parse(%q) = %v, %v; want a ParseError about %q", tt.in, got, err, tt.problem)
				}
				return
			}
			if err != nil || got.String() != tt.want {
				t.Fatalf("Parse(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

// TestParseAgreesWithTheLibrary compares with the semver library, of which Parse has a short cut.
func TestParseAgreesWithTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(
			rapid.StringMatching(`[0-9]{1,11}\.[0-9]{1,3}\.[0-9]{1,3}`), rapid.StringMatching(`[0-9.]{0,8}`), rapid.StringMatching(`1\.[0-9]{1,2}\.[0-9](-[0a-b1.]{1,3})?(\+[0a-b1.]{1,3})?`),
		).Draw(t, "version")
		want, err := semver.Parse(s)
		got, gotErr := version.Parse(s)
		const outOfRange = 1 << 32
		if accept := err == nil && want.String() != "0.0.0" && want.Major < outOfRange && want.Minor < outOfRange && want.Patch < outOfRange; accept != (gotErr == nil) {
			t.Fatalf("%q: the library says %v, Parse says %v", s, err, gotErr)
		}
		if gotErr == nil && got.String() != "v"+want.String() {
			t.Fatalf("%q is %s to the library and %s to Parse", s, want, got)
		}
	})
}

func TestParseListNamesTheItem(t *testing.T) {
	_, err := version.ParseList([]string{"v1.30.0", "v1.31"})
	var item *version.ItemError
	if !errors.As(err, &item) || item.Index != 1 {
		t.Fatalf("got %v; want an ItemError for item 1", err)
	}
}

func TestParseMinor(t *testing.T) {
	for in, want := range map[string]string{"v1.31": "v1.31", "1.31": "v1.31"} {
		if got, err := version.ParseMinor(in); err != nil || got.String() != want {
			t.Errorf("ParseMinor(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "v1", "v1.31.2", "v1.x", "v1.31-rc", "v1.-3", strings.Repeat("1", 300)} {
		var parseError *version.ParseError
		if got, err := version.ParseMinor(in); !errors.As(err, &parseError) {
			t.Errorf("ParseMinor(%q) = %v, %v; want a ParseError", in, got, err)
		}
	}
}

func TestCompare(t *testing.T) {
	tests := []struct {
		a, b string
		want version.Ordering
	}{
		{"v1.31.2", "v1.31.2", version.Equal},
		{"v1.31.2", "1.31.2", version.Equal},
		{"v1.30.9", "v1.31.0", version.Less},
		{"v1.35.0", "v2.36.0", version.Less},
		{"v2.0.0", "v1.99.0", version.Greater},
		{"v1.32.0-rc.1", "v1.32.0", version.Less},
		{"v1.32.0-rc.2", "v1.32.0-rc.10", version.Less},
		{"v1.32.0-alpha.1", "v1.32.0-beta.0", version.Less},
		{"v1.31.2+vmware.1", "v1.31.2+vmware.2", version.Less},
		{"v1.31.2+vmware.10", "v1.31.2+vmware.9", version.Greater},
		{"v1.31.2", "v1.31.2+rke2r1", version.Less},
		{"v1.31.2+vmware", "v1.31.2+vmware.1", version.Less},
		{"v1.31.2+1", "v1.31.2+rke2r1", version.Less},
		{"v1.31.2+rke2r2", "v1.31.2+rke2r10", version.Less},
		{"v1.31.2+rke2r1", "v1.31.2+k3s1", version.Unordered},
		{"v1.31.2+rke2rc1", "v1.31.2+rke2rc2", version.Unordered},
		{"v1.31.2+a.1", "v1.31.2+b.0", version.Unordered},
		{"v1.31.2+20260101000000000000000001", "v1.31.2+20260101000000000000000000", version.Greater},
		{"v1.31.2+01", "v1.31.2+1", version.Equal},
		{"v1.31.3+rke2r1", "v1.31.2+rke2r2", version.Greater},
	}
	for _, tt := range tests {
		a, b := version.MustParse(tt.a), version.MustParse(tt.b)
		if got := version.Compare(a, b); got != tt.want {
			t.Errorf("Compare(%s, %s) = %d, want %d", a, b, got, tt.want)
		}
	}
}

// anyVersion draws versions whose parts collide often, so that comparisons meet every case.
func anyVersion() *rapid.Generator[version.Version] {
	return rapid.Custom(func(t *rapid.T) version.Version {
		s := rapid.StringMatching(`v1\.(29|30)\.[01]((-(rc|alpha)\.[0-2])?(\+(rke2r[12]|vmware\.[012]|[0-2]|k0s\.[01]|a|b))?|-(k0s\.[01]|eks-1-33-(9|17)|a))`).Draw(t, "version")
		return version.MustParse(s)
	})
}

func TestCompareIsAntisymmetric(t *testing.T) {
	mirror := map[version.Ordering]version.Ordering{
		version.Less: version.Greater, version.Greater: version.Less, version.Equal: version.Equal, version.Unordered: version.Unordered,
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyVersion().Draw(t, "a"), anyVersion().Draw(t, "b")
		ab, ba := version.Compare(a, b), version.Compare(b, a)
		if ba != mirror[ab] {
			t.Fatalf("Compare(%s, %s) = %d but Compare(%s, %s) = %d", a, b, ab, b, a, ba)
		}
		// Builds that are spelled in two ways are equal.
		plus := func(v version.Version) string {
			return strings.NewReplacer("-k0s", "+k0s", "-a", "+a").Replace(v.String())
		}
		if (plus(a) == plus(b)) != (ab == version.Equal) {
			t.Fatalf("%s == %s is %t but Compare gives %d", a, b, a == b, ab)
		}
		if ab == version.Unordered && !a.SameRelease(b) {
			t.Fatalf("%s and %s are of different releases and yet Unordered", a, b)
		}
	})
}

func TestCompareIsTransitiveWhereItOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyVersion().Draw(t, "a"), anyVersion().Draw(t, "b"), anyVersion().Draw(t, "c")
		if version.Compare(a, b) == version.Less && version.Compare(b, c) == version.Less {
			if got := version.Compare(a, c); got != version.Less {
				t.Fatalf("%s < %s < %s, but Compare(%s, %s) = %d", a, b, c, a, c, got)
			}
		}
	})
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyVersion().Draw(t, "version")
		text, err := json.Marshal(map[string]version.Version{"v": want})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]version.Version
		if err := json.Unmarshal(text, &got); err != nil || got["v"] != want {
			t.Fatalf("%s came back as %v, %v", want, got, err)
		}
	})
	var none version.Version
	if err := json.Unmarshal([]byte(`""`), &none); err != nil || !none.IsZero() || none.String() != "" {
		t.Fatalf("an empty text gave %q, %v; want the zero Version", none, err)
	}
}

func TestMinorLag(t *testing.T) {
	minor := func(s string) version.Minor { return version.MustParse(s + ".0").Minor() }
	tests := []struct {
		m, ahead string
		lag      uint32
		ok       bool
	}{
		{"1.30", "1.33", 3, true},
		{"1.33", "1.33", 0, true},
		{"1.34", "1.33", 0, false},
		{"1.35", "2.36", 0, false},
	}
	for _, tt := range tests {
		lag, ok := minor(tt.m).Lag(minor(tt.ahead))
		if lag != tt.lag || ok != tt.ok {
			t.Errorf("%s.Lag(%s) = %d, %t; want %d, %t", tt.m, tt.ahead, lag, ok, tt.lag, tt.ok)
		}
	}
}

func TestSkew(t *testing.T) {
	k0s, err := version.FindSkewPolicy("k0s")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Kubelet, ControlPlane uint32
		Allowed               bool
	}
	tests := map[string]struct {
		policy version.SkewPolicy
		rows   []row
	}{
		"kubernetes": {version.KubernetesSkew(), []row{
			{25, 28, true}, {24, 27, false}, {24, 26, true}, {25, 29, false}, {30, 33, true}, {30, 34, false}, {33, 33, true}, {34, 33, false},
		}},
		"k0s": {k0s, []row{{35, 36, true}, {34, 36, false}, {32, 35, true}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []row
			for _, r := range tt.rows {
				r.Allowed = tt.policy.Allows(version.Minor{Major: 1, Minor: r.Kubelet}, version.Minor{Major: 1, Minor: r.ControlPlane})
				got = append(got, r)
			}
			if diff := cmp.Diff(tt.rows, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
	if (version.SkewPolicy{}).Allows(version.Minor{Major: 1, Minor: 29}, version.Minor{Major: 1, Minor: 30}) {
		t.Error("a policy without rules allows a lag")
	}
	if _, err := version.FindSkewPolicy("k3s"); err == nil || !strings.Contains(err.Error(), `["kubernetes" "k0s"]`) {
		t.Errorf("got %v; want an error that lists the policies", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"v1.31.2", "1.32.0-rc.1+x.y", "v1.31", "", "v1.31.2+", "+", "-", "v18446744073709551615.0.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := version.Parse(s)
		if err != nil {
			if !v.IsZero() {
				t.Fatalf("Parse(%q) gave %q and an error", s, v)
			}
			return
		}
		again, err := version.Parse(v.String())
		if err != nil || again != v || version.Compare(v, again) != version.Equal {
			t.Fatalf("Parse(%q) = %q, which parses to %q, %v", s, v, again, err)
		}
	})
}

func TestSorted(t *testing.T) {
	for given, want := range map[string]string{
		"":                                       "",
		"v1.31.2":                                "v1.31.2",
		"v1.32.0 v1.31.2":                        "v1.31.2 v1.32.0",
		"v1.33.0 v1.31.2 v1.32.0 v1.31.2-rc.1":   "v1.31.2-rc.1 v1.31.2 v1.32.0 v1.33.0",
		"v1.31.2+b.x v1.31.2+a.x v1.30.0":        "v1.30.0 v1.31.2+b.x v1.31.2+a.x",
		"v1.31.0 v1.32.0 v1.33.0 v1.34.0":        "v1.31.0 v1.32.0 v1.33.0 v1.34.0",
		"v1.34.0 v1.33.0 v1.32.0 v1.31.0 v1.1.0": "v1.1.0 v1.31.0 v1.32.0 v1.33.0 v1.34.0",
	} {
		var versions []version.Version
		for s := range strings.FieldsSeq(given) {
			versions = append(versions, version.MustParse(s))
		}
		var got []string
		for _, v := range version.Sorted(versions) {
			got = append(got, v.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("Sorted(%s) = %s; want %s", given, got, want)
		}
	}
}

func TestEqual(t *testing.T) {
	tests := []struct {
		a, b               string
		equal, sameRelease bool
	}{
		{"v1.31.2", "v1.31.2", true, true},
		{"v1.31.2", "v1.31.3", false, false},
		{"v1.31.2+b.1", "v1.31.2+b.2", false, true},
		{"v1.31.2-rc.1+b.1", "v1.31.2-rc.1+b.2", false, true},
		{"v1.33.5-eks-1-33-9", "v1.33.5-eks-1-33-17", false, true},
		{"v1.33.5-eks-1-33-9", "v1.33.5", false, true},
		{"v1.31.2-rc.1", "v1.31.2-rc.2", false, false},
		{"v1.31.2-rc.1", "v1.31.2", false, false},
	}
	for _, tt := range tests {
		a, b := version.MustParse(tt.a), version.MustParse(tt.b)
		if a.Equal(b) != tt.equal || a.SameRelease(b) != tt.sameRelease {
			t.Errorf("%s and %s: Equal %t, SameRelease %t; want %t, %t",
				a, b, a.Equal(b), a.SameRelease(b), tt.equal, tt.sameRelease)
		}
	}
}

func TestMinorText(t *testing.T) {
	var got version.Minor
	if err := got.UnmarshalText([]byte("v1.31")); err != nil || got.String() != "v1.31" {
		t.Errorf("v1.31 came back as %s, %v", got, err)
	}
	if err := got.UnmarshalText([]byte("v1.32.1")); err == nil || got.String() != "v1.31" {
		t.Errorf("v1.32.1 came back as %s, %v; want an error and the minor unchanged", got, err)
	}
}
