package risks_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/risks"
)

const (
	referencePage = "../../docs/reference/known-risks.md"
	tablesBegin   = "<!-- The tables below are those of internal/risks/known.yaml: a test compares them. -->\n"
)

func rangeText(ranges ...risks.Range) string {
	var texts []string
	for _, r := range ranges {
		switch {
		case r == (risks.Range{}):
			texts = append(texts, "any")
		case r.Before.IsZero():
			texts = append(texts, "≥ "+r.AtLeast.String())
		case r.AtLeast.IsZero():
			texts = append(texts, "< "+r.Before.String())
		default:
			texts = append(texts, "≥ "+r.AtLeast.String()+" < "+r.Before.String())
		}
	}
	return strings.Join(texts, ", ")
}

func matcherText(m risks.Matcher) string {
	text := "to " + rangeText(m.To...)
	if len(m.From) > 0 {
		text = "from " + rangeText(m.From...) + " " + text
	}
	if len(m.Oldest) > 0 {
		text += "; the oldest node " + rangeText(m.Oldest...)
	}
	if len(m.Distributions) > 0 {
		text = fmt.Sprint(m.Distributions) + " " + text
	}
	if m.Etcd != (risks.EtcdMatcher{}) {
		text += "; etcd " + rangeText(m.Etcd.From) + " to " + rangeText(m.Etcd.To)
	}
	c := m.ControlPlane
	if c.Etcd != "" {
		text += "; " + string(c.Etcd) + " etcd"
	}
	if c.MinMachines > 0 {
		text += fmt.Sprintf("; at least %d control plane machines", c.MinMachines)
	}
	if c.MaxMachines > 0 {
		text += fmt.Sprintf("; at most %d control plane machines", c.MaxMachines)
	}
	for _, of := range []struct {
		what    string
		pattern risks.Pattern
	}{{"kernel", m.Machines.Kernel}, {"runtime", m.Machines.Runtime}, {"OS", m.Machines.OS}} {
		if !of.pattern.IsZero() {
			text += "; a machine whose " + of.what + " matches `" + strings.ReplaceAll(of.pattern.String(), "|", "\\|") + "`"
		}
	}
	if m.Machines.SystemVerification {
		text += " and where kubeadm does not ignore SystemVerification"
	}
	if m.Cluster != "" {
		text += "; the fact " + string(m.Cluster)
	}
	return text
}

func tables(set *risks.Set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Built-in risks\nRevision %s.\n\n", set.Revision)
	b.WriteString("| ID | Kind, severity | Steps | What happens, to whom | Fix | Sources |\n|---|---|---|---|---|---|\n")
	for _, r := range set.Risks {
		var steps []string
		for _, m := range r.Match {
			steps = append(steps, matcherText(m))
		}
		if r.Workers {
			steps = append(steps, "workers, too")
		}
		what := r.Summary
		if r.Condition != "" {
			what += " Concerns " + r.Condition + "."
		}
		var links []string
		for i, source := range r.Sources {
			links = append(links, fmt.Sprintf("[%d](%s)", i+1, source))
		}
		fmt.Fprintf(&b, "| `%s` | %s, %s | %s | %s | %s | %s |\n",
			r.ID, r.Kind, r.Severity, strings.Join(steps, "; or "), what, r.Fix, strings.Join(links, " "))
	}
	b.WriteString("\n## Versions of etcd\n| Distribution | Versions | etcd |\n|---|---|---|\n")
	for _, e := range set.EtcdVersions {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Distribution, rangeText(e.Kubernetes), e.Etcd)
	}
	return b.String()
}

// TestReference: the reference page has what is built in. WINDLASS_UPDATE=1 writes it.
func TestReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	prose, found, marked := strings.Cut(string(page), tablesBegin)
	if !marked {
		t.Fatalf("%s has no line %q", referencePage, tablesBegin)
	}
	want := tables(risks.BuiltIn())
	if os.Getenv("WINDLASS_UPDATE") != "" {
		if err := os.WriteFile(referencePage, []byte(prose+tablesBegin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("Fix: set WINDLASS_UPDATE=1 (-want +got):\n%s", diff)
	}
}
