// Package config_test checks that the manifests build, that every object is one that an API server would decode, and that
// they fit together.
package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// certificate and issuer are as much of cert-manager's types as is used here.
type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		CommonName string   `json:"commonName"`
		DNSNames   []string `json:"dnsNames"`
		Duration   string   `json:"duration"`
		IsCA       bool     `json:"isCA"`
		IssuerRef  struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"issuerRef"`
		PrivateKey struct {
			Algorithm      string `json:"algorithm"`
			RotationPolicy string `json:"rotationPolicy"`
			Size           int    `json:"size"`
		} `json:"privateKey"`
		SecretName string   `json:"secretName"`
		Usages     []string `json:"usages"`
	} `json:"spec"`
}

type issuer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SelfSigned *struct{} `json:"selfSigned"`
		CA         *struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
	} `json:"spec"`
}

// installation is what config/default builds.
type installation struct {
	namespace       corev1.Namespace
	crds            []apiextensionsv1.CustomResourceDefinition
	account         corev1.ServiceAccount
	roles           []rbacv1.ClusterRole
	bindings        []rbacv1.ClusterRoleBinding
	policies        []admissionregistrationv1.ValidatingAdmissionPolicy
	policyBindings  []admissionregistrationv1.ValidatingAdmissionPolicyBinding
	leaseRole       rbacv1.Role
	leaseBinding    rbacv1.RoleBinding
	guard           admissionregistrationv1.ValidatingWebhookConfiguration
	service         corev1.Service
	deployment      appsv1.Deployment
	budget          policyv1.PodDisruptionBudget
	networks        []networkingv1.NetworkPolicy
	extensionConfig runtimev1.ExtensionConfig
	certificates    []certificate
	issuers         []issuer
}

// build runs kustomize over a copy of this folder in memory, after an edit of the default kustomization.
func build(t *testing.T, edit func(kustomization string) string) string {
	t.Helper()
	memory := filesys.MakeFsInMemory()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if path == "default/kustomization.yaml" {
			content = []byte(edit(string(content)))
		}
		return memory.WriteFile("/config/"+path, content)
	})
	if err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/config/default")
	if err != nil {
		t.Fatal(err)
	}
	content, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// decode decodes every object strictly, as an API server with field validation does.
func decode(t *testing.T, manifests string) *installation {
	t.Helper()
	var i installation
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		var typed metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &typed); err != nil {
			t.Fatal(err)
		}
		var into any
		switch typed.APIVersion + " " + typed.Kind {
		case "v1 Namespace":
			into = &i.namespace
		case "v1 ServiceAccount":
			into = &i.account
		case "v1 Service":
			into = &i.service
		case "apps/v1 Deployment":
			into = &i.deployment
		case "policy/v1 PodDisruptionBudget":
			into = &i.budget
		case "rbac.authorization.k8s.io/v1 Role":
			into = &i.leaseRole
		case "rbac.authorization.k8s.io/v1 RoleBinding":
			into = &i.leaseBinding
		case "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration":
			into = &i.guard
		case "networking.k8s.io/v1 NetworkPolicy":
			i.networks = append(i.networks, networkingv1.NetworkPolicy{})
			into = &i.networks[len(i.networks)-1]
		case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":
			i.policies = append(i.policies, admissionregistrationv1.ValidatingAdmissionPolicy{})
			into = &i.policies[len(i.policies)-1]
		case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding":
			i.policyBindings = append(i.policyBindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{})
			into = &i.policyBindings[len(i.policyBindings)-1]
		case "rbac.authorization.k8s.io/v1 ClusterRole":
			i.roles = append(i.roles, rbacv1.ClusterRole{})
			into = &i.roles[len(i.roles)-1]
		case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
			i.bindings = append(i.bindings, rbacv1.ClusterRoleBinding{})
			into = &i.bindings[len(i.bindings)-1]
		case "apiextensions.k8s.io/v1 CustomResourceDefinition":
			i.crds = append(i.crds, apiextensionsv1.CustomResourceDefinition{})
			into = &i.crds[len(i.crds)-1]
		case "runtime.cluster.x-k8s.io/v1beta2 ExtensionConfig":
			into = &i.extensionConfig
		case "cert-manager.io/v1 Certificate":
			i.certificates = append(i.certificates, certificate{})
			into = &i.certificates[len(i.certificates)-1]
		case "cert-manager.io/v1 Issuer":
			i.issuers = append(i.issuers, issuer{})
			into = &i.issuers[len(i.issuers)-1]
		default:
			t.Errorf("an object of an unknown kind: %s", document)
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Errorf("%v in %s", err, document)
		}
	}
	return &i
}

func unchanged(kustomization string) string { return kustomization }

func TestDefault(t *testing.T) {
	t.Parallel()
	checkInstallation(t, decode(t, build(t, unchanged)), "windlass-system")
}

// TestOtherNamespace changes the one line that names the namespace.
func TestOtherNamespace(t *testing.T) {
	t.Parallel()
	manifests := build(t, func(kustomization string) string {
		return strings.Replace(kustomization, "namespace: windlass-system", "namespace: elsewhere", 1)
	})
	checkInstallation(t, decode(t, manifests), "elsewhere")
	if strings.Contains(manifests, "windlass-system") {
		t.Errorf("the old namespace is left over in:\n%s", manifests)
	}
}

func checkInstallation(t *testing.T, i *installation, namespace string) {
	t.Helper()
	for name, got := range map[string]string{
		"Namespace": i.namespace.Name, "ServiceAccount": i.account.Namespace, "Service": i.service.Namespace, "Deployment": i.deployment.Namespace,
		"Role": i.leaseRole.Namespace, "RoleBinding": i.leaseBinding.Namespace, "ExtensionConfig's Service": i.extensionConfig.Spec.ClientConfig.Service.Namespace,
	} {
		if got != namespace {
			t.Errorf("the namespace of the %s is %q, want %q", name, got, namespace)
		}
	}
	for _, n := range i.networks {
		if n.Namespace != namespace {
			t.Errorf("the namespace of the NetworkPolicy %s is %q, want %q", n.Name, n.Namespace, namespace)
		}
	}
	// An API server drops such a namespace, and tools that compare what they apply with what is stored never come to rest.
	for name, got := range map[string]string{
		"Namespace": i.namespace.Namespace, "ExtensionConfig": i.extensionConfig.Namespace, "ValidatingWebhookConfiguration": i.guard.Namespace,
	} {
		if got != "" {
			t.Errorf("the %s, which is cluster-scoped, has the namespace %q", name, got)
		}
	}
	checkCRDs(t, i.crds)
	checkAccess(t, i, namespace)
	checkPods(t, i)
	checkNetwork(t, i)
	checkMemory(t, i.deployment.Spec.Template.Spec.Containers[0])
	checkTLS(t, i, namespace)
	checkRollout(t, i)
	checkGuard(t, i, namespace)
}

// checkReadable checks what tools read of a kind: kubectl its category and columns, Cluster API's visualizer its label, and kstatus
// that nobody has looked at a new object.
func checkReadable(t *testing.T, crd apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if names := crd.Spec.Names; !slices.Equal(names.Categories, []string{"windlass"}) || len(names.ShortNames) != 1 {
		t.Errorf("the CustomResourceDefinition %s has the categories %q and the short names %q", crd.Name, names.Categories, names.ShortNames)
	}
	// The visualizer shows objects of such kinds beside their Cluster; a cluster-scoped object belongs to none.
	if _, ok := crd.Labels["visualizer.cluster.x-k8s.io"]; ok != (crd.Spec.Scope == apiextensionsv1.NamespaceScoped) {
		t.Errorf("the CustomResourceDefinition %s has the label of the visualizer: %t", crd.Name, ok)
	}
	for _, v := range crd.Spec.Versions {
		for _, column := range []string{"Ready", "Reason", "Message", "Age"} {
			if !slices.ContainsFunc(v.AdditionalPrinterColumns, func(c apiextensionsv1.CustomResourceColumnDefinition) bool { return c.Name == column }) {
				t.Errorf("the CustomResourceDefinition %s has no column %s", crd.Name, column)
			}
		}
		status := v.Schema.OpenAPIV3Schema.Properties["status"]
		if status.Default == nil || string(status.Properties["observedGeneration"].Default.Raw) != "-1" {
			t.Errorf("the CustomResourceDefinition %s does not begin with observedGeneration -1", crd.Name)
		}
	}
}

func checkCRDs(t *testing.T, crds []apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	got := map[string]apiextensionsv1.ResourceScope{}
	for _, crd := range crds {
		got[crd.Name] = crd.Spec.Scope
		for _, label := range []string{clusterctlv1.ClusterctlLabel, clusterctlv1.ClusterctlMoveLabel} {
			// clusterctl looks for kinds by the first, and moves the objects of those that have the second.
			if _, ok := crd.Labels[label]; !ok {
				t.Errorf("the CustomResourceDefinition %s has no label %s, so `clusterctl move` leaves its objects behind", crd.Name, label)
			}
		}
		if crd.Namespace != "" {
			t.Errorf("the CustomResourceDefinition %s, which is cluster-scoped, has the namespace %q", crd.Name, crd.Namespace)
		}
		checkReadable(t, crd)
	}
	want := map[string]apiextensionsv1.ResourceScope{
		"upgradegraphs.windlass.dev": apiextensionsv1.ClusterScoped, "updaters.windlass.dev": apiextensionsv1.ClusterScoped,
		"updatepolicies.windlass.dev": apiextensionsv1.NamespaceScoped, "upgradegates.windlass.dev": apiextensionsv1.NamespaceScoped,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the CRDs (-want +got):\n%s", diff)
	}
}

// checkRollout holds that both replicas are Ready, so that a rollout and a drain wait for the other one,
// and that the leader labels its own Pod.
func checkRollout(t *testing.T, i *installation) {
	t.Helper()
	container := i.deployment.Spec.Template.Spec.Containers[0]
	for _, argument := range []string{"--leader-elect", "--pod=$(POD_NAMESPACE)/$(POD_NAME)", "--extension-config=" + i.extensionConfig.Name} {
		if !slices.Contains(container.Args, argument) {
			t.Errorf("the extension runs without %s", argument)
		}
	}
	fields := map[string]string{}
	for _, e := range container.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			fields[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	if diff := cmp.Diff(map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}, fields); diff != "" {
		t.Errorf("what the extension knows of its Pod (-want +got):\n%s", diff)
	}
	if spec := i.deployment.Spec; spec.Strategy.RollingUpdate != nil || spec.ProgressDeadlineSeconds != nil || *spec.Replicas != 2 {
		t.Errorf("the rollout is no usual one of two replicas: %+v", spec)
	}
	for replicas := 1; replicas <= 3; replicas++ {
		if got := disruptionsAllowed(t, i.budget.Spec, replicas); got != 1 {
			t.Errorf("of %d replicas that are Ready, %d may be evicted at a time, want 1", replicas, got)
		}
	}
	if container.Name != "manager" {
		t.Errorf("the container is %q; the Cluster API Operator looks for manager", container.Name)
	}
}

// disruptionsAllowed returns how many Pods may be evicted while all replicas are Ready, as Kubernetes'
// disruption controller computes it.
func disruptionsAllowed(t *testing.T, budget policyv1.PodDisruptionBudgetSpec, replicas int) int {
	t.Helper()
	threshold := budget.MinAvailable
	if budget.MaxUnavailable != nil {
		threshold = budget.MaxUnavailable
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(threshold, replicas, true)
	if err != nil {
		t.Fatal(err)
	}
	if budget.MaxUnavailable != nil {
		return min(n, replicas)
	}
	return max(replicas-n, 0)
}

func checkGuard(t *testing.T, i *installation, namespace string) {
	t.Helper()
	if len(i.guard.Webhooks) != 1 || i.guard.Name != v1alpha1.GuardConfigurationName {
		t.Fatalf("the guard is %q with %d webhooks", i.guard.Name, len(i.guard.Webhooks))
	}
	// cert-manager fills in the CA.
	i.guard.Webhooks[0].ClientConfig.CABundle = []byte("CA")
	for value, want := range map[string]string{"": v1alpha1.GuardInstalledReason, "enabled": v1alpha1.GuardInstalledReason, v1alpha1.GuardDisabled: v1alpha1.NamespaceExcludedReason} {
		if got := updatepolicy.SelectGuard(&i.guard, "ns", map[string]string{v1alpha1.GuardLabel: value}); got.Reason != want {
			t.Errorf("for a namespace labelled %q the guard is %+v, want %s", value, got, want)
		}
	}
	guard := i.guard.Webhooks[0]
	// The extension owns the match condition. A manifest with conditions would undo it whenever it is applied.
	if guard.Name != v1alpha1.GuardWebhookName || guard.MatchConditions != nil {
		t.Errorf("the webhook %q has the match conditions %v", guard.Name, guard.MatchConditions)
	}
	service := guard.ClientConfig.Service
	if service == nil || service.Name != i.service.Name || service.Namespace != namespace || service.Path == nil || *service.Path != guardwebhook.GuardPath {
		t.Fatalf("the guard leads to %+v", guard.ClientConfig)
	}
	if !slices.ContainsFunc(i.service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "guard" && p.Port == *service.Port }) {
		t.Errorf("the guard leads to port %d, the Service has %v", *service.Port, i.service.Spec.Ports)
	}
	if *guard.SideEffects != admissionregistrationv1.SideEffectClassNone || *guard.TimeoutSeconds != 10 || !slices.Equal(guard.AdmissionReviewVersions, []string{"v1"}) ||
		*guard.FailurePolicy != admissionregistrationv1.Fail || *guard.MatchPolicy != admissionregistrationv1.Equivalent {
		t.Errorf("the guard is %+v", guard)
	}
	secret := i.deployment.Spec.Template.Spec.Volumes[0].Secret.SecretName
	at := slices.IndexFunc(i.certificates, func(c certificate) bool { return c.Spec.SecretName == secret })
	if got, want := i.guard.Annotations["cert-manager.io/inject-ca-from"], namespace+"/"+i.certificates[at].Name; got != want {
		t.Errorf("the guard's CA is injected from %q, want %q", got, want)
	}
}

func checkPods(t *testing.T, i *installation) {
	t.Helper()
	pods := i.deployment.Spec.Template
	for name, selector := range map[string]*metav1.LabelSelector{"Deployment": i.deployment.Spec.Selector, "NetworkPolicy": &i.networks[0].Spec.PodSelector, "second NetworkPolicy": &i.networks[1].Spec.PodSelector, "PodDisruptionBudget": i.budget.Spec.Selector} {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(labels.Set(pods.Labels)) {
			t.Errorf("the %s does not select the pods: %v, %v", name, s, err)
		}
	}
	active := labels.Merge(pods.Labels, labels.Set{v1alpha1.ActiveLabel: "true"})
	if s := labels.SelectorFromSet(i.service.Spec.Selector); s.Matches(labels.Set(pods.Labels)) || !s.Matches(active) {
		t.Errorf("the Service does not select the pod that leads, and only that one: %v", s)
	}
	container := pods.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, p := range i.service.Spec.Ports {
		if target := p.TargetPort.StrVal; ports[target] == 0 {
			t.Errorf("the Service's target port %q is none of %v", target, ports)
		}
	}
	for name, probe := range map[string]*corev1.Probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != name || ports[probe.HTTPGet.Port.StrVal] == 0 {
			t.Errorf("the probe of %s is %v", name, probe)
		}
	}
	// What the namespace's pod security level "restricted" asks for, and a file system that cannot be written.
	security, pod := container.SecurityContext, pods.Spec.SecurityContext
	if security == nil || pod == nil || !*pod.RunAsNonRoot || *pod.RunAsUser == 0 || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("the pods are not restricted: %v, %v", pod, security)
	}
}

// checkMemory holds Go's soft limit close below the container's. MiB is Go's spelling of Mi.
func checkMemory(t *testing.T, container corev1.Container) {
	t.Helper()
	at := slices.IndexFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "GOMEMLIMIT" })
	if at < 0 {
		t.Fatal("GOMEMLIMIT is not set")
	}
	soft, err := resource.ParseQuantity(strings.TrimSuffix(container.Env[at].Value, "B"))
	if err != nil || !strings.HasSuffix(container.Env[at].Value, "MiB") {
		t.Fatalf("GOMEMLIMIT is %q, %v", container.Env[at].Value, err)
	}
	hard := container.Resources.Limits.Memory()
	if soft.Value() < hard.Value()*8/10 || soft.Value() > hard.Value()*95/100 {
		t.Errorf("GOMEMLIMIT is %s, the container's limit %s", container.Env[at].Value, hard)
	}
}

func checkTLS(t *testing.T, i *installation, namespace string) {
	t.Helper()
	config := i.extensionConfig.Spec.ClientConfig
	if config.Service.Name != i.service.Name || *config.Service.Port != i.service.Spec.Ports[0].Port {
		t.Errorf("the ExtensionConfig leads to %+v, the Service is %s with ports %v", config.Service, i.service.Name, i.service.Spec.Ports)
	}
	secret := i.deployment.Spec.Template.Spec.Volumes[0].Secret.SecretName
	if got, want := i.extensionConfig.Annotations[runtimev1.InjectCAFromSecretAnnotation], namespace+"/"+secret; got != want {
		t.Errorf("the CA is injected from %q, want %q", got, want)
	}
	at := slices.IndexFunc(i.certificates, func(c certificate) bool { return c.Spec.SecretName == secret })
	if at < 0 {
		t.Fatalf("no Certificate writes the Secret %q", secret)
	}
	serving := i.certificates[at]
	// Cluster API connects to NAME.NAMESPACE.svc and verifies that name.
	if host := i.service.Name + "." + namespace + ".svc"; !slices.Contains(serving.Spec.DNSNames, host) || serving.Namespace != namespace {
		t.Errorf("the certificate in %s is for %q, not for %s", serving.Namespace, serving.Spec.DNSNames, host)
	}
	// Each Certificate has its Issuer, and an Issuer with a CA has the Certificate that writes it.
	for _, c := range i.certificates {
		at := slices.IndexFunc(i.issuers, func(s issuer) bool { return s.Name == c.Spec.IssuerRef.Name && s.Namespace == namespace })
		if at < 0 || c.Spec.IssuerRef.Kind != "Issuer" {
			t.Errorf("Certificate %s has no Issuer", c.Name)
			continue
		}
		signer := i.issuers[at]
		if (signer.Spec.SelfSigned != nil) != c.Spec.IsCA {
			t.Errorf("Certificate %s is signed by Issuer %s", c.Name, signer.Name)
		}
		if signer.Spec.CA != nil && !slices.ContainsFunc(i.certificates, func(ca certificate) bool { return ca.Spec.IsCA && ca.Spec.SecretName == signer.Spec.CA.SecretName }) {
			t.Errorf("no Certificate writes the CA of Issuer %s", signer.Name)
		}
	}
}

// TestSample plans from the example as its comments say.
func TestSample(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("samples/upgradegraph.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var graph v1alpha1.UpgradeGraph
	if err := yaml.UnmarshalStrict(content, &graph); err != nil {
		t.Fatal(err)
	}
	parsed, err := upgradegraph.Parse(graph.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"v1.29.0": "v1.30.10 v1.31.7 v1.32.3 v1.33.0",
		"v1.30.3": "v1.30.10 v1.31.7 v1.32.3 v1.33.0",
		"v1.32.1": "v1.32.3 v1.33.0",
	} {
		computed, err := plan.Compute(plan.Request{
			Inventory: plan.Inventory{ControlPlane: version.MustParse(from)}, Target: version.MustParse("v1.33.0"), Source: parsed,
		})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, 0, len(computed.ControlPlane))
		for _, v := range computed.ControlPlane {
			got = append(got, v.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("from %s the control plane goes through %q, want %s", from, got, want)
		}
	}
}
