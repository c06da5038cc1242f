package check

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/test/loopback"
)

// young is the check that a new API server cannot pass: it must have run for ten minutes, and report when it started.
const young = "RemovedAPIsRequested"

// preflight runs the command and returns its report, what it printed, and its exit code.
func (w *world) preflight(t *testing.T, flags ...string) (report, string, int) {
	t.Helper()
	command := w.command(t.Context(), w.plane.Executable, append([]string{"preflight", "my-cluster", "-n", w.namespace, "-o", "json"}, flags...)...)
	var errors bytes.Buffer
	command.Stderr = &errors
	output, err := command.Output()
	var got report
	if decoding := json.Unmarshal(output, &got); decoding != nil {
		t.Fatalf("%v, %v: %s%s", err, decoding, output, errors.String())
	}
	return got, string(output), command.ProcessState.ExitCode()
}

// worker adds a Machine with a Node that has a Pod which fits nowhere else.
func (w *world) worker(t *testing.T) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-worker"}}
	w.plane.CreateForTest(t, node)
	node.Status = *w.node.Status.DeepCopy()
	node.Status.Allocatable = make(corev1.ResourceList)
	for name, quantity := range map[string]string{"cpu": "4", "memory": "8Gi", "pods": "10"} {
		node.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	requests := make(corev1.ResourceList)
	requests[corev1.ResourceCPU] = resource.MustParse("2")
	if err := w.plane.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.plane.Create(t,
		&clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "w", Labels: map[string]string{clusterv1.ClusterNameLabel: "my-cluster"}},
			Spec: clusterv1.MachineSpec{
				ClusterName: "my-cluster", Version: w.version,
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachine", Name: "w"},
				Bootstrap:         clusterv1.Bootstrap{DataSecretName: new("none")},
			},
			Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: node.Name}},
		},
	)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web", Labels: map[string]string{"app": w.namespace}},
		// Without a grace period, because no kubelet ends the Pod.
		Spec: corev1.PodSpec{NodeName: node.Name, TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests},
		}}},
	}
	w.plane.CreateForTest(t, pod)
	// The API server asks no PodDisruptionBudget about a Pod that is pending.
	pod.Status.Phase = corev1.PodRunning
	if err := w.plane.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// faults creates an object for each rule that a real API server can break without controllers.
func (w *world) faults(t *testing.T) {
	t.Helper()
	w.worker(t)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.namespace}}
	never := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "never"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: new(intstr.FromInt32(0))},
	}
	w.plane.CreateForTest(t, never)
	w.plane.CreateForTest(t, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "too"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: new(intstr.FromInt32(0))},
	})
	never.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: never.Generation, ExpectedPods: 1, DesiredHealthy: 1, CurrentHealthy: 1}
	if err := w.plane.Client.Status().Update(t.Context(), never); err != nil {
		t.Fatal(err)
	}
	w.plane.CreateForTest(t, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "pods.example.com", SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: w.namespace, Name: "gone"}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	})
	w.storeTwice(t)
	w.managed(t)
	w.extend(t, "one")
	w.extend(t, "two")
}

// extend registers an extension for the machines of the world's namespace.
func (w *world) extend(t *testing.T, name string) {
	t.Helper()
	own := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}}
	e := hookserver.ExtensionConfig(w.namespace+"-"+name, "https://127.0.0.1:1", nil, nil)
	e.Spec.NamespaceSelector = own
	w.plane.CreateForTest(t, e)
	e.Status.Handlers = []runtimev1.ExtensionHandler{{
		Name: "can-update." + e.Name, FailurePolicy: runtimev1.FailurePolicyFail, TimeoutSeconds: 10,
		RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "CanUpdateMachine"},
	}}
	if err := w.plane.Client.Status().Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// managed makes the objects of the management cluster report what is wrong.
func (w *world) managed(t *testing.T) {
	t.Helper()
	cp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cp"}}
	w.plane.Get(t, cp)
	cp.Status.Conditions = []metav1.Condition{{
		Type: controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition, Status: metav1.ConditionFalse, Reason: "NotHealthy",
		Message: "a member is down", LastTransitionTime: metav1.Now(),
	}}
	if err := w.plane.Client.Status().Update(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	// Its only machine is kept, so Cluster API cannot move it.
	w.plane.Create(t, &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "keep"}, Spec: v1alpha1.UpdatePolicySpec{
		Targets: []v1alpha1.UpdateTarget{{ClusterName: "my-cluster"}}, Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone,
	}})
	w.plane.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "my-cluster-etcd"}, Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"tls.crt": loopback.NewAuthority(t, "etcd").PEM},
	})
}

// storeTwice creates a CustomResourceDefinition that may store objects in a version that it does not serve.
func (w *world) storeTwice(t *testing.T) {
	t.Helper()
	schema := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	group := w.namespace + ".example.com"
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "olds." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "olds", Singular: "old", Kind: "Old", ListKind: "OldList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1alpha1", Schema: schema, Storage: true}, {Name: "v1", Schema: schema, Served: true},
			},
		},
	}
	w.plane.CreateForTest(t, crd)
	for {
		w.plane.Get(t, crd)
		crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = false, true
		if err := w.plane.Client.Update(t.Context(), crd); err == nil {
			return
		} else if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestPreflightFindsFaults holds that each fault in a real cluster is found, with its object, in every format.
func TestPreflightFindsFaults(t *testing.T) {
	w := newWorld(t, "")
	w.faults(t)
	w.setKubelet(t, "v1.2.3")
	manifest := filepath.Join(t.TempDir(), "old.yaml")
	if err := os.WriteFile(manifest, []byte("{apiVersion: batch/v1beta1, kind: CronJob, metadata: {name: nightly, namespace: ops}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--to", "v1.99.0", "-f", manifest, "--certificate-days", "100000", "--skip", young}
	got, printed, code := w.preflight(t, flags...)
	want := map[string]string{
		"APIDiscovery": "Passed", "APIServerReady": "Passed", "EtcdHealthy": "Failed", "Nodes": "Failed", "VersionSkew": "Failed",
		"KnownRisks": "Passed", "ControlPlaneCanMove": "Failed", "TopologyReconciles": "Passed", "UpdateExtensions": "Failed", "ManagementWebhooks": "Passed", "AutoscalerInRollout": "Passed", "NewMachinesCanJoin": "Passed",
		"RemovedAPIsManaged": "Passed", "RemovedAPIsInManifests": "Failed",
		"RemovedSettings": "NotChecked", "MachineRequirements": "Passed", "StoredVersions": "Warned", "WebhookBackends": "Failed",
		"WebhookScope": "Warned", "BudgetsCanBeSatisfied": "Failed", "BudgetsOverlap": "Failed", "Certificates": "Failed", "NodeLabelsStay": "Passed", "RoomForDrains": "Warned",
	}
	if diff := cmp.Diff(want, got.outcomes()); diff != "" || code != 1 {
		t.Errorf("exit code %d, outcomes (-want +got):\n%s\n%+v", code, diff, got)
	}
	for _, object := range []string{
		"Node " + w.namespace, "the control plane object", "Secret my-cluster-etcd", "KubeadmControlPlane cp", "hook CanUpdateMachine", "CronJob ops/nightly", "olds." + w.namespace + ".example.com", "ValidatingWebhookConfiguration " + w.namespace + ", webhook pods.example.com",
		"PodDisruptionBudget " + w.namespace + "/never", "PodDisruptionBudgets " + w.namespace + "/never, too", "Node " + w.namespace + "-worker",
	} {
		if !strings.Contains(printed, object) {
			t.Errorf("no finding is about %s:\n%s", object, printed)
		}
	}
	for format, words := range map[string]string{"html": "<title>Preflight of my-cluster: " + w.version + " to v1.99.0</title>", "yaml": "outcome: Failed", "table": "| WebhookBackends "} {
		_, text := w.format(t, format, flags...)
		if !strings.Contains(text, words) || !strings.Contains(text, "nightly") {
			t.Errorf("-o %s does not contain %q:\n%.2000s", format, words, text)
		}
	}
}

// format runs the command for one format.
func (w *world) format(t *testing.T, format string, flags ...string) (int, string) {
	t.Helper()
	command := w.command(t.Context(), w.plane.Executable, append([]string{"preflight", "my-cluster", "-n", w.namespace, "-o", format}, flags...)...)
	output, _ := command.Output() // The exit code is looked at.
	return command.ProcessState.ExitCode(), string(output)
}

// TestPreflightPasses holds that a healthy cluster passes, and that an API server which does not know who uses what is not
// taken for one that has seen no removed API.
func TestPreflightPasses(t *testing.T) {
	w := newWorld(t, "")
	got, _, code := w.preflight(t, "--to", w.version, "--certificate-days", "0", "--skip", young)
	for _, f := range got.Findings {
		if f.Outcome != "Passed" {
			t.Errorf("%s: %s: %s", f.ID, f.Outcome, f.Message)
		}
	}
	// All but what is skipped, and the check of manifests.
	if want := len(preflight.IDs()) - 2; len(got.Findings) != want || code != 0 {
		t.Errorf("%d findings and exit code %d, want %d and 0", len(got.Findings), code, want)
	}
	got, _, code = w.preflight(t, "--to", w.version, "--certificate-days", "0")
	switch outcome := got.outcomes()[young]; {
	case outcome == "NotChecked" && code == 1 && got.message(young) != "":
	case outcome == "Passed" && code == 0:
	default:
		t.Errorf("%s is %s, exit code %d: %s", young, outcome, code, got.message(young))
	}
	if code, _ := w.format(t, "table", "--to", "v1.2.0"); code != 1 {
		t.Errorf("an older target ends with exit code %d", code)
	}
}

// TestPreflightGate runs the recipe of the documentation: it approves the version that was checked, if the preflight passes.
// The Cluster waits for another version, which stays unapproved.
func TestPreflightGate(t *testing.T) {
	w := newWorld(t, "")
	document, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "how-to", "preflight-an-upgrade.md"))
	if err != nil {
		t.Fatal(err)
	}
	gate := &v1alpha1.UpgradeGate{}
	if err := yaml.UnmarshalStrict([]byte(block(t, string(document), "yaml")), gate); err != nil {
		t.Fatal(err)
	}
	gate.Namespace = w.namespace
	w.plane.Create(t, gate)
	w.waitFor(t, gate, "v1.99.0")
	// The target is the version of this plane, which is too young for one check.
	recipe := strings.NewReplacer("my-namespace", w.namespace,
		"--to v1.36.1", "--to "+w.version+" --certificate-days 0 --skip "+young, "v1.36.1", w.version,
	).Replace(block(t, string(document), "sh"))
	approved := func() []string {
		w.plane.Get(t, gate)
		versions := []string{}
		for _, a := range gate.Status.Approvals {
			versions = append(versions, a.Version)
		}
		return versions
	}
	for _, tt := range []struct {
		name, kubelet string
		passes        bool
		want          []string
	}{
		{"with a Node at another version", "v1.2.3", false, []string{}},
		{"without faults", w.version, true, []string{w.version}},
	} {
		w.setKubelet(t, tt.kubelet)
		output, err := w.command(t.Context(), "sh", "-c", recipe).CombinedOutput()
		if diff := cmp.Diff(tt.want, approved()); diff != "" || (err == nil) != tt.passes {
			t.Errorf("%s: %v, approved versions (-want +got):\n%s\n%s", tt.name, err, diff, output)
		}
	}
}

// waitFor records that the Cluster waits at a gate before its upgrade to a version. No extension runs that would record it.
func (w *world) waitFor(t *testing.T, gate *v1alpha1.UpgradeGate, version string) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "my-cluster"}}
	w.plane.Get(t, cluster)
	gate.Status.Waiting = []v1alpha1.GateWaiting{{
		Cluster: cluster.Name, ClusterUID: string(cluster.UID), At: "BeforeClusterUpgrade", Version: version,
		Message: "it needs approval", Since: metav1.Now(),
	}}
	if err := w.plane.Client.Status().Update(t.Context(), gate); err != nil {
		t.Fatal(err)
	}
}

// TestPreflightRights holds that the rights which the reference lists suffice: the kubeconfig has no others.
func TestPreflightRights(t *testing.T) {
	w := newWorld(t, "")
	document, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "reference", "preflight-checks.md"))
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(block(t, string(document), "yaml")), role); err != nil {
		t.Fatal(err)
	}
	role.Name = w.namespace
	w.plane.CreateForTest(t, role)
	w.plane.CreateForTest(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: w.namespace}},
	})
	secret := w.secret(t)
	config, err := clientcmd.Load(secret.Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = w.namespace
	}
	w.plane.Get(t, secret)
	if secret.Data["value"], err = clientcmd.Write(*config); err != nil {
		t.Fatal(err)
	}
	if err := w.plane.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	got, _, _ := w.preflight(t, "--to", "v1.99.0", "--certificate-days", "0", "--skip", young)
	for _, f := range got.Findings {
		unknown := f.ID == "RemovedSettings" && strings.Contains(f.Message, "are not known to this release")
		if f.Outcome != "Passed" && !unknown {
			t.Errorf("%s: %s: %s", f.ID, f.Outcome, f.Message)
		}
	}
	if err := w.plane.Client.Delete(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	for {
		got, _, code := w.preflight(t, "--to", "v1.99.0", "--certificate-days", "0", "--skip", young)
		if outcomes := got.outcomes(); code == 1 && outcomes["BudgetsCanBeSatisfied"] == "NotChecked" && outcomes["StoredVersions"] == "NotChecked" {
			return
		} else if t.Context().Err() != nil {
			t.Fatalf("without rights: %+v", outcomes)
		}
	}
}
