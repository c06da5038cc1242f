package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	operatorv1 "sigs.k8s.io/cluster-api-operator/api/v1alpha2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// releasedImage is the image of the release, as manifests name it.
func releasedImage(t *testing.T) types.Image {
	t.Helper()
	digest := strings.TrimSpace(string(read(t, released(t).output, digestFile)))
	return types.Image{NewName: testImage, NewTag: testVersion, Digest: digest}
}

// builtBy returns what kustomize builds of the extension, with the image of the release, after an edit.
func builtBy(t *testing.T, edit func(*types.Kustomization)) map[string]map[string]any {
	t.Helper()
	m, err := loadManifests("../../config")
	if err != nil {
		t.Fatal(err)
	}
	built, err := m.build(extensionFolder, func(k *types.Kustomization) {
		withImage(releasedImage(t))(k)
		edit(k)
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := objects(built)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for key, object := range all {
		out[key] = object.Object
	}
	return out
}

func inNamespace(name string) func(*types.Kustomization) {
	return func(k *types.Kustomization) { k.Namespace = name }
}

// TestClusterctl is `clusterctl generate provider --runtime-extension windlass` of a repository on disk.
//
// It runs alone, and its cases one after another: all clients of clusterctl in a process share one
// configuration.
func TestClusterctl(t *testing.T) {
	o := released(t)
	repository := filepath.Join(t.TempDir(), "runtime-extension-windlass", testVersion)
	if err := os.MkdirAll(repository, 0o755); err != nil {
		t.Fatal(err)
	}
	const components = "runtime-extension-components.yaml"
	for _, name := range []string{components, "metadata.yaml"} {
		if err := os.WriteFile(filepath.Join(repository, name), read(t, o.output, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		variables string
		namespace string
		edit      func(*types.Kustomization)
	}{
		"defaults":          {edit: func(*types.Kustomization) {}},
		"another namespace": {namespace: "elsewhere", edit: inNamespace("elsewhere")},
		"variables": {
			variables: "WINDLASS_REPLICAS: \"3\"\nWINDLASS_LOG_FORMAT: text\nWINDLASS_VERBOSITY: \"4\"\nWINDLASS_INSECURE_DIAGNOSTICS: \"true\"\n",
			edit: func(k *types.Kustomization) {
				k.Replicas = append(k.Replicas, types.Replica{Name: deployment, Count: 3})
				k.Patches = append(k.Patches, patchArg(t, "--log-format=json", "--log-format=text"),
					patchArg(t, "--verbosity=0", "--verbosity=4"), patchArg(t, "--insecure-diagnostics=false", "--insecure-diagnostics=true"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "clusterctl.yaml")
			// The page has the URL with a variable of the environment.
			t.Setenv("REPOSITORY", repository)
			config := fmt.Sprintf("providers:\n- {name: windlass, type: RuntimeExtensionProvider, url: \"${REPOSITORY}/%s\"}\n%s",
				components, c.variables)
			if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			clusterctl, err := client.New(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			generated, err := clusterctl.GenerateProvider(t.Context(), "windlass:"+testVersion, clusterctlv1.RuntimeExtensionProviderType,
				client.ComponentsOptions{TargetNamespace: c.namespace})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := generated.Images(), []string{testImage + ":" + testVersion + "@" + releasedImage(t).Digest}; !slices.Equal(got, want) {
				t.Errorf("the images are %q, want %q", got, want)
			}
			page := string(read(t, "../../docs/how-to/install.md"))
			for _, variable := range generated.Variables() {
				if !strings.Contains(page, "| `"+variable+"` |") {
					t.Errorf("docs/how-to/install.md does not explain %s", variable)
				}
			}
			got := map[string]map[string]any{}
			for _, object := range generated.Objs() {
				// What encoding a typed object adds, which means nothing to an API server.
				delete(object.Object, "status")
				if strategy, _, _ := unstructured.NestedMap(object.Object, "spec", "strategy"); len(strategy) == 0 {
					unstructured.RemoveNestedField(object.Object, "spec", "strategy")
				}
				got[object.GetKind()+" "+object.GetName()] = object.Object
			}
			want := builtBy(t, c.edit)
			asClusterctl(want, generated.TargetNamespace())
			if diff := cmp.Diff(normal(t, want), normal(t, got)); diff != "" {
				t.Errorf("clusterctl generates (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManagerImage: the manager's components name the image by its digest, too.
func TestManagerImage(t *testing.T) {
	t.Parallel()
	image := releasedImage(t)
	components := string(read(t, released(t).output, "manager-components.yaml"))
	if want := "image: " + testImage + ":" + testVersion + "@" + image.Digest + "\n"; !strings.Contains(components, want) {
		t.Errorf("manager-components.yaml has no %q", want)
	}
}

// asClusterctl changes objects as clusterctl does. It labels them all. It takes the kinds that it does
// not know for namespaced ones; the API server drops such a namespace. It leaves the namespaces inside
// of an ExtensionConfig unchanged, which the extension corrects when it runs.
func asClusterctl(all map[string]map[string]any, namespace string) {
	for _, content := range all {
		object := unstructured.Unstructured{Object: content}
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[clusterctlv1.ClusterctlLabel], labels[clusterv1.ProviderNameLabel] = "", "runtime-extension-windlass"
		object.SetLabels(labels)
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			object.SetNamespace(namespace)
		case "ExtensionConfig":
			object.SetNamespace(namespace)
			object.SetAnnotations(map[string]string{"runtime.cluster.x-k8s.io/inject-ca-from-secret": "windlass-system/windlass-extension-tls"})
			if err := unstructured.SetNestedField(content, "windlass-system", "spec", "clientConfig", "service", "namespace"); err != nil {
				panic(err)
			}
		}
	}
}

// operatorSample is the text of the sample for the Cluster API Operator.
func operatorSample(t *testing.T) string {
	t.Helper()
	return string(read(t, "../../config/samples/runtimeextensionprovider.yaml"))
}

// TestOperatorUpgrade: with the ConfigMaps of two releases, as the sample's comment creates them, the
// sample of each release selects that of its own version alone. The operator requires it: it fails if
// the selector matches several ConfigMaps, and takes the version from the label.
func TestOperatorUpgrade(t *testing.T) {
	t.Parallel()
	labeled := regexp.MustCompile(`(?s)label configmap (\S+) \\\n#\s+([^\n]+)\n`)
	configMaps := map[string]labels.Set{}
	versions := []string{"v0.1.0", "v0.2.0"}
	for _, version := range versions {
		text := strings.ReplaceAll(operatorSample(t), versions[0], version)
		command := labeled.FindStringSubmatch(text)
		if command == nil {
			t.Fatal("the sample's comment labels no ConfigMap")
		}
		set, err := labels.ConvertSelectorToLabelsMap(strings.ReplaceAll(command[2], " ", ","))
		if err != nil {
			t.Fatal(err)
		}
		configMaps[command[1]] = set
	}
	for _, version := range versions {
		var sample operatorv1.RuntimeExtensionProvider
		text := strings.ReplaceAll(operatorSample(t), versions[0], version)
		if err := yaml.UnmarshalStrict([]byte(text), &sample); err != nil {
			t.Fatal(err)
		}
		selector, err := metav1.LabelSelectorAsSelector(sample.Spec.FetchConfig.Selector)
		if err != nil {
			t.Fatal(err)
		}
		var selected []string
		for _, set := range configMaps {
			if selector.Matches(set) {
				selected = append(selected, set[operatorv1.ConfigMapVersionLabelName])
			}
		}
		if !slices.Equal(selected, []string{sample.Spec.Version}) {
			t.Errorf("the sample of %s selects ConfigMaps of the versions %q", version, selected)
		}
	}
}

// TestOperatorSample: the sample is one that the Cluster API Operator's API server would accept, and it
// names the container that the components have.
func TestOperatorSample(t *testing.T) {
	t.Parallel()
	var sample operatorv1.RuntimeExtensionProvider
	if err := yaml.UnmarshalStrict([]byte(operatorSample(t)), &sample); err != nil {
		t.Fatal(err)
	}
	if sample.GroupVersionKind() != operatorv1.GroupVersion.WithKind("RuntimeExtensionProvider") {
		t.Errorf("the sample is a %s", sample.GroupVersionKind())
	}
	fetch := sample.Spec.FetchConfig
	if fetch == nil || fetch.Selector == nil || fetch.URL != "" || fetch.OCI != "" {
		t.Errorf("the operator fetches by %+v", fetch)
	}
	objects := builtBy(t, func(*types.Kustomization) {})
	_, container, err := podOf(&unstructured.Unstructured{Object: objects["Deployment "+deployment]})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range sample.Spec.Deployment.Containers {
		if c.Name != container["name"] {
			t.Errorf("the sample changes the container %s, the Deployment has %s", c.Name, container["name"])
		}
	}
	if namespace := objects["Namespace "+sample.Namespace]; namespace == nil {
		t.Errorf("the sample installs into %s", sample.Namespace)
	}
}
