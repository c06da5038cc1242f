package setup

import (
	"context"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/config/crd"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// ExtensionName is the name of the ExtensionConfig, and of the extension's process on the plane.
const ExtensionName = "windlass"

// Extension describes "windlass extension" as a process of a plane, with the ServiceAccount and the rights of config/default.
func Extension(executable string) (devplane.Child, error) {
	access, err := ExtensionAccess()
	return devplane.Child{
		Name: ExtensionName, Path: executable,
		Args: []string{
			"extension", "--kubeconfig", "$(KUBECONFIG)", "--bind-address", "127.0.0.1", "--port", "$(PORT_" + hooksPort + ")",
			"--cert-dir", "$(CERT_DIR)", "--health-addr", "127.0.0.1:$(PORT_health)",
			"--diagnostics-address", "127.0.0.1:$(PORT_" + MetricsPort + ")", "--insecure-diagnostics",
		},
		Ports: []string{hooksPort, "health", MetricsPort}, ServingCertificate: true,
		Ready:   devplane.Readiness{URL: "http://127.0.0.1:$(PORT_health)/readyz"},
		Restart: devplane.RestartAlways,
		Objects: access, ServiceAccount: ExtensionAccount,
	}, err
}

// Register installs the project's CRDs on a plane, runs the extension there, registers its hooks with Cluster API and its guard
// with the API server, and waits until Cluster API knows the hooks. executable is the windlass binary.
func Register(ctx context.Context, plane *devplane.Plane, executable string) error {
	extension, err := Extension(executable)
	if err != nil {
		return err
	}
	return RegisterAs(ctx, plane, extension)
}

// RegisterAs is Register for a process that Extension described, with further arguments or objects.
func RegisterAs(ctx context.Context, plane *devplane.Plane, extension devplane.Child) error {
	c, err := Connect(plane)
	if err != nil {
		return err
	}
	if err := installCRDs(ctx, c, crd.Files, "bases/*.yaml"); err != nil {
		return err
	}
	child, err := plane.AddChild(ctx, extension)
	if err != nil {
		return fmt.Errorf("starting the extension: %w", err)
	}
	ca, err := plane.CABundle()
	if err != nil {
		return err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", child.Ports[hooksPort])
	if err := c.Create(ctx, hookserver.ExtensionConfig(ExtensionName, url, ca, nil)); err != nil {
		return fmt.Errorf("registering the extension: %w", err)
	}
	if err := Apply(ctx, c, guardConfiguration(url+guardwebhook.GuardPath, ca)); err != nil {
		return err
	}
	return AwaitDiscovered(ctx, c, ExtensionName)
}

// AwaitDiscovered waits until Cluster API knows the hooks of an extension.
func AwaitDiscovered(ctx context.Context, c client.WithWatch, name string) error {
	_, err := Await(ctx, c, &runtimev1.ExtensionConfigList{}, func(e *runtimev1.ExtensionConfig) string {
		return NotTrue(e.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition)
	}, Named(name))
	return err
}

// installCRDs applies the CRDs of the files that match a pattern, and waits until they are served.
func installCRDs(ctx context.Context, c client.WithWatch, manifests fs.FS, pattern string) error {
	files, err := fs.Glob(manifests, pattern)
	if err != nil {
		return fmt.Errorf("listing the CRDs: %w", err)
	}
	for _, file := range files {
		data, err := fs.ReadFile(manifests, file)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		object := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, object); err != nil {
			return fmt.Errorf("decoding %s: %w", file, err)
		}
		if err := Apply(ctx, c, object); err != nil {
			return err
		}
		_, err = Await(ctx, c, &apiextensionsv1.CustomResourceDefinitionList{}, notEstablished, Named(object.Name))
		if err != nil {
			return err
		}
	}
	return nil
}

func notEstablished(c *apiextensionsv1.CustomResourceDefinition) string {
	for _, condition := range c.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return ""
		}
	}
	return fmt.Sprintf("its conditions are %+v", c.Status.Conditions)
}
