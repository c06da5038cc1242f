package risks

import (
	"maps"
	"slices"

	"github.com/windlass-dev/windlass/internal/text"
)

const (
	// maxPins is how many images a message names, and maxPinBytes bounds one.
	maxPins     = 8
	maxPinBytes = 64
)

// PinnedImages returns the versions of images that a ClusterConfig of k0s names, for people; empty if
// spec.images names none. k0s then runs these whatever its own version. Every k0s writes the image of
// Envoy, so that one counts only beside others.
func PinnedImages(config map[string]any) string {
	spec := fieldsOf(config["spec"])
	images := fieldsOf(spec["images"])
	pins := text.Some{Most: maxPins}
	pin := func(name string, image any) bool {
		version, _ := fieldsOf(image)["version"].(string)
		if version != "" {
			pins.Add(text.Bound(name+" "+version, maxPinBytes))
		}
		return version != ""
	}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		if pin(name, images[name]) {
			continue
		}
		parts := fieldsOf(images[name])
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			pin(name+"."+part, parts[part])
		}
	}
	if pins.Len() == 0 {
		return ""
	}
	envoy := fieldsOf(fieldsOf(fieldsOf(spec["network"])["nodeLocalLoadBalancing"])["envoyProxy"])
	pin("envoyProxy", envoy["image"])
	named := "spec.images names " + pins.Join(", ")
	if images["default_pull_policy"] == "Never" {
		named += "; default_pull_policy is Never, so a machine whose bundle lacks one does not become ready"
	}
	return named
}

// fieldsOf returns the fields of a mapping; none of another value.
func fieldsOf(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}
