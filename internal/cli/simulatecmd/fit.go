package simulatecmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/simulate/inventory"
)

// fit takes durations from the last upgrade of another Cluster, where the input says nothing itself. set is nil without manifests.
func (o *options) fit(cmd *cobra.Command, input source, set *manifest.Set) (source, error) {
	if o.fitFrom == "" {
		return input, nil
	}
	read := o.fitLive
	if set != nil {
		read = func(context.Context) (inventory.FitObjects, error) {
			return fitManifests(set, o.plan.Kube.Namespace, o.fitFrom)
		}
	}
	objects, err := read(cmd.Context())
	if err != nil {
		return source{}, err
	}
	fitted, err := inventory.Fit(objects)
	if err != nil {
		return source{}, cli.WrapInput("--fit-from", err)
	}
	file, notes := fitted.Apply(input.file)
	input.file, input.notes = file, append(input.notes, notes...)
	return input, nil
}

// fitManifests reads a Cluster of manifests, as kubectl prints them.
func fitManifests(set *manifest.Set, namespace, name string) (inventory.FitObjects, error) {
	cluster, err := set.Cluster(namespace, name)
	if err != nil {
		return inventory.FitObjects{}, err
	}
	// Without the class less is known about which policy was for a group that has no object.
	facts, _, err := set.Facts(cluster, time.Now())
	return inventory.FitObjects{Objects: facts.Objects, Class: facts.Class, Policies: facts.Policies}, err
}

// fitLive reads a Cluster of the management cluster.
func (o *options) fitLive(ctx context.Context) (inventory.FitObjects, error) {
	m, namespace, err := management.ConnectUnlessManifests(o.plan.Kube)
	if err != nil {
		return inventory.FitObjects{}, err
	}
	key := types.NamespacedName{Namespace: namespace, Name: o.fitFrom}
	objects := inventory.FitObjects{}
	if objects.Objects, err = m.Objects(ctx, key, true); err != nil {
		return inventory.FitObjects{}, err
	}
	if objects.Objects.Machines, err = m.Machines(ctx, key); err != nil {
		return inventory.FitObjects{}, err
	}
	objects.Policies, err = m.UpdatePolicies(ctx, namespace)
	return objects, err
}
