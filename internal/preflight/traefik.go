package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windlass-dev/windlass/internal/text"
)

// maxTagBytes bounds what is shown of the tag of an image.
const maxTagBytes = 128

// Traefik2Values returns the values of Traefik's chart that the chart of Traefik 3 refuses; empty
// for none. These are an image of Traefik 2, and redirectTo of a port.
func Traefik2Values(values map[string]any) string {
	tag, found, err := unstructured.NestedFieldNoCopy(values, "image", "tag")
	if err == nil && found {
		named := fmt.Sprint(tag)
		major, _, _ := strings.Cut(strings.TrimPrefix(named, "v"), ".")
		if major == "1" || major == "2" {
			return "image.tag " + text.Bound(named, maxTagBytes)
		}
	}
	ports, _, err := unstructured.NestedFieldNoCopy(values, "ports")
	byName, isMap := ports.(map[string]any)
	if err != nil || !isMap {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if port, isMap := byName[name].(map[string]any); isMap && port["redirectTo"] != nil {
			return "ports." + text.Bound(name, maxTagBytes) + ".redirectTo"
		}
	}
	return ""
}
