package guardwebhook_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	apiadmission "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/guard"
)

// webhook is the guard's webhook in an API server.
type webhook struct{ matcher matchconditions.Matcher }

func newWebhook(scope guard.Scope) webhook {
	compiler := plugincel.NewConditionCompiler(
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	condition := &matchconditions.MatchCondition{Name: "scope", Expression: scope.Expression("1-p")}
	evaluator := compiler.CompileCondition([]plugincel.ExpressionAccessor{condition},
		plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
	return webhook{matchconditions.NewMatcher(evaluator, nil, "webhook", "validating", "guard")}
}

// asks reports whether the API server asks the guard about a request.
func (w webhook) asks(
	t *testing.T, operation guard.Operation, m *unstructured.Unstructured,
) (bool, error) {
	t.Helper()
	kind, resource := m.GroupVersionKind(), clusterv1.GroupVersion.WithResource("machines")
	var attributes apiadmission.Attributes
	versioned := &apiadmission.VersionedAttributes{VersionedKind: kind}
	if operation == guard.Create {
		attributes = apiadmission.NewAttributesRecord(m, nil, kind, m.GetNamespace(), m.GetName(),
			resource, "", apiadmission.Create, nil, false, nil)
		versioned.VersionedObject = m
	} else {
		attributes = apiadmission.NewAttributesRecord(nil, m, kind, m.GetNamespace(), m.GetName(),
			resource, "", apiadmission.Delete, nil, false, nil)
		versioned.VersionedOldObject = m
	}
	versioned.Attributes = attributes
	result := w.matcher.Match(t.Context(), versioned, nil, nil)
	return result.Matches, result.Error
}

// ownersOfMachines are the owner references that a Machine may have.
func ownersOfMachines() map[string][]metav1.OwnerReference {
	ref := func(apiVersion, kind, name string, controller bool) metav1.OwnerReference {
		return metav1.OwnerReference{
			APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &controller,
		}
	}
	core, planes := clusterv1.GroupVersion.String(), "controlplane.cluster.x-k8s.io/"
	kcp := ref(planes+"v1beta2", "KubeadmControlPlane", "c-cp", true)
	set := ref(core, "MachineSet", "ms-new", true)
	replaced := kcp
	replaced.UID = "uid-of-another"
	without := set
	without.Controller = nil
	return map[string][]metav1.OwnerReference{
		"none":                               nil,
		"MachineSet":                         {set},
		"MachineSet of v1beta1":              {ref("cluster.x-k8s.io/v1beta1", "MachineSet", "ms-new", true)},
		"MachineSet of another deployment":   {ref(core, "MachineSet", "ms-up", true)},
		"MachineSet that stands alone":       {ref(core, "MachineSet", "alone", true)},
		"MachineSet that is gone":            {ref(core, "MachineSet", "gone", true)},
		"MachineSet of another group":        {ref("apps.example/v1", "MachineSet", "ms-new", true)},
		"MachineSet that does not control":   {ref(core, "MachineSet", "ms-new", false)},
		"MachineSet, controller unset":       {without},
		"MachineDeployment":                  {ref(core, "MachineDeployment", "c-md", true)},
		"another MachineDeployment":          {ref(core, "MachineDeployment", "up", true)},
		"MachinePool":                        {ref(core, "MachinePool", "c-mp", true)},
		"KubeadmControlPlane":                {kcp},
		"KubeadmControlPlane, replaced":      {replaced},
		"another control plane":              {ref(planes+"v1alpha3", "TalosControlPlane", "talos", true)},
		"KubeadmControlPlane and MachineSet": {ref(core, "MachineSet", "ms-new", false), kcp},
		"MachineSet and KubeadmControlPlane": {ref(planes+"v1beta2", "KubeadmControlPlane", "c-cp", false), set},
		"Cluster and MachineDeployment":      {ref(core, "Cluster", "c", false), ref(core, "MachineDeployment", "c-md", true)},
	}
}

// labelsOfMachines are all combinations of labels, absent, empty and with each value.
func labelsOfMachines() []map[string]string {
	all := []map[string]string{{}}
	for _, label := range []struct {
		name   string
		values []string
	}{
		{clusterv1.MachineControlPlaneLabel, []string{"", "x"}},
		{clusterv1.MachineDeploymentNameLabel, []string{"", "c-md", "up", "gone"}},
		{clusterv1.MachineSetNameLabel, []string{"", "ms-new"}},
		{clusterv1.MachinePoolNameLabel, []string{"", "c-mp"}},
		{clusterv1.ClusterNameLabel, []string{"", "c"}},
	} {
		for _, labels := range slices.Clone(all) {
			for _, value := range label.values {
				with := maps.Clone(labels)
				with[label.name] = value
				all = append(all, with)
			}
		}
	}
	return all
}

// TestAskedWhereTheGuardDecides compares two answers to "which group", for all combinations of labels
// and owners: that of the guard, and that of the match condition by which API servers ask the guard.
// If the guard places a Machine in a kept group, they must ask. They may ask in vain: only for Machines
// of control planes that nothing known controls, and for those whose MachineSet alone knows the group.
func TestAskedWhereTheGuardDecides(t *testing.T) {
	t.Parallel()
	up := deployment()
	up.Name, up.UID = "up", "uid-up"
	w := newWorld(t, up, machineSet("ms-up", up))
	w.foreignPlane()
	md := guard.MachineDeploymentEntry(namespace, "c", "c-md")
	cp := guard.ControlPlaneEntry(namespace, "c")
	scopes := []guard.Scope{
		guard.NewScope(md), guard.NewScope(cp), guard.NewScope(guard.ClusterEntry(namespace, "c")),
		guard.NewScope(guard.MachineDeploymentEntry(namespace, "d", "c-md"), guard.NamespaceEntry("another")),
	}
	webhooks := make([]webhook, len(scopes))
	for i, scope := range scopes {
		webhooks[i] = newWebhook(scope)
	}
	asked, vain := 0, map[string]int{}
	for name, owners := range ownersOfMachines() {
		for i, labels := range labelsOfMachines() {
			operation := []guard.Operation{guard.Create, guard.Delete}[i%2]
			m, entry := w.place(operation, labels, owners)
			for j, scope := range scopes {
				asks, err := webhooks[j].asks(t, operation, m)
				if err != nil {
					t.Fatalf("owner %s, labels %v: %v", name, labels, err)
				}
				covered := entry != "" && scope.Covers(entry)
				switch {
				case covered && !asks:
					t.Errorf("owner %s, labels %v, scope %v: the guard decides by %s, and is not asked",
						name, labels, scope, entry)
				case covered:
					asked++
				case asks:
					vain[reasonToAsk(labels, name)]++
				}
			}
		}
	}
	t.Logf("asked where the guard decides: %d times; in vain: %v", asked, vain)
	if asked == 0 || vain[""] > 0 {
		t.Errorf("asked %d times where the guard decides, and %d times without a reason", asked, vain[""])
	}
}

// place returns a Machine, and the entry of the group in which the guard places it; empty if it has
// none.
func (w *world) place(
	operation guard.Operation, labels map[string]string, owners []metav1.OwnerReference,
) (m *unstructured.Unstructured, entry string) {
	w.t.Helper()
	typed := machine("m", nil, nil)
	typed.Labels, typed.OwnerReferences = labels, owners
	raw, err := json.Marshal(typed)
	if err != nil {
		w.t.Fatal(err)
	}
	m = &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &m.Object); err != nil {
		w.t.Fatal(err)
	}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: namespace}}
	request.Object.Raw, request.OldObject.Raw = raw, raw
	cluster := &clusterv1.Cluster{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "c"}, cluster); err != nil {
		w.t.Fatal(err)
	}
	group, ok, err := w.guard.GroupOf(w.t.Context(), operation, cluster, request)
	switch {
	case err != nil:
		w.t.Fatal(err)
	case ok && group.ControlPlane:
		entry = guard.ControlPlaneEntry(group.Namespace, group.Cluster)
	case ok:
		entry = guard.MachineDeploymentEntry(group.Namespace, group.Cluster, group.Object)
	}
	return m, entry
}

// reasonToAsk is why an API server may ask about a Machine in vain; empty if it must not.
func reasonToAsk(labels map[string]string, owner string) string {
	_, plane := labels[clusterv1.MachineControlPlaneLabel]
	deployment := labels[clusterv1.MachineDeploymentNameLabel]
	switch {
	case owner == "KubeadmControlPlane, replaced":
		return "no control plane that exists controls it"
	case !plane && deployment == "gone":
		return "its MachineDeployment is gone"
	case !plane && deployment != "":
		return ""
	case strings.HasPrefix(owner, "MachineSet"):
		return "its MachineSet alone knows the group"
	case plane:
		return "no control plane that exists controls it"
	default:
		return ""
	}
}

// TestLongestScopeIsAsked evaluates an expression of the greatest length, for the Machine that costs
// the most: the API server bounds the cost, and refuses Machines for whom it is exceeded.
func TestLongestScopeIsAsked(t *testing.T) {
	t.Parallel()
	entries, size := []string{}, len(guard.NewScope().Expression("1-p"))
	for i := 0; size < guard.MaxExpression-100; i++ {
		entry := guard.MachineDeploymentEntry(fmt.Sprintf("n%d", i), "c", "d")
		entries, size = append(entries, entry), size+len(entry)+len("\"\",\n")
	}
	scope := guard.NewScope(entries...)
	if fit := scope.Fit(); len(fit) != len(scope) {
		t.Fatalf("%d entries became %d", len(scope), len(fit))
	}
	w := newWorld(t)
	m, _ := w.place(guard.Delete, map[string]string{clusterv1.MachineControlPlaneLabel: ""},
		ownersOfMachines()["MachineSet"])
	longest := newWebhook(scope)
	if asks, err := longest.asks(t, guard.Delete, m); asks || err != nil {
		t.Errorf("a Machine outside of %d entries: %t, %v", len(scope), asks, err)
	}
	m.SetNamespace(scope.Namespaces()[len(scope.Namespaces())-1])
	if asks, err := longest.asks(t, guard.Delete, m); !asks || err != nil {
		t.Errorf("a Machine of the last of %d entries: %t, %v", len(scope), asks, err)
	}
}
