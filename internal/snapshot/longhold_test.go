package snapshot_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

var heldAt = time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)

func condition(kind string, status metav1.ConditionStatus, at time.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "Some", LastTransitionTime: metav1.NewTime(at)}
}

func servingExtension(name string, handlers ...string) runtimev1.ExtensionConfig {
	e := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	e.Spec.ClientConfig.Service = runtimev1.ServiceReference{Namespace: "cso-system", Name: "cso-hook-server"}
	for _, h := range handlers {
		handler, hook, _ := strings.Cut(h, "=")
		e.Status.Handlers = append(e.Status.Handlers, runtimev1.ExtensionHandler{
			Name: handler + "." + name, RequestHook: runtimev1.GroupVersionHook{Hook: hook},
		})
	}
	return e
}

// TestHookStandstill: who serves a hook that blocks, since when, the way out, and when that is a fault.
func TestHookStandstill(t *testing.T) {
	t.Parallel()
	type facts struct {
		cluster    *clusterv1.Cluster
		machines   []*clusterv1.Machine
		extensions []runtimev1.ExtensionConfig
		namespace  map[string]string
	}
	for name, tt := range map[string]struct {
		edit        func(*facts)
		known, long bool
	}{
		"blocks for days": {nil, true, true},
		"blocks for five minutes": {func(f *facts) {
			f.cluster.Status.Conditions[0].LastTransitionTime = metav1.NewTime(heldAt.Add(72*time.Hour - 5*time.Minute))
		}, true, false},
		"after a machine that has just arrived": {func(f *facts) {
			f.machines = []*clusterv1.Machine{{}}
			f.machines[0].Status.Conditions = []metav1.Condition{
				condition(clusterv1.MachineUpToDateCondition, metav1.ConditionTrue, heldAt.Add(72*time.Hour-time.Minute)),
			}
		}, true, false},
		"the topology is reconciled": {func(f *facts) {
			f.cluster.Status.Conditions[0].Status = metav1.ConditionTrue
			f.cluster.Status.Conditions[0].Message = ""
		}, false, false},
		"machines are on their way": {func(f *facts) {
			f.cluster.Status.Conditions[0].Message = "Cluster is upgrading to v1.30.6\n  * KubeadmControlPlane cp upgrading"
		}, false, false},
		"an annotation blocks": {func(f *facts) {
			f.cluster.Status.Conditions[0].Message = "Cluster is upgrading to v1.30.6\n  * annotation " +
				clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/mine is blocking: BeforeClusterUpgrade"
		}, false, false},
		"nobody is known to serve it": {func(f *facts) { f.extensions = nil }, false, false},
		"another hook": {func(f *facts) {
			f.extensions = []runtimev1.ExtensionConfig{servingExtension("cso", "a=AfterClusterUpgrade")}
		}, false, false},
		"for other namespaces": {func(f *facts) {
			f.extensions[0].Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
		}, false, false},
		"for an unknown namespace": {func(f *facts) {
			f.extensions[0].Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
			f.namespace = nil
		}, true, true},
		"Windlass, which may hold it with a gate": {func(f *facts) {
			f.extensions = append(f.extensions, servingExtension("windlass",
				hookserver.BeforeClusterUpgradeHandler+"=BeforeClusterUpgrade",
				hookserver.GenerateUpgradePlanHandler+"=GenerateUpgradePlan"))
		}, false, false},
	} {
		f := facts{
			cluster:    &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "r05", Name: "prod"}},
			extensions: []runtimev1.ExtensionConfig{servingExtension("cso", "before-cluster-upgrade=BeforeClusterUpgrade")},
			namespace:  map[string]string{"team": "a"},
		}
		f.cluster.Spec.Topology.Version = "v1.30.6"
		f.cluster.Status.Conditions = []metav1.Condition{condition("TopologyReconciled", metav1.ConditionFalse, heldAt)}
		f.cluster.Status.Conditions[0].Message = "Cluster is upgrading to v1.30.6\n" +
			"  * Following hooks are blocking upgrade: BeforeClusterUpgrade\n  * KubeadmControlPlane cp pending upgrade"
		if tt.edit != nil {
			tt.edit(&f)
		}
		o := snapshot.Objects{Cluster: f.cluster, Machines: f.machines}
		a := snapshot.Around{Extensions: f.extensions, NamespaceLabels: f.namespace}
		now := heldAt.Add(72 * time.Hour)
		s, known := snapshot.HookStandstill(o, a)
		if known != tt.known || s.IsLong(now) != tt.long || len(snapshot.Standstills(o, a, now)) > 0 != tt.long {
			t.Errorf("%s: %+v, %t", name, s, known)
		}
		if known && (s.Message != "hook BeforeClusterUpgrade blocks the upgrade to v1.30.6; "+
			"it is served by ExtensionConfig cso (Service cso-system/cso-hook-server)" ||
			!strings.Contains(s.Fix, "kubectl -n cso-system logs service/cso-hook-server") ||
			!strings.Contains(s.Fix, "omit namespace r05 in spec.namespaceSelector of ExtensionConfig cso, or delete")) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// controlPlane is an object of a provider with a version, and what its status reports.
func controlPlane(kind, asked, reported string, replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": kind, "metadata": map[string]any{"namespace": "ns", "name": "cp"},
		"spec":   map[string]any{"version": asked, "replicas": replicas},
		"status": map[string]any{"version": reported},
	}}
}

// TestRolloutStandstill: a control plane with an old machine that nobody deletes, although the new one is
// Ready for long.
func TestRolloutStandstill(t *testing.T) {
	t.Parallel()
	const old, asked = "v1.34.8+rke2r1", "v1.35.5+rke2r1"
	machine := func(name, v string, ready time.Time) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""},
		}}
		m.Spec.Version = v
		m.Status.Conditions = []metav1.Condition{condition(clusterv1.MachineReadyCondition, metav1.ConditionTrue, ready)}
		return m
	}
	const restart = "rollout restart deployment rke2-control-plane-controller-manager"
	for name, tt := range map[string]struct {
		edit       func(o *snapshot.Objects, a *snapshot.Around)
		long       bool
		fix, noFix string
	}{
		"for a day": {nil, true, restart, ""},
		"a patch of the provider": {func(_ *snapshot.Objects, a *snapshot.Around) {
			a.Provider = version.MustParse("v0.25.2")
		}, true, restart, ""},
		"another provider version": {func(_ *snapshot.Objects, a *snapshot.Around) {
			a.Provider = version.MustParse("v0.22.0")
		}, true, "see in the log", restart},
		"an unknown provider version": {func(_ *snapshot.Objects, a *snapshot.Around) {
			a.Provider = version.Version{}
		}, true, "see in the log", restart},
		"another kind": {func(o *snapshot.Objects, _ *snapshot.Around) {
			o.ControlPlane.SetKind("KubeadmControlPlane")
		}, true, "controller of KubeadmControlPlane", restart},
		"not up to date at the same version": {func(o *snapshot.Objects, _ *snapshot.Around) {
			o.Machines[0].Spec.Version = asked
			o.Machines[0].Status.Conditions = append(o.Machines[0].Status.Conditions,
				condition(clusterv1.MachineUpToDateCondition, metav1.ConditionFalse, heldAt))
		}, true, restart, ""},
		"for ten minutes": {func(o *snapshot.Objects, _ *snapshot.Around) {
			o.Machines[1] = machine("new", asked, heldAt.Add(24*time.Hour-10*time.Minute))
		}, false, "", ""},
		"of three, the third has just come": {func(o *snapshot.Objects, _ *snapshot.Around) {
			o.ControlPlane = controlPlane("RKE2ControlPlane", asked, old, 3)
			o.Machines = append(o.Machines, machine("b", old, heldAt), machine("c", asked, heldAt.Add(24*time.Hour-time.Minute)))
		}, false, "", ""},
		"the old one is being deleted": {func(o *snapshot.Objects, _ *snapshot.Around) {
			o.Machines[0].DeletionTimestamp = new(metav1.NewTime(heldAt))
		}, false, "", ""},
		"the old one is being updated": {func(o *snapshot.Objects, _ *snapshot.Around) {
			o.Machines[0].Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
		}, false, "", ""},
		"the new one is not Ready": {func(o *snapshot.Objects, _ *snapshot.Around) {
			o.Machines[1].Status.Conditions[0].Status = metav1.ConditionFalse
		}, false, "", ""},
		"no surge": {func(o *snapshot.Objects, _ *snapshot.Around) { o.Machines = o.Machines[:1] }, false, "", ""},
		"all are as asked": {func(o *snapshot.Objects, _ *snapshot.Around) {
			o.Machines[0].Spec.Version = asked
		}, false, "", ""},
		"paused": {func(o *snapshot.Objects, _ *snapshot.Around) { o.Cluster.Spec.Paused = new(true) }, false, "", ""},
		"replicas are unknown": {func(o *snapshot.Objects, _ *snapshot.Around) {
			unstructured.RemoveNestedField(o.ControlPlane.Object, "spec", "replicas")
		}, false, "", ""},
		"no control plane object": {func(o *snapshot.Objects, _ *snapshot.Around) { o.ControlPlane = nil }, false, "", ""},
	} {
		o := snapshot.Objects{
			Cluster: &clusterv1.Cluster{}, ControlPlane: controlPlane("RKE2ControlPlane", asked, old, 1),
			Machines: []*clusterv1.Machine{
				machine("old", old, heldAt.Add(-time.Hour)), machine("new", asked, heldAt), {},
			},
		}
		a := snapshot.Around{Provider: version.MustParse("v0.25.0")}
		if tt.edit != nil {
			tt.edit(&o, &a)
		}
		now := heldAt.Add(24 * time.Hour)
		s, ok := snapshot.RolloutStandstill(o, a)
		if long := ok && s.IsLong(now); long != tt.long || len(snapshot.Standstills(o, a, now)) > 0 != tt.long {
			t.Errorf("%s: %+v, %t", name, s, ok)
		}
		if !tt.long {
			continue
		}
		if !strings.Contains(s.Message, "it has 2 machines for 1 replica, all of them Ready (new since 2026-11-26T09:00:00Z), and old (") ||
			!strings.Contains(s.Fix, tt.fix) || tt.noFix != "" && strings.Contains(s.Fix, tt.noFix) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestSuffixHold: a control plane whose provider reports a suffix that the version asked for lacks.
func TestSuffixHold(t *testing.T) {
	t.Parallel()
	core := func(arguments ...string) []appsv1.Deployment {
		d := appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Args: arguments}}
		return []appsv1.Deployment{d}
	}
	skip := func(list string) func(*snapshot.Objects, *snapshot.Around) {
		return func(o *snapshot.Objects, _ *snapshot.Around) {
			o.MachineDeployments[0].Annotations = map[string]string{clusterv1.MachineSetSkipPreflightChecksAnnotation: list}
		}
	}
	reports := func(asked, reported string) func(*snapshot.Objects, *snapshot.Around) {
		return func(o *snapshot.Objects, _ *snapshot.Around) {
			o.ControlPlane = controlPlane("K0smotronControlPlane", asked, reported, 3)
		}
	}
	flags := func(arguments ...string) func(*snapshot.Objects, *snapshot.Around) {
		return func(_ *snapshot.Objects, a *snapshot.Around) { a.Core = core(arguments...) }
	}
	for name, tt := range map[string]struct {
		edit func(*snapshot.Objects, *snapshot.Around)
		to   string
		want bool
	}{
		"of k0s":                  {nil, "v1.34.1", true},
		"a build is not lower":    {reports("v1.33.1", "v1.33.1+k0s.0"), "v1.34.1", false},
		"a build is asked for":    {reports("v1.33.1+k0s.0", "v1.33.1-k0s.0"), "v1.34.1+k0s.0", true},
		"the hop has the suffix":  {nil, "v1.34.1-k0s.0", false},
		"the spec has the suffix": {reports("v1.33.1-k0s.0", "v1.33.1-k0s.0"), "v1.34.1", false},
		"no suffix":               {reports("v1.33.1", "v1.33.1"), "v1.34.1", false},
		"an upgrade":              {reports("v1.34.1", "v1.33.1-k0s.0"), "v1.34.1", false},
		"ahead":                   {reports("v1.33.1", "v1.33.2"), "v1.34.1", false},
		"nothing is reported":     {reports("v1.33.1", ""), "v1.34.1", false},
		"the gate is on":          {flags("--feature-gates=MachineSetPreflightChecks=true"), "v1.34.1", true},
		"the gate is off":         {flags("--feature-gates=X=true,MachineSetPreflightChecks=false"), "v1.34.1", false},
		"only other checks":       {flags("--machineset-preflight-checks", "KubeadmVersionSkew"), "v1.34.1", false},
		"this check among others": {flags("--machineset-preflight-checks=KubeadmVersionSkew,ControlPlaneIsStable"), "v1.34.1", true},
		"skipped":                 {skip("KubeadmVersionSkew, ControlPlaneIsStable"), "v1.34.1", false},
		"all are skipped":         {skip("All"), "v1.34.1", false},
		"others are skipped":      {skip("KubeadmVersionSkew"), "v1.34.1", true},
		"no workers":              {func(o *snapshot.Objects, _ *snapshot.Around) { o.MachineDeployments = nil }, "v1.34.1", false},
		"windlass manager":        {func(_ *snapshot.Objects, a *snapshot.Around) { a.OwnEngine = true }, "v1.34.1", false},
		"no control plane object": {func(o *snapshot.Objects, _ *snapshot.Around) { o.ControlPlane = nil }, "v1.34.1", false},
		"a topology skips nothing": {func(o *snapshot.Objects, a *snapshot.Around) {
			skip("All")(o, a)
			o.Cluster.Spec.Topology.ClassRef.Name = "class"
		}, "v1.34.1", true},
	} {
		o := snapshot.Objects{
			Cluster:            &clusterv1.Cluster{},
			MachineDeployments: []*clusterv1.MachineDeployment{{ObjectMeta: metav1.ObjectMeta{Name: "k1-md-0"}}},
		}
		a := snapshot.Around{}
		reports("v1.33.1", "v1.33.1-k0s.0")(&o, &a)
		if tt.edit != nil {
			tt.edit(&o, &a)
		}
		s, ok := snapshot.SuffixHold(o, a, version.MustParse(tt.to))
		if ok != tt.want {
			t.Errorf("%s: %+v, %t", name, s, ok)
		}
		topology := o.Cluster.Spec.Topology.IsDefined()
		if ok && (!strings.Contains(s.Message, "differ by the suffix only") || !strings.Contains(s.Message, "k1-md-0") ||
			!strings.Contains(s.Fix, "v1.34.1-k0s.0") ||
			strings.Contains(s.Fix, "skip-preflight-checks=ControlPlaneIsStable") == topology) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
