package chain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestCheckList(t *testing.T) {
	older := func(v string) string {
		return "it must be newer than " + v + ", or another build of it: list the versions from old to new, each once"
	}
	tests := map[string]struct {
		list []version.Version
		want []chain.ItemRefusal
	}{
		"empty":               {},
		"one":                 {list: vs("v1.31.2")},
		"increasing":          {list: vs(listed)},
		"without a v":         {list: vs("1.31.2 v1.32.0")},
		"candidates":          {list: vs("v1.31.0-rc.1 v1.31.0 v1.32.0-alpha.1")},
		"builds in any order": {list: vs("v1.31.0+b v1.31.0+a v1.32.0")},
		"numbered builds":     {list: vs("v1.31.0+2 v1.31.0+1"), want: []chain.ItemRefusal{{1, older("v1.31.0+2")}}},
		"twice":               {list: vs("v1.31.0 v1.31.0"), want: []chain.ItemRefusal{{1, older("v1.31.0")}}},
		"back":                {list: vs("v1.31.0 v1.32.0 v1.31.1"), want: []chain.ItemRefusal{{2, older("v1.32.0")}}},
		"back over a build":   {list: vs("v1.31.0+a v1.31.0+b v1.31.0+a"), want: []chain.ItemRefusal{{2, older("v1.31.0+a")}}},
		"a gap":               {list: vs("v1.31.0 v1.33.0"), want: []chain.ItemRefusal{{1, "the control plane moves one minor at a time: put a v1.32 version before it"}}},
		"another major": {
			list: vs("v1.31.0 v2.0.0 v2.1.0"),
			want: []chain.ItemRefusal{{1, "no upgrade between major versions is defined, and v1.31.0 stands before it: use a ClusterClass for each"}},
		},
		"the same minor of another major": {
			list: vs("v1.31.0 v2.31.0"),
			want: []chain.ItemRefusal{{1, "no upgrade between major versions is defined, and v1.31.0 stands before it: use a ClusterClass for each"}},
		},
		"unreadable items are passed over": {
			list: []version.Version{{}, parsed("v1.31.0"), {}, parsed("v1.33.0"), {}},
			want: []chain.ItemRefusal{{3, "the control plane moves one minor at a time: put a v1.32 version before it"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, chain.CheckList(test.list)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestListsThatPassLeadEverywhere holds that a list without a refusal leads from each of its versions to each that stands after it.
func TestListsThatPassLeadEverywhere(t *testing.T) {
	passed := 0
	check := func(t interface{ Fatalf(string, ...any) }, list []version.Version) {
		if len(chain.CheckList(list)) > 0 {
			return
		}
		passed++
		for i, from := range list {
			for _, to := range list[i:] {
				if _, err := plan.Compute(plan.Request{Inventory: plan.Inventory{ControlPlane: from}, Target: to, Source: plan.VersionList(list)}); err != nil {
					t.Fatalf("%v: from %s to %s: %v", list, from, to, err)
				}
			}
		}
	}
	subsets(lattice, func(list []version.Version) { check(t, list) })
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.SliceOfN(rapid.SampledFrom(lattice), 0, 5).Draw(t, "list")) })
	if passed == 0 {
		t.Error("no list has passed")
	}
}

func TestCheckUses(t *testing.T) {
	list := func(s string) chain.Offer { return chain.Offer{Versions: vs(s)} }
	use := func(name, target, controlPlane string) chain.Use {
		return chain.Use{Cluster: name, Target: parsed(target), ControlPlane: parsed(controlPlane)}
	}
	tests := map[string]struct {
		older, newer chain.Offer
		uses         []chain.Use
		want         []string
	}{
		"nobody":              {older: list(listed), newer: list("v1.31.2")},
		"not in use":          {older: list(listed), newer: list("v1.31.2 v1.32.3"), uses: []chain.Use{use("a/c", "v1.31.2", "v1.31.2")}},
		"in use":              {older: list(listed), newer: list("v1.32.3"), uses: []chain.Use{use("a/c", "v1.31.2", "v1.31.2")}, want: []string{"v1.31.2 is the version of Cluster a/c: keep it in the list until then"}},
		"spelled without a v": {older: list("v1.31.2"), newer: list("1.31.2"), uses: []chain.Use{use("a/c", "v1.31.2", "v1.31.2")}},
		"the list goes":       {older: list(listed), uses: []chain.Use{use("a/c", "v1.31.2", "v1.31.2")}},
		"bounded and sorted": {
			older: list(listed), newer: list("v1.34.1"),
			uses: []chain.Use{
				use("a/3", "v1.31.2", ""), use("a/2", "v1.31.2", ""), use("b/1", "v1.31.2", ""), use("a/1", "v1.31.2", ""), use("a/5", "v1.31.2", ""), use("a/4", "v1.31.2", ""), use("z/1", "v1.30.1", ""),
			},
			want: []string{
				"v1.30.1 is the version of Cluster z/1: keep it in the list until then",
				"v1.31.2 is the version of Clusters a/1, a/2, a/3, a/4, a/5 and 1 more: keep it in the list until then",
			},
		},
		"the way is lost": {
			older: list(listed), newer: list("v1.31.2 v1.33.0 v1.34.1"), uses: []chain.Use{use("a/c", "v1.33.0", "v1.31.2")},
			want: []string{"it leaves no way from v1.31.2 to v1.33.0, which is ahead of Cluster a/c: keep the versions on that way until it is done"},
		},
		"another way is left":       {older: list("v1.31.2 v1.32.3 v1.32.4 v1.33.0"), newer: list("v1.31.2 v1.32.3 v1.33.0"), uses: []chain.Use{use("a/c", "v1.33.0", "v1.31.2")}},
		"the start is not needed":   {older: list(listed), newer: list("v1.32.3 v1.33.0"), uses: []chain.Use{use("a/c", "v1.33.0", "v1.31.2")}},
		"the way was lost before":   {older: list("v1.31.2 v1.33.0"), newer: list("v1.33.0"), uses: []chain.Use{use("a/c", "v1.33.0", "v1.31.2")}},
		"an extension takes over":   {older: list(listed), newer: chain.Offer{Extension: true}, uses: []chain.Use{use("a/c", "v1.33.0", "v1.31.2")}},
		"a target that is no value": {older: list(listed), newer: list("v1.33.0"), uses: []chain.Use{use("a/c", "", "v1.31.2")}},
		"the list goes on the way": {
			older: list(listed), uses: []chain.Use{use("a/c", "v1.33.0", "v1.31.2")},
			want: []string{"it leaves no way from v1.31.2 to v1.33.0, which is ahead of Cluster a/c: keep the versions on that way until it is done"},
		},
		"builds change places": {
			older: list("v1.31.2+a v1.31.2+b"), newer: list("v1.31.2+b v1.31.2+a"),
			uses: []chain.Use{use("a/c", "v1.31.2+b", "v1.31.2+a"), use("a/d", "v1.31.2+a", "v1.31.2+a")},
			want: []string{"it leaves no way from v1.31.2+a to v1.31.2+b, which is ahead of Cluster a/c: keep the versions on that way until it is done"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := append([]string{}, test.want...)
			if diff := cmp.Diff(want, chain.CheckUses(test.older, test.newer, test.uses)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCheckUsesIsBounded holds that no number of Clusters gives more than a person can read.
func TestCheckUsesIsBounded(t *testing.T) {
	var uses []chain.Use
	for _, at := range vs("v1.30.0 v1.30.1 v1.30.2 v1.30.3 v1.30.4 v1.30.5 v1.30.6 v1.30.7 v1.30.8 v1.30.9 v1.30.10 v1.30.11") {
		uses = append(uses, chain.Use{Cluster: "a/" + at.String(), Target: at})
	}
	if got := chain.CheckUses(chain.Offer{}, chain.Offer{Versions: vs("v1.31.0")}, uses); len(got) != 10 {
		t.Errorf("%d sentences", len(got))
	}
}
