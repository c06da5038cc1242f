package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/config/crd"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// Extension describes "windlass extension" as a process of a plane.
func Extension(executable string) devplane.Child {
	return devplane.Child{
		Name: ExtensionName, Path: executable,
		Args: []string{
			"extension", "--kubeconfig", "$(KUBECONFIG)", "--bind-address", "127.0.0.1", "--port", "$(PORT_" + hooksPort + ")",
			"--cert-dir", "$(CERT_DIR)", "--health-addr", "127.0.0.1:$(PORT_health)",
			"--metrics-addr", "127.0.0.1:$(PORT_" + MetricsPort + ")",
		},
		Ports: []string{hooksPort, "health", MetricsPort}, ServingCertificate: true,
		Ready:   devplane.Readiness{URL: "http://127.0.0.1:$(PORT_health)/readyz"},
		Restart: devplane.RestartAlways,
	}
}

// Register installs the project's CRDs on a plane, runs the extension there, registers its hooks with Cluster API and its guard
// with the API server, and waits until Cluster API knows the hooks. executable is the windlass binary.
func Register(ctx context.Context, plane *devplane.Plane, executable string) error {
	c, err := Connect(plane)
	if err != nil {
		return err
	}
	if err := installCRDs(ctx, c); err != nil {
		return err
	}
	child, err := plane.AddChild(ctx, Extension(executable))
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
	if err := registerGuard(ctx, c, url, ca); err != nil {
		return err
	}
	return await(ctx, c, &runtimev1.ExtensionConfigList{}, ExtensionName, func(c *runtimev1.ExtensionConfig) (bool, string) {
		return conditionTrue(c.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition)
	})
}

// installCRDs applies the project's CRDs and waits until they are served.
func installCRDs(ctx context.Context, c client.WithWatch) error {
	files, err := fs.Glob(crd.Files, "bases/*.yaml")
	if err != nil {
		return fmt.Errorf("listing the CRDs: %w", err)
	}
	for _, file := range files {
		data, err := crd.Files.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, object); err != nil {
			return fmt.Errorf("decoding %s: %w", file, err)
		}
		if err := apply(ctx, c, object); err != nil {
			return err
		}
		err = await(ctx, c, &apiextensionsv1.CustomResourceDefinitionList{}, object.GetName(), func(c *apiextensionsv1.CustomResourceDefinition) (bool, string) {
			for _, condition := range c.Status.Conditions {
				if condition.Type == apiextensionsv1.Established {
					return condition.Status == apiextensionsv1.ConditionTrue, condition.Message
				}
			}
			return false, ""
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func conditionTrue(conditions []metav1.Condition, kind string) (is bool, message string) {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == metav1.ConditionTrue, c.Message
		}
	}
	return false, ""
}

// await watches one object until check is satisfied. When ctx ends first, the error has check's last message.
func await[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, name string, check func(T) (done bool, message string)) error {
	message := ""
	for {
		// Without a resource version, a watch begins with the object as it is.
		w, err := c.Watch(ctx, list, client.MatchingFields{"metadata.name": name})
		if err != nil {
			return fmt.Errorf("watching %s: %w", name, err)
		}
		for event := range w.ResultChan() {
			if event.Type == watch.Error {
				break
			}
			object, ok := event.Object.(T)
			if !ok {
				continue
			}
			var done bool
			if done, message = check(object); done {
				w.Stop()
				return nil
			}
		}
		w.Stop()
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("waiting for %s: %w", name, context.Cause(ctx)), messageError(message))
		}
	}
}

func messageError(message string) error {
	if message == "" {
		return nil
	}
	return errors.New("it says: " + message)
}

// toUnstructured encodes a typed object for server-side apply.
func toUnstructured(object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", object, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
