package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// helmTemplate is `helm template windlass CHART --namespace NAMESPACE --values VALUES`.
func helmTemplate(t *testing.T, o options, namespace, values string) (map[string]map[string]any, error) {
	t.Helper()
	chart, err := loader.LoadArchive(bytes.NewReader(read(t, o.output, "windlass-0.1.0.tgz")))
	if err != nil {
		t.Fatal(err)
	}
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy, install.ReleaseName, install.Namespace = action.DryRunClient, "windlass", namespace
	install.KubeVersion = &common.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
	rendered, err := install.RunWithContext(t.Context(), chart, parsed)
	if err != nil {
		return nil, err
	}
	manifest, ok := rendered.(*releasev1.Release)
	if !ok {
		t.Fatalf("helm renders a %T", rendered)
	}
	out := map[string]map[string]any{}
	for document := range strings.SplitSeq(manifest.Manifest, "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		content := unstructured.Unstructured{Object: object}
		key := content.GetKind() + " " + content.GetName()
		if _, twice := out[key]; twice {
			key += " in " + content.GetNamespace()
		}
		out[key] = object
	}
	return out, nil
}

// keptByHelm removes the annotation that only Helm reads, and reports the objects that have none.
func keptByHelm(t *testing.T, objects map[string]map[string]any) {
	t.Helper()
	for key, content := range objects {
		object := unstructured.Unstructured{Object: content}
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		annotations := object.GetAnnotations()
		if annotations[keepAnnotation] != "keep" {
			t.Errorf("helm uninstall deletes the %s, and all its objects", key)
		}
		delete(annotations, keepAnnotation)
		object.SetAnnotations(annotations)
	}
}

// patch is a JSON patch of the Deployment.
func patch(operations string) types.Patch {
	target := types.Selector{}
	target.Kind, target.Name = "Deployment", deployment
	return types.Patch{Target: &target, Patch: operations}
}

func patched(operations string) func(*types.Kustomization) {
	return func(k *types.Kustomization) { k.Patches = append(k.Patches, patch(operations)) }
}

func withComponent(name string) func(*types.Kustomization) {
	return func(k *types.Kustomization) { k.Components = append(k.Components, "../components/"+name) }
}

const container = "/spec/template/spec/containers/0"

// TestChart: each value gives what the matching edit of config/default gives.
func TestChart(t *testing.T) {
	t.Parallel()
	o := released(t)
	for name, c := range map[string]struct {
		values    string
		namespace string
		edits     []func(*types.Kustomization)
	}{
		"defaults":  {},
		"namespace": {values: "namespace: elsewhere", edits: []func(*types.Kustomization){inNamespace("elsewhere")}},
		"namespace of the release": {namespace: "windlass-system", edits: []func(*types.Kustomization){func(k *types.Kustomization) {
			k.Patches = append(k.Patches, types.Patch{Patch: "$patch: delete\napiVersion: v1\nkind: Namespace\nmetadata: {name: windlass-system}"})
		}}},
		"image": {
			values: "image: {repository: example.com:5000/a/windlass, tag: v9}",
			edits:  []func(*types.Kustomization){withImage(types.Image{NewName: "example.com:5000/a/windlass", NewTag: "v9"})},
		},
		"digest": {
			values: "image: {digest: sha256:" + strings.Repeat("a", 64) + "}",
			edits:  []func(*types.Kustomization){withImage(types.Image{NewName: testImage, Digest: "sha256:" + strings.Repeat("a", 64)})},
		},
		"tag and digest": {
			values: "image: {tag: v9, digest: sha256:" + strings.Repeat("a", 64) + "}",
			edits: []func(*types.Kustomization){withImage(types.Image{
				NewName: testImage, NewTag: "v9", Digest: "sha256:" + strings.Repeat("a", 64),
			})},
		},
		"tag": {
			values: "image: {tag: v9}",
			edits:  []func(*types.Kustomization){withImage(types.Image{NewName: testImage, NewTag: "v9"})},
		},
		"mirror": {
			values: "image: {repository: mirror.example.com/windlass}",
			edits: []func(*types.Kustomization){withImage(types.Image{
				NewName: "mirror.example.com/windlass", NewTag: testVersion, Digest: releasedImage(t).Digest,
			})},
		},
		"imagePullSecrets": {
			values: "imagePullSecrets: [{name: a}, {name: b}]",
			edits:  []func(*types.Kustomization){patched(`[{"op": "add", "path": "/spec/template/spec/imagePullSecrets", "value": [{"name": "a"}, {"name": "b"}]}]`)},
		},
		"replicas": {values: "replicas: 3", edits: []func(*types.Kustomization){func(k *types.Kustomization) {
			k.Replicas = append(k.Replicas, types.Replica{Name: deployment, Count: 3})
		}}},
		"resources": {
			values: "resources: {limits: {memory: 1Gi}, requests: {cpu: 1}}\ngoMemLimit: 921MiB",
			edits: []func(*types.Kustomization){patched(`[
				{"op": "replace", "path": "` + container + `/resources/limits/memory", "value": "1Gi"},
				{"op": "replace", "path": "` + container + `/resources/requests/cpu", "value": 1},
				{"op": "test", "path": "` + container + `/env/2/name", "value": "GOMEMLIMIT"},
				{"op": "replace", "path": "` + container + `/env/2/value", "value": "921MiB"}]`)},
		},
		"extraArgs": {
			values: `extraArgs: [--verbosity=4, "--in-place-upgrade-prefix=a: \"{{ b }}\""]`,
			edits: []func(*types.Kustomization){patched(`[
				{"op": "add", "path": "` + container + `/args/-", "value": "--verbosity=4"},
				{"op": "add", "path": "` + container + `/args/-", "value": "--in-place-upgrade-prefix=a: \"{{ b }}\""}]`)},
		},
		"clientCertificates": {values: "clientCertificates: true", edits: []func(*types.Kustomization){withComponent("client-certificates")}},
		"all components, elsewhere": {
			values: "clientCertificates: true\nnamespaces: [team-a, team-b]\nnamespace: elsewhere",
			edits:  []func(*types.Kustomization){inNamespace("elsewhere"), withComponent("client-certificates"), withComponent("namespaces")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := builtBy(t, func(k *types.Kustomization) {
				for _, edit := range c.edits {
					edit(k)
				}
			})
			if strings.Contains(c.values, "namespaces:") {
				addBindings(t, want, "elsewhere", "team-a", "team-b")
			}
			if c.namespace == "" {
				c.namespace = "default"
			}
			got, err := helmTemplate(t, o, c.namespace, c.values)
			if err != nil {
				t.Fatal(err)
			}
			keptByHelm(t, got)
			if diff := cmp.Diff(normal(t, want), normal(t, got)); diff != "" {
				t.Errorf("helm template gives (-want +got):\n%s", diff)
			}
		})
	}
}

// addBindings adds what `kubectl -n NAMESPACE apply -k config/components/namespaces/binding` applies.
func addBindings(t *testing.T, objects map[string]map[string]any, extension string, namespaces ...string) {
	t.Helper()
	for i, namespace := range namespaces {
		binding := map[string]any{}
		content := bytes.ReplaceAll(read(t, "../../config", bindingFolder, "role_binding.yaml"), []byte("windlass-system"), []byte(extension))
		if err := yaml.Unmarshal(content, &binding); err != nil {
			t.Fatal(err)
		}
		object := unstructured.Unstructured{Object: binding}
		object.SetNamespace(namespace)
		key := object.GetKind() + " " + object.GetName()
		if i > 0 {
			key += " in " + namespace
		}
		objects[key] = binding
	}
}

// normal returns objects with the types of numbers that a decoder of YAML gives.
func normal(t *testing.T, objects map[string]map[string]any) map[string]any {
	t.Helper()
	content, err := yaml.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := yaml.Unmarshal(content, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestChartQuotes: a namespace may look like a number. Kustomize does not quote it.
func TestChartQuotes(t *testing.T) {
	t.Parallel()
	objects, err := helmTemplate(t, released(t), "default", `namespace: "123"`)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), ":123") || strings.Count(string(content), `"namespace":"123"`) < 10 {
		t.Errorf("a namespace is a number in %s", content)
	}
}

// TestChartRefuses: the schema names the value that makes no sense.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	o := released(t)
	for values, want := range map[string]string{
		"replicas: 0":                         "/replicas",
		"replicas: two":                       "/replicas",
		"replica: 2":                          "replica",
		"namespace: Windlass_System":          "/namespace",
		`namespace: ""`:                       "/namespace",
		"image: windlass:v1":                  "/image",
		"image: {repository: windlass:v1}":    "/image/repository",
		`image: {tag: "a b"}`:                 "/image/tag",
		"image: {digest: abc}":                "/image/digest",
		"image: {name: windlass}":             "/image",
		"imagePullSecrets: [a]":               "/imagePullSecrets/0",
		"resources: {limits: {memory: lots}}": "/resources/limits/memory",
		"resources: {memory: 1Gi}":            "/resources",
		"goMemLimit: 460Mi":                   "/goMemLimit",
		"extraArgs: [verbosity=4]":            "/extraArgs/0",
		"extraArgs: [--port=1]":               "/extraArgs/0",
		"extraArgs: [--leader-elect]":         "/extraArgs/0",
		// Ports and policies name the port.
		"extraArgs: [\"--diagnostics-address=:1\"]": "/extraArgs/0",
		"extraArgs: --verbosity=4":                  "/extraArgs",
		"clientCertificates: \"true\"":              "/clientCertificates",
		"namespaces: [a, a]":                        "/namespaces",
		"namespaces: all":                           "/namespaces",
	} {
		_, err := helmTemplate(t, o, "default", values)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "schema") {
			t.Errorf("%s: %v, want %s", values, err, want)
		}
	}
	if _, err := helmTemplate(t, o, "default", "global: {a: b}\nextraArgs: [--log-format=text, --gates=false]"); err != nil {
		t.Errorf("a parent's global values, and a flag that may be repeated: %v", err)
	}
}

// TestChartFits: Helm stores a release in a Secret, which may have 1 MiB.
func TestChartFits(t *testing.T) {
	t.Parallel()
	packed := read(t, released(t).output, "windlass-0.1.0.tgz")
	if size := len(packed); size > 200_000 {
		t.Errorf("the chart has %d bytes", size)
	}
}

// patchArg replaces one argument of the container.
func patchArg(t *testing.T, from, to string) types.Patch {
	t.Helper()
	_, c, err := podOf(&unstructured.Unstructured{Object: builtBy(t, func(*types.Kustomization) {})["Deployment "+deployment]})
	if err != nil {
		t.Fatal(err)
	}
	args, _ := c["args"].([]any)
	for i, arg := range args {
		if arg == from {
			return patch(fmt.Sprintf(`[{"op": "replace", "path": "%s/args/%d", "value": %q}]`, container, i, to))
		}
	}
	t.Fatalf("the Deployment has no argument %s", from)
	return types.Patch{}
}
