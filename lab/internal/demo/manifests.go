package demo

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/pkg/version"
)

// variable is one that clusterctl substitutes.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)[^}]*\}`)

// scripts are the fields whose text a shell or a program on the machine reads: "${" there is its own.
var scripts = []string{"preKubeadmCommands", "postKubeadmCommands", "bootCommands", "content", "template"}

// CheckVariables returns an error that names the variables of a template that were not substituted.
func CheckVariables(objects []*unstructured.Unstructured) error {
	found := map[string]bool{}
	for _, o := range objects {
		collectVariables(o.Object, found)
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("the manifests are a template: these variables were not substituted: %s. Fix: give what "+
		`"clusterctl generate yaml --from FILE" prints with them in its environment`,
		strings.Join(slices.Sorted(maps.Keys(found)), ", "))
}

func collectVariables(value any, found map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if !slices.Contains(scripts, key) {
				collectVariables(item, found)
			}
		}
	case []any:
		for _, item := range v {
			collectVariables(item, found)
		}
	case string:
		for _, match := range variable.FindAllStringSubmatch(v, -1) {
			found[match[1]] = true
		}
	}
}

// WithVersions returns the objects with these versions as the version list of each ClusterClass, in the
// place of its own list or its extension. Without versions, it returns the objects.
func WithVersions(
	objects []*unstructured.Unstructured, versions []version.Version,
) ([]*unstructured.Unstructured, error) {
	if len(versions) == 0 {
		return objects, nil
	}
	sorted := version.Sorted(versions)
	list := make([]string, len(sorted))
	for i, v := range sorted {
		list[i] = v.String()
	}
	changed := slices.Clone(objects)
	for i, o := range objects {
		gvk := o.GroupVersionKind()
		if gvk.Group != clusterv1.GroupVersion.Group || gvk.Kind != "ClusterClass" {
			continue
		}
		changed[i] = o.DeepCopy()
		unstructured.RemoveNestedField(changed[i].Object, "spec", "upgrade", "external")
		if err := unstructured.SetNestedStringSlice(
			changed[i].Object, list, "spec", "kubernetesVersions",
		); err != nil {
			return nil, fmt.Errorf("setting the versions of ClusterClass %s: %w", o.GetName(), err)
		}
	}
	return changed, nil
}
