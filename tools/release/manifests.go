package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	extensionFolder = "default"
	managerFolder   = "manager"
	bindingFolder   = "components/namespaces/binding"
	metadataFile    = "clusterctl/metadata.yaml"
	// deployment is the name of the extension's Deployment.
	deployment = "windlass-extension"
)

// manifests are the files of config/, by their paths in it.
type manifests map[string][]byte

func loadManifests(folder string) (manifests, error) {
	m := manifests{}
	source := os.DirFS(folder)
	err := fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		m[name], err = fs.ReadFile(source, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	return m, nil
}

// build returns what kustomize builds in a folder after an edit of its kustomization.
func (m manifests) build(folder string, edit func(*types.Kustomization)) (resmap.ResMap, error) {
	memory := filesys.MakeFsInMemory()
	for name, content := range m {
		if name == folder+"/kustomization.yaml" {
			var kustomization types.Kustomization
			if err := kustomization.Unmarshal(content); err != nil {
				return nil, fmt.Errorf("reading config/%s: %w", name, err)
			}
			edit(&kustomization)
			var err error
			if content, err = yaml.Marshal(kustomization); err != nil {
				return nil, fmt.Errorf("editing config/%s: %w", name, err)
			}
		}
		if err := memory.WriteFile("/config/"+name, content); err != nil {
			return nil, fmt.Errorf("copying config/%s: %w", name, err)
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/config/"+folder)
	if err != nil {
		return nil, fmt.Errorf("building config/%s: %w", folder, err)
	}
	return built, nil
}

// withImage replaces the placeholder of an image's name.
func withImage(image types.Image) func(*types.Kustomization) {
	return func(k *types.Kustomization) {
		image.Name = defaultImage
		k.Images = []types.Image{image}
	}
}

// variable is a variable of clusterctl: the text in the Deployment that it replaces, up to the value,
// and its name.
type variable struct{ before, name string }

// variables lists the variables of the extension's components. The Deployment must have all of them. A
// port is none: other objects name it, too.
var variables = []variable{
	{"replicas: ", "WINDLASS_REPLICAS"},
	{"- --log-format=", "WINDLASS_LOG_FORMAT"},
	{"- --verbosity=", "WINDLASS_VERBOSITY"},
	{"- --insecure-diagnostics=", "WINDLASS_INSECURE_DIAGNOSTICS"},
}

func isVariable(before string) bool {
	return slices.ContainsFunc(variables, func(v variable) bool { return v.before == before })
}

// clusterctl returns the files of clusterctl's repository, and the components of the manager, which
// clusterctl does not install.
func (m manifests) clusterctl(image types.Image) ([]file, error) {
	edit := withImage(image)
	extension, err := m.build(extensionFolder, edit)
	if err != nil {
		return nil, err
	}
	var components bytes.Buffer
	for i, r := range extension.Resources() {
		content, err := r.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("writing the %s %s: %w", r.GetKind(), r.GetName(), err)
		}
		text := string(content)
		if r.GetKind() == "Deployment" {
			if text, err = withVariables(text); err != nil {
				return nil, err
			}
		}
		if i > 0 {
			components.WriteString("---\n")
		}
		components.WriteString(text)
	}
	manager, err := m.build(managerFolder, edit)
	if err != nil {
		return nil, err
	}
	managerComponents, err := manager.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("writing the manager's components: %w", err)
	}
	return []file{
		{name: "metadata.yaml", content: m[metadataFile]},
		{name: "runtime-extension-components.yaml", content: components.Bytes()},
		{name: "manager-components.yaml", content: managerComponents},
	}, nil
}

// withVariables replaces values in a Deployment by variables with these values as defaults.
func withVariables(text string) (string, error) {
	lines := strings.Split(text, "\n")
	for _, v := range variables {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), v.before) })
		if i < 0 {
			return "", fmt.Errorf("the Deployment %s has no line %q for the variable %s. Fix: add it to config/extension", deployment,
				v.before, v.name)
		}
		_, value, _ := strings.Cut(lines[i], v.before)
		lines[i] = strings.TrimSuffix(lines[i], value) + "${" + v.name + ":=" + value + "}"
	}
	return strings.Join(lines, "\n"), nil
}

// checkSeries returns an error if clusterctl would not find the contract of a version.
func checkSeries(content []byte, tag string) error {
	var metadata clusterctlv1.Metadata
	if err := yaml.UnmarshalStrict(content, &metadata); err != nil {
		return fmt.Errorf("reading config/%s: %w", metadataFile, err)
	}
	parsed, err := version.ParseSemantic(tag)
	if err != nil {
		return fmt.Errorf("the version %q: %w", tag, err)
	}
	if metadata.GetReleaseSeriesForVersion(parsed) == nil {
		return fmt.Errorf("config/%s has no series for %s, so clusterctl refuses it. Fix: add {major: %d, minor: %d} with "+
			"its contract", metadataFile, tag, parsed.Major(), parsed.Minor())
	}
	return nil
}
