package config_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestRunbook: the commands for a guard that is down name what is installed.
func TestRunbook(t *testing.T) {
	t.Parallel()
	page := readText(t, filepath.Join("..", "docs", "reference", "guard.md"))
	_, runbook, ok := strings.Cut(page, "## When the guard itself is down\n")
	if !ok {
		t.Fatal("guard.md has no section about it")
	}
	i := decode(t, build(t, unchanged))
	for _, command := range []string{
		"kubectl delete validatingwebhookconfiguration " + i.guard.Name + "\n",
		"kubectl label namespace NAME " + v1alpha1.GuardLabel + "=" + v1alpha1.GuardDisabled + "\n",
		"kubectl label namespace NAME " + v1alpha1.GuardLabel + "-`",
		`"` + i.guard.Webhooks[0].Name + `"`,
		"kubectl -n " + i.deployment.Namespace + " get pods",
		"`" + v1alpha1.GuardingCondition + "`",
	} {
		if !strings.Contains(runbook, command) {
			t.Errorf("the section does not have %q", command)
		}
	}
}

// TestInstallPage: each name that the page about the installation checks is of an object that the manifests install,
// and its UpgradeGraph is one that they accept.
func TestInstallPage(t *testing.T) {
	t.Parallel()
	page := readText(t, filepath.Join("..", "docs", "how-to", "install-on-a-management-cluster.md"))
	i := decode(t, build(t, unchanged))
	namespace := "kubectl -n " + i.deployment.Namespace + " "
	commands := []string{
		"kustomize build config/default | kubectl apply -f -\n",
		namespace + "rollout status deployment/" + i.deployment.Name + "\n",
		namespace + "get pods -l " + v1alpha1.ActiveLabel + "=true\n",
		"kubectl wait --for=condition=Discovered extensionconfig/" + i.extensionConfig.Name + "\n",
		"generate-upgrade-plan." + i.extensionConfig.Name,
	}
	for _, crd := range i.crds {
		commands = append(commands, " crd/"+crd.Name)
	}
	secret := i.deployment.Spec.Template.Spec.Volumes[0].Secret.SecretName
	for _, c := range i.certificates {
		if c.Spec.SecretName == secret {
			commands = append(commands, namespace+"wait --for=condition=Ready certificate/"+c.Name+"\n")
		}
	}
	for _, command := range commands {
		if !strings.Contains(page, command) {
			t.Errorf("the page does not have %q", command)
		}
	}
	_, graph, _ := strings.Cut(page, "kubectl apply -f - <<'EOF'\n")
	graph, _, _ = strings.Cut(graph, "\nEOF\n")
	var g v1alpha1.UpgradeGraph
	if err := yaml.UnmarshalStrict([]byte(graph), &g); err != nil {
		t.Fatal(err)
	}
	for _, asked := range regexp.MustCompile(`--to (v\S+)|"version":"(v[^"]+)"`).FindAllStringSubmatch(page, -1) {
		if to := asked[1] + asked[2]; !slices.Contains(g.Spec.Versions, v1alpha1.Version(to)) {
			t.Errorf("the page upgrades to %s, which its UpgradeGraph lacks", to)
		}
	}
}
