// Package rehearse_test rehearses an upgrade of Cluster API's own quick-start ClusterClass, which has
// MachinePools, patches and variables, with its manifests unchanged.
package rehearse_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
)

const from, to = "v1.34.4", "v1.35.4"

// values are those that Cluster API's tests give to the manifests' variables.
var values = map[string]string{
	"CLUSTER_NAME": "quick", "NAMESPACE": "default", "KUBERNETES_VERSION": from,
	"CONTROL_PLANE_MACHINE_COUNT": "1", "WORKER_MACHINE_COUNT": "2",
	"DOCKER_SERVICE_CIDRS": "10.128.0.0/12", "DOCKER_POD_CIDRS": "192.168.0.0/16", "DOCKER_SERVICE_DOMAIN": "cluster.local",
}

func TestMain(m *testing.M) {
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

func TestQuickStart(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to start a real plane")
	}
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := writeManifests(t, source)
	cmd := exec.CommandContext(t.Context(), paths.Lab, "rehearse", "--source", source, "--windlass", paths.Windlass,
		"--state-dir", filepath.Join(t.TempDir(), "state"), "-f", folder, "--to", to)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, want := range []string{
		"Note: MachinePools (1 of them) are left out",
		"Note: patch machineDeploymentExternalCloudProvider is left out where it is about MachinePools",
		"Note: patch customImage is left out where it is about infrastructure",
		"to " + to,
	} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the output does not contain %q", want)
		}
	}
	if t.Failed() {
		t.Log(string(output))
	}
}

// writeManifests writes upstream's ClusterClass and Cluster to a folder, with values for their variables.
func writeManifests(t *testing.T, source string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api/test")
	list.Dir = filepath.Join(source, "lab", "parts")
	module, err := list.Output()
	if err != nil {
		t.Fatalf("finding Cluster API's test module: %v", err)
	}
	data := filepath.Join(strings.TrimSpace(string(module)), "e2e", "data", "infrastructure-docker", "main")
	folder := t.TempDir()
	for _, name := range []string{"clusterclass-quick-start.yaml", "bases/cluster-with-topology.yaml"} {
		text, err := os.ReadFile(filepath.Join(data, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), []byte(expand(t, string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

var variable = regexp.MustCompile(`\$\{([A-Z_]+)(:-([^${}]*))?\}`)

// expand replaces ${NAME} and ${NAME:-DEFAULT}, inner ones first.
func expand(t *testing.T, text string) string {
	t.Helper()
	for variable.MatchString(text) {
		text = variable.ReplaceAllStringFunc(text, func(match string) string {
			parts := variable.FindStringSubmatch(match)
			value, known := values[parts[1]]
			switch {
			case known:
				return value
			case parts[2] != "":
				return parts[3]
			}
			t.Fatalf("the manifests have the variable %s, which has no value here", parts[1])
			return ""
		})
	}
	return text
}
