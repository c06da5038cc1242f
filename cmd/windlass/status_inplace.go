package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/app"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/status"
)

func addPrefixFlag(flags *pflag.FlagSet, prefix *string) {
	flags.StringVar(prefix, "prefix", v1alpha1.DefaultInPlaceUpgradePrefix, "`PREFIX` of the annotations that ask for upgrades in place, as --in-place-upgrade-prefix of windlass extension or manager")
}

// checkPrefix refuses what windlass extension would not take, because the API server would not take it as the beginning of an annotation's key.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return inputErrorf("--prefix", "it is empty; leave it away for %s", v1alpha1.DefaultInPlaceUpgradePrefix)
	}
	return wrapInput("--prefix", app.InPlaceUpgrades{Prefix: prefix}.Check())
}

// fetchLock reads the control plane's lock into f where an annotation asks for the upgrade of one of its machines. Who may read the Cluster may often not
// read ConfigMaps: then it is left out.
func (m managementCluster) fetchLock(ctx context.Context, f *status.Facts) error {
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
