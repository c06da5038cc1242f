package planinput

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/preview"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Updates is what says how a cluster's machines will be updated by a plan.
type Updates struct {
	ask   preview.Request
	Facts doctor.Facts
	// controlPlaneMachine is one of the control plane's Machines, if there is one.
	controlPlaneMachine *clusterv1.Machine
	// Problem says why nothing can be told; empty otherwise.
	Problem string
}

// newUpdates prepares the question.
func newUpdates(facts doctor.Facts) *Updates {
	u := &Updates{Facts: facts}
	u.ask = preview.Request{Policies: facts.Policies, Updaters: facts.Updaters, NamespaceLabels: facts.NamespaceLabels, Ask: open, Engine: facts.Engine}
	onPaper := !facts.Objects.Cluster.Spec.Topology.IsDefined()
	for _, g := range snapshot.UpdateGroups(facts.Objects, facts.Class) {
		if onPaper && !g.ControlPlane {
			g.Name = g.Object // The group's name in the plan.
		}
		u.ask.Groups = append(u.ask.Groups, preview.Group{UpdateGroup: g})
	}
	return u
}

// hasExtension reports whether the class leaves plans to an extension: Windlass' own knows how far
// updaters move kubelets.
func (u *Updates) hasExtension() bool {
	return u.Facts.Class != nil && u.Facts.Class.Spec.Upgrade.External.GenerateUpgradePlanExtension != ""
}

// limitNote says for whom the stops of a plan are that updaters make necessary.
const limitNote = "stops that are there because updaters move kubelets a limited number of minors at once are made only where " +
	"the ClusterClass leaves plans to Windlass' extension; Cluster API's own planner does not know of updaters"

// LimitWorkers returns the request with workers that stop as often as their updaters need. A limit that a flag gave stays.
func (r Request) LimitWorkers() Request {
	if r.Updates == nil || r.Updates.Problem != "" {
		return r
	}
	limits, fewest := r.Updates.minorLimits()
	if fewest == 0 {
		return r
	}
	shared := r.Request.Policy.Workers == plan.WorkersShared
	groups := slices.Clone(r.Request.Inventory.Groups)
	for i := range groups {
		limit := limits[groupKey{groups[i].Kind == plan.MachinePool, groups[i].Name}]
		if r.Updates.hasExtension() && shared {
			// Stock Cluster API asks the extension about all workers at once, so that the slowest group counts for all.
			limit = fewest
		}
		if groups[i].MaxMinorStep == 0 {
			groups[i].MaxMinorStep = limit
		}
	}
	before, errBefore := plan.Compute(r.Request)
	r.Request.Inventory.Groups = groups
	after, errAfter := plan.Compute(r.Request)
	if shared && !r.Updates.hasExtension() && errors.Join(errBefore, errAfter) == nil && !slices.Equal(before.Workers, after.Workers) {
		r.Notes = append(slices.Clip(r.Notes), limitNote)
	}
	return r
}

// groupKey names a group of an inventory.
type groupKey struct {
	pool bool
	name string
}

// minorLimits returns how many minors each limited group can move at once, and the fewest of them; 0 where there is none.
func (u *Updates) minorLimits() (limits map[groupKey]uint32, fewest uint32) {
	limits = map[groupKey]uint32{}
	for i, n := range preview.MinorLimits(u.ask) {
		g := u.ask.Groups[i]
		if g.ControlPlane || g.Name == "" || n <= 0 {
			continue
		}
		limit := uint32(min(n, maxMinorStep))
		limits[groupKey{name: g.Name}] = limit
		if fewest == 0 || limit < fewest {
			fewest = limit
		}
	}
	return limits, fewest
}

// maxMinorStep is above what any version skew policy allows.
const maxMinorStep = 1000

// Preview asks how each group's machines will be updated. It adds the answers to a chain, and returns notes on them.
func (r Request) Preview(ctx context.Context, p plan.Plan, chain *view.Chain) (notes []string) {
	u := r.Updates
	if u == nil {
		return nil
	}
	chain.ShowUpdates = (len(u.ask.Policies) > 0 || u.Problem == "") && len(p.Operations) > 0
	chain.Updates = poolUpdates(r.Request.Inventory.Groups)
	inPlace := false
	for i, update := range u.Answer(ctx, p) {
		inPlace = inPlace || len(update.Updaters) > 0
		if g := u.ask.Groups[i]; g.ControlPlane {
			chain.ControlPlaneUpdate = &update
		} else if g.Name != "" {
			chain.Updates[g.Name] = update
		}
	}
	notes = settingsNotes(r.Request.Inventory.ControlPlane, p, u.Facts)
	notes = append(notes, scaledNotes(p, u.Facts)...)
	switch {
	case u.Problem != "":
		return append(notes, "it is unknown how machines will be updated: "+u.Problem)
	case inPlace:
		return append(notes, "updaters were asked about a change of the version, and about what KubeadmControlPlane changes with it by itself; what patches of the ClusterClass change in templates for a new version is not known here. "+
			"`windlass doctor` says what else could make Cluster API replace machines")
	default:
		return notes
	}
}

// maxSettings bounds how many settings the notes on a plan name.
const maxSettings = 10

// settingsNotes say which settings of the Cluster's objects a version of the plan lacks.
func settingsNotes(from version.Version, p plan.Plan, facts doctor.Facts) []string {
	if len(p.ControlPlane) == 0 || len(facts.Settings) == 0 {
		return nil
	}
	u := settings.Upgrade{From: from, To: p.ControlPlane[len(p.ControlPlane)-1]}
	found := settings.Accepted(settings.Check(u, facts.Settings), facts.Accepted)
	found = slices.DeleteFunc(found, func(f settings.Finding) bool {
		return f.Warning && f.Kind != settings.Packages
	})
	var notes []string
	for _, f := range found[:min(len(found), maxSettings)] {
		notes = append(notes, fmt.Sprintf("RemovedSettings: %s: %s%s. Fix: %s",
			f.Subject(), f.Message(), doctor.AcceptedBy(facts, f), f.Fix()))
	}
	if more := len(found) - len(notes); more > 0 {
		notes = append(notes, fmt.Sprintf("RemovedSettings: %d more; see windlass preflight", more))
	}
	for _, gap := range u.Gaps() {
		notes = append(notes, "RemovedSettings: "+gap.String())
	}
	return notes
}

// scaledNotes say which groups of the plan a cluster autoscaler may scale down in their rollout.
func scaledNotes(p plan.Plan, facts doctor.Facts) (notes []string) {
	for _, s := range facts.Scaled() {
		if slices.ContainsFunc(p.Operations, func(o plan.Operation) bool { return slices.Contains(o.Groups, s.Group) }) {
			notes = append(notes, fmt.Sprintf("%s: %s. Fix: %s", s.Subject, s.Message, s.Fix))
		}
	}
	return notes
}

// poolUpdates says what there is to say about MachinePools.
func poolUpdates(groups []plan.Group) map[string]cover.Update {
	updates := map[string]cover.Update{}
	for _, g := range groups {
		if g.Kind == plan.MachinePool {
			updates[g.Name] = cover.Update{Outcome: cover.Unknown, Message: "unknown: that is for its provider; UpdatePolicies do not select MachinePools"}
		}
	}
	return updates
}

// Answer returns the update of each group.
func (u *Updates) Answer(ctx context.Context, p plan.Plan) []cover.Update {
	if u.Problem == "" {
		return preview.Preview(ctx, u.withSteps(p))
	}
	unknown := cover.Update{Outcome: cover.Unknown, Message: "unknown: " + u.Problem}
	return slices.Repeat([]cover.Update{unknown}, len(u.ask.Groups))
}

// withSteps is the request with the upgrades of each group.
func (u *Updates) withSteps(p plan.Plan) preview.Request {
	request := u.ask
	request.Groups = slices.Clone(u.ask.Groups)
	obstacles := doctor.Obstacles(u.Facts)
	for i := range request.Groups {
		g := &request.Groups[i]
		g.More = u.besidesVersion(g.UpdateGroup)
		if o := obstacles[g.Subject]; o.Unknown {
			g.Doubt = o.Message
		} else {
			g.Obstacle = o.Message
		}
		if g.ControlPlane {
			g.Machine, g.Kubeadm = u.controlPlaneMachine, doctor.IsKubeadm(u.Facts)
		}
		for _, o := range p.Operations {
			if g.ControlPlane && o.Kind == plan.ControlPlaneUpgrade || o.Kind == plan.WorkersUpgrade && g.Name != "" && slices.Contains(o.Groups, g.Name) {
				g.Steps = append(g.Steps, preview.Step{From: o.From, To: o.To})
			}
		}
	}
	return request
}

// besidesVersion says what may change with a group's version that updaters are not asked about; empty where nothing is known to.
func (u *Updates) besidesVersion(g snapshot.UpdateGroup) string {
	if patch := snapshot.VersionPatch(u.Facts.Class, g); patch != "" {
		return fmt.Sprintf("patch %q of the ClusterClass may change more with the version", patch)
	}
	if u.Facts.Class == nil && u.Facts.Objects.Cluster.Spec.Topology.IsDefined() {
		return "its ClusterClass, whose patches may change more with the version, is not there to be read"
	}
	return ""
}

// holdNote names the groups whose upgrades annotations of the topology defer or hold; empty where none does.
func holdNote(cluster *clusterv1.Cluster) string {
	var deferred []string
	held := ""
	topology := cluster.Spec.Topology.Workers
	look := func(name string, annotations map[string]string) {
		if _, found := annotations[clusterv1.ClusterTopologyDeferUpgradeAnnotation]; found {
			deferred = append(deferred, name)
		}
		if _, found := annotations[clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation]; found && held == "" {
			held = name
		}
	}
	for i := range topology.MachineDeployments {
		look(topology.MachineDeployments[i].Name, topology.MachineDeployments[i].Metadata.Annotations)
	}
	for i := range topology.MachinePools {
		look(topology.MachinePools[i].Name, topology.MachinePools[i].Metadata.Annotations)
	}
	var parts []string
	if len(deferred) > 0 {
		parts = append(parts, fmt.Sprintf("the upgrade of %s is deferred (annotation %s)", strings.Join(deferred, ", "), clusterv1.ClusterTopologyDeferUpgradeAnnotation))
	}
	if held != "" {
		parts = append(parts, fmt.Sprintf("the upgrades of %s and of the groups after it are held (annotation %s)", held, clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", and ") + "; the plan is made as if they were not"
}
