package demo

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	hostsv1 "github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
	"github.com/windlass-dev/windlass/pkg/version"
)

// hostTemplate is the name of the templates of hosts that stand for the user's infrastructure.
const hostTemplate = "hosts"

// FromObjectsOnHosts is FromObjects with hosts in the place of the infrastructure, on which kubeadm
// makes a real cluster. All machines are replaced.
func FromObjectsOnHosts(
	objects []*unstructured.Unstructured, target version.Version,
) (Scenario, error) {
	s, err := swap(objects, target, hostInfrastructure())
	if err != nil {
		return Scenario{}, err
	}
	s.Real = &Real{Replaced: []string{controlPlaneName}}
	for _, md := range s.Cluster.Spec.Topology.Workers.MachineDeployments {
		s.Real.Replaced = append(s.Real.Replaced, md.Name)
	}
	return s, nil
}

func hostInfrastructure() infrastructure {
	refer := func(kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{
			APIVersion: hostsv1.GroupVersion.String(), Kind: kind, Name: hostTemplate,
		}
	}
	ofHosts := func(kind string) *unstructured.Unstructured {
		t := template(hostsv1.GroupVersion.Group, kind, hostTemplate, map[string]any{})
		t.SetAPIVersion(hostsv1.GroupVersion.String())
		return t
	}
	return infrastructure{
		what:         "infrastructure is on this machine: HostCluster and HostMachine",
		cluster:      refer("HostClusterTemplate"),
		controlPlane: refer("HostMachineTemplate"), worker: refer("HostMachineTemplate"),
		templates: []*unstructured.Unstructured{
			ofHosts("HostClusterTemplate"), ofHosts("HostMachineTemplate"), plainTemplate(),
		},
		adapt: adaptToHosts,
	}
}

// missingOnHosts are fields of a kubeadm config that hosts do not carry out, with the reason.
var missingOnHosts = map[string]string{
	"diskSetup":           "hosts have one disk",
	"mounts":              "hosts have one disk",
	"ntp":                 "hosts have the clock of this machine",
	"format":              "hosts read cloud-config",
	"ignition":            "hosts read cloud-config",
	"preKubeadmCommands":  "commands for your image may not exist on hosts",
	"postKubeadmCommands": "commands for your image may not exist on hosts",
}

// cloudArguments are arguments of a kubelet, API server or controller manager that need a cloud.
var cloudArguments = []any{"cloud-provider", "cloud-config"}

// adaptToHosts removes, anywhere below the spec of a kubeadm template, what hosts do not have.
func adaptToHosts(spec any, notice func(format string, args ...any)) any {
	switch typed := spec.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(typed)) {
			if reason, missing := missingOnHosts[key]; missing && typed[key] != "cloud-config" {
				notice("%s of a kubeadm config is left out: %s", key, reason)
				delete(typed, key)
				continue
			}
			wasEmpty := isEmpty(typed[key])
			typed[key] = adaptToHosts(typed[key], notice)
			if !wasEmpty && isEmpty(typed[key]) {
				setEmptied(typed, key)
			}
		}
	case []any:
		typed = slices.DeleteFunc(typed, func(item any) bool {
			argument, _ := item.(map[string]any)
			name := argument["name"]
			needsCloud := name != nil && slices.Contains(cloudArguments, name)
			if needsCloud {
				notice("the argument %v is left out: hosts are in no cloud", name)
			}
			return needsCloud
		})
		for i := range typed {
			typed[i] = adaptToHosts(typed[i], notice)
		}
		return typed
	}
	return spec
}

func isEmpty(value any) bool {
	switch typed := value.(type) {
	case map[string]any:
		return len(typed) == 0
	case []any:
		return len(typed) == 0
	}
	return false
}

// setEmptied removes a field that has lost its content, because Cluster API refuses empty ones. It
// gives a whole kubeadm config the default format.
func setEmptied(object map[string]any, key string) {
	if key == "spec" || key == "kubeadmConfigSpec" {
		object[key] = map[string]any{"format": "cloud-config"}
		return
	}
	delete(object, key)
}
