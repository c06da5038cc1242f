package chain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// parsed parses a version; an empty string gives none.
func parsed(s string) version.Version {
	if s == "" {
		return version.Version{}
	}
	return version.MustParse(s)
}

// vs parses a list of versions separated by spaces.
func vs(s string) []version.Version {
	var list []version.Version
	for item := range strings.FieldsSeq(s) {
		list = append(list, version.MustParse(item))
	}
	return list
}

// runs is an Inventory: the control plane, then the groups.
func runs(controlPlane string, groups ...string) plan.Inventory {
	inventory := plan.Inventory{ControlPlane: parsed(controlPlane)}
	for i, g := range groups {
		inventory.Groups = append(inventory.Groups, plan.Group{Name: fmt.Sprintf("md-%d", i), Version: parsed(g)})
	}
	return inventory
}

const listed = "v1.30.1 v1.31.2 v1.31.5 v1.32.3 v1.33.0 v1.34.1"

// refusalOf is what a test compares.
func refusalOf(r *chain.Refusal) string {
	if r == nil {
		return ""
	}
	return string(r.Rule) + ": " + r.Message()
}

func TestCheckVersion(t *testing.T) {
	tests := map[string]struct {
		offer chain.Offer
		at    string
		want  string
	}{
		"no list":               {at: "v1.31.2"},
		"listed":                {offer: chain.Offer{Versions: vs(listed)}, at: "v1.31.2"},
		"listed without a v":    {offer: chain.Offer{Versions: vs("1.31.2")}, at: "v1.31.2"},
		"extension":             {offer: chain.Offer{Extension: true}, at: "v1.31.2"},
		"another build":         {offer: chain.Offer{Versions: vs("v1.31.2+a")}, at: "v1.31.2+b", want: "NotListed: the ClusterClass does not list it in spec.kubernetesVersions; accepted: v1.31.2+a"},
		"not listed":            {offer: chain.Offer{Versions: vs("v1.31.2 v1.32.0")}, at: "v1.31.3", want: "NotListed: the ClusterClass does not list it in spec.kubernetesVersions; accepted: v1.31.2, v1.32.0"},
		"a list, and extension": {offer: chain.Offer{Versions: vs("v1.31.2"), Extension: true}, at: "v1.31.3", want: "NotListed: the ClusterClass does not list it in spec.kubernetesVersions; accepted: v1.31.2"},
		"a long list": {
			offer: chain.Offer{Versions: vs("v1.31.0 v1.31.1 v1.31.2 v1.31.3 v1.31.4 v1.31.5 v1.31.6 v1.31.7 v1.31.8 v1.31.9 v1.31.10 v1.31.11")}, at: "v1.31.12",
			want: "NotListed: the ClusterClass does not list it in spec.kubernetesVersions; accepted: v1.31.0, v1.31.1, v1.31.2, v1.31.3, v1.31.4, v1.31.5, v1.31.6, v1.31.7, v1.31.8, v1.31.9 and 2 more",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, refusalOf(test.offer.CheckVersion(parsed(test.at)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// stuck is a change of the target while the control plane cannot reach a version. running is what it runs,
// if the step can be taken back.
func stuck(at, running, to string) chain.VersionChange {
	c := chain.VersionChange{From: parsed(at), To: parsed(to), Inventory: runs(at, "v1.32.4"), Upgrading: true, CompletionPending: true}
	if running != "" {
		c.Running = parsed(running)
	}
	return c
}

func TestCheckTarget(t *testing.T) {
	list, extension, neither := chain.Offer{Versions: vs(listed)}, chain.Offer{Extension: true}, chain.Offer{}
	tests := map[string]struct {
		offer  chain.Offer
		change chain.VersionChange
		want   string
	}{
		// Where nothing is under way.
		"next minor":           {neither, chain.VersionChange{From: parsed("v1.30.1"), To: parsed("v1.31.0"), Inventory: runs("v1.30.1", "v1.30.1")}, ""},
		"a patch":              {neither, chain.VersionChange{From: parsed("v1.30.1"), To: parsed("v1.30.9"), Inventory: runs("v1.30.1")}, ""},
		"two minors":           {neither, chain.VersionChange{From: parsed("v1.30.1"), To: parsed("v1.32.0"), Inventory: runs("v1.30.1")}, "NextMinorOnly: it is 2 minors ahead of the control plane at v1.30.1, and nothing says which versions lie between; accepted: v1.30.1 and newer, up to the last v1.31 version"},
		"back":                 {neither, chain.VersionChange{From: parsed("v1.31.1"), To: parsed("v1.31.0"), Inventory: runs("v1.31.1")}, "Downgrade: it is older than the control plane's v1.31.1, and Kubernetes is never downgraded; accepted: v1.31.1 and newer, up to the last v1.32 version"},
		"back to a candidate":  {neither, chain.VersionChange{From: parsed("v1.31.0"), To: parsed("v1.31.0-rc.1"), Inventory: runs("v1.31.0")}, "Downgrade: it is older than the control plane's v1.31.0, and Kubernetes is never downgraded; accepted: v1.31.0 and newer, up to the last v1.32 version"},
		"another major":        {neither, chain.VersionChange{From: parsed("v1.35.0"), To: parsed("v2.36.0"), Inventory: runs("v1.35.0")}, "MajorVersion: the control plane is at v1.35.0, and no upgrade between major versions is defined; accepted: v1.35.0 and newer, up to the last v1.36 version"},
		"a chain":              {list, chain.VersionChange{From: parsed("v1.30.1"), To: parsed("v1.34.1"), Inventory: runs("v1.30.1", "v1.30.1")}, ""},
		"not listed":           {list, chain.VersionChange{From: parsed("v1.33.0"), To: parsed("v1.33.7"), Inventory: runs("v1.33.0")}, "NotListed: the ClusterClass does not list it in spec.kubernetesVersions; accepted: v1.33.0, v1.34.1"},
		"from beyond the list": {list, chain.VersionChange{From: parsed("v1.28.0"), To: parsed("v1.31.2"), Inventory: runs("v1.28.0")}, "MinorMissing: v1.29: the list of versions offers no v1.29 version, and the control plane cannot skip a minor on its way from v1.28.0 to v1.31.2. Fix: add a v1.29 version; accepted: no other version now"},
		"builds in order":      {chain.Offer{Versions: vs("v1.31.0+b v1.31.0+a")}, chain.VersionChange{From: parsed("v1.31.0+b"), To: parsed("v1.31.0+a"), Inventory: runs("v1.31.0+b", "v1.31.0+b")}, ""},
		"builds back":          {chain.Offer{Versions: vs("v1.31.0+b v1.31.0+a")}, chain.VersionChange{From: parsed("v1.31.0+a"), To: parsed("v1.31.0+b"), Inventory: runs("v1.31.0+a", "v1.31.0+a")}, "Downgrade: their builds are words without an order, and the list of versions puts it before the control plane's v1.31.0+a, and Kubernetes is never downgraded; accepted: v1.31.0+a"},
		"extension, far":       {extension, chain.VersionChange{From: parsed("v1.30.1"), To: parsed("v1.40.0"), Inventory: runs("v1.30.1", "v1.30.1")}, ""},
		"extension, back":      {extension, chain.VersionChange{From: parsed("v1.31.1"), To: parsed("v1.30.1"), Inventory: runs("v1.31.1")}, "Downgrade: it is older than the control plane's v1.31.1, and Kubernetes is never downgraded; accepted: a version that is not older than v1.31.1, nor than any group of workers"},
		"extension, build":     {extension, chain.VersionChange{From: parsed("v1.31.1+a"), To: parsed("v1.31.1+b"), Inventory: runs("v1.31.1+a")}, ""},
		"being created":        {list, chain.VersionChange{From: parsed("v1.30.1"), To: parsed("v1.31.2"), Inventory: runs("v1.30.1"), Provisioning: true}, "Provisioning: the control plane is being created with v1.30.1 and has reported no version yet; accepted: the present target, until it has"},
		// A step that no machine has joined at.
		"taken back":              {neither, stuck("v1.33.99", "v1.32.4", "v1.33.5"), ""},
		"taken back to what runs": {neither, stuck("v1.33.99", "v1.33.5", "v1.33.5"), ""},
		"taken back below what runs": {neither, stuck("v1.33.99", "v1.33.5", "v1.33.4"), "Downgrade: it is older than the control plane's v1.33.99, and Kubernetes is never downgraded; " +
			"accepted: v1.33.99 and newer, up to the last v1.34 version; or, since no machine has joined at v1.33.99, v1.33.5 and newer, up to the last v1.34 version"},
		"through another patch": {chain.Offer{Versions: vs("v1.32.4 v1.33.5 v1.34.1")}, stuck("v1.33.99", "v1.32.4", "v1.34.1"), ""},
		"a machine has joined":  {neither, stuck("v1.33.99", "", "v1.33.5"), "Downgrade: it is older than the control plane's v1.33.99, and Kubernetes is never downgraded; accepted: v1.33.99 and newer, up to the last v1.34 version"},
		"with an extension":     {extension, stuck("v1.33.99", "v1.32.4", "v1.33.5"), ""},
		"with an extension, below what runs": {extension, stuck("v1.33.99", "v1.33.5", "v1.33.4"), "Downgrade: it is older than the control plane's v1.33.99, and Kubernetes is never downgraded; " +
			"accepted: a version that is not older than v1.33.99, nor than any group of workers; or, since no machine has joined at v1.33.99, not older than v1.33.5"},
		"with an extension, a machine has joined": {extension, stuck("v1.33.99", "", "v1.33.5"), "Downgrade: it is older than the control plane's v1.33.99, and Kubernetes is never downgraded; accepted: a version that is not older than v1.33.99, nor than any group of workers"},
		// In the middle of an upgrade.
		"farther":                    {list, chain.VersionChange{From: parsed("v1.33.0"), To: parsed("v1.34.1"), Inventory: runs("v1.31.5", "v1.30.1")}, ""},
		"nearer":                     {list, chain.VersionChange{From: parsed("v1.34.1"), To: parsed("v1.32.3"), Inventory: runs("v1.31.5", "v1.30.1")}, ""},
		"not begun":                  {list, chain.VersionChange{From: parsed("v1.34.1"), To: parsed("v1.31.2"), Inventory: runs("v1.30.1", "v1.30.1")}, ""},
		"to where it is":             {list, chain.VersionChange{From: parsed("v1.34.1"), To: parsed("v1.31.5"), Inventory: runs("v1.31.5", "v1.30.1")}, ""},
		"below where it is":          {list, chain.VersionChange{From: parsed("v1.34.1"), To: parsed("v1.31.2"), Inventory: runs("v1.31.5", "v1.30.1")}, "Downgrade: it is older than the control plane's v1.31.5, and Kubernetes is never downgraded; accepted: v1.31.5, v1.32.3, v1.33.0, v1.34.1"},
		"neither, from the step":     {neither, chain.VersionChange{From: parsed("v1.31.0"), To: parsed("v1.31.4"), Inventory: runs("v1.30.1", "v1.30.1")}, ""},
		"neither, beyond the step":   {neither, chain.VersionChange{From: parsed("v1.31.0"), To: parsed("v1.32.0"), Inventory: runs("v1.30.1", "v1.30.1")}, "NextMinorOnly: it is 2 minors ahead of the control plane at v1.30.1, and nothing says which versions lie between; accepted: v1.30.1 and newer, up to the last v1.31 version"},
		"neither, in its last step":  {neither, chain.VersionChange{From: parsed("v1.31.0"), To: parsed("v1.32.0"), Inventory: runs("v1.31.0", "v1.30.1"), Upgrading: true, CompletionPending: true}, ""},
		"a group ahead of it":        {list, chain.VersionChange{From: parsed("v1.34.1"), To: parsed("v1.31.2"), Inventory: runs("v1.31.2", "v1.31.5")}, "Downgrade: group \"md-0\" v1.31.5: it is newer than the target v1.31.2, and kubelets are never downgraded. Fix: choose a target that is not older than v1.31.5; accepted: v1.31.5, v1.32.3, v1.33.0, v1.34.1"},
		"extension, a group ahead":   {extension, chain.VersionChange{From: parsed("v1.34.1"), To: parsed("v1.31.2"), Inventory: runs("v1.31.2", "v1.31.5")}, "Downgrade: group \"md-0\" v1.31.5: it is newer than the target v1.31.2, and kubelets are never downgraded; accepted: a version that is not older than v1.31.2, nor than any group of workers"},
		"a group too far behind":     {list, chain.VersionChange{From: parsed("v1.33.0"), To: parsed("v1.34.1"), Inventory: runs("v1.33.0", "v1.29.0")}, "VersionSkew: group \"md-0\" v1.29.0: it lags 4 minors behind the control plane at v1.33.0: kubelet may lag 3 minors. Fix: move this group to v1.30 or newer first; accepted: no other version now"},
		"neither, a group behind":    {neither, chain.VersionChange{From: parsed("v1.33.0"), To: parsed("v1.36.0"), Inventory: runs("v1.33.0", "v1.29.0")}, "VersionSkew: group \"md-0\" v1.29.0: it lags 4 minors behind the control plane at v1.33.0: kubelet may lag 3 minors. Fix: move this group to v1.30 or newer first; accepted: no other version now"},
		"extension and list, listed": {chain.Offer{Versions: vs(listed), Extension: true}, chain.VersionChange{From: parsed("v1.28.0"), To: parsed("v1.34.1"), Inventory: runs("v1.28.0")}, ""},
		"extension and list, other":  {chain.Offer{Versions: vs(listed), Extension: true}, chain.VersionChange{From: parsed("v1.33.0"), To: parsed("v1.35.0"), Inventory: runs("v1.33.0")}, "NotListed: the ClusterClass does not list it in spec.kubernetesVersions; accepted: v1.33.0, v1.34.1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, refusalOf(test.offer.CheckTarget(test.change))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWarning(t *testing.T) {
	list := chain.Offer{Versions: vs(listed)}
	extension := chain.Offer{Extension: true}
	tests := map[string]struct {
		offer  chain.Offer
		change chain.VersionChange
		want   string
	}{
		"settled":      {list, chain.VersionChange{From: parsed("v1.30.1"), To: parsed("v1.31.0"), Inventory: runs("v1.30.1", "v1.30.1")}, ""},
		"unread":       {list, chain.VersionChange{To: parsed("v1.31.0"), Inventory: runs("v1.30.1", "v1.30.1")}, ""},
		"hook pending": {list, chain.VersionChange{From: parsed("v1.30.1"), To: parsed("v1.31.0"), Inventory: runs("v1.30.1", "v1.30.1"), CompletionPending: true}, "the upgrade to v1.30.1 is done but for the AfterClusterUpgrade hook: the upgrade to v1.31.0 begins when that has completed"},
		"on its way":   {list, chain.VersionChange{From: parsed("v1.32.1"), To: parsed("v1.33.0"), Inventory: runs("v1.31.1", "v1.30.1"), CompletionPending: true}, "the upgrade to v1.32.1 is under way: the steps that have begun are finished, one that something holds is cancelled, and the upgrade continues from v1.31.1 to v1.33.0"},
		"taken back": {chain.Offer{}, stuck("v1.33.99", "v1.32.4", "v1.33.5"), "no machine has joined at v1.33.99: the step to it is taken back, and the upgrade goes from v1.32.4 to v1.33.5. " +
			"The step stays while one of its machines has a host: the condition TopologyReconciled says why"},
		"taken back by an extension": {
			extension, stuck("v1.33.99", "v1.32.4", "v1.33.5"), "no machine has joined at v1.33.99: the step to it is taken back, and the upgrade goes from v1.32.4 to v1.33.5. " +
				"The step stays while one of its machines has a host: the condition TopologyReconciled says why. It is not checked here that the extension has a plan from v1.32.4 that leaves out v1.33.99; without one the step stays",
		},
		"last step": {list, chain.VersionChange{From: parsed("v1.32.1"), To: parsed("v1.33.0"), Inventory: runs("v1.32.1"), Upgrading: true}, "the upgrade to v1.32.1 is under way: the step of the control plane to v1.32.1 is finished, then the upgrade continues from there to v1.33.0"},
		"workers":   {list, chain.VersionChange{From: parsed("v1.32.1"), To: parsed("v1.33.0"), Inventory: runs("v1.32.1", "v1.31.1")}, "the upgrade to v1.32.1 is under way: the steps that have begun are finished, one that something holds is cancelled, and the upgrade continues from v1.32.1 to v1.33.0"},
		// Held before it has begun.
		"not begun":       {list, chain.VersionChange{From: parsed("v1.32.1"), To: parsed("v1.33.0"), Inventory: runs("v1.31.1", "v1.31.1")}, "the upgrade to v1.32.1 has not begun: one from v1.31.1 to v1.33.0 takes its place"},
		"cancelled":       {list, chain.VersionChange{From: parsed("v1.32.1"), To: parsed("v1.31.1"), Inventory: runs("v1.31.1", "v1.31.1")}, "the upgrade to v1.32.1 has not begun: it is cancelled, and the Cluster stays at v1.31.1"},
		"begun by a hook": {list, chain.VersionChange{From: parsed("v1.32.1"), To: parsed("v1.33.0"), Inventory: runs("v1.31.1", "v1.31.1"), CompletionPending: true}, "the upgrade to v1.32.1 is under way: the steps that have begun are finished, one that something holds is cancelled, and the upgrade continues from v1.31.1 to v1.33.0"},
		// To where the control plane is.
		"ends early":              {list, chain.VersionChange{From: parsed("v1.33.0"), To: parsed("v1.32.1"), Inventory: runs("v1.32.1", "v1.31.1"), CompletionPending: true}, "the upgrade to v1.33.0 is under way: the control plane stays at v1.32.1, workers follow, and the upgrade ends there"},
		"ends early, in its step": {list, chain.VersionChange{From: parsed("v1.33.0"), To: parsed("v1.32.1"), Inventory: runs("v1.32.1", "v1.31.1"), Upgrading: true}, "the upgrade to v1.33.0 is under way: the step of the control plane to v1.32.1 is finished, workers follow, and the upgrade ends there"},
		// An extension knows the way, and is not asked.
		"extension":             {extension, chain.VersionChange{From: parsed("v1.33.0"), To: parsed("v1.40.0"), Inventory: runs("v1.32.1"), Upgrading: true}, "the upgrade to v1.33.0 is under way: the step of the control plane to v1.32.1 is finished, then the upgrade continues from there to v1.40.0. It is not checked here that a plan to v1.40.0 exists; `windlass plan CLUSTER --to v1.40.0` checks it"},
		"extension, ends early": {extension, chain.VersionChange{From: parsed("v1.33.0"), To: parsed("v1.32.1"), Inventory: runs("v1.32.1", "v1.31.1")}, "the upgrade to v1.33.0 is under way: the control plane stays at v1.32.1, workers follow, and the upgrade ends there"},
		"extension, settled":    {extension, chain.VersionChange{From: parsed("v1.32.1"), To: parsed("v1.40.0"), Inventory: runs("v1.32.1")}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.offer.Warning(test.change)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// subsets calls visit with every subset of all, in the order of all.
func subsets(all []version.Version, visit func([]version.Version)) {
	for bits := range 1 << len(all) {
		var subset []version.Version
		for i, item := range all {
			if bits&(1<<i) != 0 {
				subset = append(subset, item)
			}
		}
		visit(subset)
	}
}

// lattice has a candidate, and builds with and without an order.
var lattice = vs("v1.30.0 v1.31.0-rc.1 v1.31.0 v1.32.0+1 v1.32.0+2 v1.32.0+a v1.32.0+b v1.33.0")

// TestSweep holds for every list that can be made of the lattice, every place of the control plane and two groups, every old
// target and every new one: what is accepted has a way, what has a way is accepted, and nothing ever goes back.
func TestSweep(t *testing.T) {
	accepted, refused := 0, 0
	sweep := func(offer chain.Offer, source plan.Source) {
		for _, controlPlane := range lattice {
			for _, a := range lattice {
				for _, b := range []version.Version{controlPlane, lattice[0]} {
					inventory := plan.Inventory{ControlPlane: controlPlane, Groups: []plan.Group{{Name: "a", Version: a}, {Name: "b", Version: b}}}
					for _, to := range lattice {
						refusal := offer.CheckTarget(chain.VersionChange{From: lattice[len(lattice)-1], To: to, Inventory: inventory})
						checkSweep(t, offer, source, inventory, to, refusal)
						if refusal == nil {
							accepted++
						} else {
							refused++
						}
					}
				}
			}
		}
	}
	sweep(chain.Offer{Extension: true}, nil)
	subsets(lattice, func(list []version.Version) {
		if len(list) == 0 {
			sweep(chain.Offer{}, plan.NextMinor{})
			return
		}
		sweep(chain.Offer{Versions: list}, plan.VersionList(list))
	})
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted == 0 || refused == 0 {
		t.Error("the sweep decides nothing")
	}
}

func checkSweep(t *testing.T, offer chain.Offer, source plan.Source, inventory plan.Inventory, to version.Version, refusal *chain.Refusal) {
	t.Helper()
	back := version.Compare(to, inventory.ControlPlane) == version.Less ||
		slices.ContainsFunc(inventory.Groups, func(g plan.Group) bool { return version.Compare(to, g.Version) == version.Less })
	legal := !back
	if !offer.Extension {
		_, err := plan.Compute(plan.Request{Inventory: inventory, Target: to, Source: source})
		legal = err == nil && (len(offer.Versions) == 0 || slices.Contains(offer.Versions, to))
	}
	switch {
	case legal != (refusal == nil):
		t.Fatalf("%v to %s with %v: legal is %t, and the answer %q", inventory, to, offer, legal, refusalOf(refusal))
	case refusal == nil && back:
		t.Fatalf("%v to %s with %v: it goes back", inventory, to, offer)
	case refusal != nil && (refusal.Problem == "" || refusal.Accepted == "" || refusal.Rule == ""):
		t.Fatalf("%v to %s with %v: the refusal is not complete: %#v", inventory, to, offer, refusal)
	}
}

// TestTheOldTargetIsNoBound holds that what is accepted depends on what runs, not on the target that is given up.
func TestTheOldTargetIsNoBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.SampledFrom(lattice)
		change := chain.VersionChange{From: one.Draw(t, "from"), To: one.Draw(t, "to"), Inventory: plan.Inventory{ControlPlane: one.Draw(t, "control plane")}}
		offer := chain.Offer{Versions: rapid.SliceOf(one).Draw(t, "list"), Extension: rapid.Bool().Draw(t, "extension")}
		other := change
		other.From = one.Draw(t, "another from")
		if diff := cmp.Diff(offer.CheckTarget(change), offer.CheckTarget(other)); diff != "" {
			t.Fatal(diff)
		}
	})
}
