package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func deployment(name, provider string, arguments ...string) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "capi-system", Labels: map[string]string{clusterv1.ProviderNameLabel: provider}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: arguments}}
	return d
}

func extension() runtimev1.ExtensionConfig {
	e := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "windlass", Annotations: map[string]string{runtimev1.InjectCAFromSecretAnnotation: "windlass/ca"}}}
	e.Spec.ClientConfig.CABundle = testCA()
	e.Status.Conditions = []metav1.Condition{{Type: runtimev1.ExtensionConfigDiscoveredCondition, Status: metav1.ConditionTrue, Reason: "Discovered"}}
	for i, hook := range Hooks() {
		e.Status.Handlers = append(e.Status.Handlers, runtimev1.ExtensionHandler{
			Name:          fmt.Sprintf("handler-%d.windlass", i),
			RequestHook:   runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: hook},
			FailurePolicy: runtimev1.FailurePolicyFail,
		})
	}
	return e
}

// testCA returns a certificate of nobody, for a bundle that can be parsed.
var testCA = sync.OnceValue(func() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
})

func newPolicy(name string, strategy v1alpha1.UpdateStrategy, fallback v1alpha1.UpdateFallback, targets ...v1alpha1.UpdateTarget) v1alpha1.UpdatePolicy {
	return v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team-a"},
		Spec:       v1alpha1.UpdatePolicySpec{Strategy: strategy, Fallback: fallback, Targets: targets},
	}
}

func guardPolicy() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GuardConfigurationName},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "guard.windlass.dev", FailurePolicy: new(admissionregistrationv1.Fail),
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: v1alpha1.GuardLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{v1alpha1.GuardDisabled}},
			}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"cluster.x-k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"machines"}},
			}},
		}},
	}
}

func machine(name string, labels map[string]string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "team-a", Labels: labels, Annotations: map[string]string{}, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
	}}
	m.Spec.Version = "v1.31.2"
	return m
}

// healthy is a cluster of which everything can be kept.
func healthy() Facts {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: "prod-md-0", Namespace: "team-a", Labels: map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0"},
	}}
	md.Spec.Replicas = new(int32(4))
	md.Spec.Template.Spec.Version = "v1.31.2"
	md.Spec.Template.Labels = map[string]string{"pool": "md-0"}
	md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
	md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("25%"))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "team-a"}}
	cluster.Spec.Topology.ClassRef.Name = "quick-start"
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "md-0", Class: "worker"}}
	return Facts{
		Live: true, Now: now,
		Objects: snapshot.Objects{
			Cluster: cluster,
			ControlPlane: &unstructured.Unstructured{Object: map[string]any{
				"kind": "KubeadmControlPlane", "metadata": map[string]any{"name": "prod-cp", "namespace": "team-a"},
				"spec": map[string]any{
					"version": "v1.31.2", "replicas": int64(3),
					"rollout": map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": int64(0)}}},
				},
			}},
			MachineDeployments: []*clusterv1.MachineDeployment{md},
			Machines: []*clusterv1.Machine{
				machine("cp-1", map[string]string{clusterv1.MachineControlPlaneLabel: ""}),
				machine("w-1", map[string]string{clusterv1.MachineDeploymentNameLabel: "prod-md-0", "pool": "md-0"}),
			},
		},
		Policies: []v1alpha1.UpdatePolicy{
			newPolicy("all", v1alpha1.ExternalUpdate, v1alpha1.FallbackNone, v1alpha1.UpdateTarget{ClusterName: "prod"}),
		},
		Updaters: []v1alpha1.Updater{{
			ObjectMeta: metav1.ObjectMeta{Name: "kubeadm"},
			Spec:       v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{Channel: "{minor}-classic/stable"}}, Transitions: v1alpha1.Transitions{MaxMinors: 1}},
			Status:     v1alpha1.UpdaterStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue}}},
		}},
		Managers: []appsv1.Deployment{
			deployment("capi-controller-manager", "cluster-api", "--leader-elect", "--feature-gates=ClusterTopology=true,RuntimeSDK=true,InPlaceUpdates=true"),
			deployment("capi-kubeadm-control-plane-controller-manager", "control-plane-kubeadm", "--feature-gates", "InPlaceUpdates=true"),
		},
		Extensions: []runtimev1.ExtensionConfig{extension()},
		Handlers:   map[string]string{"CanUpdateMachine": "handler-0", "CanUpdateMachineSet": "handler-1", "UpdateMachine": "handler-2"},
		Guard:      guardPolicy(),
	}
}

const (
	controlPlane = "KubeadmControlPlane prod-cp"
	workers      = "MachineDeployment prod-md-0"
)

// bad are the findings that are not OK, as "severity id subject: message"; summaries are left out.
func bad(all []Finding) []string {
	var list []string
	for _, f := range all {
		if f.Severity != OK && f.ID != CheckMachinesKept {
			list = append(list, fmt.Sprintf("%s %s %s: %s", f.Severity, f.ID, f.Subject, f.Message))
		}
	}
	return list
}

// TestExamine breaks one thing at a time, and wants exactly the findings that follow.
func TestExamine(t *testing.T) {
	md := func(f *Facts) *clusterv1.MachineDeployment { return f.Objects.MachineDeployments[0] }
	set := func(f *Facts, value any, path ...string) {
		if err := unstructured.SetNestedField(f.Objects.ControlPlane.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	// asked makes the control plane one of another provider, which has asked about its Machine. The
	// answer is a record, or a refusal.
	asked := func(f *Facts, record string) {
		f.Objects.ControlPlane.SetKind("RKE2ControlPlane")
		m := f.Objects.Machines[0]
		if record != "" {
			m.Annotations[record] = `[{"id":"1","steps":[],"currentDigest":"a","desiredDigest":"b","decided":"2026-03-04T11:00:00Z"}]`
			return
		}
		m.Spec.Version = "v1.30.2"
		m.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.NotCoveredReason, Message: "no",
		}}
	}
	fallback := func(f *Facts) { f.Policies[0].Spec.Fallback = v1alpha1.FallbackRollingUpdate }
	for _, test := range []struct {
		name   string
		change func(*Facts)
		// want are parts of the findings, in order.
		want []string
	}{
		{"core manager without gates", func(f *Facts) {
			f.Managers[0] = deployment("capi-controller-manager", "cluster-api", "--feature-gates=RuntimeSDK=true")
		},
			[]string{"Error FeatureGates Deployment capi-system/capi-controller-manager: switched off: InPlaceUpdates"}},
		{"kubeadm manager without arguments", func(f *Facts) { f.Managers[1].Spec.Template.Spec.Containers[0].Args = nil },
			[]string{"Error FeatureGates Deployment capi-system/capi-kubeadm-control-plane-controller-manager: switched off: InPlaceUpdates;"}},
		{"gates switched off again", func(f *Facts) {
			f.Managers[1] = deployment("m", "control-plane-kubeadm", "--feature-gates=InPlaceUpdates=true", "--feature-gates=InPlaceUpdates=false", "InPlaceUpdates=true")
		}, []string{"Error FeatureGates Deployment capi-system/m: switched off: InPlaceUpdates;"}},
		{"all alpha gates", func(f *Facts) { f.Managers[0] = deployment("m", "cluster-api", "-feature-gates=AllAlpha=true") }, nil},
		{"all alpha gates but one", func(f *Facts) {
			f.Managers[0] = deployment("m", "cluster-api", "--feature-gates=AllAlpha=true,RuntimeSDK=false")
		},
			[]string{"switched off: RuntimeSDK;"}},
		{"a gate that is neither", func(f *Facts) { f.Managers[0] = deployment("m", "cluster-api", "--feature-gates=RuntimeSDK=${EXP}") },
			[]string{`"${EXP}" is neither true nor false`}},
		{"managers are processes", func(f *Facts) { f.Managers = nil }, []string{
			"Warning FeatureGates capi-controller-manager: its feature gates are unknown", "Warning FeatureGates capi-kubeadm-control-plane-controller-manager: its feature gates are unknown",
		}},

		{"no extension", func(f *Facts) { f.Extensions = nil }, []string{
			"Error Extension hook CanUpdateMachine: no extension serves it", "Error Extension hook CanUpdateMachineSet: no extension", "Error Extension hook UpdateMachine: no extension",
		}},
		{"two extensions for one hook", func(f *Facts) {
			other := extension()
			other.Name, other.Status.Handlers = "other", other.Status.Handlers[:1]
			other.Status.Handlers[0].Name = "mine.other"
			f.Extensions = append(f.Extensions, other)
		}, []string{"Error Extension hook CanUpdateMachine: 2 handlers serve it (handler-0.windlass, mine.other)"}},
		{"k0smotron serves the hooks too, and no policy keeps machines", func(f *Facts) {
			other := extension()
			other.Name, other.Status.Handlers = k0smotronExtension, other.Status.Handlers[2:]
			other.Status.Handlers[0].Name = "update-machine." + k0smotronExtension
			f.Extensions = append(f.Extensions, other)
			f.Policies[0] = newPolicy("all", v1alpha1.RollingUpdate, "", v1alpha1.UpdateTarget{ClusterName: "prod"})
		}, []string{"Error Extension hook UpdateMachine: 2 handlers serve it (handler-2.windlass, update-machine.inplace-version-update-extensionconfig)"}},
		{"a second one for other namespaces", func(f *Facts) {
			other := extension()
			other.Name, other.Spec.NamespaceSelector = "other", &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
			f.Extensions = append(f.Extensions, other)
		}, nil},
		{"only for other namespaces", func(f *Facts) {
			f.Extensions[0].Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
		}, []string{"CanUpdateMachine: no extension", "CanUpdateMachineSet: no extension", "UpdateMachine: no extension"}},
		{"failure policy Ignore", func(f *Facts) { f.Extensions[0].Status.Handlers[2].FailurePolicy = runtimev1.FailurePolicyIgnore },
			[]string{"Error Extension hook UpdateMachine: handler handler-2.windlass has the failure policy Ignore"}},
		{"somebody else answers", func(f *Facts) { f.Extensions[0].Status.Handlers[0].Name = "theirs.windlass" },
			[]string{"Error Extension hook CanUpdateMachine: theirs.windlass serves it, not Windlass"}},
		{"not discovered any more", func(f *Facts) {
			f.Extensions[0].Status.Conditions[0].Status, f.Extensions[0].Status.Conditions[0].Message = metav1.ConditionFalse, "connection refused"
		}, []string{"Error Extension ExtensionConfig windlass: Cluster API could not discover it: connection refused"}},
		{"never discovered", func(f *Facts) { f.Extensions[0].Status = runtimev1.ExtensionConfigStatus{} }, []string{
			"CanUpdateMachine: no extension", "CanUpdateMachineSet: no extension", "UpdateMachine: no extension", "ExtensionConfig windlass: Cluster API has not discovered it",
		}},
		{"CA bundle not injected", func(f *Facts) { f.Extensions[0].Spec.ClientConfig.CABundle = nil },
			[]string{"Error Extension ExtensionConfig windlass: its CA bundle is empty, though it is to be taken from Secret windlass/ca"}},
		{"no CA bundle", func(f *Facts) { f.Extensions[0].Spec.ClientConfig.CABundle, f.Extensions[0].Annotations = nil, nil },
			[]string{"Warning Extension ExtensionConfig windlass: its CA bundle is empty"}},
		{"CA bundle is no PEM", func(f *Facts) { f.Extensions[0].Spec.ClientConfig.CABundle = []byte("x") },
			[]string{"Error Extension ExtensionConfig windlass: its CA bundle holds no certificate"}},

		{"no updaters", func(f *Facts) { f.Updaters = nil },
			[]string{"Error Updaters " + controlPlane + ": no Updater", "Error Updaters " + workers + ": no Updater"}},
		{"no updater for the control plane", func(f *Facts) {
			f.Updaters[0].Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "md-0"}}
		}, []string{"Error Updaters " + controlPlane + ": no Updater"}},
		{"no updaters, machines may be replaced", func(f *Facts) { fallback(f); f.Updaters = nil },
			[]string{"Warning Updaters " + controlPlane, "Warning Updaters " + workers}},
		{"updater not ready", func(f *Facts) {
			f.Updaters[0].Status.Conditions[0].Status, f.Updaters[0].Status.Conditions[0].Message = metav1.ConditionFalse, "timeout"
		}, []string{`Error Updaters ` + controlPlane + `: Updater "kubeadm" cannot be asked: timeout; the extension refuses`, "Error Updaters " + workers}},
		{"updater not ready, and ignored", func(f *Facts) {
			f.Updaters[0].Spec.InProcess, f.Updaters[0].Spec.Remote = nil, &v1alpha1.RemoteUpdater{URL: "https://x", FailurePolicy: v1alpha1.UpdaterIgnore}
			f.Updaters[0].Status.Conditions[0].Status = metav1.ConditionFalse
		}, []string{"Warning Updaters " + controlPlane, "Warning Updaters " + workers}},
		{"updater never asked", func(f *Facts) { f.Updaters[0].Status = v1alpha1.UpdaterStatus{} },
			[]string{"Warning Updaters " + controlPlane + ": it is unknown whether", "Warning Updaters " + workers}},
		{"updater that cannot be used", func(f *Facts) { f.Updaters[0].Spec.InProcess = nil },
			[]string{"Error Updaters " + controlPlane + `: Updater "kubeadm" cannot be used`, "Error Updaters " + workers}},

		{"no policy", func(f *Facts) { f.Policies = nil }, []string{
			"Warning Policy " + controlPlane + ": no UpdatePolicy selects it", "Warning Policy " + workers,
		}},
		{"replaced on purpose", func(f *Facts) {
			f.Policies[0] = newPolicy("all", v1alpha1.RollingUpdate, "", v1alpha1.UpdateTarget{ClusterName: "prod"})
			f.Extensions, f.Managers, f.Updaters, f.Guard = nil, nil, nil, nil
		}, nil},
		{"conflict", func(f *Facts) {
			twin := f.Policies[0]
			twin.Name = "twin"
			f.Policies = append(f.Policies, twin)
		}, []string{"Error Policy " + controlPlane + `: UpdatePolicies "all", "twin" select`, "Error Policy " + workers}},
		{"invalid policy", func(f *Facts) { f.Policies[0].Spec.Strategy = "Magic" }, []string{`Error Policy ` + controlPlane + `: UpdatePolicy "team-a/all" cannot be used`, "Error Policy " + workers}},

		{"guard not installed", func(f *Facts) { f.Guard = nil }, []string{"Error Guard guard: there is no ValidatingWebhookConfiguration"}},
		{"guard that does not include the groups", func(f *Facts) {
			f.Guard.Webhooks[0].MatchConditions = []admissionregistrationv1.MatchCondition{{
				Name: v1alpha1.GuardScopeCondition, Expression: guard.NewScope("another").Expression("p"),
			}}
		}, []string{`Error Guard guard: the match condition "kept-by-policies" of ValidatingWebhookConfiguration "windlass-guard" does not include`}},
		{"guard not needed", func(f *Facts) { fallback(f); f.Guard = nil }, nil},
		{"guard ignores failures", func(f *Facts) { f.Guard.Webhooks[0].FailurePolicy = new(admissionregistrationv1.Ignore) }, []string{"Error Guard guard: no webhook"}},
		{"namespace left out", func(f *Facts) { f.NamespaceLabels = map[string]string{v1alpha1.GuardLabel: v1alpha1.GuardDisabled} },
			[]string{`Error Guard guard: namespace "team-a" has the label windlass.dev/guard=disabled`}},

		{"control plane surges by default", func(f *Facts) { unstructured.RemoveNestedField(f.Objects.ControlPlane.Object, "spec", "rollout") },
			[]string{"Error Surge " + controlPlane + ": maxSurge is 1 (the default): Cluster API creates a machine before it asks, and deletes one in the end; the guard refuses"}},
		{"control plane surges, machines may be replaced", func(f *Facts) {
			fallback(f)
			set(f, int64(1), "spec", "rollout", "strategy", "rollingUpdate", "maxSurge")
		}, []string{"Warning Surge " + controlPlane + ": maxSurge is 1"}},
		{"control plane of an older API version", func(f *Facts) {
			unstructured.RemoveNestedField(f.Objects.ControlPlane.Object, "spec", "rollout")
			set(f, int64(0), "spec", "rolloutStrategy", "rollingUpdate", "maxSurge")
		}, nil},
		{"no control plane yet", func(f *Facts) {
			f.Objects.ControlPlane = nil
			f.Objects.Cluster.Spec.Topology.ControlPlane.Replicas = new(int32(3))
		}, []string{"Warning Surge control plane: its maxSurge is unknown"}},
		{"no control plane yet, but its template", func(f *Facts) {
			f.Objects.Cluster.Spec.Topology.ControlPlane.Replicas = new(int32(3))
			strategy, _, _ := unstructured.NestedMap(f.Objects.ControlPlane.Object, "spec", "rollout")
			f.Objects.ControlPlane = nil
			f.ControlPlaneTemplate = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"rollout": strategy}}}}}
		}, nil},
		{"single control plane", func(f *Facts) { set(f, int64(1), "spec", "replicas") },
			[]string{"Error Replicas " + controlPlane + ": stock Cluster API cannot keep a control plane of 1"}},
		{"single control plane, on its way", func(f *Facts) {
			set(f, int64(1), "spec", "replicas")
			set(f, "v1.99.0", "spec", "version")
			set(f, int64(1), "spec", "rollout", "strategy", "rollingUpdate", "maxSurge")
			all := f.Objects.Machines
			f.Objects.Machines = slices.DeleteFunc(slices.Clone(all), func(m *clusterv1.Machine) bool {
				return capi.IsControlPlane(m) && m != all[slices.IndexFunc(all, func(m *clusterv1.Machine) bool { return capi.IsControlPlane(m) })]
			})
		}, []string{"Error Replicas " + controlPlane + ": stock Cluster API cannot keep a control plane of 1: it adds a machine before it asks, because its webhook refuses maxSurge 0 below 3 replicas; it is stuck now on its way to v1.99.0"}},
		{"single control plane, may be replaced", func(f *Facts) { fallback(f); set(f, int64(1), "spec", "replicas") }, []string{"Warning Replicas " + controlPlane}},
		{"replicas not known", func(f *Facts) { unstructured.RemoveNestedField(f.Objects.ControlPlane.Object, "spec", "replicas") },
			[]string{"Warning Replicas " + controlPlane + ": its replicas are not known"}},
		{"another control plane provider, which has not asked", func(f *Facts) { f.Objects.ControlPlane.SetKind("RKE2ControlPlane") },
			[]string{"Warning Replicas RKE2ControlPlane prod-cp: it is unknown whether its provider asks"}},
		{"another control plane provider, which has asked", func(f *Facts) { asked(f, v1alpha1.UpdateDecisionsAnnotation) }, nil},
		{"which was refused, and surges", func(f *Facts) {
			asked(f, "")
			set(f, int64(1), "spec", "rollout", "strategy", "rollingUpdate", "maxSurge")
		}, []string{"Error Surge RKE2ControlPlane prod-cp: maxSurge is 1: its provider creates", "Error Machines Machine"}},
		{"which has asked, and a maxSurge that is not set", func(f *Facts) {
			asked(f, v1alpha1.UpdateDecisionsAnnotation)
			unstructured.RemoveNestedField(f.Objects.ControlPlane.Object, "spec", "rollout")
		}, []string{"Warning Surge RKE2ControlPlane prod-cp: its maxSurge is not set"}},

		{"workers surge by default", func(f *Facts) { md(f).Spec.Rollout.Strategy.RollingUpdate.MaxSurge = nil },
			[]string{"Error Surge " + workers + ": maxSurge is 1 (the default)"}},
		{"workers surge, and the engine is ours", func(f *Facts) {
			f.Engine = v1alpha1.EngineManager
			md(f).Spec.Rollout.Strategy.RollingUpdate.MaxSurge = nil
		}, nil},
		{"workers surge, the engine is ours, and machines may be replaced", func(f *Facts) {
			fallback(f)
			f.Engine = v1alpha1.EngineManager
			md(f).Spec.Rollout.Strategy.RollingUpdate.MaxSurge = nil
		}, []string{"Warning Surge " + workers + ": maxSurge is 1 (the default)"}},
		{"nothing may be unavailable", func(f *Facts) { md(f).Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = nil },
			nil},
		{"a percentage of too few", func(f *Facts) { md(f).Spec.Replicas = new(int32(3)) },
			nil},
		{"a percentage that is none", func(f *Facts) { md(f).Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("few")) },
			[]string{"Error Surge " + workers + ": its rollout strategy cannot be read: reading maxSurge"}},
		{"OnDelete", func(f *Facts) {
			md(f).Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
		}, []string{"Error Surge " + workers + ": its rollout strategy is OnDelete"}},
		{"OnDelete, the policy updates in place, and the engine is ours", func(f *Facts) {
			f.Engine = v1alpha1.EngineManager
			md(f).Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			for i := range f.Policies {
				f.Policies[i].Spec.OnDelete = v1alpha1.OnDeleteInPlace
			}
		}, nil},
		{"strategy of the topology", func(f *Facts) {
			f.Objects.MachineDeployments, f.Objects.Machines = nil, f.Objects.Machines[:1]
			f.Objects.Cluster.Spec.Topology.Workers.MachineDeployments[0].Rollout.Strategy = clusterv1.MachineDeploymentTopologyRolloutStrategy{
				Type:          clusterv1.RollingUpdateMachineDeploymentStrategyType,
				RollingUpdate: clusterv1.MachineDeploymentTopologyRolloutStrategyRollingUpdate{MaxSurge: new(intstr.FromInt32(2))},
			}
		}, []string{"Error Surge MachineDeployment of topology md-0: maxSurge is 2"}},
		{"strategy of the class", func(f *Facts) {
			f.Objects.MachineDeployments, f.Objects.Machines = nil, f.Objects.Machines[:1]
			class := clusterv1.MachineDeploymentClass{Class: "worker"}
			class.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
			class.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
			f.Class = &clusterv1.ClusterClass{}
			f.Class.Spec.Workers.MachineDeployments = []clusterv1.MachineDeploymentClass{class}
		}, nil},

		{"certificates", func(f *Facts) { set(f, int64(14), "spec", "rollout", "before", "certificatesExpiryDays") },
			[]string{"Error RolloutTimes " + controlPlane + ": spec.rollout.before is set: 14 days"}},
		{"rollout to come", func(f *Facts) { md(f).Spec.Rollout.After = metav1.NewTime(now.Add(time.Hour)) },
			[]string{"Error RolloutTimes " + workers + ": rollout.after is 2026-03-04T13:00:00Z"}},
		{"rollout not done", func(f *Facts) { set(f, now.Add(-time.Minute).Format(time.RFC3339), "spec", "rollout", "after") },
			[]string{"Error RolloutTimes " + controlPlane + ": rollout.after is 2026-03-04T11:59:00Z"}},
		{"rollout long ago", func(f *Facts) { md(f).Spec.Rollout.After = metav1.NewTime(now.Add(-24 * time.Hour)) }, nil},

		{"missing template", func(f *Facts) {
			f.Missing = []Reference{{Group: "prod-md-0", From: "MachineSet prod-md-0-x", To: "DevMachineTemplate old"}, {From: "Machine cp-1", To: "KubeadmConfig cp-1"}}
		}, []string{
			"Error Templates " + controlPlane + ": Machine cp-1 refers to KubeadmConfig cp-1", "Error Templates " + workers + ": MachineSet prod-md-0-x refers to DevMachineTemplate old",
		}},
		{"health check", func(f *Facts) {
			f.HealthChecks = []*clusterv1.MachineHealthCheck{healthCheck(map[string]string{"pool": "md-0"}, 600)}
		}, []string{"Warning HealthChecks " + workers + ": MachineHealthCheck mhc: remediation replaces"}},
		{"health check of others", func(f *Facts) {
			f.HealthChecks = []*clusterv1.MachineHealthCheck{healthCheck(map[string]string{"pool": "md-1"}, 600)}
		}, nil},
		{"impatient health check", func(f *Facts) {
			f.HealthChecks = []*clusterv1.MachineHealthCheck{healthCheck(map[string]string{"pool": "md-0"}, 60)}
			f.Objects.Machines[0].Annotations[v1alpha1.LastUpdateAnnotation] = `{"began": "2026-03-04T10:00:00Z", "ended": "2026-03-04T10:05:00Z", "done": []}`
		}, []string{"Its shortest timeout (1m0s) is shorter than an update usually takes (5m0s, of 1 measured)"}},

		{"paused", func(f *Facts) {
			f.Objects.Cluster.Spec.Paused = new(true)
			md(f).Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, []string{"Warning Paused Cluster prod", "Warning Paused " + workers}},

		{"topology that fails", func(f *Facts) {
			f.Objects.Cluster.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse,
				Reason: clusterv1.ClusterTopologyReconciledFailedReason, Message: "a patch does not apply",
			}}
		}, []string{"Warning Topology Cluster prod: the controller of the topology changes nothing: a patch does not apply"}},
		{"a step that is not announced", func(f *Facts) {
			f.Objects.Cluster.Spec.Topology.Version = "v1.33.5"
			f.Objects.ControlPlane.Object["status"] = map[string]any{"conditions": []any{map[string]any{
				"type": "MachinesUpToDate", "status": "False", "lastTransitionTime": "2026-11-27T06:00:00Z",
			}}}
			f.Objects.Machines = append(f.Objects.Machines, &clusterv1.Machine{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}},
				Spec:       clusterv1.MachineSpec{Version: "v1.30.9"},
			})
		}, []string{"Warning Topology Cluster prod: KubeadmControlPlane prod-cp waits at v1.31.2, with machines at v1.30.9: the topology asks for v1.33.5, " +
			"and Cluster API has not announced the step with the annotation topology.internal.cluster.x-k8s.io/upgrade-step, " +
			"without which it creates no machine, since 2026-11-27T06:00:00Z"}},
		{"topology that waits", func(f *Facts) {
			f.Objects.Cluster.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse,
				Reason: clusterv1.ClusterTopologyReconciledClusterUpgradingReason, Message: "Cluster is upgrading to v1.35.0",
			}}
		}, nil},

		{"failed machine", func(f *Facts) {
			f.Objects.Machines[1].Annotations[v1alpha1.UpdateProgressAnnotation] = `{"phase": "Failed", "lastError": "the disk is full"}`
		}, []string{"Error Machines Machine w-1: its update failed: the disk is full"}},
		{"machine under update, and a dirty one", func(f *Facts) {
			f.Objects.Machines[1].Annotations[v1alpha1.UpdateProgressAnnotation] = `{"phase": "Updating"}`
			f.Objects.Machines[0].Annotations[v1alpha1.DirtyFieldsAnnotation] = `[{"object": "Machine", "path": "/spec/a"}, {"object": "Machine", "path": "/spec/b"}]`
		}, []string{"Warning Machines " + controlPlane + ": with fields that were not applied to the running machine: cp-1", "Warning Machines " + workers + ": under update: w-1"}},
		{"blocked group", func(f *Facts) {
			md(f).Status.Conditions = []metav1.Condition{{Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: "NotCovered", Message: "no updater covers x"}}
		}, []string{"Error Machines " + workers + ": its update is blocked (NotCovered): no updater covers x"}},
		{"garbage", func(f *Facts) { f.Objects.Machines[1].Annotations[v1alpha1.UpdateProgressAnnotation] = "x" },
			[]string{"Error Machines Machine w-1: annotation windlass.dev/update-progress"}},

		{"nothing but the cluster can be read", func(f *Facts) {
			f.Managers, f.Extensions, f.Updaters, f.Guard = nil, nil, nil, nil
			for _, s := range []Source{SourceManagers, SourceExtensions, SourceUpdaters, SourceGuard, SourceNamespace, SourceTemplates, SourceHealthChecks} {
				f.Unread = append(f.Unread, Unread{Source: s, Problem: "forbidden", Fix: "ask"})
			}
		}, []string{"Warning Unread Deployments", "ExtensionConfigs", "Updaters", "guard", "namespace", "templates", "MachineHealthChecks"}},
		{"manifests only", func(f *Facts) {
			f.Live, f.Managers, f.Extensions, f.Guard = false, nil, nil, nil
		}, []string{
			"Warning FeatureGates capi-controller-manager: its feature gates are unknown", "Warning FeatureGates capi-kubeadm",
			"Warning Extension ExtensionConfigs: manifests do not show", "Warning Guard guard: manifests do not show",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := healthy()
			test.change(&f)
			all, _ := Examine(f)
			got := bad(all)
			if len(got) != len(test.want) {
				t.Fatalf("%d findings, want %d:\n%s", len(got), len(test.want), strings.Join(got, "\n"))
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("finding %d is %q, want %q in it", i, got[i], want)
				}
			}
			for _, found := range all {
				if found.Severity != OK && found.Fix == "" && found.ID != CheckMachinesKept {
					t.Errorf("%q does not say what to change", found.Message)
				}
			}
			again, _ := Examine(f)
			if diff := cmp.Diff(all, again); diff != "" {
				t.Errorf("the same facts, examined again:\n%s", diff)
			}
		})
	}
}
