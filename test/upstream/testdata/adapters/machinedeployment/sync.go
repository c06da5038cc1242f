package machinedeployment

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/windlass-dev/windlass/internal/pool"
)

func (r *Reconciler) syncDeploymentStatus(
	all setList,
	newest *clusterv1.MachineSet,
	md *deployment,
) error {
	setReplicas(md, all)
	calculateV1Beta1Status(all, newest, md)
	for _, c := range pool.LegacyConditions(md, newest) {
		v1beta1conditions.Set(md, &c)
	}
	return nil
}

func calculateV1Beta1Status(all setList, newest *clusterv1.MachineSet, md *deployment) {
	pool.CountLegacy(all, newest).Into(&md.Status)
}
