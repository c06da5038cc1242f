package capi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestOwnerOf(t *testing.T) {
	t.Parallel()
	controlledBy := func(apiVersion, kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "other"},
			{APIVersion: apiVersion, Kind: kind, Name: name, Controller: new(true)},
		}
	}
	set := controlledBy("cluster.x-k8s.io/v1beta2", "MachineSet", "md-a-x")
	rke2 := schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta1", Kind: "RKE2ControlPlane"}
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want capi.Owner
		ok   bool
	}{
		"a worker of a MachineDeployment": {
			meta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineDeploymentNameLabel: "md-a"}, OwnerReferences: set},
			want: capi.Owner{GroupVersionKind: capi.MachineDeploymentKind, NamespacedName: types.NamespacedName{Namespace: "ns", Name: "md-a"}},
			ok:   true,
		},
		"a worker of a MachineSet": {
			meta: metav1.ObjectMeta{OwnerReferences: set},
			want: capi.Owner{GroupVersionKind: capi.MachineSetKind, NamespacedName: types.NamespacedName{Namespace: "ns", Name: "md-a-x"}},
			ok:   true,
		},
		"a control plane machine, whatever other labels it has": {
			meta: metav1.ObjectMeta{
				Labels:          map[string]string{clusterv1.MachineControlPlaneLabel: "", clusterv1.MachineDeploymentNameLabel: "md-a"},
				OwnerReferences: controlledBy(rke2.GroupVersion().String(), rke2.Kind, "cp"),
			},
			want: capi.Owner{GroupVersionKind: rke2, NamespacedName: types.NamespacedName{Namespace: "ns", Name: "cp"}},
			ok:   true,
		},
		"a machine by itself": {},
		"an owner that does not control": {
			meta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "c"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.meta.Namespace = "ns"
			got, ok := capi.OwnerOf(&test.meta)
			if diff := cmp.Diff(test.want, got); diff != "" || ok != test.ok {
				t.Errorf("OwnerOf: %t, want %t (-want +got):\n%s", ok, test.ok, diff)
			}
		})
	}
}

func TestOwnerThrough(t *testing.T) {
	t.Parallel()
	controlledBy := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, Controller: new(true)}}
	}
	label := map[string]string{clusterv1.MachineDeploymentNameLabel: "labelled"}
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want capi.Owner
	}{
		"by its controller":           {metav1.ObjectMeta{OwnerReferences: controlledBy("MachineDeployment", "md")}, capi.MachineDeployment("ns", "md")},
		"the controller before label": {metav1.ObjectMeta{OwnerReferences: controlledBy("MachineDeployment", "md"), Labels: label}, capi.MachineDeployment("ns", "md")},
		"by its label":                {metav1.ObjectMeta{Labels: label}, capi.MachineDeployment("ns", "labelled")},
		"by its label, controlled by another kind": {
			metav1.ObjectMeta{OwnerReferences: controlledBy("Other", "x"), Labels: label}, capi.MachineDeployment("ns", "labelled"),
		},
		"a MachineSet by itself": {want: capi.Owner{
			GroupVersionKind: capi.MachineSetKind, NamespacedName: types.NamespacedName{Namespace: "ns", Name: "set"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.meta.Namespace, test.meta.Name = "ns", "set"
			if diff := cmp.Diff(test.want, capi.OwnerThrough(&test.meta)); diff != "" {
				t.Errorf("OwnerThrough (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplateOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, label      string
		ofMachine, ofSet string
	}{
		"the hash before the suffix":   {"MachineSet", "54f6b8c9d-x2x7k", "54f6b8c9d", "54f6b8c9d"},
		"a suffix with a dash":         {"MachineSet", "54f6b8c9d-x2-x7k", "54f6b8c9d", "54f6b8c9d"},
		"no label":                     {"MachineSet", "", "set", "self"},
		"a label without a suffix":     {"MachineSet", "54f6b8c9d", "set", "self"},
		"a label without a hash":       {"MachineSet", "-x2x7k", "set", "self"},
		"a Machine of a control plane": {"KubeadmControlPlane", "54f6b8c9d-x2x7k", "", "54f6b8c9d"},
		"a Machine of its own":         {"", "54f6b8c9d-x2x7k", "", "54f6b8c9d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &metav1.ObjectMeta{Name: "self", Labels: map[string]string{clusterv1.MachineDeploymentUniqueLabel: test.label}}
			if test.kind != "" {
				object.OwnerReferences = []metav1.OwnerReference{{Kind: test.kind, Name: "set", Controller: new(true)}}
			}
			if got := capi.TemplateOf(object); got != test.ofMachine {
				t.Errorf("TemplateOf: %q, want %q", got, test.ofMachine)
			}
			if got := capi.TemplateOfSet(object); got != test.ofSet {
				t.Errorf("TemplateOfSet: %q, want %q", got, test.ofSet)
			}
		})
	}
}

func TestBelongs(t *testing.T) {
	t.Parallel()
	md, pool := capi.MachineDeployment("ns", "md-a"), map[string]string{clusterv1.MachinePoolNameLabel: "md-a"}
	set := capi.Owner{GroupVersionKind: capi.MachineSetKind, NamespacedName: md.NamespacedName}
	controlPlane := capi.Owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "cp"}}
	worker := map[string]string{clusterv1.MachineDeploymentNameLabel: "md-a"}
	both := map[string]string{clusterv1.MachineDeploymentNameLabel: "md-a", clusterv1.MachineControlPlaneLabel: ""}
	for name, test := range map[string]struct {
		labels map[string]string
		owner  capi.Owner
		want   bool
	}{
		"a worker of its MachineDeployment":         {worker, md, true},
		"a worker of another MachineDeployment":     {worker, capi.MachineDeployment("ns", "md-b"), false},
		"a worker in another namespace":             {worker, capi.MachineDeployment("other", "md-a"), false},
		"a worker of a MachineSet of that name":     {worker, set, false},
		"a worker of a control plane":               {worker, controlPlane, false},
		"a control plane machine":                   {both, controlPlane, true},
		"a control plane machine of workers":        {both, md, false},
		"a control plane machine of a MachineSet":   {both, set, false},
		"a Machine of a pool":                       {pool, md, false},
		"a Machine of a pool, and no object as yet": {pool, capi.MachineDeployment("ns", ""), false},
		"another version of the MachineDeployment": {worker, capi.Owner{
			GroupVersionKind: capi.MachineDeploymentKind.GroupKind().WithVersion("v1beta1"), NamespacedName: md.NamespacedName,
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &metav1.ObjectMeta{Namespace: "ns", Labels: test.labels}
			own, _ := capi.OwnerOf(machine)
			if got := capi.Belongs(machine, own, test.owner); got != test.want {
				t.Errorf("Belongs: %t", got)
			}
		})
	}
}

func TestClusterName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want string
	}{
		"by label": {meta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.ClusterNameLabel: "a"}}, want: "a"},
		"by owner": {meta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "example.com/v1", Kind: "Cluster", Name: "foreign"},
			{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "MachineSet", Name: "set"},
			{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "b"},
		}}, want: "b"},
		"neither": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := capi.ClusterName(&test.meta); got != test.want {
				t.Errorf("ClusterName = %q, want %q", got, test.want)
			}
		})
	}
}

func TestInTopologyOf(t *testing.T) {
	t.Parallel()
	deployment, pool := clusterv1.ClusterTopologyMachineDeploymentNameLabel, clusterv1.ClusterTopologyMachinePoolNameLabel
	for name, test := range map[string]struct {
		labels map[string]string
		want   capi.InTopology
	}{
		"of a MachineDeployment": {labels: map[string]string{deployment: "a"}, want: capi.InTopology{Name: "a"}},
		"of a MachinePool":       {labels: map[string]string{pool: "a"}, want: capi.InTopology{Pool: true, Name: "a"}},
		"of no group":            {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, capi.InTopologyOf(&metav1.ObjectMeta{Labels: test.labels})); diff != "" {
				t.Errorf("InTopologyOf (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVersions shows where the two rules differ: a kubelet with another build of the template's patch.
func TestVersions(t *testing.T) {
	t.Parallel()
	template := version.MustParse("v1.31.2")
	for name, test := range map[string]struct {
		kubelet          string
		planned, running string
		arrived          bool
	}{
		"as the template":        {kubelet: "v1.31.2", planned: "v1.31.2", running: "v1.31.2", arrived: true},
		"a distribution's build": {kubelet: "v1.31.2-eks-7f9249a", planned: "v1.31.2", running: "v1.31.2-eks-7f9249a", arrived: true},
		"another build":          {kubelet: "v1.31.2+rke2r1", planned: "v1.31.2", running: "v1.31.2+rke2r1", arrived: true},
		"an older patch":         {kubelet: "v1.31.1", planned: "v1.31.1", running: "v1.31.1"},
		"an older minor":         {kubelet: "v1.30.9", planned: "v1.30.9", running: "v1.30.9"},
		"a newer one":            {kubelet: "v1.32.0", planned: "v1.31.2", running: "v1.32.0"},
		"none":                   {kubelet: "", planned: "v1.31.2", running: "v1.31.2", arrived: true},
		"nothing like a version": {kubelet: "unknown", planned: "v1.31.2", running: "v1.31.2", arrived: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned, index := capi.PlannedVersion(template, []string{test.kubelet})
			running, arrived := capi.RunningVersion(template, "v1.31.2", test.kubelet)
			if planned.String() != test.planned || (index == 0) != (test.planned != "v1.31.2") {
				t.Errorf("PlannedVersion = %s, %d; want %s", planned, index, test.planned)
			}
			if running.String() != test.running || arrived != test.arrived {
				t.Errorf("RunningVersion = %s, %t; want %s, %t", running, arrived, test.running, test.arrived)
			}
		})
	}
	if v, arrived := capi.RunningVersion(template, "v1.30.0", "v1.31.2"); v != template || arrived {
		t.Errorf("a machine made for v1.30.0 with kubelet v1.31.2: %s, %t; want v1.31.2, false", v, arrived)
	}
	if v, index := capi.PlannedVersion(version.Version{}, []string{"v1.30.1", "v1.29.4", "v1.31.0"}); v != version.MustParse("v1.29.4") || index != 1 {
		t.Errorf("without a template: %s at %d, want v1.29.4 at 1", v, index)
	}
	if v, index := capi.PlannedVersion(version.MustParse("v1.32.0"), []string{"v1.31.2+a", "v1.31.2+b"}); v.String() != "v1.31.2+b" || index != 1 {
		t.Errorf("among builds: %s at %d, want v1.31.2+b at 1", v, index)
	}
}

func TestReportedVersions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status string
		want   []capi.Reported
	}{
		"a list, with what is no version left out": {
			status: "{version: v1.30.0, versions: [7, {version: 8}, {version: ''}, {version: v1.31.0}, {version: v1.32.0}]}",
			want: []capi.Reported{
				{Version: "v1.31.0", Field: "status.versions[3].version"}, {Version: "v1.32.0", Field: "status.versions[4].version"},
			},
		},
		"the field of older contracts": {status: "{version: v1.30.0}", want: []capi.Reported{{Version: "v1.30.0", Field: "status.version"}}},
		"another type":                 {status: "{version: 7, versions: x}"},
		"nothing":                      {status: "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, capi.ReportedVersions(object(t, test.status))); diff != "" {
				t.Errorf("ReportedVersions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportedVersion(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{}
	m.Spec.Version = "v1.31.2"
	for _, test := range []struct {
		info    *corev1.NodeSystemInfo
		kubelet string
		want    capi.Reported
	}{
		{want: capi.Reported{Version: "v1.31.2", Field: "spec.version"}},
		{info: &corev1.NodeSystemInfo{}, want: capi.Reported{Version: "v1.31.2", Field: "spec.version"}},
		{
			info: &corev1.NodeSystemInfo{KubeletVersion: "v1.30.1"}, kubelet: "v1.30.1",
			want: capi.Reported{Version: "v1.30.1", Field: "status.nodeInfo.kubeletVersion"},
		},
	} {
		m.Status.NodeInfo = test.info
		if got, kubelet := capi.ReportedVersion(m), capi.Kubelet(m); got != test.want || kubelet != test.kubelet {
			t.Errorf("%+v: %+v, kubelet %q; want %+v, %q", test.info, got, kubelet, test.want, test.kubelet)
		}
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	o := object(t, `
conditions:
- {type: A, status: "True", reason: R, message: M, lastTransitionTime: "2026-01-02T03:04:05Z"}
- 7
- {type: B, status: false, reason: [], lastTransitionTime: yesterday}
v1beta2: {conditions: [{type: B, status: "True", reason: later}, {type: C, status: "False"}]}
`)
	// An API server's integers are int64, those of YAML are not.
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		t.Fatal(err)
	}
	first, ok := conditions[0].(map[string]any)
	if !ok {
		t.Fatalf("the first condition is a %T", conditions[0])
	}
	first["observedGeneration"] = int64(3)
	if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	want := []metav1.Condition{
		{Type: "A", Status: "True", Reason: "R", Message: "M", ObservedGeneration: 3, LastTransitionTime: at},
		{Type: "B"},
	}
	if diff := cmp.Diff(want, capi.Conditions(o)); diff != "" {
		t.Errorf("Conditions (-want +got):\n%s", diff)
	}
	for kind, want := range map[string]*metav1.Condition{
		"B": {Type: "B"}, "C": {Type: "C", Status: "False"}, "D": nil,
	} {
		if diff := cmp.Diff(want, capi.FindCondition(o, kind)); diff != "" {
			t.Errorf("FindCondition %s (-want +got):\n%s", kind, diff)
		}
	}
	if got := capi.Conditions(object(t, "{conditions: {}}")); got != nil {
		t.Errorf("conditions that are no list: %v, want none", got)
	}
}

func object(t *testing.T, status string) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(status), &content); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{"status": content}}
}
