package upgradegraph

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Blocks reports whether a graph refuses steps with a known risk.
func Blocks(k v1alpha1.KnownRisks, r *risks.Risk) bool {
	return k.Action == v1alpha1.KnownRisksBlock && r.Kind != risks.Warning && !Accepts(k, r.ID)
}

// Accepts reports whether a graph accepts a known risk by its id.
func Accepts(k v1alpha1.KnownRisks, id string) bool {
	return slices.ContainsFunc(k.Accepted, func(a v1alpha1.AcceptedRisk) bool { return a.ID == id })
}

// Hazard returns plan.Graph's Hazard for what a graph says of known risks; nil if none of them
// blocks.
func Hazard(
	k v1alpha1.KnownRisks, set *risks.Set, facts risks.Facts,
) func(from, to version.Version) *plan.Hazard {
	if k.Action != v1alpha1.KnownRisksBlock {
		return nil
	}
	return func(from, to version.Version) *plan.Hazard {
		named, described, fix := text.Some{Most: maxProblems}, text.Some{Most: maxProblems}, ""
		for _, a := range set.Of(facts, risks.Step{From: from, To: to}) {
			if !Blocks(k, a.Risk) {
				continue
			}
			if fix == "" {
				fix = a.Fix + ". If it does not concern your clusters, add its id to " +
					"spec.knownRisks.accepted of the graph"
			}
			named.Add(a.ID)
			described.Add(a.String())
		}
		if fix == "" {
			return nil
		}
		return &plan.Hazard{
			Name:    "known risks: " + named.Join(", "),
			Problem: "the upgrade graph blocks known risks: " + described.Join("; "),
			Fix:     fix,
		}
	}
}

// WithHazard returns a source without the steps that its UpgradeGraph blocks for their known risks: as
// it is if graph is nil, or if it is no graph.
func WithHazard(
	source plan.Source, graph *v1alpha1.UpgradeGraph, set *risks.Set, facts risks.Facts,
) plan.Source {
	parsed, ok := source.(plan.Graph)
	if !ok || graph == nil {
		return source
	}
	parsed.Hazard = Hazard(graph.Spec.KnownRisks, set, facts)
	return parsed
}

func (p *parser) knownRisks(path *field.Path, k v1alpha1.KnownRisks) {
	actions := []v1alpha1.KnownRisksAction{v1alpha1.KnownRisksWarn, v1alpha1.KnownRisksBlock}
	if k.Action != "" && !slices.Contains(actions, k.Action) {
		p.report(field.NotSupported(path.Child("action"), k.Action, actions))
	}
	for i, a := range k.Accepted {
		if at := path.Child("accepted").Index(i); a.ID == "" {
			p.report(field.Required(at.Child("id"), "name the known risk"))
		} else if a.Reason == "" {
			why := fmt.Sprintf("say why %s does not count", a.ID)
			p.report(field.Required(at.Child("reason"), why))
		}
	}
}
