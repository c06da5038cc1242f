package updatepolicy

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// checkHost looks at what the API server cannot, or does not for files: that one of each choice is made, and that digests and keys can be read.
func checkHost(path *field.Path, c *v1alpha1.HostConfig) field.ErrorList {
	var problems field.ErrorList
	if (c.SSH == nil) == (c.Pod == nil) {
		problems = append(problems, field.Required(path, "set exactly one of ssh and pod"))
	}
	b := c.Binaries
	if countSet(b.URL, b.HostFolder, b.Bundle) != 1 {
		problems = append(problems, field.Required(path.Child("binaries"), "set exactly one of url, hostFolder and bundle"))
	}
	return append(problems, checkDigests(path.Child("binaries", "digests"), b.Digests)...)
}

func checkDigests(path *field.Path, d v1alpha1.HostDigests) field.ErrorList {
	switch {
	case countSet(d.Manifest, d.ConfigMapName) != 1:
		return field.ErrorList{field.Required(path, "set exactly one of manifest and configMapName")}
	case d.ConfigMapName != "" && countSet(d.SHA256, d.PublicKey) != 1:
		return field.ErrorList{field.Required(path, "with configMapName, set exactly one of sha256 and publicKey")}
	}
	var err error
	if d.Manifest != "" {
		if _, err = linuxhost.ParseManifest(d.Manifest); err != nil {
			return field.ErrorList{field.Invalid(path.Child("manifest"), field.OmitValueType{}, err.Error())}
		}
	}
	if d.PublicKey != "" {
		if _, err = linuxhost.ParsePublicKey(d.PublicKey); err != nil {
			return field.ErrorList{field.Invalid(path.Child("publicKey"), field.OmitValueType{}, err.Error())}
		}
	}
	return nil
}

func countSet(values ...string) int {
	set := 0
	for _, value := range values {
		if value != "" {
			set++
		}
	}
	return set
}
