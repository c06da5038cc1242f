package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Place is where settings are: what gives them, and where in it.
type Place struct {
	// Object is such as KubeadmControlPlane prod. Path may be empty.
	Object, Path string
	// Machines, Running and Passing are those of a [Use].
	Machines         string
	Running, Passing bool
}

// at returns the place of a field below p.
func (p Place) at(fields ...string) Place {
	if p.Path != "" {
		fields = append([]string{p.Path}, fields...)
	}
	p.Path = strings.Join(fields, ".")
	return p
}

func (p Place) use(c Component, kind Kind, name, value string) Use {
	return Use{
		Object: p.Object, Path: p.Path, Machines: p.Machines, Running: p.Running, Passing: p.Passing,
		Component: c, Kind: kind, Name: name, Value: value,
	}
}

// gatesFlag is the flag whose value has feature gates.
const gatesFlag = "feature-gates"

// Arg is an argument of a program. Name may have dashes in front.
type Arg struct{ Name, Value string }

// FromArgs returns the settings that arguments give to a component.
func FromArgs(p Place, c Component, args []Arg) []Use {
	var uses []Use
	for _, arg := range args {
		switch name := flagName(arg.Name); name {
		case "":
		case gatesFlag:
			uses = append(uses, fromGates(p, c, arg.Value)...)
		default:
			uses = append(uses, p.use(c, Flag, name, ""))
		}
	}
	return uses
}

// flagName returns the name of a flag without dashes in front. All components take --a_b for --a-b.
func flagName(name string) string {
	return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
}

// fromGates returns the gates in the value of --feature-gates: NAME=BOOL,... From v1.31 on, an API
// server takes kube:NAME=BOOL for a gate of its own.
func fromGates(p Place, c Component, value string) []Use {
	var uses []Use
	for _, gate := range SplitGates(value) {
		uses = append(uses, p.use(c, Gate, gate.Name, gate.Value))
	}
	return uses
}

// SplitGates returns the gates in the value of --feature-gates.
func SplitGates(value string) []Arg {
	var gates []Arg
	for part := range strings.SplitSeq(value, ",") {
		name, on, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(part), "kube:"), "=")
		if name = strings.TrimSpace(name); name != "" {
			gates = append(gates, Arg{Name: name, Value: strings.TrimSpace(on)})
		}
	}
	return gates
}

// ArgsOf returns the arguments in the words of a command line. Words that are no flags, and the name
// of the program, are left out.
func ArgsOf(words []string) []Arg {
	var args []Arg
	for i, word := range words {
		if !strings.HasPrefix(word, "--") || word == "--" {
			continue
		}
		name, value, found := strings.Cut(word, "=")
		if !found && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			value = words[i+1]
		}
		args = append(args, Arg{Name: name, Value: value})
	}
	return args
}

// FromWords is FromArgs for words as K3s and RKE2 take the arguments of components; see [ArgOf].
func FromWords(p Place, c Component, words []string) []Use {
	return FromArgs(p, c, argsFrom(words))
}

// argsFrom returns the arguments in words as K3s and RKE2 take them.
func argsFrom(words []string) []Arg {
	args := make([]Arg, 0, len(words))
	for _, word := range words {
		args = append(args, ArgOf(word))
	}
	return args
}

// ArgOf returns the argument in NAME=VALUE or --NAME=VALUE, without dashes. K3s and RKE2 remove a +
// and a - at the end of the name, which say where the value goes among those of their own.
func ArgOf(word string) Arg {
	name, value, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
	return Arg{Name: strings.TrimRight(name, "+-"), Value: value}
}

// FromKubelet returns the settings in a KubeletConfiguration.
func FromKubelet(p Place, config map[string]any) []Use {
	uses := fromGateMap(p.at("featureGates"), Kubelet, config["featureGates"])
	walk(config, "", func(path string) {
		uses = append(uses, p.use(Kubelet, Field, path, ""))
	})
	return uses
}

// GatesOf returns the settings in the featureGates of a configuration: those of a KubeletConfiguration,
// of a KubeProxyConfiguration, or of kubeadm's ClusterConfiguration.
func GatesOf(p Place, c Component, config map[string]any) []Use {
	return fromGateMap(p.at("featureGates"), c, config["featureGates"])
}

func fromGateMap(p Place, c Component, gates any) []Use {
	byName, _ := gates.(map[string]any)
	var uses []Use
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		uses = append(uses, p.use(c, Gate, name, fmt.Sprint(byName[name])))
	}
	return uses
}

// opaque are fields of a KubeletConfiguration with keys of the user's, or that are of every object.
var opaque = []string{
	"apiVersion", "kind", "metadata", "featureGates", "evictionHard", "evictionSoft",
	"evictionSoftGracePeriod", "evictionMinimumReclaim", "qosReserved", "systemReserved",
	"kubeReserved", "cpuManagerPolicyOptions", "topologyManagerPolicyOptions", "staticPodURLHeader",
}

// walk calls yield with the paths of a configuration's fields, sorted, as the catalog has them.
func walk(value any, path string, yield func(path string)) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			walk(element, strings.TrimSuffix(path, ".")+".*.", yield)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if path == "" && slices.Contains(opaque, name) {
				if name == "apiVersion" || name == "kind" || name == "metadata" {
					continue
				}
				yield(name)
				continue
			}
			yield(path + name)
			walk(value[name], path+name+".", yield)
		}
	}
}

// clusterFields are those of kubeadm's ClusterConfiguration that are about a component.
var clusterFields = []struct {
	field     string
	component Component
}{{"apiServer", APIServer}, {"controllerManager", ControllerManager}, {"scheduler", Scheduler}}

// FromCluster returns the settings in kubeadm's ClusterConfiguration, in the form of any of its
// versions, and of Cluster API's.
func FromCluster(p Place, config map[string]any) []Use {
	uses := GatesOf(p, Kubeadm, config)
	for _, of := range clusterFields {
		args := below(config, of.field, "extraArgs")
		uses = append(uses, FromArgs(p.at(of.field, "extraArgs"), of.component, argsOf(args))...)
	}
	return uses
}

// FromKubeadm returns the settings in the spec of a KubeadmConfig. p is the place of the spec. A
// machine that joins does not use the init configuration; the first one of a cluster does.
func FromKubeadm(p Place, spec map[string]any) []Use {
	cluster, _ := spec["clusterConfiguration"].(map[string]any)
	uses, files := FromCluster(p.at("clusterConfiguration"), cluster), filesOf(p, spec["files"])
	for _, of := range clusterFields {
		args := argsOf(below(cluster, of.field, "extraArgs"))
		volumes := throughVolumes(below(cluster, of.field, "extraVolumes"))
		uses = append(uses, files.apisOf(of.component, args, volumes)...)
	}
	for _, field := range []string{"initConfiguration", "joinConfiguration"} {
		args := argsOf(below(spec, field, "nodeRegistration", "kubeletExtraArgs"))
		in := p.at(field, "nodeRegistration", "kubeletExtraArgs")
		uses = append(uses, FromArgs(in, Kubelet, args)...)
		uses = append(uses, files.apisOf(Kubelet, args, sameOnHost)...)
	}
	return append(uses, packagesOf(scriptsOf(p, spec, files))...)
}

// argsOf reads arguments: a list of {name, value}, or a map by name, as older versions have it.
func argsOf(value any) []Arg {
	var args []Arg
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			one, _ := element.(map[string]any)
			name, _ := one["name"].(string)
			text, _ := one["value"].(string)
			args = append(args, Arg{Name: name, Value: text})
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			args = append(args, Arg{Name: name, Value: fmt.Sprint(value[name])})
		}
	}
	return args
}

// below returns the value at some fields; nil where there is none.
func below(value any, fields ...string) any {
	for _, field := range fields {
		object, _ := value.(map[string]any)
		value = object[field]
	}
	return value
}
