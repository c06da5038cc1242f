package config_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
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
	return stockConfig(t, "core/config/default")
}

// stockConfig builds a folder of Cluster API's source.
func stockConfig(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return buildOnDisk(t, filepath.Join(strings.TrimSpace(string(dir)), filepath.FromSlash(folder)))
}

// TestManagerReplacesStock merges what is applied into Cluster API's own Deployment: image and command are Windlass', GitOps tools do not delete it, all else stays, whatever
// somebody has set there, so that everything that leads to the Deployment still does and no feature gate changes.
func TestManagerReplacesStock(t *testing.T) {
	t.Parallel()
	const key = "Deployment capi-controller-manager"
	stock := decodeOne[appsv1.Deployment](t, stockCore(t), key)
	stock.Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect", "--feature-gates=ClusterTopology=true,RuntimeSDK=false", "--kube-api-qps=50"}
	patch, err := yaml.YAMLToJSON(buildOnDisk(t, "manager")[key])
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(stock)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	var got appsv1.Deployment
	if err := yaml.UnmarshalStrict(after, &got); err != nil {
		t.Fatal(err)
	}
	want := stock.DeepCopy()
	want.Annotations = map[string]string{
		"argocd.argoproj.io/sync-options":   "Delete=false,Prune=false",
		"kustomize.toolkit.fluxcd.io/prune": "disabled",
		"kustomize.toolkit.fluxcd.io/ssa":   "Merge",
	}
	want.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(40))
	want.Spec.Template.Spec.Containers[0].Image = "windlass"
	want.Spec.Template.Spec.Containers[0].Command = []string{"/windlass", "manager"}
	if diff := cmp.Diff(*want, got); diff != "" {
		t.Errorf("the Deployment (-want +got):\n%s", diff)
	}
}

// TestManagerPage holds the commands for the exchange: under a field manager of its own, applying takes nothing away that the same person has applied of
// Cluster API's.
func TestManagerPage(t *testing.T) {
	t.Parallel()
	page := readText(t, filepath.Join("..", "docs", "how-to", "run-the-engine.md"))
	for _, command := range []string{
		"kustomize build config/manager | kubectl apply --server-side --force-conflicts --field-manager=windlass -f -\n",
		"kubectl -n capi-system get deployment capi-controller-manager ",
		`"containers":[{"name":"manager","image":"`,
	} {
		if !strings.Contains(page, command) {
			t.Errorf("run-the-engine.md does not have %q", command)
		}
	}
}

// TestManagerRights holds what the manager may do beside Cluster API's, and that it comes to the same account by the same way.
func TestManagerRights(t *testing.T) {
	t.Parallel()
	stock := stockCore(t)
	role := decodeOne[rbacv1.ClusterRole](t, buildOnDisk(t, "manager"), "ClusterRole windlass-manager")
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"windlass.dev"}, Resources: []string{"upgradegraphs"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"windlass.dev"}, Resources: []string{"upgradegates"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"windlass.dev"}, Resources: []string{"updaters", "updatepolicies"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"windlass.dev"}, Resources: []string{"updaters/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "patch"}},
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
