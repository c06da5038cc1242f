package preflight

import (
	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/risks"
)

// Risks is what the check of known risks is about.
type Risks struct {
	// Known is required.
	Known *risks.Set
	Facts risks.Facts
	// Steps are those of the upgrade, in their order.
	Steps []risks.Step
	// RouteUnknown says why the steps are not those of a plan; empty if they are.
	RouteUnknown string
	// Blocks reports whether the upgrade graph blocks a risk, Accepts whether it accepts it by its
	// id. Nil means that it does neither.
	Blocks  func(*risks.Risk) bool
	Accepts func(id string) bool
}

// CheckRisks looks for the known risks of an upgrade. They are warnings, unless the upgrade graph
// blocks them.
func CheckRisks(r Risks) []clustercheck.Finding {
	found := report{id: KnownRisks}
	accepted := 0
	for _, risk := range r.Known.OfAll(r.Facts, r.Steps) {
		if r.Accepts != nil && r.Accepts(risk.ID) {
			accepted++
			continue
		}
		add := found.warn
		if r.Blocks != nil && r.Blocks(risk.Risk) {
			add = found.fail
		}
		condition := ""
		if risk.Condition != "" {
			condition = " Concerns " + risk.Condition
		}
		add(risk.ID, risk.Fix, "%s: %s%s (%s)",
			risk.Where(), risk.Summary, condition, risk.Sources[0])
	}
	where := "on the way"
	if r.RouteUnknown != "" {
		where = "of a direct step, because the versions between are unknown: " + r.RouteUnknown
	}
	return found.finish("none of the known risks of %s applies %s; %d accepted",
		r.Known.Revision, where, accepted)
}
