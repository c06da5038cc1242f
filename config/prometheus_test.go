package config_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
)

// podMonitor and prometheusRule are as much of the Prometheus Operator's types as is used here.
type podMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port          string `json:"port"`
			Path          string `json:"path"`
			Scheme        string `json:"scheme"`
			Interval      string `json:"interval"`
			Authorization struct {
				Type        string                   `json:"type"`
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
			TLSConfig struct {
				InsecureSkipVerify bool   `json:"insecureSkipVerify"`
				ServerName         string `json:"serverName"`
				CA                 struct {
					Secret corev1.SecretKeySelector `json:"secret"`
				} `json:"ca"`
			} `json:"tlsConfig"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

type prometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

// TestMonitor: the monitor selects the Pods of the extension, and its account may read metrics and
// nothing else.
func TestMonitor(t *testing.T) {
	t.Parallel()
	objects, whole := buildOnDisk(t, "prometheus"), decode(t, build(t, unchanged))
	monitor := decodeOne[podMonitor](t, objects, "PodMonitor windlass-extension")
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	pods := whole.deployment.Spec.Template
	if monitor.Namespace != whole.deployment.Namespace || !selector.Matches(labels.Set(pods.Labels)) {
		t.Errorf("the monitor in %s selects %s; Pods in %s have %v", monitor.Namespace, selector, whole.deployment.Namespace, pods.Labels)
	}
	endpoint := monitor.Spec.Endpoints[0]
	served := slices.ContainsFunc(pods.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == endpoint.Port })
	if endpoint.Scheme != "https" || !served {
		t.Errorf("the monitor scrapes %s at %s; the Pods have the ports %v", endpoint.Port, endpoint.Scheme, pods.Spec.Containers[0].Ports)
	}
	tls, installed := endpoint.TLSConfig, build(t, unchanged)
	if tls.InsecureSkipVerify || tls.CA.Secret.Key != "ca.crt" || !strings.Contains(installed, "- "+tls.ServerName+"\n") ||
		!strings.Contains(installed, "secretName: "+tls.CA.Secret.Name+"\n") {
		t.Errorf("the monitor verifies the extension by %+v, which is not its certificate", tls)
	}
	secret := decodeOne[corev1.Secret](t, objects, "Secret "+endpoint.Authorization.Credentials.Name)
	account := decodeOne[corev1.ServiceAccount](t, objects, "ServiceAccount windlass-metrics-reader")
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.Annotations[corev1.ServiceAccountNameKey] != account.Name ||
		endpoint.Authorization.Credentials.Key != corev1.ServiceAccountTokenKey {
		t.Errorf("the token is key %s of %s, of account %v", endpoint.Authorization.Credentials.Key, secret.Type, secret.Annotations)
	}
	binding := decodeOne[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding windlass-metrics-reader")
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: monitor.Namespace}}
	if diff := cmp.Diff(want, binding.Subjects); diff != "" {
		t.Errorf("the role's subjects (-want +got)\n%s", diff)
	}
	role := decodeOne[rbacv1.ClusterRole](t, objects, "ClusterRole "+binding.RoleRef.Name)
	if diff := cmp.Diff([]rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, role.Rules); diff != "" {
		t.Errorf("the role's rules (-want +got)\n%s", diff)
	}
	if strings.Contains(build(t, unchanged), "monitoring.coreos.com") {
		t.Error("config/default needs the Prometheus Operator")
	}
	dashboard := decodeOne[corev1.ConfigMap](t, objects, "ConfigMap windlass-dashboard")
	if !json.Valid([]byte(dashboard.Data["windlass.json"])) {
		t.Error("the dashboard is no JSON")
	}
}

// TestMetricsPort: the metrics port is open to labelled namespaces, and the base opens it to nobody.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	policy := decodeOne[networkingv1.NetworkPolicy](t, buildOnDisk(t, "prometheus"), "NetworkPolicy windlass-extension-metrics")
	whole := decode(t, build(t, unchanged))
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil || policy.Namespace != whole.deployment.Namespace || !selector.Matches(labels.Set(whole.deployment.Spec.Template.Labels)) {
		t.Errorf("the policy in %s selects %s, %v", policy.Namespace, selector, err)
	}
	tcp, metrics := corev1.ProtocolTCP, intstr.FromString("metrics")
	want := []networkingv1.NetworkPolicyIngressRule{{
		From:  []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"windlass.dev/metrics": "true"}}}},
		Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &metrics}},
	}}
	if diff := cmp.Diff(want, policy.Spec.Ingress); diff != "" {
		t.Errorf("the policy lets in (-want +got):\n%s", diff)
	}
	if !strings.Contains(readText(t, "../docs/how-to/watch-upgrades.md"), "windlass.dev/metrics=true") {
		t.Error("docs/how-to/watch-upgrades.md does not name the label")
	}
}

var alertHeading = regexp.MustCompile(`(?m)^## (\w+)$`)

// TestAlertsHaveRunbooks: each alert has what people need, and a section of its own in the
// runbooks; no section is left over.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	runbooks := readText(t, "../docs/runbooks.md")
	var sections, alerts []string
	for _, found := range alertHeading.FindAllStringSubmatch(runbooks, -1) {
		sections = append(sections, found[1])
		_, text, _ := strings.Cut(runbooks, found[0]+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		for _, part := range []string{"**Means.**", "**Users feel**", "**Look at**", "Fix"} {
			if !strings.Contains(text, part) {
				t.Errorf("the runbook of %s has no part %q", found[1], part)
			}
		}
	}
	for _, g := range decodeOne[prometheusRule](t, buildOnDisk(t, "prometheus"), "PrometheusRule windlass").Spec.Groups {
		for _, r := range g.Rules {
			alerts = append(alerts, r.Alert)
			url := "https://github.com/windlass-dev/windlass/blob/main/docs/runbooks.md#" + strings.ToLower(r.Alert)
			if r.Annotations["runbook_url"] != url {
				t.Errorf("the runbook of %s is %q", r.Alert, r.Annotations["runbook_url"])
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.For == "" ||
				!slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
				t.Errorf("%s lacks a summary, a description, a duration or a severity: %+v", r.Alert, r)
			}
		}
	}
	if diff := cmp.Diff(alerts, sections); diff != "" {
		t.Errorf("alerts and runbooks differ (-alerts +runbooks)\n%s", diff)
	}
}

var selectedPaths = regexp.MustCompile(`webhook=~?"([^"]+)"`)

// TestAlertsSelectPaths: what alerts select is where the guard and the hooks are served.
func TestAlertsSelectPaths(t *testing.T) {
	t.Parallel()
	hook := runtimecatalog.GVHToPath(runtimecatalog.GroupVersionHook{
		Group: runtimehooksv1.GroupVersion.Group, Version: runtimehooksv1.GroupVersion.Version, Hook: "UpdateMachine",
	}, "update-machine")
	found := selectedPaths.FindAllStringSubmatch(readText(t, "prometheus/rules.yaml"), -1)
	if len(found) == 0 {
		t.Error("no alert selects a path")
	}
	for _, f := range found {
		selected := regexp.MustCompile("^(?:" + f[1] + ")$")
		if selected.MatchString("/mutate-x") || !selected.MatchString(guardwebhook.GuardPath) && !selected.MatchString(hook) {
			t.Errorf("an alert selects %q, neither %s nor %s", f[1], guardwebhook.GuardPath, hook)
		}
	}
}

// stateMetrics is the configuration of kube-state-metrics, as its package customresourcestate
// documents it.
type stateMetrics struct {
	Kind string `json:"kind"`
	Spec struct {
		Resources []struct {
			GroupVersionKind metav1.GroupVersionKind `json:"groupVersionKind"`
			MetricNamePrefix string                  `json:"metricNamePrefix"`
			LabelsFromPath   map[string][]string     `json:"labelsFromPath"`
			Metrics          []struct {
				Name string `json:"name"`
				Help string `json:"help"`
				Each struct {
					Type     string       `json:"type"`
					Gauge    *stateMetric `json:"gauge"`
					StateSet *stateMetric `json:"stateSet"`
				} `json:"each"`
			} `json:"metrics"`
		} `json:"resources"`
	} `json:"spec"`
}

// stateMetric has the fields of a gauge and of a state set.
type stateMetric struct {
	LabelsFromPath map[string][]string `json:"labelsFromPath"`
	Path           []string            `json:"path"`
	ValueFrom      []string            `json:"valueFrom"`
	NilIsZero      bool                `json:"nilIsZero"`
	LabelName      string              `json:"labelName"`
	List           []string            `json:"list"`
}

// TestStateMetrics: all our kinds are there, every path is one of the kind's schema, and the role
// lets them be listed.
func TestStateMetrics(t *testing.T) {
	t.Parallel()
	objects := buildOnDisk(t, "kube-state-metrics")
	var config stateMetrics
	if err := yaml.UnmarshalStrict([]byte(readText(t, "kube-state-metrics/config.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	// Its namespace is not known here, and a Pod mounts only ConfigMaps of its own.
	page := readText(t, "../docs/how-to/watch-upgrades.md")
	const command = "kubectl -n NAMESPACE create configmap windlass-kube-state-metrics \\\n  --from-file=config/kube-state-metrics/config.yaml\n"
	if !strings.Contains(page, command) || len(objects) != 1 {
		t.Errorf("docs/how-to/watch-upgrades.md lacks %q, or the kustomization has more than the role: %d objects", command, len(objects))
	}
	var got, resources []string
	crds := decode(t, build(t, unchanged)).crds
	for _, r := range config.Spec.Resources {
		got = append(got, r.GroupVersionKind.Kind)
		i := slices.IndexFunc(crds, func(c apiextensionsv1.CustomResourceDefinition) bool {
			return c.Spec.Names.Kind == r.GroupVersionKind.Kind && c.Spec.Group == r.GroupVersionKind.Group && c.Spec.Versions[0].Name == r.GroupVersionKind.Version
		})
		if i < 0 {
			t.Errorf("there is no %s", r.GroupVersionKind)
			continue
		}
		root := crds[i].Spec.Versions[0].Schema.OpenAPIV3Schema
		if descend(root, []string{"status", "conditions"}) != nil && r.Metrics[0].Name != "status_condition" {
			t.Errorf("%s has conditions, and no metric of them", r.GroupVersionKind.Kind)
		}
		if _, namespaced := r.LabelsFromPath["namespace"]; namespaced != (crds[i].Spec.Scope == apiextensionsv1.NamespaceScoped) {
			t.Errorf("%s has the label namespace: %t", r.GroupVersionKind.Kind, namespaced)
		}
		for _, m := range r.Metrics {
			each := m.Each.Gauge
			if m.Each.Type == "StateSet" {
				each = m.Each.StateSet
			}
			if each == nil || m.Help == "" || r.MetricNamePrefix != "windlass_"+strings.ToLower(r.GroupVersionKind.Kind) {
				t.Errorf("%s of %s is of no known type, or has no help or another prefix", m.Name, r.GroupVersionKind.Kind)
				continue
			}
			item := descend(root, each.Path)
			if item != nil && item.Items != nil {
				item = item.Items.Schema
			}
			for label, path := range each.LabelsFromPath {
				if descend(item, path) == nil {
					t.Errorf("%s of %s takes the label %s from %v, which does not exist", m.Name, r.GroupVersionKind.Kind, label, path)
				}
			}
			if descend(item, each.ValueFrom) == nil {
				t.Errorf("%s of %s takes its value from %v %v, which does not exist", m.Name, r.GroupVersionKind.Kind, each.Path, each.ValueFrom)
			}
		}
	}
	var kinds []string
	for _, c := range crds {
		kinds, resources = append(kinds, c.Spec.Names.Kind), append(resources, c.Spec.Names.Plural)
	}
	slices.Sort(got)
	slices.Sort(kinds)
	if diff := cmp.Diff(kinds, got); diff != "" {
		t.Errorf("the kinds (-CRDs +config)\n%s", diff)
	}
	role := decodeOne[rbacv1.ClusterRole](t, objects, "ClusterRole windlass-kube-state-metrics")
	allowed := slices.Sorted(slices.Values(role.Rules[0].Resources))
	slices.Sort(resources)
	if diff := cmp.Diff(resources, allowed); diff != "" {
		t.Errorf("the role's resources (-CRDs +role)\n%s", diff)
	}
}

// descend returns the schema at a path; nil where there is none.
func descend(at *apiextensionsv1.JSONSchemaProps, path []string) *apiextensionsv1.JSONSchemaProps {
	for _, field := range path {
		if at == nil {
			return nil
		}
		next, found := at.Properties[field]
		if !found {
			return nil
		}
		at = &next
	}
	return at
}
