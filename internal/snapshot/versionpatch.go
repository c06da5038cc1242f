package snapshot

import (
	"regexp"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// builtinVersion is how patches name a Kubernetes version that Cluster API gives them, as a variable or in a template.
var builtinVersion = regexp.MustCompile(`(?is)builtin.*version`)

// VersionPatch returns the name of the first patch of a class that may change what a group's machines are made of when the
// Kubernetes version changes; empty where there is none. What an external patch does is not known, so it may. class may be nil.
func VersionPatch(class *clusterv1.ClusterClass, g UpdateGroup) string {
	if class == nil {
		return ""
	}
	for i := range class.Spec.Patches {
		p := &class.Spec.Patches[i]
		if p.External != nil {
			return p.Name
		}
		conditional := builtinVersion.MatchString(p.EnabledIf)
		for j := range p.Definitions {
			if d := &p.Definitions[j]; patches(d.Selector.MatchResources, g) && (conditional || usesVersion(d.JSONPatches)) {
				return p.Name
			}
		}
	}
	return ""
}

func patches(match clusterv1.PatchSelectorMatch, g UpdateGroup) bool {
	if g.ControlPlane {
		return match.ControlPlane != nil && *match.ControlPlane
	}
	if match.MachineDeploymentClass == nil || g.InTopology == nil {
		return false
	}
	return slices.ContainsFunc(match.MachineDeploymentClass.Names, func(name string) bool {
		// Cluster API allows * alone, and as the first or last character.
		class := g.InTopology.Class
		return name == "*" || name == class || len(name) > 1 &&
			(strings.HasSuffix(name, "*") && strings.HasPrefix(class, strings.TrimSuffix(name, "*")) ||
				strings.HasPrefix(name, "*") && strings.HasSuffix(class, strings.TrimPrefix(name, "*")))
	})
}

func usesVersion(list []clusterv1.JSONPatch) bool {
	return slices.ContainsFunc(list, func(p clusterv1.JSONPatch) bool {
		return p.ValueFrom != nil && (builtinVersion.MatchString(p.ValueFrom.Variable) || builtinVersion.MatchString(p.ValueFrom.Template))
	})
}
