package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// assumedGroup is the name of the group that stands for workers about which nothing was said.
const assumedGroup = "workers"

// planRequest is what to plan, and where each part of it was read.
type planRequest struct {
	request plan.Request
	// notes are what the user should know about how the request came about.
	notes []string
	// hideGroups says that nobody gave the groups a name.
	hideGroups bool
	// items say where each item was read, source where the versions on offer were; empty for what came from flags.
	items  map[plan.Item]string
	source string
	// heading goes before a table.
	heading string
	// prefix goes before an error that is not about the request itself.
	prefix string
	// fromFlags says that nothing but flags was read.
	fromFlags bool
	// updates says how machines will be updated; nil for plans from flags alone.
	updates *planUpdates
}

// sourceRules are about what is on offer; all others are about one item of the request.
var sourceRules = []plan.Rule{plan.RuleTargetNotOffered, plan.RuleMinorMissing, plan.RuleNextMinorOnly, plan.RuleBlocked, plan.RuleFloor}

// locate puts before a planner's error where the item at fault was read.
func (r planRequest) locate(err error) error {
	fault, ok := errors.AsType[*plan.Error](err)
	if !ok {
		return err
	}
	if r.fromFlags && fault.Rule == plan.RuleNextMinorOnly {
		// The planner's own words are about a ClusterClass.
		fixed := *fault
		fixed.Fix = "give the versions that there are with --versions, manifests with -f, or the name of a CLUSTER"
		err = &fixed
	}
	where := r.items[fault.Item]
	if slices.Contains(sourceRules, fault.Rule) {
		where = r.source
	}
	if where == "" && !fault.Rule.BadInput() {
		where = r.prefix
	}
	if where == "" {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}

// reportFailure says why there is no plan, in the format that was asked for, and chooses the exit code.
func (r planRequest) reportFailure(cmd *cobra.Command, in planInput, cause error) error {
	var explanation []plan.ExplanationLine
	if _, planned := errors.AsType[*plan.Error](cause); planned && in.explain {
		explanation = plan.Explain(r.request).Lines
	}
	return reportError(cmd, in.format, r.locate(cause), explanation...)
}

// resolve makes a request from flags, manifests or the management cluster.
func (o *planOptions) resolve(ctx context.Context, cmd *cobra.Command, args []string, in planInput) (planRequest, error) {
	switch {
	case len(o.files) > 0:
		return resolveManifests(o.files, cmd.InOrStdin(), *o.kube.Namespace, firstOf(args), in)
	case len(args) > 0:
		return o.resolveLive(ctx, args[0], in)
	default:
		return resolveFlags(in, elsewhere)
	}
}

// elsewhere is where windlass plan can find what flags do not say.
const elsewhere = ", or manifests with -f, or the name of a CLUSTER"

// resolveFlags makes a request from flags alone. Errors add otherwise to what they ask for.
func resolveFlags(in planInput, otherwise string) (planRequest, error) {
	switch {
	case in.from.IsZero() && in.to.IsZero():
		return planRequest{}, inputErrorf("--from, --to", "they are missing; give both%s", otherwise)
	case in.from.IsZero():
		return planRequest{}, inputErrorf("--from", "it is missing; give the version that the control plane has%s", otherwise)
	case in.to.IsZero():
		return planRequest{}, inputErrorf("--to", "it is missing; give the version to upgrade to")
	}
	r := planRequest{hideGroups: in.unnamed && len(in.groups) == 1}
	r.request.Inventory.ControlPlane, r.request.Target = in.from, in.to
	for _, g := range in.groups {
		if g.Version.IsZero() {
			g.Version = in.from
		}
		r.request.Inventory.Groups = append(r.request.Inventory.Groups, g)
	}
	if len(in.groups) == 0 && !in.noWorkers {
		r.request.Inventory.Groups = []plan.Group{{Name: assumedGroup, Version: in.from}}
		r.hideGroups = true
		r.notes = append(r.notes, fmt.Sprintf("no worker groups were given, so one group at %s is assumed; "+
			"name yours with --group NAME=VERSION, or leave workers out with --no-workers", in.from))
	}
	if in.versions != nil {
		r.request.Source = in.versions
	} else {
		r.request.Source = plan.NextMinor{}
		r.source, r.fromFlags = "without --versions only the next minor can be reached", true
	}
	return r, nil
}

// resolveManifests makes a request from manifests. An UpgradeGraph without a Cluster is a source for flags.
func resolveManifests(files []string, stdin io.Reader, namespace, name string, in planInput) (planRequest, error) {
	set, err := manifest.Read(files, stdin)
	if err != nil {
		return planRequest{}, err
	}
	if len(set.Clusters) == 0 && name == "" && len(set.UpgradeGraphs) == 1 && in.versions == nil {
		return resolveGraph(set, in)
	}
	cluster, err := set.Cluster(namespace, name)
	if err != nil {
		return planRequest{}, err
	}
	return resolveManifest(set, cluster, in)
}

// resolveManifest makes a request from a Cluster of manifests.
func resolveManifest(set *manifest.Set, cluster *clusterv1.Cluster, in planInput) (planRequest, error) {
	facts, classErr, err := set.Facts(cluster, time.Now())
	if err != nil {
		return planRequest{}, err
	}
	where := origins{set: set}
	r, state, err := resolveState(facts.Objects, in, where)
	if err != nil {
		return planRequest{}, err
	}
	if in.to.IsZero() && state.Assumed {
		return planRequest{}, inputErrorf("--to",
			"it is missing, and without a control plane object the Cluster is taken to run %s (%s) already; give --to, or --from when that is where it shall go",
			state.Target, where.locate(state.Refs[plan.ItemTarget]))
	}
	r.updates = newPlanUpdates(facts)
	if in.versions == nil && classErr != nil {
		return planRequest{}, addFix(classErr, "give it with -f, or say with --versions which versions there are")
	}
	return r.withSource(in.versions, facts.Class, set.UpgradeGraphs, where)
}

// withSource completes a request with the versions that flags, or else the Cluster's class offer.
func (r planRequest) withSource(
	given plan.VersionList, class *clusterv1.ClusterClass, graphs []*v1alpha1.UpgradeGraph, where origins,
) (planRequest, error) {
	if given != nil {
		r.request.Source = given
		return r, nil
	}
	source, ref, err := snapshot.Source(class, graphs)
	if err != nil {
		return planRequest{}, where.describe(err)
	}
	r.request.Source, r.source = source, where.locate(ref)
	if where.set == nil && ref.Kind == "UpgradeGraph" {
		r.notes = append(r.notes, fmt.Sprintf("the extension %q was not called; the plan is made from the UpgradeGraph that serves the class",
			class.Spec.Upgrade.External.GenerateUpgradePlanExtension))
	}
	return r, nil
}

// resolveGraph plans what flags say by the one UpgradeGraph that the manifests hold.
func resolveGraph(set *manifest.Set, in planInput) (planRequest, error) {
	r, err := resolveFlags(in, "")
	if err != nil {
		return planRequest{}, err
	}
	where := origins{set: set}
	source, ref, err := snapshot.GraphSource(set.UpgradeGraphs[0])
	if err != nil {
		return planRequest{}, where.describe(err)
	}
	r.request.Source, r.source = source, where.locate(ref)
	return r, nil
}

// resolveState fills everything but the source from a Cluster's objects.
func resolveState(objects snapshot.Objects, in planInput, where origins) (planRequest, snapshot.State, error) {
	state, err := snapshot.Take(objects, snapshot.Overrides{ControlPlane: in.from, Groups: in.groups})
	if err != nil {
		return planRequest{}, snapshot.State{}, where.describe(err)
	}
	r := planRequest{
		request: plan.Request{Inventory: state.Inventory, Target: in.to},
		items:   make(map[plan.Item]string, len(state.Refs)),
	}
	for item, ref := range state.Refs {
		r.items[item] = where.locate(ref)
	}
	if in.to.IsZero() {
		r.request.Target = state.Target
	} else {
		delete(r.items, plan.ItemTarget)
	}
	if !state.Moving.IsZero() {
		r.notes = append(r.notes, fmt.Sprintf("the control plane is still on its way from %s to %s; the plan begins when it is there",
			state.Moving, state.Inventory.ControlPlane))
	}
	if note := holdNote(objects.Cluster); note != "" {
		r.notes = append(r.notes, note)
	}
	if len(state.Unmanaged) > 0 {
		r.notes = append(r.notes, fmt.Sprintf("not part of the topology, so that no plan moves them: %s", strings.Join(state.Unmanaged, ", ")))
	}
	return r, state, nil
}

// origins says where objects were read; the zero value is for objects of a management cluster.
type origins struct{ set *manifest.Set }

// locate names a field: by file and document where it was read from one, else by its object.
func (o origins) locate(ref snapshot.Ref) string {
	if o.set != nil {
		if origin, known := o.set.OriginOf(ref.Object); known {
			return fmt.Sprintf("%s: %s", origin, strings.TrimSpace(ref.Kind+" "+ref.Field))
		}
	}
	return ref.String()
}

// describe turns the errors of package snapshot into ones that name files, and say how to go on.
func (o origins) describe(err error) error {
	var field *snapshot.FieldError
	var extension *snapshot.ExtensionError
	switch {
	case errors.As(err, &field):
		return inputErrorf(o.locate(field.Ref), "%s", field.Problem)
	case errors.As(err, &extension):
		from := fmt.Sprintf("upgrade plans of this class come from the extension %q", extension.Extension)
		const fix = "say with --versions which versions there are, give the extension's UpgradeGraph with -f, " +
			"or check an answer of the extension with `windlass plan check`"
		if extension.Err != nil {
			return inputErrorf(o.locate(extension.Ref), "%s: %w; %s", from, extension.Err, fix)
		}
		return inputErrorf(o.locate(extension.Ref), "%s, which only Cluster API can call; %s", from, fix)
	default:
		return err
	}
}

// addFix adds to an error about manifests what would put it right on the command line.
func addFix(err error, fix string) error {
	known, ok := errors.AsType[*manifest.Error](err)
	if !ok {
		return err
	}
	fixed := *known
	fixed.Problem += "; " + fix
	return &fixed
}
