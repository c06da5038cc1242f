package chain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestAnyState decides on whatever may be read. Nothing panics, the same State gives the same Decision, the State stays as it is, and what
// is decided makes sense by itself.
func TestAnyState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		before := fmt.Sprintf("%+v", s)
		d := chain.Decide(s, now)
		if diff := cmp.Diff(d, chain.Decide(s, now)); diff != "" {
			t.Fatalf("the same State gives another Decision:\n%s", diff)
		}
		if after := fmt.Sprintf("%+v", s); after != before {
			t.Fatalf("the State is changed:\n%s\n%s", before, after)
		}
		if d.Action == nil || d.Reason == "" || d.Message == "" || strings.Contains(d.Message, "%!") {
			t.Fatalf("an incomplete decision: %+v", d)
		}
		if !d.Objects.Leave && len(d.Objects.Groups) != len(s.Groups) {
			t.Fatalf("%d groups, and objects for %d", len(s.Groups), len(d.Objects.Groups))
		}
		if wait, ok := d.Action.(chain.Wait); ok && !wait.Until.IsZero() && !wait.Until.After(now) {
			t.Fatalf("a wait until the past: %+v", d)
		}
		if c := chain.Describe(s, d); c.Reason == "" || c.True != (c.Message == "") {
			t.Fatalf("a condition that says nothing, or says something of success: %+v", c)
		}
		recorded := chain.Recorded{Pending: s.Pending, Intent: s.Intent}
		once := chain.Record{Add: []chain.Hook{chain.AfterClusterUpgrade}, ChainTarget: s.Target}.Apply(recorded, s.ControlPlane.Version, now)
		if twice := (chain.Record{}).Apply(once, s.ControlPlane.Version, now); !twice.Equal(once) {
			t.Fatalf("an empty record changes something:\n%+v\n%+v", once, twice)
		}
	})
}

func drawState(t *rapid.T) chain.State {
	versions := []version.Version{
		{}, v(28), v(30), v(31), v(32), v(33), v(40), version.MustParse("v2.0.0"), version.MustParse("v1.31.2+rke2r1"), version.MustParse("v1.31.2+rke2r2"),
		version.MustParse("v1.32.0-rc.1"),
	}
	drawVersion := rapid.SampledFrom(versions)
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	hooks := []chain.Hook{
		"", "Unheard", chain.BeforeClusterCreate, chain.AfterControlPlaneInitialized, chain.BeforeClusterUpgrade, chain.BeforeControlPlaneUpgrade,
		chain.AfterControlPlaneUpgrade, chain.BeforeWorkersUpgrade, chain.AfterWorkersUpgrade, chain.AfterClusterUpgrade, chain.BeforeClusterDelete,
	}
	s := chain.State{
		Target: drawVersion.Draw(t, "target"), Begun: flag("begun"), Paused: rapid.IntRange(0, 9).Draw(t, "paused") == 0,
		Deleting: rapid.IntRange(0, 9).Draw(t, "deleting") == 0, OKToDelete: flag("ok"), Initialized: flag("initialized"),
		ControlPlane: chain.ControlPlane{
			Exists: rapid.IntRange(0, 9).Draw(t, "exists") > 0, Provisioned: rapid.IntRange(0, 9).Draw(t, "provisioned") > 0, Version: drawVersion.Draw(t, "control plane"),
			Upgrading: rapid.IntRange(0, 3).Draw(t, "upgrading") == 0, Stamp: drawVersion.Draw(t, "stamp"),
		},
		Concurrency: rapid.IntRange(-1, 4).Draw(t, "concurrency"), ChainTarget: drawVersion.Draw(t, "chain target"), UpgradeStep: drawVersion.Draw(t, "step"),
		Pending: rapid.SliceOfN(rapid.SampledFrom(hooks), 0, 4).Draw(t, "pending"),
		Source: rapid.SampledFrom([]plan.Source{
			nil, plan.NextMinor{}, plan.VersionList(versions), plan.VersionList{}, plan.Response{ControlPlane: versions}, plan.Graph{Versions: versions},
		}).Draw(t, "source"),
	}
	if flag("intent") {
		s.Intent = &chain.Intent{From: drawVersion.Draw(t, "from"), To: drawVersion.Draw(t, "to"), Workers: flag("workers")}
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "groups") {
		s.Groups = append(s.Groups, chain.Group{
			Name: fmt.Sprintf("g%d", i), Kind: rapid.SampledFrom([]plan.GroupKind{plan.MachineDeployment, plan.MachinePool, "", "Unheard"}).Draw(t, "kind"),
			Exists: flag("exists"), Deleting: flag("deleting"), Version: drawVersion.Draw(t, "version"), Oldest: drawVersion.Draw(t, "oldest"),
			Upgrading: flag("upgrading"), Defer: flag("defer"), Hold: flag("hold"), MaxMinorStep: uint32(rapid.IntRange(0, 3).Draw(t, "step")),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "answers") {
		s.Answers = append(s.Answers, chain.Answer{
			Hook: rapid.SampledFrom(hooks).Draw(t, "hook"), Step: drawVersion.Draw(t, "about"), Failed: flag("failed"), Message: "no",
			Until: now.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "until")) * time.Second),
		})
	}
	return s
}
