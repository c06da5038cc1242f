package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/simulate/inventory"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// simulateInput is a scenario, and where it came from.
type simulateInput struct {
	// name is what errors call it.
	name    string
	file    scenario.File
	sources map[string]plan.Source
	// notes say what was assumed when it was read.
	notes []string
}

// read reads what is simulated from a scenario, manifests or the management cluster.
func (o *simulateOptions) read(cmd *cobra.Command, args []string, in planInput) (simulateInput, error) {
	var given scenario.File
	var err error
	if o.scenario != "" {
		if given, err = readScenario(o.scenario, cmd.InOrStdin()); err != nil {
			return simulateInput{}, err
		}
	}
	if len(args) == 0 && len(o.plan.files) == 0 {
		input, err := o.readAlone(given, in)
		if err != nil {
			return simulateInput{}, err
		}
		return o.fit(cmd, input, nil)
	}
	if len(given.Clusters)+len(given.Policies) > 0 {
		return simulateInput{}, inputErrorf("--scenario", "%s has clusters or policies, and these come from objects here; take them out of the file, or leave CLUSTER and -f away", o.scenario)
	}
	var read simulateObjects
	if len(o.plan.files) > 0 {
		read, err = o.readManifests(cmd, args, in)
	} else {
		read, err = o.readLive(cmd.Context(), args[0], in)
	}
	if err != nil {
		return simulateInput{}, err
	}
	from, err := inventory.FromObjects(read.clusters)
	if err != nil {
		return simulateInput{}, err
	}
	file, err := from.File.With(given)
	if err != nil {
		return simulateInput{}, wrapInput("--scenario", err)
	}
	return o.fit(cmd, simulateInput{name: o.scenario, file: file, sources: from.Sources, notes: append(read.notes, from.Notes...)}, read.set)
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
func (o *simulateOptions) readAlone(given scenario.File, in planInput) (simulateInput, error) {
	switch {
	case o.scenario == "":
		return simulateInput{}, inputErrorf("--scenario", "it is missing; name a scenario, or give manifests with -f, or the name of a CLUSTER")
	case !in.from.IsZero() || in.versions != nil:
		return simulateInput{}, inputErrorf("--from, --versions", "they are for objects; say so in the scenario")
	}
	if !in.to.IsZero() {
		given.Clusters = slices.Clone(given.Clusters)
		for i := range given.Clusters {
			given.Clusters[i].To = in.to.String()
		}
	}
	return simulateInput{name: o.scenario, file: given}, nil
}

// simulateObjects are clusters as objects describe them.
type simulateObjects struct {
	// set is where they were read; nil for a management cluster.
	set      *manifest.Set
	clusters []inventory.Cluster
	notes    []string
}

// readManifests reads one Cluster of manifests, or all.
func (o *simulateOptions) readManifests(cmd *cobra.Command, args []string, in planInput) (simulateObjects, error) {
	set, err := manifest.Read(o.plan.files, cmd.InOrStdin())
	if err != nil {
		return simulateObjects{}, err
	}
	clusters := set.Clusters
	if len(args) > 0 || len(clusters) < 2 {
		cluster, err := set.Cluster(*o.plan.kube.Namespace, firstOf(args))
		if err != nil {
			return simulateObjects{}, err
		}
		clusters = []*clusterv1.Cluster{cluster}
	}
	read := simulateObjects{set: set}
	for _, cluster := range clusters {
		if _, err := set.Cluster(cluster.Namespace, cluster.Name); err != nil {
			return simulateObjects{}, err
		}
		r, err := resolveManifest(set, cluster, in)
		if err != nil {
			return simulateObjects{}, err
		}
		if err := read.add(cmd.Context(), r, in, set.Gates(cluster)); err != nil {
			return simulateObjects{}, err
		}
	}
	return read, nil
}

// readLive reads a Cluster of the management cluster.
func (o *simulateOptions) readLive(ctx context.Context, name string, in planInput) (simulateObjects, error) {
	m, namespace, err := management.ConnectUnlessManifests(o.plan.kube)
	if err != nil {
		return simulateObjects{}, err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	r, err := resolveCluster(ctx, m, key, in)
	if err != nil {
		return simulateObjects{}, err
	}
	if len(r.updates.facts.Objects.Machines) == 0 {
		if r.updates.facts.Objects.Machines, err = m.Machines(ctx, key); err != nil {
			return simulateObjects{}, err
		}
	}
	gates, err := m.UpgradeGates(ctx, namespace)
	if err != nil {
		return simulateObjects{}, err
	}
	var read simulateObjects
	err = read.add(ctx, r, in, gates)
	return read, err
}

// add plans the upgrade of a cluster, asks how its machines are updated, and adds what was found.
func (s *simulateObjects) add(ctx context.Context, r planRequest, in planInput, gates []v1alpha1.UpgradeGate) error {
	r.request.Policy = in.policy
	r = r.limitWorkers()
	p, err := plan.Compute(r.request)
	if err != nil {
		return r.locate(err)
	}
	facts := r.updates.facts
	s.clusters = append(s.clusters, inventory.Cluster{
		Objects: facts.Objects, Class: facts.Class, ControlPlaneTemplate: facts.ControlPlaneTemplate, Request: r.request, Plan: p, Updates: r.updates.answer(ctx, p),
		Policies: facts.Policies, Updaters: facts.Updaters, NamespaceLabels: facts.NamespaceLabels, Gates: gates,
	})
	for _, n := range r.notes {
		s.notes = append(s.notes, fmt.Sprintf("cluster %s: %s", facts.Objects.Cluster.Name, n))
	}
	if r.updates.problem != "" {
		s.notes = append(s.notes, fmt.Sprintf("cluster %s: how machines are updated cannot be told, and they are taken to be replaced: %s", facts.Objects.Cluster.Name, r.updates.problem))
	}
	return nil
}
