package engine

import (
	"context"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// membership is a combination of what a Machine's group can be found by.
type membership struct {
	label    string
	plane    bool
	kind     string
	owner    string
	expected string
}

// memberships are all combinations, with the groups that the kinds of the owners demand: a label never
// makes a worker a Machine of the control plane, or the reverse.
func memberships() []membership {
	var all []membership
	for _, o := range [][2]string{
		{"", ""}, {"MachineSet", "old"}, {"MachineSet", "gone"}, {"MachineSet", "alone"},
		{"MachineDeployment", "md"}, {"MachinePool", "mp"}, {"KubeadmControlPlane", "kcp"},
	} {
		for _, label := range []string{"", "md", "other"} {
			for _, plane := range []bool{false, true} {
				m := membership{label: label, plane: plane, kind: o[0], owner: o[1]}
				switch {
				case m.kind == "KubeadmControlPlane":
					m.expected = "kcp"
				case label != "" && !plane:
					m.expected = label
				case m.owner == "old" || m.kind == "MachineDeployment":
					m.expected = "md"
				}
				all = append(all, m)
			}
		}
	}
	return all
}

func (m membership) machine() *clusterv1.Machine {
	made := machine("m", m.owner, from)
	made.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
	if m.label != "" {
		made.Labels[clusterv1.MachineDeploymentNameLabel] = m.label
	}
	if m.plane {
		made.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	ref := &made.OwnerReferences[0]
	ref.Kind = m.kind
	if m.kind == "KubeadmControlPlane" {
		ref.APIVersion = controlplanev1.GroupVersion.String()
	}
	if m.kind == "" {
		made.OwnerReferences = nil
	}
	return made
}

// TestOneMembership compares, for all combinations of labels and owners, the answers to "which group":
// of hooks, of annotations, of the index by which Machines in flight are counted, of contract.FetchGroup,
// which the guard and hand-overs use, and of capi.Belongs, which doctor and the command upgrade use.
func TestOneMembership(t *testing.T) {
	t.Parallel()
	plane := controlPlane()
	other := deployment()
	other.Name, other.UID = "other", "other"
	alone := machineSet("alone", from)
	alone.Labels, alone.OwnerReferences = map[string]string{clusterv1.ClusterNameLabel: "c"}, nil
	w := newWorld(t, external(nil), deployment(), machineSet("old", from), alone, other, plane)
	set := &clusterv1.MachineSet{}
	w.must(w.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "old"}, set))
	set.Labels, set.OwnerReferences = nil, []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: "md", UID: "md", Controller: new(true),
	}}
	w.must(w.client.Update(t.Context(), set))
	for _, test := range memberships() {
		m := test.machine()
		m.Annotations = map[string]string{
			clusterv1.UpdateInProgressAnnotation: "", v1alpha1.UpdateProgressAnnotation: `{"id":"1","policy":"keep"}`,
		}
		w.must(client.IgnoreNotFound(w.client.Delete(t.Context(), test.machine())))
		w.must(w.client.Create(t.Context(), m))
		got := map[string]string{}
		if o, err := w.engine.readOwner(t.Context(), m); err == nil {
			got["hooks"] = o.group.Object
			if o.group.ControlPlane != (o.group.Object == "kcp") {
				t.Errorf("%+v: %s is a control plane: %t", test, o.group.Object, o.group.ControlPlane)
			}
		}
		cluster := &clusterv1.Cluster{}
		w.must(w.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "c"}, cluster))
		annotated, _, err := w.engine.groupOf(t.Context(), cluster, m)
		w.must(err)
		if annotated != nil {
			got["annotations"] = annotated.Object
		}
		group, _, err := contract.FetchGroup(t.Context(), w.client, m)
		w.must(err)
		if group.ControlPlane || group.IsMachineDeployment() {
			got["guard"] = group.Name
		}
		for _, md := range []string{"md", "other"} {
			own, _ := capi.OwnerAmong(m, []*clusterv1.MachineSet{set, alone})
			if capi.Belongs(m, own, capi.MachineDeployment(namespace, md)) {
				got["doctor"] = md
			}
			if slices.Contains(w.inFlightOf(md), m.Name) {
				got["index"] = md
			}
		}
		want := map[string]string{}
		if test.expected != "" {
			want = map[string]string{"hooks": test.expected, "annotations": test.expected, "guard": test.expected}
			if test.expected != "kcp" {
				want["doctor"], want["index"] = test.expected, test.expected
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test, diff)
		}
	}
}

// inFlightOf names the Machines of a MachineDeployment that the index shows in flight, and checks that
// all of them count for their policy.
func (w *world) inFlightOf(md string) []string {
	w.Helper()
	cluster := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Cluster"))
	cluster.Namespace, cluster.Name = namespace, "c"
	r := &run{Machine: Machine{Engine: w.engine, Object: machine("asks", "new", to)}, owner: owner{cluster: cluster}}
	r.owner.group.Cluster, r.owner.group.Object = "c", md
	machines, err := r.listOfGroup(w.Context(), groupValue("c", md), func(m client.Object) bool {
		_, running := inFlight(m)
		return running
	})
	w.must(err)
	ofPolicy, err := r.listIndexed(w.Context(), r.owner.clusterKey(), policyValue("c", "keep"))
	w.must(err)
	if len(ofPolicy) < len(machines) {
		w.Errorf("%d Machines of %s are in flight, and %d of the policy", len(machines), md, len(ofPolicy))
	}
	var names []string
	for i := range machines {
		names = append(names, machines[i].Name)
	}
	return names
}

// TestLabelsEvadeNoLimit: a Machine that has lost its label, or has got that of control planes, counts
// for its policy and its canary, and its updates obey them. Its MachineSet is read once for others.
func TestLabelsEvadeNoLimit(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(map[string]string){
		"the label is removed":            func(l map[string]string) { delete(l, clusterv1.MachineDeploymentNameLabel) },
		"that of control planes is added": func(l map[string]string) { l[clusterv1.MachineControlPlaneLabel] = "" },
	} {
		w := newWorld(t, external(nil), deployment(), machineSet("old", from), machineSet("new", to))
		m := machine("runs", "new", to)
		edit(m.Labels)
		m.Annotations[v1alpha1.UpdateProgressAnnotation] = `{"id":"1","policy":"keep","phase":"Updating"}`
		w.must(w.client.Create(t.Context(), m))
		sets := 0
		w.engine.Live = interceptor.NewClient(w.client, interceptor.Funcs{Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "MachineSet" {
				sets++
			}
			return c.Get(ctx, key, o, opts...)
		}})
		o, err := w.engine.readOwner(t.Context(), m)
		w.must(err)
		selected, problem, err := w.engine.SelectPolicy(t.Context(), o.group, "")
		if err != nil || problem != nil || selected.Name != "keep" || sets != 1 {
			t.Errorf("%s: policy %q, %v, %v, %d reads", name, selected.Name, problem, err, sets)
		}
		sets = 0
		for range 3 {
			asks := &run{
				Machine: Machine{Engine: w.engine, Object: machine("asks", "new", to)}, owner: o, policy: selected,
			}
			asks.policy.Alone = 1
			var seen inplace.Others
			w.must(asks.withOthers(t.Context(), func(others inplace.Others) (bool, error) {
				seen = others
				return false, nil
			}))
			want := inplace.Others{InFlight: 1, Group: 1, First: "Machine runs"}
			if diff := gocmp.Diff(want, seen); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if sets != 1 {
			t.Errorf("%s: the MachineSet is read %d times for others", name, sets)
		}
	}
}
