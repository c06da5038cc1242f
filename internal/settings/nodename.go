package settings

import "strings"

// NodeName returns the name with which each machine that a bootstrap config makes registers its Node; empty
// if it has none, or one that is made on the machine, such as from its hostname.
func NodeName(o Object) string {
	spec := o.Content["spec"]
	if inner := below(spec, "template", "spec"); inner != nil {
		spec = inner
	}
	var value any
	switch o.Kind {
	case "KubeadmConfig", "KubeadmConfigTemplate":
		value = below(spec, "joinConfiguration", "nodeRegistration", "name")
	case "RKE2Config", "RKE2ConfigTemplate", "KThreesConfig", "KThreesConfigTemplate":
		value = below(spec, "agentConfig", "nodeName")
	}
	name, _ := value.(string)
	if strings.ContainsAny(name, "{}$`<>%") {
		return ""
	}
	return name
}
