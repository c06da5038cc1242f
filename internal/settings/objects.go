package settings

import "slices"

// Object is an object of the management cluster, decoded.
type Object struct {
	// Kind and Name name it in findings.
	Kind, Name string
	// Content has spec.
	Content map[string]any
}

// FromObject returns the settings in an object that makes machines: a KubeadmControlPlane, a
// KubeadmConfig, their templates, or a control plane, a config or a template of RKE2, K3s, Talos or
// Canonical Kubernetes. Other kinds have none.
func FromObject(o Object) []Use {
	name := o.Kind + " " + o.Name
	p, spec := Place{Object: name, Path: "spec", Machines: name}, o.Content["spec"]
	if inner := below(spec, "template", "spec"); inner != nil {
		p, spec = p.at("template", "spec"), inner
	}
	config, _ := spec.(map[string]any)
	switch o.Kind {
	case "KubeadmControlPlane", "KubeadmControlPlaneTemplate":
		inner, _ := config["kubeadmConfigSpec"].(map[string]any)
		return FromKubeadm(p.at("kubeadmConfigSpec"), inner)
	case "KubeadmConfig", "KubeadmConfigTemplate":
		return FromKubeadm(p, config)
	case "KThreesControlPlane", "KThreesControlPlaneTemplate":
		inner, _ := config["kthreesConfigSpec"].(map[string]any)
		return fromFields(p.at("kthreesConfigSpec"), inner, rancherFields)
	case "RKE2ControlPlane", "RKE2ControlPlaneTemplate", "RKE2Config", "RKE2ConfigTemplate",
		"KThreesConfig", "KThreesConfigTemplate":
		return fromFields(p, config, rancherFields)
	case "TalosControlPlane", "TalosControlPlaneTemplate":
		return fromTalosControlPlane(p.at("controlPlaneConfig"), config)
	case "TalosConfig", "TalosConfigTemplate":
		return fromTalos(p, config)
	case "CK8sControlPlane", "CK8sControlPlaneTemplate":
		return fromCanonical(p.at("spec"), below(config, "spec"))
	case "CK8sConfigTemplate": // That of workers.
		return fromNamed(p, config, canonicalNode)
	}
	return nil
}

// argField is a field with a list of arguments, NAME=VALUE, for a component.
type argField struct {
	component Component
	path      []string
}

// rancherFields are those of CAPRKE2, and of Cluster API's provider for K3s.
var rancherFields = []argField{
	{APIServer, []string{"serverConfig", "kubeAPIServer", "extraArgs"}},
	{ControllerManager, []string{"serverConfig", "kubeControllerManager", "extraArgs"}},
	{Scheduler, []string{"serverConfig", "kubeScheduler", "extraArgs"}},
	{Kubelet, []string{"agentConfig", "kubelet", "extraArgs"}},
	{Proxy, []string{"agentConfig", "kubeProxy", "extraArgs"}},
	{APIServer, []string{"serverConfig", "kubeAPIServerArg"}},
	{ControllerManager, []string{"serverConfig", "kubeControllerManagerArgs"}},
	{Scheduler, []string{"serverConfig", "kubeSchedulerArgs"}},
	{Kubelet, []string{"agentConfig", "kubeletArgs"}},
	{Proxy, []string{"agentConfig", "kubeProxyArgs"}},
}

// securityField has a file with the configuration of admission plugins.
var securityField = []string{"serverConfig", "podSecurityAdmissionConfigFile"}

// profileField has the profile of RKE2. K3s has none.
var profileField = []string{"agentConfig", "cisProfile"}

func fromFields(p Place, config map[string]any, fields []argField) []Use {
	var uses []Use
	files := filesOf(p, config["files"])
	for _, of := range fields {
		args := argsFrom(wordsOf(below(config, of.path...)))
		uses = append(uses, FromArgs(p.at(of.path...), of.component, args)...)
		uses = append(uses, files.apisOf(of.component, args, sameOnHost)...)
	}
	if profile, ok := below(config, profileField...).(string); ok {
		uses = append(uses, profileUses(p.at(profileField...), profile)...)
	}
	if file, ok := below(config, securityField...).(string); ok {
		args := []Arg{{Name: admissionFlag, Value: file}}
		uses = append(uses, files.apisOf(APIServer, args, sameOnHost)...)
	}
	return uses
}

// wordsOf returns the strings of a list, or a string alone. CAPRKE2 accepts a mapping with a list of
// arguments as well.
func wordsOf(value any) []string {
	if one, ok := value.(string); ok {
		return []string{one}
	}
	list, _ := value.([]any)
	words := make([]string, 0, len(list))
	for _, element := range list {
		if word, ok := element.(string); ok {
			words = append(words, word)
		}
	}
	return slices.Clip(words)
}
