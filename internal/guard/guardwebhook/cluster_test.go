package guardwebhook_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var list = []string{"v1.30.1", "v1.31.2", "v1.32.3", "v1.33.0"}

// offers are what classes offer in these tests.
var offers = map[string]cell{
	"neither":            {},
	"list":               {versions: list},
	"extension":          {extension: true},
	"extension and list": {versions: list, extension: true},
}

func unsafely(c *clusterv1.Cluster) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation] = ""
}

func badConcurrency(c *clusterv1.Cluster) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation] = "0"
}

func rebased(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "other" }

func unknownWorkers(c *clusterv1.Cluster) {
	c.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "md", Class: "unknown"}}
}

// states are what Clusters with target v1.31.2 run.
var states = map[string]cell{
	"settled":              {},
	"no workers":           {deployment: "-", pool: "-"},
	"hook pending":         {pending: true},
	"being created":        {reported: "-"},
	"being created, told":  {reported: "-", entries: true},
	"settled, told":        {entries: true},
	"moves, told":          {reported: "v1.30.1", entries: true},
	"not begun":            {controlPlane: "v1.30.1", deployment: "v1.30.1", pool: "v1.30.1"},
	"control plane moves":  {reported: "v1.30.1", deployment: "v1.30.1", pool: "v1.30.1", pending: true},
	"deployment is behind": {deployment: "v1.30.1", pending: true},
	"a machine is behind":  {machine: "v1.30.1", pending: true},
	"pool is behind":       {pool: "v1.30.1", pending: true},
	"workers are far":      {deployment: "v1.29.0", pool: "v1.28.1", pending: true},
	"workers are too far":  {deployment: "v1.27.0", pending: true},
	"builds of it":         {controlPlane: "v1.31.2+a", deployment: "v1.31.2+b"},
	"ahead of the target":  {controlPlane: "v1.32.3", deployment: "v1.32.3", pool: "v1.32.3"},
}

var targets = []string{
	"v1.31.2", "1.31.2", "v1.30.1", "v1.31.1", "v1.31.2-rc.1", "v1.31.2+a", "v1.31.2+b", "v1.31.9", "v1.32.3", "v1.33.0", "v1.34.0", "v2.31.2", "v1.31", "nonsense",
}

var edits = map[string]func(*clusterv1.Cluster){
	"":                func(*clusterv1.Cluster) {},
	"unsafe":          unsafely,
	"bad concurrency": badConcurrency,
	"rebased":         rebased,
	"unknown workers": unknownWorkers,
}

// reachable says by itself whether a legal way leads from what runs to a target.
func reachable(c cell, target string) bool {
	to, err := version.Parse(target)
	if err != nil {
		return false
	}
	inventory := plan.Inventory{ControlPlane: version.MustParse(c.at())}
	deployment := or(c.deployment, c.target)
	if machine := or(c.machine, deployment); deployment != "-" {
		inventory.Groups = append(inventory.Groups, plan.Group{Name: "md", Version: version.MustParse(machine)})
	}
	if pool := or(c.pool, c.target); pool != "-" {
		inventory.Groups = append(inventory.Groups, plan.Group{Name: "mp", Version: version.MustParse(pool)})
	}
	if c.extension {
		back := func(g plan.Group) bool { return version.Compare(to, g.Version) == version.Less }
		return version.Compare(to, inventory.ControlPlane) != version.Less && !slices.ContainsFunc(inventory.Groups, back) &&
			(len(c.versions) == 0 || slices.Contains(c.versions, target))
	}
	request := plan.Request{Inventory: inventory, Target: to}
	if len(c.versions) > 0 {
		listed, err := version.ParseList(c.versions)
		if err != nil {
			panic(err)
		}
		request.Source = plan.VersionList(listed)
	}
	_, err = plan.Compute(request)
	return err == nil && (len(c.versions) == 0 || slices.Contains(c.versions, to.String()))
}

// TestDifferential compares with Cluster API's own webhook: for every state, offer, new version and other change of a Cluster.
//   - What is not about the version is answered the same, to the letter.
//   - The version is answered the same where it does not change, where the annotation is set and where the control plane is being created.
//   - Where nothing is under way, only a version that no legal way leads to is refused beside what Cluster API refuses.
//   - In the middle of an upgrade, what has a legal way is allowed, and nothing else.
func TestDifferential(t *testing.T) {
	counts := map[string]int{}
	for state, runs := range states {
		for offer, offered := range offers {
			runs.target, runs.versions, runs.extension = "v1.31.2", offered.versions, offered.extension
			read := newReader(append(objects("c", runs), class("class", runs), class("other", runs))...)
			for _, target := range targets {
				for edit, apply := range edits {
					before := cluster("c", runs)
					after := before.DeepCopy()
					after.Spec.Topology.Version = target
					apply(after)
					given := after.DeepCopy()
					stockWarnings, stock := (&upstream.Cluster{Client: read, ClusterCacheReader: read}).ValidateUpdate(t.Context(), before, after)
					warnings, err := (&guardwebhook.Cluster{Client: read}).ValidateUpdate(t.Context(), before, after)
					where := strings.Join([]string{state, offer, target, edit}, "/")
					if diff := cmp.Diff(given, after); diff != "" {
						t.Fatalf("%s: the Cluster was changed:\n%s", where, diff)
					}
					if diff := cmp.Diff(without(causes(stock), versionField), without(causes(err), versionField)); diff != "" {
						t.Errorf("%s: other fields than the version are answered differently (-Cluster API +ours):\n%s", where, diff)
					}
					allowed, stockAllowed := causes(err)[versionField] == nil, causes(stock)[versionField] == nil
					verdict := judge(runs, target, edit == "unsafe")
					counts[verdict.rule]++
					want := verdict.want(stockAllowed, reachable(runs, target))
					if allowed != want {
						t.Errorf("%s: %s: allowed is %t, Cluster API's %t, a way exists is %t: %v (%v)", where, verdict.rule, allowed, stockAllowed, reachable(runs, target), err, runs)
					}
					if verdict.rule == "same" {
						if diff := cmp.Diff(stockWarnings, warnings, cmpopts.EquateEmpty()); diff != "" {
							t.Errorf("%s: the warnings differ:\n%s", where, diff)
						}
					}
				}
			}
		}
	}
	t.Logf("%v", counts)
	for _, rule := range []string{"same", "settled", "under way"} {
		if counts[rule] == 0 {
			t.Errorf("no case of %q", rule)
		}
	}
}

type verdict struct {
	rule string
	want func(stock, way bool) bool
}

func judge(runs cell, target string, unsafe bool) verdict {
	same := func(stock, _ bool) bool { return stock }
	to, err := version.Parse(target)
	switch {
	case err != nil, !strings.HasPrefix(target, "v"), unsafe, to == version.MustParse(runs.target), runs.reported == "-":
		return verdict{"same", same}
	case runs.settled():
		return verdict{"settled", func(stock, way bool) bool { return stock && way }}
	default:
		return verdict{"under way", func(_, way bool) bool { return way }}
	}
}

func TestDifferentialOfCreation(t *testing.T) {
	for offer, offered := range offers {
		read := newReader(class("class", offered), class("other", offered))
		for _, target := range targets {
			for edit, apply := range edits {
				created := cluster("c", cell{target: target})
				apply(created)
				stockWarnings, stock := (&upstream.Cluster{Client: read}).ValidateCreate(t.Context(), created)
				warnings, err := (&guardwebhook.Cluster{Client: read}).ValidateCreate(t.Context(), created)
				where := strings.Join([]string{offer, target, edit}, "/")
				if diff := cmp.Diff(without(causes(stock), versionField), without(causes(err), versionField)); diff != "" {
					t.Errorf("%s: other fields than the version are answered differently (-Cluster API +ours):\n%s", where, diff)
				}
				if allowed, stockAllowed := causes(err)[versionField] == nil, causes(stock)[versionField] == nil; allowed != stockAllowed {
					t.Errorf("%s: allowed is %t, Cluster API's %t: %v", where, allowed, stockAllowed, err)
				}
				if diff := cmp.Diff(stockWarnings, warnings, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s: the warnings differ:\n%s", where, diff)
				}
			}
		}
	}
}

// TestClassThatIsNotThere waits as long as Cluster API waits for a class, in a bubble's time, and answers as it does.
func TestClassThatIsNotThere(t *testing.T) {
	broken := errors.New("the API server is away")
	for name, read := range map[string]func() *reader{
		"missing": func() *reader { return newReader(objects("c", cell{target: "v1.31.2"})...) },
		"unreconciled": func() *reader {
			return newReader(append(objects("c", cell{target: "v1.31.2"}), class("class", cell{unreconciled: true}))...)
		},
		"unreadable": func() *reader {
			r := newReader()
			r.fail["ClusterClass"] = broken
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := read()
				before, after := cluster("c", cell{target: "v1.31.2"}), cluster("c", cell{target: "v1.32.3"})
				stockWarnings, stock := (&upstream.Cluster{Client: r, ClusterCacheReader: r}).ValidateUpdate(t.Context(), before, after)
				reads := r.kinds["ClusterClass"]
				warnings, err := (&guardwebhook.Cluster{Client: r}).ValidateUpdate(t.Context(), before, after)
				if diff := cmp.Diff(causes(stock), causes(err)); diff != "" {
					t.Errorf("updates differ:\n%s", diff)
				}
				if diff := cmp.Diff(stockWarnings, warnings, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("warnings of updates differ:\n%s", diff)
				}
				// The last read of a poll may or may not come before its end.
				if got := r.kinds["ClusterClass"] - reads; got > reads+1 {
					t.Errorf("the class was read %d times, by Cluster API %d times", got, reads)
				}
				stockWarnings, stock = (&upstream.Cluster{Client: r}).ValidateCreate(t.Context(), after)
				warnings, err = (&guardwebhook.Cluster{Client: r}).ValidateCreate(t.Context(), after)
				if diff := cmp.Diff(causes(stock), causes(err)); diff != "" {
					t.Errorf("creations differ:\n%s", diff)
				}
				if diff := cmp.Diff(stockWarnings, warnings, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("warnings of creations differ:\n%s", diff)
				}
			})
		})
	}
}

func TestChangedTarget(t *testing.T) {
	const way = "the upgrade to v1.33.0 is under way: the steps that have begun are finished, one that something holds is cancelled, and the upgrade continues from v1.31.2 to "
	middle := cell{target: "v1.33.0", controlPlane: "v1.31.2", deployment: "v1.30.1", pool: "v1.31.2", pending: true, versions: list}
	done := cell{target: "v1.31.2", pending: true, versions: list}
	stuck := cell{target: "v1.31.99", reported: "v1.30.1", deployment: "-", pool: "-", pending: true}
	// member adds a control plane Machine with a Node.
	member := func(made string) func(*reader) {
		return func(r *reader) {
			m := &clusterv1.Machine{ObjectMeta: owned("c", "cp-0", clusterv1.MachineControlPlaneLabel, "")}
			m.Spec.Version, m.Status.NodeRef.Name = made, "node"
			r.Reader = newReader(append(objects("c", stuck), class("class", stuck), m)...).Reader
		}
	}
	tests := map[string]struct {
		runs  cell
		to    string
		edit  func(*reader)
		apply func(*clusterv1.Cluster)
		// drop says that the MachineDeployment goes from the topology.
		drop    bool
		want    string
		warning string
	}{
		"nearer":          {runs: middle, to: "v1.32.3", warning: way + "v1.32.3"},
		"to where it is":  {runs: middle, to: "v1.31.2", warning: "the upgrade to v1.33.0 is under way: the control plane stays at v1.31.2, workers follow, and the upgrade ends there"},
		"below it":        {runs: middle, to: "v1.30.1", want: `Invalid value: "v1.30.1": it is older than the control plane's v1.31.2, and Kubernetes is never downgraded; accepted: v1.31.2, v1.32.3, v1.33.0`},
		"not listed":      {runs: middle, to: "v1.32.9", want: `Invalid value: "v1.32.9": the ClusterClass does not list it in spec.kubernetesVersions; accepted: v1.31.2, v1.32.3, v1.33.0`},
		"the hook is due": {runs: done, to: "v1.32.3", warning: "the upgrade to v1.31.2 is done but for the AfterClusterUpgrade hook: the upgrade to v1.32.3 begins when that has completed"},
		"the last step runs": {
			runs: cell{target: "v1.31.2", reported: "v1.30.1", deployment: "-", pool: "-", pending: true, versions: list}, to: "v1.32.3",
			warning: "the upgrade to v1.31.2 is under way: the step of the control plane to v1.31.2 is finished, then the upgrade continues from there to v1.32.3",
		},
		"a step that no machine has joined": {
			runs: stuck, edit: member("v1.30.1"), to: "v1.31.2",
			warning: "no machine has joined at v1.31.99: the step to it is taken back, and the upgrade goes from v1.30.1 to v1.31.2. " +
				"The step stays while one of its machines has a host: the condition TopologyReconciled says why",
		},
		"a step that a machine has joined": {
			runs: stuck, edit: member("v1.31.99"), to: "v1.31.2",
			want: `Invalid value: "v1.31.2": it is older than the control plane's v1.31.99, and Kubernetes is never downgraded; accepted: v1.31.99 and newer, up to the last v1.32 version`,
		},
		"a group that goes in the same request": {
			runs: cell{target: "v1.33.0", deployment: "v1.27.0", versions: list}, to: "v1.33.0+other",
			want: `Invalid value: "v1.33.0+other": the ClusterClass does not list it in spec.kubernetesVersions; accepted: v1.33.0`,
			drop: true,
		},
		"no control plane": {
			runs: middle, to: "v1.32.3", apply: func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Name = "gone" },
			want: `Internal error: reading the control plane of Cluster default/c: failed to retrieve ExampleControlPlane default/gone: examplecontrolplanes.controlplane.example.com "gone" not found`,
		},
		"a control plane without a version": {
			runs: func() cell { c := middle; c.controlPlane = "v1"; return c }(), to: "v1.32.3",
			want: `Internal error: reading what the Cluster runs: ExampleControlPlane default/c-cp: spec.version: "v1" is not a Kubernetes version: write all three numbers, such as v1.31.2`,
		},
		"deployments cannot be listed": {
			runs: middle, to: "v1.32.3", edit: func(r *reader) { r.fail["MachineDeployment"] = errors.New("away") },
			want: "Internal error: listing the Cluster's MachineDeployments: away",
		},
		"pools cannot be listed": {
			runs: middle, to: "v1.32.3", edit: func(r *reader) { r.fail["MachinePool"] = errors.New("away") },
			want: "Internal error: listing the Cluster's MachinePools: away",
		},
		"machines cannot be listed": {
			runs: middle, to: "v1.32.3", edit: func(r *reader) { r.fail["Machine"] = errors.New("away") },
			want: "Internal error: listing the Cluster's Machines: away",
		},
		"a list that cannot be read": {
			runs: func() cell { c := middle; c.versions = []string{"v1.31.2", "v1.32", "v1.32.3", "v1.33.0"}; return c }(), to: "v1.32.3",
			want: `Invalid value: "v1.32.3": ClusterClass default/class: spec.kubernetesVersions[1]: "v1.32" is not a Kubernetes version: write all three numbers, such as v1.31.2`,
		},
		"a list without a v": {
			runs: func() cell { c := middle; c.versions = []string{"1.31.2", "1.32.3", "1.33.0"}; return c }(), to: "v1.32.3", warning: way + "v1.32.3",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			read := newReader(append(objects("c", test.runs), class("class", test.runs))...)
			if test.edit != nil {
				test.edit(read)
			}
			before := cluster("c", test.runs)
			if test.apply != nil {
				test.apply(before)
			}
			after := before.DeepCopy()
			after.Spec.Topology.Version = test.to
			if test.drop {
				after.Spec.Topology.Workers.MachineDeployments = nil
			}
			warnings, err := (&guardwebhook.Cluster{Client: read}).ValidateUpdate(t.Context(), before, after)
			if diff := cmp.Diff(test.want, strings.Join(causes(err)[versionField], "\n")); diff != "" {
				t.Errorf("%v:\n%s", err, diff)
			}
			if diff := cmp.Diff(test.warning, strings.Join(warnings, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAllAtOnce holds that a refusal names what Cluster API refuses and what we refuse, in one message.
func TestAllAtOnce(t *testing.T) {
	runs := cell{target: "v1.31.2", versions: list}
	read := newReader(append(objects("c", runs), class("class", runs))...)
	before := cluster("c", runs)
	after := before.DeepCopy()
	after.Spec.Topology.Version = "v1.30.1"
	badConcurrency(after)
	_, err := (&guardwebhook.Cluster{Client: read}).ValidateUpdate(t.Context(), before, after)
	want := `Cluster.cluster.x-k8s.io "c" is invalid: [metadata.annotations.topology.cluster.x-k8s.io/upgrade-concurrency: Invalid value: "0": value cannot be less than 1, ` +
		`spec.topology.version: Invalid value: "v1.30.1": it is older than the control plane's v1.31.2, and Kubernetes is never downgraded; accepted: v1.31.2, v1.32.3, v1.33.0]`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestNoCallOut holds that only objects of the management cluster are read, and nothing that says where extensions are; so none can
// be called.
func TestNoCallOut(t *testing.T) {
	for offer, offered := range offers {
		runs := cell{target: "v1.31.2", controlPlane: "v1.30.1", deployment: "v1.30.1", pool: "v1.30.1", versions: offered.versions, extension: offered.extension}
		read := newReader(append(objects("c", runs), class("class", runs), cluster("c", runs))...)
		before := cluster("c", runs)
		after := before.DeepCopy()
		after.Spec.Topology.Version = "v1.31.2"
		validator := &guardwebhook.Cluster{Client: read}
		for _, to := range []string{"v1.31.2", "v1.33.0", "v1.30.1"} {
			after.Spec.Topology.Version = to
			_, _ = validator.ValidateUpdate(t.Context(), before, after)
			_, _ = validator.ValidateCreate(t.Context(), after)
		}
		_, _ = validator.ValidateDelete(t.Context(), after)
		classes := &guardwebhook.ClusterClass{Client: read}
		changed := class("class", runs)
		changed.Spec.KubernetesVersions = []string{"v1.31.2"}
		_, _ = classes.ValidateUpdate(t.Context(), class("class", runs), changed)
		known := []string{"Cluster", "ClusterClass", "CustomResourceDefinition", controlPlaneKind, "MachineDeployment", "MachinePool", "Machine"}
		for kind := range read.kinds {
			if !slices.Contains(known, kind) {
				t.Errorf("%s: %s is read", offer, kind)
			}
		}
		if read.kinds[controlPlaneKind] == 0 {
			t.Errorf("%s: the control plane is not read, so nothing was decided", offer)
		}
	}
}

func TestDeletionIsNotDecidedHere(t *testing.T) {
	if _, err := (&guardwebhook.Cluster{Client: newReader()}).ValidateDelete(t.Context(), cluster("c", cell{})); err != nil {
		t.Error(err)
	}
	runs := cell{target: "v1.31.2"}
	for name, used := range map[string][]client.Object{"used": {cluster("c", runs)}, "unused": nil} {
		_, err := (&guardwebhook.ClusterClass{Client: newReader(used...)}).ValidateDelete(t.Context(), class("class", runs))
		if (err != nil) != (len(used) > 0) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
