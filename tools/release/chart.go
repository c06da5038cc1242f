package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// The chart is generated: kustomize builds config/default with marks in the places of values, and with
// each component; marks become expressions, and what a component changes becomes a condition. The
// marks are names that occur nowhere else, and legal where they are.
const (
	chartName     = "windlass"
	markNamespace = "mark-namespace-of-the-extension"
	markCluster   = "mark-namespace-of-clusters"
	markImage     = "mark-image"
	markReplicas  = "mark-replicas"
	markResources = "mark-resources"
	markMemory    = "mark-memory"
	markArgs      = "mark-args"
	markSecrets   = "mark-pull-secrets"
)

// expressions replaces marks in the text of an object, in this order.
var expressions = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`: ` + markNamespace + `\n`), ": {{ .Values.namespace | quote }}\n"},
	{regexp.MustCompile(markNamespace), "{{ .Values.namespace }}"},
	{regexp.MustCompile(markReplicas), "{{ .Values.replicas }}"},
	{regexp.MustCompile(markImage), `{{ include "windlass.image" . | quote }}`},
	{regexp.MustCompile(markResources), "{{ .Values.resources | toJson }}"},
	{regexp.MustCompile(markMemory), "{{ .Values.goMemLimit | quote }}"},
	{
		regexp.MustCompile(`( *)- ` + markArgs + `\n`),
		"${1}{{- range .Values.extraArgs }}\n${1}- {{ . | quote }}\n${1}{{- end }}\n",
	},
	{
		regexp.MustCompile(`( *)imagePullSecrets: ` + markSecrets + `\n`),
		"${1}{{- with .Values.imagePullSecrets }}\n${1}imagePullSecrets: {{ . | toJson }}\n${1}{{- end }}\n",
	},
}

// component is a component of config/ and the condition under which the chart includes it.
type component struct{ folder, condition string }

var chartComponents = []component{
	{"client-certificates", ".Values.clientCertificates"},
	{"namespaces", ".Values.namespaces"},
}

//go:embed chart
var chartFiles embed.FS

// chart returns the files of the Helm chart, with paths below the chart's folder.
func (m manifests) chart(image types.Image) ([]file, error) {
	base, err := m.marked()
	if err != nil {
		return nil, err
	}
	files, err := m.templates(base)
	if err != nil {
		return nil, err
	}
	values, err := m.defaults(image)
	if err != nil {
		return nil, err
	}
	binding, err := m.bindings(values.Namespace)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"Chart.yaml", "values.yaml", "values.schema.json", "helpers.tpl"} {
		source, err := template.New(name).Delims("<<", ">>").ParseFS(chartFiles, "chart/"+name)
		if err != nil {
			return nil, fmt.Errorf("reading the chart's %s: %w", name, err)
		}
		var out bytes.Buffer
		if err := source.Execute(&out, values); err != nil {
			return nil, fmt.Errorf("writing the chart's %s: %w", name, err)
		}
		if name == "helpers.tpl" {
			name = "templates/_helpers.tpl"
		}
		files = append(files, file{name: name, content: out.Bytes()})
	}
	return append(files, binding), nil
}

// marked builds the extension with marks in the places of values, and the given components.
func (m manifests) marked(components ...string) (map[string]*unstructured.Unstructured, error) {
	built, err := m.build(extensionFolder, func(k *types.Kustomization) {
		k.Namespace = markNamespace
		withImage(types.Image{NewName: markImage})(k)
		for _, c := range components {
			k.Components = append(k.Components, "../components/"+c)
		}
	})
	if err != nil {
		return nil, err
	}
	out, err := objects(built)
	if err != nil {
		return nil, err
	}
	return out, markDeployment(out["Deployment "+deployment])
}

// objects returns what kustomize built by kind and name, which are unique.
func objects(built resmap.ResMap) (map[string]*unstructured.Unstructured, error) {
	out := map[string]*unstructured.Unstructured{}
	for _, r := range built.Resources() {
		content, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("reading the %s %s: %w", r.GetKind(), r.GetName(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("reading the %s %s: %w", r.GetKind(), r.GetName(), err)
		}
		out[r.GetKind()+" "+r.GetName()] = object
	}
	return out, nil
}

// markDeployment puts marks where kustomize has no transformer for them.
func markDeployment(d *unstructured.Unstructured) error {
	pod, container, err := podOf(d)
	if err != nil {
		return err
	}
	pod["imagePullSecrets"] = markSecrets
	container["resources"] = markResources
	args, _, err := unstructured.NestedSlice(container, "args")
	if err != nil {
		return fmt.Errorf("the arguments of the Deployment %s: %w", deployment, err)
	}
	container["args"] = append(args, markArgs)
	limit, err := memoryLimit(container)
	if err != nil {
		return err
	}
	limit["value"] = markMemory
	return unstructured.SetNestedField(d.Object, markReplicas, "spec", "replicas")
}

// podOf returns the pod's spec of the extension's Deployment, and its container. Both can be changed.
func podOf(d *unstructured.Unstructured) (pod, container map[string]any, err error) {
	if d != nil {
		found, _, err := unstructured.NestedFieldNoCopy(d.Object, "spec", "template", "spec")
		pod, ok := found.(map[string]any)
		if containers, isList := pod["containers"].([]any); err == nil && ok && isList && len(containers) == 1 {
			if container, ok := containers[0].(map[string]any); ok {
				return pod, container, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("config/%s has no Deployment %s with one container", extensionFolder, deployment)
}

func memoryLimit(container map[string]any) (map[string]any, error) {
	variables, _ := container["env"].([]any)
	for _, v := range variables {
		if v, ok := v.(map[string]any); ok && v["name"] == "GOMEMLIMIT" {
			return v, nil
		}
	}
	return nil, fmt.Errorf("the Deployment %s does not set GOMEMLIMIT", deployment)
}

// templates returns a template for each object that the base or a component has.
func (m manifests) templates(base map[string]*unstructured.Unstructured) ([]file, error) {
	texts, changed := map[string]string{}, map[string]string{}
	for key, object := range base {
		text, err := expressed(object)
		if err != nil {
			return nil, err
		}
		texts[key] = text
	}
	for _, c := range chartComponents {
		variant, err := m.marked(c.folder)
		if err != nil {
			return nil, err
		}
		for key := range variant {
			if base[key] == nil {
				return nil, fmt.Errorf("the component %s adds the %s. Fix: teach tools/release/chart.go to add objects", c.folder, key)
			}
		}
		for key, object := range base {
			if equality.Semantic.DeepEqual(object, variant[key]) {
				continue
			}
			if other := changed[key]; other != "" {
				return nil, fmt.Errorf("the components %s and %s both change the %s. Fix: teach tools/release/chart.go "+
					"to combine them", other, c.folder, key)
			}
			changed[key] = c.folder
			if texts[key], err = alternative(c, variant[key], texts[key]); err != nil {
				return nil, err
			}
		}
	}
	const namespace = "Namespace " + markNamespace
	texts[namespace] = "{{- if ne .Values.namespace .Release.Namespace }}\n" + texts[namespace] + "{{- end }}\n"
	out := make([]file, 0, len(texts))
	for key, text := range texts {
		name := strings.ReplaceAll(strings.ToLower(strings.TrimSuffix(key, " "+markNamespace)), " ", "-")
		out = append(out, file{name: "templates/" + name + ".yaml", content: []byte(text)})
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// alternative returns a template with an object as the component leaves it, and with the base if the
// component is off. with is nil if the component removes the object.
func alternative(c component, with *unstructured.Unstructured, base string) (string, error) {
	if with == nil {
		return "{{- if not " + c.condition + " }}\n" + base + "{{- end }}\n", nil
	}
	text, err := expressed(with)
	if err != nil {
		return "", err
	}
	return "{{- if " + c.condition + " }}\n" + text + "{{- else }}\n" + base + "{{- end }}\n", nil
}

// bindings returns the template of the RoleBindings for the listed namespaces. namespace is the one that
// config/ has for the extension.
func (m manifests) bindings(namespace string) (file, error) {
	built, err := m.build(bindingFolder, func(k *types.Kustomization) { k.Namespace = markCluster })
	if err != nil {
		return file{}, err
	}
	content, err := built.AsYaml()
	if err != nil {
		return file{}, fmt.Errorf("building config/%s: %w", bindingFolder, err)
	}
	text := strings.NewReplacer(
		markCluster, "{{ . | quote }}", "namespace: "+namespace, "namespace: {{ $.Values.namespace | quote }}",
	).Replace(string(content))
	return file{name: "templates/rolebindings.yaml", content: []byte("{{- range .Values.namespaces }}\n---\n" + text + "{{- end }}\n")}, nil
}

// expressed returns an object as a template: its marks are expressions, and braces are literal. Helm
// keeps a CustomResourceDefinition when the release is removed, because its objects would go with it.
func expressed(object *unstructured.Unstructured) (string, error) {
	object = object.DeepCopy()
	if object.GetKind() == "CustomResourceDefinition" {
		annotations := object.GetAnnotations()
		annotations[keepAnnotation] = "keep"
		object.SetAnnotations(annotations)
	}
	content, err := yaml.Marshal(object.Object)
	if err != nil {
		return "", fmt.Errorf("writing the %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	text := strings.ReplaceAll(string(content), "{{", `{{ "{{" }}`)
	for _, e := range expressions {
		text = e.pattern.ReplaceAllString(text, e.with)
	}
	return text, nil
}

const keepAnnotation = "helm.sh/resource-policy"

// chartDefaults fills the files in chart/.
type chartDefaults struct {
	Image, AppVersion, Version, Digest string
	Replicas                           int64
	GoMemLimit, Resources              string
	Namespace                          string
	// Reserved are the flags that the Deployment sets and that must fit its other fields, for a regular
	// expression. A flag that clusterctl has a variable for can be repeated: its last value counts.
	Reserved string
}

// defaults reads the values of the base.
func (m manifests) defaults(image types.Image) (chartDefaults, error) {
	built, err := m.build(extensionFolder, func(*types.Kustomization) {})
	if err != nil {
		return chartDefaults{}, err
	}
	all, err := objects(built)
	if err != nil {
		return chartDefaults{}, err
	}
	d := all["Deployment "+deployment]
	_, container, err := podOf(d)
	if err != nil {
		return chartDefaults{}, err
	}
	limit, err := memoryLimit(container)
	if err != nil {
		return chartDefaults{}, err
	}
	resources, err := json.Marshal(container["resources"])
	if err != nil {
		return chartDefaults{}, fmt.Errorf("the resources of the Deployment %s: %w", deployment, err)
	}
	replicas, _, err := unstructured.NestedFieldNoCopy(d.Object, "spec", "replicas")
	if err != nil {
		return chartDefaults{}, fmt.Errorf("the replicas of the Deployment %s: %w", deployment, err)
	}
	count, err := json.Number(fmt.Sprint(replicas)).Int64()
	if err != nil {
		return chartDefaults{}, fmt.Errorf("the replicas of the Deployment %s: %w", deployment, err)
	}
	var reserved []string
	args, _ := container["args"].([]any)
	for _, arg := range args {
		if name, ok := strings.CutPrefix(fmt.Sprint(arg), "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			if !isVariable("- --" + name + "=") {
				reserved = append(reserved, regexp.QuoteMeta(name))
			}
		}
	}
	return chartDefaults{
		Image: image.NewName, AppVersion: image.NewTag, Version: strings.TrimPrefix(image.NewTag, "v"), Digest: image.Digest,
		Replicas: count, GoMemLimit: fmt.Sprint(limit["value"]),
		Resources: string(resources), Namespace: d.GetNamespace(), Reserved: strings.Join(reserved, "|"),
	}, nil
}

// packChart returns the archive of a chart, as `helm package` names it. Unlike Helm's, it depends on the
// files and the time alone.
func packChart(files []file, version string, created time.Time) (file, error) {
	inside := make([]file, 0, len(files))
	for _, f := range files {
		f.name = chartName + "/" + f.name
		inside = append(inside, f)
	}
	content, err := archive(inside, created)
	if err != nil {
		return file{}, err
	}
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	if _, err := compressed.Write(content); err != nil {
		return file{}, fmt.Errorf("compressing the chart: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return file{}, fmt.Errorf("compressing the chart: %w", err)
	}
	return file{name: chartName + "-" + version + ".tgz", content: out.Bytes()}, nil
}
