package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicontract "sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestPrefetch: machines of a Cluster that waits are prepared, as many at once as the policy
// allows, in the order of their names. Nothing is written, drained or updated.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, 5)
	preparing := inplace.Readiness{Preparing: "step 1 of 2, fetch-kubelet", RetryAfter: 2 * time.Second}
	for i := range 5 {
		w.preparer.answers[fmt.Sprintf("m%03d", i)] = preparing
	}
	if err := w.engine.Prefetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(w.preparer.asked)
	for i, asked := range w.preparer.asked {
		words := strings.Fields(asked)
		if len(words) != 4 || words[0] != fmt.Sprintf("m%03d", i) || !strings.HasPrefix(words[1], "id") || words[2] != wanted || words[3] != "true" {
			t.Errorf("question %q", asked)
		}
	}
	first := w.preparer.asked
	w.now = w.now.Add(15 * time.Second)
	w.preparer.asked = nil
	if err := w.engine.Prefetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(w.preparer.asked)
	if diff := cmp.Diff(first, w.preparer.asked); diff != "" || len(first) != 3 {
		t.Errorf("asked again, of %d machines (-first +then):\n%s", len(first), diff)
	}
	w.preparer.asked = nil
	w.now = w.now.Add(15 * time.Second)
	delete(w.preparer.answers, "m001")
	var rounds [][]string
	for range 2 {
		rounds = append(rounds, w.sweep())
	}
	clear(w.preparer.answers)
	for range 4 {
		rounds = append(rounds, w.sweep())
	}
	want := [][]string{
		{"m000", "m001", "m002"}, {"m000", "m002", "m003"},
		{"m000", "m002", "m003"}, {"m004"}, nil, nil,
	}
	if diff := cmp.Diff(want, rounds); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{"c": {PrefetchedReason}}, w.events.said); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	if got := w.events.notes["c"]; got != "5 of 5 machines are prepared for their next version" {
		t.Errorf("the Cluster's Event says %q", got)
	}
	calls := w.nodes.Calls()
	delete(calls, porttest.NodeMethod)
	if len(calls) > 0 {
		t.Errorf("nodes were changed: %v", calls)
	}
	for i := range 5 {
		m := &clusterv1.Machine{}
		if err := w.client.Get(t.Context(), keyNamed(fmt.Sprintf("m%03d", i)), m); err != nil || len(m.Annotations) > 0 || m.Spec.Version != from {
			t.Errorf("%v: Machine %s has the version %s and the annotations %v", err, m.Name, m.Spec.Version, m.Annotations)
		}
	}
}

// TestPrefetchCost: what a machine costs does not depend on how many there are, and a Cluster whose
// machines are prepared costs two reads a minute.
func TestPrefetchCost(t *testing.T) {
	t.Parallel()
	for _, machines := range []int{3, 30} {
		t.Run(fmt.Sprint(machines), func(t *testing.T) {
			t.Parallel()
			w := newAheadWorld(t, machines)
			rounds := 0
			for len(w.sweep()) > 0 {
				rounds++
			}
			want := map[string]int{
				"get *v1beta2.Machine": machines, "get *unstructured.Unstructured": rounds, "list *v1beta2.MachineDeploymentList": rounds,
			}
			if diff := cmp.Diff(want, w.reads); diff != "" || rounds != machines/3 {
				t.Errorf("%d rounds; reads (-want +got):\n%s", rounds, diff)
			}
			if calls := w.nodes.Calls(); len(calls) != 1 || calls[porttest.NodeMethod] != machines {
				t.Errorf("the nodes were asked %v", calls)
			}
			clear(w.reads)
			for range 240 {
				w.sweep()
			}
			want = map[string]int{"get *unstructured.Unstructured": 60, "list *v1beta2.MachineDeploymentList": 60}
			if diff := cmp.Diff(want, w.reads); diff != "" {
				t.Errorf("reads in an hour of rest (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrefetchAfterARestart: another process asks about each machine once more, and no faster than
// the first.
func TestPrefetchAfterARestart(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, 4)
	var rounds [][]string
	for range 2 {
		rounds = append(rounds, w.sweep(), w.sweep(), w.sweep())
		w.restart()
	}
	once := [][]string{{"m000", "m001", "m002"}, {"m003"}, nil}
	if diff := cmp.Diff(slices.Concat(once, once), rounds); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

// TestPrefetchRefused: a machine that cannot be prepared is shown, at most once an hour, keeps no
// other from being prepared, and is asked about again with pauses that grow to an hour.
func TestPrefetchRefused(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, 4)
	for _, name := range []string{"m000", "m001", "m002"} {
		w.preparer.answers[name] = inplace.Readiness{Refused: noRoom}
	}
	rounds := [][]string{w.sweep(), w.sweep()}
	if diff := cmp.Diff([][]string{{"m000", "m001", "m002"}, {"m003"}}, rounds); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	want := map[string]string{"c": "1 of 4 machines are prepared for their next version. Not prepared: m000, m001, m002. Fix: see the Events of these Machines"}
	for _, name := range rounds[0] {
		want[name] = "The machine is not prepared for " + wanted + ": " + noRoom
	}
	if diff := cmp.Diff(want, w.events.notes); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	asked := 0
	for range int(8 * time.Hour / (15 * time.Second)) {
		asked += len(w.sweep())
	}
	// After 1, 2, 4, 8, 16 and 32 minutes, and then six times after an hour.
	if asked != 3*(6+6) {
		t.Errorf("asked %d times in eight hours", asked)
	}
	// Events expire after an hour.
	if got := len(w.events.said["m000"]); got != 1+6 {
		t.Errorf("one problem was said %d times", got)
	}
	clear(w.preparer.answers)
	for range int(time.Hour / (15 * time.Second)) {
		w.sweep()
	}
	if got := w.events.notes["c"]; got != "4 of 4 machines are prepared for their next version" {
		t.Errorf("in the end the Cluster's Event says %q", got)
	}
}

// TestPrefetchLeavesAlone holds which machines are not asked about.
func TestPrefetchLeavesAlone(t *testing.T) {
	t.Parallel()
	on := func(edit func(c *clusterv1.Cluster)) func(client.Object) {
		return func(o client.Object) {
			if c, ok := o.(*clusterv1.Cluster); ok {
				edit(c)
			}
		}
	}
	annotated := func(kind client.Object, key string) func(client.Object) {
		return func(o client.Object) {
			if fmt.Sprintf("%T", o) == fmt.Sprintf("%T", kind) {
				o.SetAnnotations(map[string]string{key: toVersion})
			}
		}
	}
	policy := func(edit func(p *v1alpha1.UpdatePolicySpec)) func(client.Object) {
		return func(o client.Object) {
			if p, ok := o.(*v1alpha1.UpdatePolicy); ok {
				edit(&p.Spec)
			}
		}
	}
	for name, test := range map[string]struct {
		edit  func(client.Object)
		reads int
	}{
		"the policy does not ask for it": {edit: policy(func(p *v1alpha1.UpdatePolicySpec) { p.Prefetch.MaxInFlight = 0 })},
		"the policy selects others": {reads: 2, edit: policy(func(p *v1alpha1.UpdatePolicySpec) {
			p.Targets[0].MachineDeployments = []v1alpha1.MachineDeploymentName{"other"}
		})},
		"the Cluster is paused":       {edit: on(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })},
		"an annotation pauses it":     {edit: annotated(&clusterv1.Cluster{}, clusterv1.PausedAnnotation)},
		"the Cluster has no topology": {edit: on(func(c *clusterv1.Cluster) { c.Spec.Topology = clusterv1.Topology{} })},
		"nothing is planned":          {edit: on(func(c *clusterv1.Cluster) { c.Status = clusterv1.ClusterStatus{} })},
		"the plan is for another target": {reads: 2, edit: on(func(c *clusterv1.Cluster) {
			c.Spec.Topology.Version = "v1.32.0"
		})},
		"the group is paused":                 {reads: 2, edit: annotated(&clusterv1.MachineDeployment{}, clusterv1.PausedAnnotation)},
		"the Machine is paused":               {reads: 3, edit: annotated(&clusterv1.Machine{}, clusterv1.PausedAnnotation)},
		"Cluster API updates the Machine":     {reads: 3, edit: annotated(&clusterv1.Machine{}, clusterv1.UpdateInProgressAnnotation)},
		"an annotation upgrades it":           {reads: 3, edit: annotated(&clusterv1.Machine{}, keys.To)},
		"the control plane does not exist":    {reads: 1, edit: func(o client.Object) { rename(o, hostedKind.Kind) }},
		"the workers are at their stop":       {reads: 2, edit: atStop},
		"nothing else, and it is asked about": {reads: 3, edit: func(client.Object) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAheadWorld(t, 1, test.edit)
			asked, want := w.sweep(), 0
			if strings.HasPrefix(name, "nothing else") {
				want = 1
			}
			reads := 0
			for n := range maps.Values(w.reads) {
				reads += n
			}
			if len(asked) != want || reads != test.reads {
				t.Errorf("asked about %v, with the reads %v", asked, w.reads)
			}
		})
	}
}

// rename has nobody find an object of a kind.
func rename(o client.Object, kind string) {
	if u, ok := o.(*unstructured.Unstructured); ok && u.GetKind() == kind {
		u.SetName("other")
	}
}

// atStop has the workers done, and the control plane wait.
func atStop(o client.Object) {
	switch o := o.(type) {
	case *clusterv1.Cluster:
		o.Status.Workers = nil
	case *clusterv1.MachineDeployment:
		o.Spec.Template.Spec.Version = wanted
		o.Status.Versions[0].Version = wanted
	}
}

// TestPrefetchControlPlane: the machines of a control plane are prepared for its own next version,
// and those of the workers for theirs. A plan that changes has them asked about again, at once.
func TestPrefetchControlPlane(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, 1)
	cp := newMachine("cp-0", "kcp")
	w.nodes.Set(inCluster, "cp-0", porttest.ReadyNode(from, w.now.Add(-time.Hour)))
	if err := w.client.Create(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	const later = "v1.32.0"
	cluster := newCluster()
	w.edit(cluster, func() {
		cluster.Spec.Topology.Version = later
		cluster.Status.ControlPlane.UpgradePlan = []clusterv1.StatusUpgradePlanVersion{{Version: wanted}, {Version: later}}
		cluster.Status.Workers.UpgradePlan = []clusterv1.StatusUpgradePlanVersion{{Version: later}}
	})
	if diff := cmp.Diff([]string{"cp-0 " + wanted, "m000 " + later}, w.questions()); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	if got := w.questions(); len(got) > 0 {
		t.Errorf("asked again about %v", got)
	}
	w.edit(cluster, func() {
		cluster.Status.Workers.UpgradePlan = []clusterv1.StatusUpgradePlanVersion{{Version: wanted}, {Version: later}}
	})
	if diff := cmp.Diff([]string{"m000 " + wanted}, w.questions()); diff != "" {
		t.Errorf("questions after the plan has changed (-want +got):\n%s", diff)
	}
}

// TestPrefetchFollowsTheEngine: stock Cluster API sends each group to each stop in the Cluster's status; windlass
// manager sends each to its own.
func TestPrefetchFollowsTheEngine(t *testing.T) {
	t.Parallel()
	const older, later, last = "v1.28.9", "v1.32.4", "v1.33.0"
	kind := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "DevCluster"}
	for engine, want := range map[string][]string{
		"": {"m000 " + wanted, "m001 " + wanted}, v1alpha1.EngineManager: {"m000 " + last, "m001 " + wanted},
	} {
		w := newAheadWorld(t, 2)
		infrastructure := unstructuredOf(kind)
		infrastructure.SetNamespace(namespace)
		infrastructure.SetName("c")
		infrastructure.SetAnnotations(map[string]string{v1alpha1.EngineAnnotation: engine})
		md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "old", Labels: map[string]string{
			clusterv1.ClusterNameLabel: "c", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "old",
		}}}
		md.Spec.Template.Spec.Version = older
		md.Status.Versions = []clusterv1.StatusVersion{{Version: older, Replicas: 1}}
		for _, o := range []client.Object{infrastructure, md, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
			Name:   capicontract.CalculateCRDName(kind.Group, kind.Kind),
			Labels: map[string]string{clusterv1.GroupVersion.Group + "/v1beta2": kind.Version},
		}}} {
			if err := w.client.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		m := newMachine("m001", "")
		w.edit(m, func() { m.Labels[clusterv1.MachineDeploymentNameLabel] = "old" })
		cluster := newCluster()
		w.edit(cluster, func() {
			cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: "c"}
			cluster.Spec.Topology.Version = last
			cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "workers"}, {Name: "old"}}
			cluster.Status.ControlPlane.UpgradePlan = []clusterv1.StatusUpgradePlanVersion{{Version: wanted}, {Version: later}, {Version: last}}
			cluster.Status.Workers.UpgradePlan = []clusterv1.StatusUpgradePlanVersion{{Version: wanted}, {Version: last}}
		})
		if diff := cmp.Diff(want, w.questions()); diff != "" {
			t.Errorf("engine %q (-want +got):\n%s", engine, diff)
		}
	}
}
