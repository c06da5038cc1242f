package view

import (
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

type riskDocument struct {
	ID       string         `json:"id"`
	Kind     risks.Kind     `json:"kind"`
	Severity risks.Severity `json:"severity"`
	// Accepted says that the upgrade graph accepts it.
	Accepted  bool   `json:"accepted"`
	Summary   string `json:"summary"`
	Condition string `json:"condition"`
	// Confirmed says that no condition is left that could not be checked.
	Confirmed bool                       `json:"confirmed"`
	Fix       string                     `json:"fix"`
	FixedIn   text.List[version.Version] `json:"fixedIn"`
	Sources   text.List[string]          `json:"sources"`
	// Steps are the operations that have the risk.
	Steps text.List[riskStepDocument] `json:"steps"`
}

type riskStepDocument struct {
	Operation string          `json:"operation"`
	From      version.Version `json:"from"`
	To        version.Version `json:"to"`
	// Etcd says which versions of etcd the step is between, where that counts.
	Etcd string `json:"etcd"`
}

func newRiskDocument(r risks.Found, accepted bool) riskDocument {
	d := riskDocument{
		ID: r.ID, Kind: r.Kind, Severity: r.Severity, Accepted: accepted, Summary: r.Summary,
		Condition: r.Condition, Fix: r.Fix, FixedIn: r.FixedIn, Sources: r.Sources,
	}
	_, d.Confirmed = r.Confirmed()
	for _, a := range r.At {
		kind := plan.ControlPlaneUpgrade
		if a.Step.Workers {
			kind = plan.WorkersUpgrade
		}
		d.Steps = append(d.Steps, riskStepDocument{
			Operation: string(kind), From: a.Step.From, To: a.Step.To, Etcd: a.Etcd,
		})
	}
	return d
}

func (c Chain) accepts(id string) bool { return c.Accepted != nil && c.Accepted(id) }

// formatRisks shows the known risks: floors and blocks with how bad they are and what to do, warnings with
// whom they concern. Nothing blocks the plan that is shown. Those that nothing confirms are apart.
func formatRisks(buffer *strings.Builder, s Screen, c Chain) {
	var first, warnings, unseen []topic
	for _, r := range c.Risks {
		_, confirmed := r.Confirmed()
		switch {
		case c.accepts(r.ID):
			warnings = append(warnings, topic{name: r.ID, text: "accepted at " + r.Where()})
		case !confirmed:
			words := fmt.Sprintf("at %s, for %s", r.Where(), r.Condition)
			unseen = append(unseen, topic{name: r.ID, text: words})
		case r.Kind == risks.Warning:
			words := fmt.Sprintf("warning at %s, for %s", r.Where(), r.Condition)
			warnings = append(warnings, topic{name: r.ID, text: words})
		default:
			words := fmt.Sprintf("%s at %s. %s Fix: %s. See %s",
				strings.ToLower(string(r.Severity)), r.Where(), r.Summary, r.Fix, r.Sources[0])
			first = append(first, topic{name: r.ID, text: words})
		}
	}
	if first = append(first, warnings...); len(first) > 0 {
		formatTopics(buffer, s, "Known risks", first)
	}
	if len(unseen) > 0 {
		formatTopics(buffer, s, "Known risks that depend on what cannot be seen here", unseen)
	}
}
