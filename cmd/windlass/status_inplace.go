package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/status"
)

// fetchLock reads the control plane's lock into f where an annotation asks for the upgrade of one of its machines. Who may read the Cluster may often not
// read ConfigMaps: then it is left out.
func fetchLock(ctx context.Context, m management.Cluster, f *status.Facts) error {
	marked := func(c *clusterv1.Machine) bool {
		controlPlane := capi.IsControlPlane(c)
		return controlPlane && slices.ContainsFunc(slices.Collect(maps.Keys(c.Annotations)), func(key string) bool {
			return key == v1alpha1.InPlaceUpgradeAnnotation || strings.HasPrefix(key, m.Prefix)
		})
	}
	if !slices.ContainsFunc(f.Machines, marked) {
		return nil
	}
	lock := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: f.Cluster.Namespace, Name: f.Cluster.Name + v1alpha1.InPlaceUpgradeLockSuffix}
	err := m.Object(ctx, "ConfigMap", key, lock)
	if err == nil {
		f.Lock = lock
	}
	return ignoreForbidden(management.IgnoreMissing(err))
}
