package simulatecmd

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/cli/planinput"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/simulate/inventory"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// source is a scenario, and where it came from.
type source struct {
	// name is what errors call it.
	name    string
	file    scenario.File
	sources map[string]plan.Source
	// Notes say what was assumed when it was read.
	notes []string
}

// read reads what is simulated from a scenario, manifests or the management cluster.
func (o *options) read(cmd *cobra.Command, args []string, in planinput.Input) (source, error) {
	var given scenario.File
	var err error
	if o.scenario != "" {
		if given, err = readScenario(o.scenario, cmd.InOrStdin()); err != nil {
			return source{}, err
		}
	}
	if len(args) == 0 && len(o.plan.Files) == 0 {
		input, err := o.readAlone(given, in)
		if err != nil {
			return source{}, err
		}
		return o.fit(cmd, input, nil)
	}
	if len(given.Clusters)+len(given.Policies) > 0 {
		return source{}, cli.InputErrorf("--scenario", "%s has clusters or policies, and here they come from objects. Fix: remove them from the file, or omit CLUSTER and -f", o.scenario)
	}
	var read objects
	if len(o.plan.Files) > 0 {
		read, err = o.readManifests(cmd, args, in)
	} else {
		read, err = o.readLive(cmd.Context(), args[0], in)
	}
	if err != nil {
		return source{}, err
	}
	from, err := inventory.FromObjects(read.clusters)
	if err != nil {
		return source{}, err
	}
	file, err := from.File.With(given)
	if err != nil {
		return source{}, cli.WrapInput("--scenario", err)
	}
	return o.fit(cmd, source{name: o.scenario, file: file, sources: from.Sources, notes: append(read.notes, from.Notes...)}, read.set)
}

// readScenario reads a file, or standard input.
func readScenario(path string, stdin io.Reader) (scenario.File, error) {
	data, err := manifest.ReadFile(path, stdin)
	if err != nil {
		return scenario.File{}, err
	}
	return scenario.Parse(path, data)
}

// readAlone uses a scenario that has everything.
func (o *options) readAlone(given scenario.File, in planinput.Input) (source, error) {
	switch {
	case o.scenario == "":
		return source{}, cli.InputErrorf("--scenario", "it is missing. Fix: name a scenario, or give manifests with -f, or the name of a CLUSTER")
	case !in.From.IsZero() || in.Versions != nil:
		return source{}, cli.InputErrorf("--from, --versions", "they are for objects; say so in the scenario")
	}
	if !in.To.IsZero() {
		given.Clusters = slices.Clone(given.Clusters)
		for i := range given.Clusters {
			given.Clusters[i].To = in.To.String()
		}
	}
	return source{name: o.scenario, file: given}, nil
}

// objects are clusters as objects describe them.
type objects struct {
	// set is where they were read; nil for a management cluster.
	set      *manifest.Set
	clusters []inventory.Cluster
	notes    []string
}

// readManifests reads one Cluster of manifests, or all.
func (o *options) readManifests(cmd *cobra.Command, args []string, in planinput.Input) (objects, error) {
	set, err := manifest.Read(o.plan.Files, cmd.InOrStdin())
	if err != nil {
		return objects{}, err
	}
	clusters := set.Clusters
	if len(args) > 0 || len(clusters) < 2 {
		cluster, err := set.Cluster(o.plan.Kube.Namespace, cli.FirstOf(args))
		if err != nil {
			return objects{}, err
		}
		clusters = []*clusterv1.Cluster{cluster}
	}
	read := objects{set: set}
	for _, cluster := range clusters {
		if _, err := set.Cluster(cluster.Namespace, cluster.Name); err != nil {
			return objects{}, err
		}
		r, err := planinput.ResolveManifest(set, cluster, in)
		if err != nil {
			return objects{}, err
		}
		if err := read.add(cmd.Context(), r, in, set.Gates(cluster)); err != nil {
			return objects{}, err
		}
	}
	return read, nil
}

// readLive reads a Cluster of the management cluster.
func (o *options) readLive(ctx context.Context, name string, in planinput.Input) (objects, error) {
	m, namespace, err := management.ConnectUnlessManifests(o.plan.Kube)
	if err != nil {
		return objects{}, err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	r, err := planinput.ResolveCluster(ctx, m, key, in)
	if err != nil {
		return objects{}, err
	}
	if len(r.Updates.Facts.Objects.Machines) == 0 {
		if r.Updates.Facts.Objects.Machines, err = m.Machines(ctx, key); err != nil {
			return objects{}, err
		}
	}
	gates, err := m.UpgradeGates(ctx, namespace)
	if err != nil {
		return objects{}, err
	}
	var read objects
	err = read.add(ctx, r, in, gates)
	return read, err
}

// add plans the upgrade of a cluster, asks how its machines are updated, and adds what was found.
func (s *objects) add(ctx context.Context, r planinput.Request, in planinput.Input, gates []v1alpha1.UpgradeGate) error {
	r.Request.Policy = in.Policy
	r = r.LimitWorkers()
	p, err := plan.Compute(r.Request)
	if err != nil {
		return r.Locate(err)
	}
	facts := r.Updates.Facts
	s.clusters = append(s.clusters, inventory.Cluster{
		Objects: facts.Objects, Class: facts.Class, ControlPlaneTemplate: facts.ControlPlaneTemplate, Request: r.Request, Plan: p, Updates: r.Updates.Answer(ctx, p),
		Engine: facts.Engine, Policies: facts.Policies, Updaters: facts.Updaters, NamespaceLabels: facts.NamespaceLabels, Gates: gates,
	})
	for _, n := range r.Notes {
		s.notes = append(s.notes, fmt.Sprintf("cluster %s: %s", facts.Objects.Cluster.Name, n))
	}
	if r.Updates.Problem != "" {
		s.notes = append(s.notes, fmt.Sprintf("cluster %s: it is unknown how machines are updated, so they are assumed to be replaced: %s", facts.Objects.Cluster.Name, r.Updates.Problem))
	}
	return nil
}
