package config_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// buildOnDisk returns the objects that a folder builds to, by kind and name.
func buildOnDisk(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, r := range built.Resources() {
		content, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		out[r.GetKind()+" "+r.GetName()] = content
	}
	return out
}

func decodeOne[T any](t *testing.T, objects map[string][]byte, key string) T {
	t.Helper()
	var into T
	content, ok := objects[key]
	if !ok {
		t.Fatalf("there is no %s", key)
	}
	if err := yaml.UnmarshalStrict(content, &into); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
	return into
}

// stockCore is what clusterctl installs of Cluster API's core provider.
func stockCore(t *testing.T) map[string][]byte {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return buildOnDisk(t, filepath.Join(strings.TrimSpace(string(dir)), "core", "config", "default"))
}

// TestManagerReplacesStock holds the Deployment against Cluster API's own: whatever else there is of it must lead to ours.
func TestManagerReplacesStock(t *testing.T) {
	t.Parallel()
	const key = "Deployment capi-controller-manager"
	stock, ours := decodeOne[appsv1.Deployment](t, stockCore(t), key), decodeOne[appsv1.Deployment](t, buildOnDisk(t, "manager"), key)
	options := cmp.Options{
		cmpopts.IgnoreFields(corev1.Container{}, "Image", "ImagePullPolicy", "Command", "Args"),
		cmpopts.SortSlices(func(a, b corev1.ContainerPort) bool { return a.Name < b.Name }),
		cmpopts.IgnoreFields(corev1.PodSpec{}, "TerminationGracePeriodSeconds"),
		cmpopts.IgnoreFields(corev1.SecurityContext{}, "ReadOnlyRootFilesystem"), // ours is stricter
	}
	if diff := cmp.Diff(stock, ours, options); diff != "" {
		t.Errorf("the Deployment differs from Cluster API's (-stock +ours):\n%s", diff)
	}
	flags := func(d appsv1.Deployment) []string {
		var names []string
		for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
			name, _, _ := strings.Cut(arg, "=")
			names = append(names, name)
		}
		return names
	}
	if diff := cmp.Diff(flags(stock), flags(ours)); diff != "" {
		t.Errorf("flags (-stock +ours):\n%s", diff)
	}
	if got := ours.Spec.Template.Spec.Containers[0].Command; !slices.Equal(got, []string{"/windlass", "manager"}) {
		t.Errorf("the command is %q", got)
	}
}

// TestManagerRights holds what the manager may do beside Cluster API's, and that it comes to the same account by the same way.
func TestManagerRights(t *testing.T) {
	t.Parallel()
	stock := stockCore(t)
	role := decodeOne[rbacv1.ClusterRole](t, buildOnDisk(t, "manager"), "ClusterRole windlass-manager")
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"windlass.dev"}, Resources: []string{"updaters", "updatepolicies"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	binding := decodeOne[rbacv1.ClusterRoleBinding](t, stock, "ClusterRoleBinding capi-manager-rolebinding")
	aggregated := decodeOne[rbacv1.ClusterRole](t, stock, "ClusterRole "+binding.RoleRef.Name)
	if len(aggregated.AggregationRule.ClusterRoleSelectors) != 1 {
		t.Fatalf("Cluster API aggregates %v", aggregated.AggregationRule)
	}
	selector, err := metav1.LabelSelectorAsSelector(&aggregated.AggregationRule.ClusterRoleSelectors[0])
	if err != nil || !selector.Matches(labels.Set(role.Labels)) {
		t.Errorf("the labels %v are not selected by %v, %v", role.Labels, selector, err)
	}
}
