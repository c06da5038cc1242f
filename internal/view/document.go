package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// The types below are the stable interface of `-o json` and `-o yaml`. Fields are never renamed or removed; lists are
// never null.

// upgradeStep has the shape of the GenerateUpgradePlan hook's UpgradeStep.
type upgradeStep struct {
	Version version.Version `json:"version"`
}

type planDocument struct {
	ControlPlaneUpgrades text.List[upgradeStep] `json:"controlPlaneUpgrades"`
	// ControlPlaneUpdate is left out, as are the groups' own, for plans from flags alone.
	ControlPlaneUpdate *cover.Update `json:"controlPlaneUpdate,omitempty"`
	// WorkersUpgrades is the list that all groups share.
	WorkersUpgrades text.List[upgradeStep] `json:"workersUpgrades"`
	// Groups are the groups' own plans, in the order of upgrade.
	Groups     text.List[groupDocument]     `json:"groups"`
	Operations text.List[operationDocument] `json:"operations"`
	// KnownRisks are those of the operations, each once.
	KnownRisks text.List[riskDocument] `json:"knownRisks"`
	// Explanation is nil, and left out, when nobody asked for it.
	Explanation *text.List[plan.ExplanationLine] `json:"explanation,omitempty"`
}

type groupDocument struct {
	Name     string                 `json:"name"`
	Upgrades text.List[upgradeStep] `json:"upgrades"`
	Update   *cover.Update          `json:"update,omitempty"`
}

type operationDocument struct {
	Operation string            `json:"operation"`
	Groups    text.List[string] `json:"groups"`
	From      version.Version   `json:"from"`
	To        version.Version   `json:"to"`
	Reason    string            `json:"reason"`
}

type failureDocument struct {
	Error       Failure                          `json:"error"`
	Explanation *text.List[plan.ExplanationLine] `json:"explanation,omitempty"`
}

// Failure is why there is no plan, for programs.
type Failure struct {
	// Rule is a plan.Rule, or a name of the caller's for faults that the planner never sees.
	Rule string `json:"rule"`
	// Item is what breaks the rule, Version the version at fault; both may be empty.
	Item    string `json:"item"`
	Version string `json:"version"`
	// Message is the whole error, for people.
	Message string `json:"message"`
}

// WriteFailure writes a failure as a document of its own. The format is JSON or YAML; lines is nil when no explanation was
// asked for.
func WriteFailure(w io.Writer, f Format, failure Failure, lines []plan.ExplanationLine) error {
	document := failureDocument{Error: failure}
	if lines != nil {
		document.Explanation = new(text.List[plan.ExplanationLine](lines))
	}
	return writeDocument(w, f, document)
}

func newPlanDocument(c Chain) planDocument {
	document := planDocument{
		ControlPlaneUpgrades: upgradeSteps(c.Plan.ControlPlane), ControlPlaneUpdate: c.ControlPlaneUpdate,
		WorkersUpgrades: upgradeSteps(c.Plan.Workers),
	}
	for _, g := range c.Plan.Groups {
		d := groupDocument{Name: g.Name, Upgrades: upgradeSteps(g.Upgrades)}
		if update, asked := c.Updates[g.Name]; asked {
			d.Update = &update
		}
		document.Groups = append(document.Groups, d)
	}
	for _, o := range c.Plan.Operations {
		document.Operations = append(document.Operations, operationDocument{
			Operation: string(o.Kind), Groups: o.Groups,
			From: o.From, To: o.To, Reason: o.Reason.Message(),
		})
	}
	for _, r := range c.Risks {
		document.KnownRisks = append(document.KnownRisks, newRiskDocument(r, c.accepts(r.ID)))
	}
	if c.Explained {
		document.Explanation = new(text.List[plan.ExplanationLine](c.Explanation))
	}
	return document
}

func upgradeSteps(versions []version.Version) (steps []upgradeStep) {
	for _, v := range versions {
		steps = append(steps, upgradeStep{Version: v})
	}
	return steps
}

func writeDocument(w io.Writer, f Format, document any) error {
	return encodeDocument(w, f, "  ", document)
}

// WriteNext writes one document of a stream: JSON as one line, YAML after a line that ends the one before.
func WriteNext(w io.Writer, f Format, isFirst bool, document any) error {
	if f == YAML && !isFirst {
		if err := writeText(w, "---\n"); err != nil {
			return err
		}
	}
	return encodeDocument(w, f, "", document)
}

func encodeDocument(w io.Writer, f Format, indent string, document any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	// Reasons are read by people too: an arrow stays an arrow.
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("encoding the plan: %w", err)
	}
	switch f {
	case JSON:
		return writeText(w, text.String())
	case YAML:
		converted, err := yaml.JSONToYAML(text.Bytes())
		if err != nil {
			return fmt.Errorf("encoding the plan: %w", err)
		}
		return writeText(w, string(converted))
	case Table, Wide, Mermaid, HTML:
	}
	return fmt.Errorf("format %q holds no documents", f)
}
