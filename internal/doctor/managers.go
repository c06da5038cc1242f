package doctor

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
)

// manager is one of Cluster API's managers that ask the extension.
type manager struct {
	// name is that of its Deployment, provider the value of its label.
	name, provider string
	// gates are the feature gates that it needs. All are off by default in Cluster API v1.14.
	gates []string
	fix   string
}

// coreProvider is the label of Cluster API's core manager.
const coreProvider = "cluster-api"

// managers returns those that update the Cluster's machines: the core manager asks about MachineDeployments and calls
// UpdateMachine, the other one asks about control plane Machines. That one does not look at RuntimeSDK: see main.go in
// Cluster API's controlplane/kubeadm, whose manifests do not set it either.
func managers(f Facts) []manager {
	list := []manager{{
		name: "capi-controller-manager", provider: coreProvider, gates: []string{"RuntimeSDK", "InPlaceUpdates"},
		fix: "start the manager with --feature-gates=RuntimeSDK=true,InPlaceUpdates=true " +
			"(with clusterctl: EXP_RUNTIME_SDK=true and EXP_IN_PLACE_UPDATES=true before init or upgrade)",
	}}
	if IsKubeadm(f) {
		list = append(list, manager{
			name: "capi-kubeadm-control-plane-controller-manager", provider: "control-plane-kubeadm", gates: []string{"InPlaceUpdates"},
			fix: "start the manager with --feature-gates=InPlaceUpdates=true (with clusterctl: EXP_IN_PLACE_UPDATES=true before init or upgrade)",
		})
	}
	return list
}

func checkFeatureGates(f Facts, groups []group, into *findings) {
	if len(inPlace(groups)) == 0 {
		return
	}
	for _, m := range managers(f) {
		found := false
		for i := range f.Managers {
			d := &f.Managers[i]
			if d.Labels[clusterv1.ProviderNameLabel] != m.provider {
				continue
			}
			found = true
			checkManager(m, d, into)
		}
		if !found {
			into.unknown(m.name, fmt.Sprintf("look for --feature-gates in the arguments of the process: %s must be true", strings.Join(m.gates, " and ")),
				"its feature gates are unknown: there is no Deployment with the label %s=%s%s",
				clusterv1.ProviderNameLabel, m.provider, map[bool]string{true: "", false: " in the manifests"}[f.Live])
		}
	}
}

func checkManager(m manager, d *appsv1.Deployment, into *findings) {
	subject := fmt.Sprintf("Deployment %s/%s", d.Namespace, d.Name)
	on, problem := capi.FeatureGates(d)
	var off []string
	for _, gate := range m.gates {
		// AllAlpha is a default for gates that nobody named.
		if state, named := on[gate]; !state && (named || !on["AllAlpha"]) {
			off = append(off, gate)
		}
	}
	switch {
	case problem != "":
		into.add(Error, subject, m.fix, "%s", problem)
	case len(off) > 0:
		into.add(Error, subject, m.fix, "switched off: %s; Cluster API then never asks the extension, and replaces machines", join(off))
	default:
		into.ok(subject, "switched on: %s", join(m.gates))
	}
}
