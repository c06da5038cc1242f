package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// MemoryLimit is the memory that the manifest gives the extension, in bytes.
func MemoryLimit(t *testing.T) int64 {
	t.Helper()
	limits := container(t).Resources.Limits
	return limits.Memory().Value()
}

// environment is the environment of the manifest, with Go's own rate of collecting garbage. Tests
// run with another one, for the API server.
func environment(t *testing.T) []string {
	t.Helper()
	environment := []string{"GOGC=100"}
	for _, variable := range container(t).Env {
		if variable.ValueFrom == nil {
			environment = append(environment, variable.Name+"="+variable.Value)
		}
	}
	return environment
}

// container is the extension's container in the manifest.
func container(t *testing.T) corev1.Container {
	t.Helper()
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(source, "config", "extension", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(data, &deployment); err != nil {
		t.Fatal(err)
	}
	return deployment.Spec.Template.Spec.Containers[0]
}

// Memory returns the most memory that the process has had resident, in bytes. It works on Linux only.
func (e *Process) Memory(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		value, found := strings.CutPrefix(line, "VmHWM:")
		if !found {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return kilobytes << 10
	}
	t.Fatal("/proc says nothing about the memory of the process")
	return 0
}
