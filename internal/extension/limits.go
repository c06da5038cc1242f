package extension

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windlass-dev/windlass/internal/engine/update"
)

// Limits tells how far updates in place move the machines of a group at once, also where the extension itself is served by another
// process. It is safe for concurrent use.
type Limits struct{ engine *update.Engine }

// NewLimits returns Limits that read from the manager's cache.
func NewLimits(mgr manager.Manager) (*Limits, error) {
	c, err := newClients(mgr)
	if err != nil {
		return nil, err
	}
	return &Limits{engine: newEngine(mgr, c, newUpdaterPool(c.live))}, nil
}

// GroupMinors returns how many minors the Machines of a MachineDeployment can be moved at once; 0 means any number that skew allows, as it
// does where there are no UpdatePolicies because their CustomResourceDefinition is not installed.
func (l *Limits) GroupMinors(ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment) (int, error) {
	minors, err := l.engine.GroupMinors(ctx, cluster, md)
	if meta.IsNoMatchError(err) {
		return 0, nil
	}
	return minors, err
}
