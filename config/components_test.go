package config_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// withComponent edits the default kustomization as its comment says.
func withComponent(name string) func(string) string {
	return func(kustomization string) string {
		kustomization = strings.Replace(kustomization, "# components:", "components:", 1)
		return strings.Replace(kustomization, "# - ../components/"+name, "- ../components/"+name, 1)
	}
}

func TestNamespacesComponent(t *testing.T) {
	t.Parallel()
	i, whole := decode(t, build(t, withComponent("namespaces"))), decode(t, build(t, unchanged))
	if diff := cmp.Diff(whole.roles, i.roles); diff != "" {
		t.Errorf("the component changes roles (-default +component):\n%s", diff)
	}
	var bound []string
	for _, binding := range i.bindings {
		bound = append(bound, binding.RoleRef.Name)
	}
	if diff := cmp.Diff([]string{"windlass-extension", "windlass-extension-providers"}, bound); diff != "" {
		t.Fatalf("the roles that are bound (-want +got):\n%s", diff)
	}
	for _, role := range i.roles {
		secrets := slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, "secrets") || slices.Contains(r.Resources, "configmaps")
		})
		if secrets != (role.Name == "windlass-extension-namespaced") {
			t.Errorf("the role %s has Secrets or ConfigMaps: %t", role.Name, secrets)
		}
	}
	binding := decodeOne[rbacv1.RoleBinding](t, buildOnDisk(t, "components/namespaces/binding"), "RoleBinding windlass-extension-namespaced")
	if binding.Namespace != "" {
		t.Errorf("the RoleBinding is for the namespace %q alone", binding.Namespace)
	}
	want := rbacv1.RoleBinding{TypeMeta: binding.TypeMeta, ObjectMeta: binding.ObjectMeta, Subjects: i.bindings[0].Subjects}
	want.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "windlass-extension-namespaced"}
	if diff := cmp.Diff(want, binding); diff != "" {
		t.Errorf("the RoleBinding for a namespace (-want +got):\n%s", diff)
	}
}

func TestClientCertificatesComponent(t *testing.T) {
	t.Parallel()
	i, whole := decode(t, build(t, withComponent("client-certificates"))), decode(t, build(t, unchanged))
	pod, before := i.deployment.Spec.Template.Spec, whole.deployment.Spec.Template.Spec
	const file = "callers.crt"
	if diff := cmp.Diff(append(slices.Clone(before.Containers[0].Args), "--client-ca-name="+file), pod.Containers[0].Args); diff != "" {
		t.Errorf("the arguments (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(pod.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "--guard-port=") }) {
		t.Error("the API server, which has no certificate, calls the guard at the hooks' port")
	}
	mode := *before.Volumes[0].Secret.DefaultMode
	want := []corev1.Volume{{Name: before.Volumes[0].Name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: before.Volumes[0].Secret.SecretName}}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "windlass-extension-callers"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: file}},
			}},
		},
	}}}}
	if diff := cmp.Diff(want, pod.Volumes); diff != "" {
		t.Errorf("the volumes (-want +got):\n%s", diff)
	}
}

// TestCallersPatch patches what clusterctl installs of Cluster API.
func TestCallersPatch(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("components/client-certificates/callers/manager_patch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(content)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(asJSON)
	if err != nil {
		t.Fatal(err)
	}
	for _, caller := range []struct{ folder, config, deployment string }{
		{"core", "core/config/default", "capi-controller-manager"},
		{"kubeadm-control-plane", "controlplane/kubeadm/config/default", "capi-kubeadm-control-plane-controller-manager"},
	} {
		t.Run(caller.folder, func(t *testing.T) {
			t.Parallel()
			stock, err := yaml.YAMLToJSON(stockConfig(t, caller.config)["Deployment "+caller.deployment])
			if err != nil {
				t.Fatal(err)
			}
			patched, err := patch.Apply(stock)
			if err != nil {
				t.Fatal(err)
			}
			var before, after appsv1.Deployment
			if err := yaml.UnmarshalStrict(stock, &before); err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(patched, &after); err != nil {
				t.Fatal(err)
			}
			leaf := decodeOne[certificate](t, buildOnDisk(t, "components/client-certificates/callers/"+caller.folder), "Certificate runtime-extension-client")
			if leaf.Namespace != before.Namespace || !slices.Equal(leaf.Spec.Usages, []string{"client auth", "digital signature"}) {
				t.Errorf("the certificate in %s is for %q; the Deployment is in %s", leaf.Namespace, leaf.Spec.Usages, before.Namespace)
			}
			pod := &before.Spec.Template.Spec
			const dir = "/etc/runtime-extension-client"
			container := &pod.Containers[0]
			container.Args = append(container.Args,
				"--runtime-extension-client-cert-file="+dir+"/tls.crt", "--runtime-extension-client-key-file="+dir+"/tls.key")
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: leaf.Name, MountPath: dir, ReadOnly: true})
			pod.Volumes = append(pod.Volumes, corev1.Volume{
				Name: leaf.Name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: leaf.Spec.SecretName}},
			})
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the patch changes (-want +got):\n%s", diff)
			}
		})
	}
}
