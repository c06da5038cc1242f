package planinput

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// assumedGroup is the name of the group that stands for workers about which nothing was said.
const assumedGroup = "workers"

// Request is what to plan, and where each part of it was read.
type Request struct {
	// Request is for the planner.
	Request plan.Request
	// Notes are what the user should know about how the request came about.
	Notes []string
	// HideGroups says that nobody gave the groups a name.
	HideGroups bool
	// items say where each item was read, source where the versions on offer were; empty for what came from flags.
	items  map[plan.Item]string
	Source string
	// stops says where the rules of where workers stop were read; empty where there are none.
	stops string
	// Heading goes before a table.
	Heading string
	// Prefix goes before an error that is not about the request itself.
	Prefix string
	// fromFlags says that nothing but flags was read.
	fromFlags bool
	// Facts are those that known risks depend on, and KnownRisks what the upgrade graph says of these.
	Facts      risks.Facts
	KnownRisks v1alpha1.KnownRisks
	// Updates says how machines will be updated; nil for plans from flags alone.
	Updates *Updates
}

// sourceRules are about what is on offer; all others are about one item of the request.
var sourceRules = []plan.Rule{plan.RuleTargetNotOffered, plan.RuleMinorMissing, plan.RuleNextMinorOnly, plan.RuleBlocked, plan.RuleFloor, plan.RuleKnownRisk}

// Locate puts before a planner's error where the item at fault was read.
func (r Request) Locate(err error) error {
	fault, ok := errors.AsType[*plan.Error](err)
	if !ok {
		return err
	}
	if r.fromFlags && fault.Rule == plan.RuleNextMinorOnly {
		// The planner's own words are about a ClusterClass.
		fixed := *fault
		fixed.Fix = "give the existing versions with --versions, manifests with -f, or the name of a CLUSTER"
		err = &fixed
	}
	where := r.items[fault.Item]
	switch {
	case slices.Contains(sourceRules, fault.Rule):
		where = r.Source
	case fault.Rule == plan.RuleNotOnRoute && r.stops != "":
		where = r.stops
	}
	if where == "" && !fault.Rule.BadInput() {
		where = r.Prefix
	}
	if where == "" {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}

// Report says why there is no plan, in the format that was asked for, and chooses the exit code.
func (r Request) Report(cmd *cobra.Command, in Input, cause error) error {
	var explanation []plan.ExplanationLine
	if _, planned := errors.AsType[*plan.Error](cause); planned && in.Explain {
		explanation = plan.Explain(r.Request).Lines
	}
	return cli.Report(cmd, in.Format, r.Locate(cause), explanation...)
}

// elsewhere is where windlass plan can find what flags do not say.
const elsewhere = ", or manifests with -f, or the name of a CLUSTER"

// ResolveFlags makes a request from flags alone. Errors add otherwise to what they ask for.
func ResolveFlags(in Input, otherwise string) (Request, error) {
	switch {
	case in.From.IsZero() && in.To.IsZero():
		return Request{}, cli.InputErrorf("--from, --to", "they are missing. Fix: give both%s", otherwise)
	case in.From.IsZero():
		return Request{}, cli.InputErrorf("--from", "it is missing. Fix: give the version that the control plane has%s", otherwise)
	case in.To.IsZero():
		return Request{}, cli.InputErrorf("--to", "it is missing. Fix: give the version to upgrade to")
	}
	r := Request{HideGroups: in.unnamed && len(in.Groups) == 1}
	r.Request.Inventory.ControlPlane, r.Request.Target = in.From, in.To
	for _, g := range in.Groups {
		if g.Version.IsZero() {
			g.Version = in.From
		}
		r.Request.Inventory.Groups = append(r.Request.Inventory.Groups, g)
	}
	if len(in.Groups) == 0 && !in.noWorkers {
		r.Request.Inventory.Groups = []plan.Group{{Name: assumedGroup, Version: in.From}}
		r.HideGroups = true
		r.Notes = append(r.Notes, fmt.Sprintf("no worker groups were given, so one group at %s is assumed; "+
			"name yours with --group NAME=VERSION, or leave workers out with --no-workers", in.From))
	}
	if in.Versions != nil {
		r.Request.Source = in.Versions
	} else {
		r.Request.Source = plan.NextMinor{}
		r.Source, r.fromFlags = "without --versions only the next minor can be reached", true
	}
	return r, nil
}

// resolveManifests makes a request from manifests. An UpgradeGraph without a Cluster is a source for flags.
func resolveManifests(files []string, stdin io.Reader, namespace, name string, in Input) (Request, error) {
	set, err := manifest.Read(files, stdin)
	if err != nil {
		return Request{}, err
	}
	if len(set.Clusters) == 0 && name == "" && len(set.UpgradeGraphs) == 1 && in.Versions == nil {
		return resolveGraph(set, in)
	}
	cluster, err := set.Cluster(namespace, name)
	if err != nil {
		return Request{}, err
	}
	return ResolveManifest(set, cluster, in)
}

// ResolveManifest makes a request from a Cluster of manifests.
func ResolveManifest(set *manifest.Set, cluster *clusterv1.Cluster, in Input) (Request, error) {
	facts, classErr, err := set.Facts(cluster, time.Now())
	if err != nil {
		return Request{}, err
	}
	where := Origins{set: set}
	r, state, err := resolveState(facts.Objects, in, where)
	if err != nil {
		return Request{}, err
	}
	if in.To.IsZero() && state.Assumed {
		return Request{}, cli.InputErrorf("--to",
			"it is missing, and without a control plane object the Cluster is assumed to run %s (%s). Fix: give --to, or if that is the target, --from",
			state.Target, where.locate(state.Refs[plan.ItemTarget]))
	}
	r.Updates = newUpdates(facts)
	r.Notes = append(r.Notes, r.Updates.surgelessNote()...)
	r.Notes = append(r.Notes, r.holdNotes(facts.Objects, facts.Around(), facts.Now)...)
	if in.Versions == nil && classErr != nil && cluster.Spec.Topology.IsDefined() {
		return Request{}, addFix(classErr, "give it with -f, or the existing versions with --versions")
	}
	return r.withSource(in, cluster, facts.Class, set.UpgradeGraphs, where)
}

// withSource completes a request with the versions that flags, or else the Cluster's class offer.
func (r Request) withSource(
	in Input, cluster *clusterv1.Cluster, class *clusterv1.ClusterClass, graphs []*v1alpha1.UpgradeGraph, where Origins,
) (Request, error) {
	if in.Versions != nil {
		r.Request.Source = in.Versions
		return r, nil
	}
	if !cluster.Spec.Topology.IsDefined() {
		r.Request.Source, r.fromFlags = plan.NextMinor{}, true
		r.Source = "without --versions only the next minor can be reached"
		return r, nil
	}
	source, ref, err := snapshot.Source(cluster, class, graphs)
	if err != nil {
		return Request{}, where.Describe(err)
	}
	r = r.blocked(source, ref, in)
	r.Source, r.stops = where.locate(ref), where.locateStops(ref)
	if where.set == nil && ref.Kind == "UpgradeGraph" {
		r.Notes = append(r.Notes, fmt.Sprintf("the extension %q was not called; the plan is made from the UpgradeGraph that serves the class",
			class.Spec.Upgrade.External.GenerateUpgradePlanExtension))
	}
	return r, nil
}

// blocked returns the request with a source that has no steps with known risks that an upgrade graph blocks.
func (r Request) blocked(source plan.Source, ref snapshot.Ref, in Input) Request {
	graph, _ := ref.Object.(*v1alpha1.UpgradeGraph)
	if graph != nil {
		r.KnownRisks = graph.Spec.KnownRisks
	}
	r.Request.Source = upgradegraph.WithHazard(source, graph, in.knownRisks(), r.Facts)
	return r
}

// Risks returns the known risks of a plan.
func (r Request) Risks(in Input, p plan.Plan) []risks.Found {
	return in.knownRisks().OfAll(r.Facts, risks.Steps(p.Operations))
}

// resolveGraph plans what flags say by the one UpgradeGraph that the manifests hold.
func resolveGraph(set *manifest.Set, in Input) (Request, error) {
	r, err := ResolveFlags(in, "")
	if err != nil {
		return Request{}, err
	}
	where := Origins{set: set}
	graph := set.UpgradeGraphs[0]
	workers := upgradegraph.Workers{}
	for _, g := range r.Request.Inventory.Groups {
		workers.Groups = append(workers.Groups, upgradegraph.Group{Name: g.Name, Topology: g.Name})
	}
	source, ref, err := snapshot.GraphSource(graph, workers)
	if err != nil {
		return Request{}, where.Describe(err)
	}
	r = r.blocked(source, ref, in)
	r.Source, r.stops = where.locate(ref), where.locateStops(ref)
	if slices.ContainsFunc(graph.Spec.Workers, func(w v1alpha1.WorkersRule) bool { return len(w.Classes)+len(w.WorkerClasses) > 0 }) {
		r.Notes = append(r.Notes, "rules of spec.workers that name classes are left out, because flags do not tell the classes; give the Cluster with -f")
	}
	return r, nil
}

// resolveState fills everything but the source from a Cluster's objects.
func resolveState(objects snapshot.Objects, in Input, where Origins) (Request, snapshot.State, error) {
	onPaper := false
	if in.OnPaper {
		objects, onPaper = snapshot.OnPaper(objects)
	}
	if onPaper && in.To.IsZero() {
		return Request{}, snapshot.State{}, cli.InputErrorf("--to", "it is missing, and a Cluster without a topology has no target. "+
			"Fix: give the version to upgrade to")
	}
	if onPaper && objects.ControlPlane == nil && in.From.IsZero() {
		return Request{}, snapshot.State{}, cli.InputErrorf("--from", "it is missing, and a Cluster without a topology and without a "+
			"control plane object has no version. Fix: give the version that the control plane has")
	}
	if onPaper && objects.ControlPlane == nil {
		objects.Cluster.Spec.Topology.Version = in.From.String()
	}
	state, err := snapshot.Take(objects, snapshot.Overrides{ControlPlane: in.From, Groups: in.Groups})
	if err != nil {
		return Request{}, snapshot.State{}, where.Describe(err)
	}
	r := Request{
		Request: plan.Request{Inventory: state.Inventory, Target: in.To},
		items:   make(map[plan.Item]string, len(state.Refs)),
		Facts:   snapshot.RiskFacts(objects),
	}
	for item, ref := range state.Refs {
		r.items[item] = where.locate(ref)
	}
	if in.To.IsZero() {
		r.Request.Target = state.Target
	} else {
		delete(r.items, plan.ItemTarget)
	}
	r.Notes = stateNotes(objects, state, onPaper)
	return r, state, nil
}

// stateNotes says what people should know of a Cluster's state besides its plan.
func stateNotes(objects snapshot.Objects, state snapshot.State, onPaper bool) []string {
	var notes []string
	if onPaper {
		notes = append(notes, onPaperNote)
	}
	if !state.Moving.IsZero() {
		notes = append(notes, fmt.Sprintf("the control plane is still on its way from %s to %s; "+
			"the plan begins when it is there", state.Moving, state.Inventory.ControlPlane))
	}
	if failure, ok := snapshot.TopologyFailure(objects.Cluster); ok {
		notes = append(notes, fmt.Sprintf("the controller of the topology takes no step: %s. Fix: %s",
			failure.Message, failure.Fix))
	}
	if stands, _, ok := snapshot.UnannouncedStep(objects); ok {
		notes = append(notes, stands.Message+". Fix: "+stands.Fix)
	}
	if note := holdNote(objects.Cluster); note != "" {
		notes = append(notes, note)
	}
	if len(state.Unmanaged) > 0 {
		notes = append(notes, "not part of the topology, so that no plan moves them: "+
			strings.Join(state.Unmanaged, ", "))
	}
	return notes
}

// holdNotes says why the upgrade that is under way does not continue, and why workers will not follow the
// control plane.
func (r Request) holdNotes(o snapshot.Objects, a snapshot.Around, now time.Time) (notes []string) {
	for _, s := range snapshot.Standstills(o, a, now) {
		notes = append(notes, s.Subject+": "+s.Sentence())
	}
	if s, ok := snapshot.SuffixHold(o, a, r.Request.Target); ok {
		notes = append(notes, s.Subject+": "+s.Sentence())
	}
	return notes
}

// surgelessNote says that the rollout of the control plane is a danger; empty if it is not.
func (u *Updates) surgelessNote() []string {
	f, _, ok := u.Facts.Surgeless()
	if !ok {
		return nil
	}
	object := u.Facts.Objects.ControlPlane
	return []string{fmt.Sprintf("%s %s: %s. Fix: %s", object.GetKind(), object.GetName(), f.Message, f.Fix)}
}

// onPaperNote says who carries out the plan of a Cluster without a topology.
const onPaperNote = "the Cluster has no topology, so no engine carries this plan out: set spec.version of the control plane object for " +
	"each of its steps, and spec.template.spec.version of the MachineDeployments or MachinePools named, in this order"

// Origins says where objects were read; the zero value is for objects of a management cluster.
type Origins struct{ set *manifest.Set }

// Locate names a field: by file and document where it was read from one, else by its object.
func (o Origins) locate(ref snapshot.Ref) string {
	if o.set != nil {
		if origin, known := o.set.OriginOf(ref.Object); known {
			return fmt.Sprintf("%s: %s", origin, strings.TrimSpace(ref.Kind+" "+ref.Field))
		}
	}
	return ref.String()
}

// locateStops names the rules of where workers stop; empty for a source that has none.
func (o Origins) locateStops(source snapshot.Ref) string {
	if source.Kind != "UpgradeGraph" {
		return ""
	}
	source.Field = "spec.workers"
	return o.locate(source)
}

// Describe turns the errors of package snapshot into ones that name files, and say how to go on.
func (o Origins) Describe(err error) error {
	var field *snapshot.FieldError
	var extension *snapshot.ExtensionError
	switch {
	case errors.As(err, &field):
		return cli.InputErrorf(o.locate(field.Ref), "%s", field.Problem)
	case errors.As(err, &extension):
		from := fmt.Sprintf("upgrade plans of this class come from the extension %q", extension.Extension)
		const fix = "give the existing versions with --versions, give the extension's UpgradeGraph with -f, " +
			"or check an answer of the extension with `windlass plan check`"
		if extension.Err != nil {
			return cli.InputErrorf(o.locate(extension.Ref), "%s: %w. Fix: %s", from, extension.Err, fix)
		}
		return cli.InputErrorf(o.locate(extension.Ref), "%s, which only Cluster API can call. Fix: %s", from, fix)
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
	fixed.Problem += ". Fix: " + fix
	return &fixed
}
