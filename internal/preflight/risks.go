package preflight

import (
	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/text"
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

// maxUnseen is how many risks that nothing confirms are named.
const maxUnseen = 12

// CheckRisks looks for the known risks of an upgrade. Those that facts confirm are warnings, unless the
// upgrade graph blocks them. The check passes with the others, and names them: most of them do not
// concern most clusters.
func CheckRisks(r Risks) []clustercheck.Finding {
	found, unseen := report{id: KnownRisks}, text.Some{Most: maxUnseen}
	accepted := 0
	for _, risk := range r.Known.OfAll(r.Facts, r.Steps) {
		if r.Accepts != nil && r.Accepts(risk.ID) {
			accepted++
			continue
		}
		seen, confirmed := risk.Confirmed()
		if !confirmed {
			unseen.Add(risk.ID + " (" + risk.Condition + ")")
			continue
		}
		add := found.warn
		if r.Blocks != nil && r.Blocks(risk.Risk) {
			add = found.fail
		}
		concerns := ""
		switch {
		case seen != "":
			concerns = " It concerns this cluster: " + seen
		case risk.Condition != "":
			concerns = " Concerns " + risk.Condition
		}
		add(risk.ID, risk.Fix, "%s: %s%s (%s)",
			risk.Where(), risk.Summary, concerns, risk.Sources[0])
	}
	where := ""
	if r.RouteUnknown != "" {
		where = "; only the step from the first to the last version was compared, because those between are " +
			"not known: " + r.RouteUnknown
	}
	if unseen.Len() == 0 {
		return found.finish("none of the known risks of %s applies on the way; %d accepted%s",
			r.Known.Revision, accepted, where)
	}
	findings := []clustercheck.Finding{clustercheck.Pass(KnownRisks,
		"whether these known risks of %s apply cannot be seen here: %s; %d accepted%s",
		r.Known.Revision, unseen.Join("; "), accepted, where)}
	if len(found.found) > 0 {
		findings = append(found.finish(""), findings...)
	}
	return findings
}
