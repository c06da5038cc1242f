package app

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
)

// Limits tells how far updates in place move the machines of a group at once. It is safe for concurrent use.
type Limits struct{ engine *engine.Engine }

// GroupMinors returns how many minors the Machines of a MachineDeployment can be moved at once; 0 means any number that skew allows.
func (l *Limits) GroupMinors(ctx context.Context, cluster *clusterv1.Cluster, md *clusterv1.MachineDeployment) (int, error) {
	return l.engine.GroupMinors(ctx, cluster, md)
}

// lookForPolicies reports whether UpdatePolicies are installed. With them without Updaters, nobody could tell how far a policy's machines can be moved.
func lookForPolicies(mapper meta.RESTMapper) (bool, error) {
	for _, kind := range []string{"UpdatePolicy", "Updater"} {
		_, err := mapper.RESTMapping(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), v1alpha1.GroupVersion.Version)
		if meta.IsNoMatchError(err) {
			if kind == "UpdatePolicy" {
				return false, nil
			}
			return false, fmt.Errorf("looking for %s, which UpdatePolicies need: %w. Fix: install all CRDs with kubectl apply -k config/crd", kind, err)
		}
		if err != nil {
			return false, fmt.Errorf("looking for %s: %w", kind, err)
		}
	}
	return true, nil
}

// firstRead is a manager.Runnable that has a cache read what Limits look at. Without it the first to look would have it read, and wait without an end
// where that fails.
type firstRead struct {
	cache   cache.Informers
	timeout time.Duration
}

// NeedLeaderElection lets Start run in every replica, so that one that waits can go on at once when it leads.
func (*firstRead) NeedLeaderElection() bool { return false }

// Start returns once everything is read, or ctx is cancelled. An error says what cannot be read.
func (f *firstRead) Start(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	namespaces := capi.MetadataOf(corev1.SchemeGroupVersion.WithKind("Namespace"))
	for _, read := range []struct {
		resource string
		object   client.Object
	}{
		{"updatepolicies.windlass.dev", &v1alpha1.UpdatePolicy{}}, {"updaters.windlass.dev", &v1alpha1.Updater{}}, {"namespaces", namespaces},
	} {
		_, err := f.cache.GetInformer(bounded, read.object)
		if ctx.Err() != nil {
			return nil // The manager stops.
		}
		if err != nil {
			return fmt.Errorf("reading %s for %s: %w. Fix: let this program list and watch them, with the ClusterRole windlass-manager of config/manager",
				read.resource, f.timeout, err)
		}
	}
	return nil
}
