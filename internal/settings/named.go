package settings

import (
	"fmt"
	"maps"
	"slices"
)

// canonicalServer are fields of a CK8sConfig that count on control planes, canonicalNode those that count
// on every machine. A CK8sControlPlane has a CK8sConfig in its spec.
var (
	canonicalServer = []argField{
		{APIServer, []string{"controlPlane", "extraKubeAPIServerArgs"}},
		{ControllerManager, []string{"controlPlane", "extraKubeControllerManagerArgs"}},
		{Scheduler, []string{"controlPlane", "extraKubeSchedulerArgs"}},
	}
	canonicalNode = []argField{
		{Kubelet, []string{"extraKubeletArgs"}},
		{Proxy, []string{"extraKubeProxyArgs"}},
	}
)

// datastoreField has the datastore of Canonical Kubernetes.
var datastoreField = []string{"controlPlane", "datastoreType"}

// fromCanonical returns the settings in the config of a control plane of Canonical Kubernetes.
func fromCanonical(p Place, config any) []Use {
	datastore, _ := below(config, datastoreField...).(string)
	uses := fixedUses(p.at(datastoreField...), Canonical, datastoreValue+datastore)
	uses = append(uses, fromNamed(p, config, canonicalServer)...)
	return append(uses, fromNamed(p, config, canonicalNode)...)
}

// fromNamed returns the settings in fields that have arguments by name.
func fromNamed(p Place, config any, fields []argField) []Use {
	var uses []Use
	for _, of := range fields {
		args := argsByName(below(config, of.path...))
		uses = append(uses, FromArgs(p.at(of.path...), of.component, args)...)
	}
	return uses
}

// argsByName reads arguments in a mapping by name. A value may be a list: the component then gets the
// argument several times. Without a value there is none: it removes a default.
func argsByName(value any) []Arg {
	byName, _ := value.(map[string]any)
	var args []Arg
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		switch value := byName[name].(type) {
		case nil:
		case []any:
			for _, element := range value {
				args = append(args, Arg{Name: name, Value: fmt.Sprint(element)})
			}
		case map[string]any: // Elements that JSON patches add to a list.
			for _, index := range slices.Sorted(maps.Keys(value)) {
				args = append(args, Arg{Name: name, Value: fmt.Sprint(value[index])})
			}
		default:
			args = append(args, Arg{Name: name, Value: fmt.Sprint(value)})
		}
	}
	return args
}
