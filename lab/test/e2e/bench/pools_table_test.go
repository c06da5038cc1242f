package bench_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// mostWrites is how many writes for each machine are wanted at most, by part.
func mostWrites() map[string]float64 {
	return map[string]float64{pairsInPlace: 30, hundredInPlace: 20, pairsReplaced: 95, fiveReplaced: 95}
}

// row is a line of the table.
type row struct {
	name  string
	value func(outcome) float64
	// format is for values.
	format string
	// want is the goal; empty means none.
	want string
}

const (
	oneDigit = "%.1f"
	noDigit  = "%.0f"
	mega     = 1e6
)

func rowsOf(part string) []row {
	perMachine := func(name string, n func(outcome) int, want string) row {
		return row{name + " per machine", func(o outcome) float64 { return o.perMachine(n(o)) }, oneDigit, want}
	}
	want := ""
	if most, ok := mostWrites()[part]; ok {
		want = fmt.Sprintf("≤ %.0f", most)
	}
	rows := []row{
		perMachine("writes", func(o outcome) int { return o.Writes }, want),
		perMachine("other writes (Events, Secrets)", func(o outcome) int { return o.OtherWrites }, ""),
		perMachine("dry runs", func(o outcome) int { return o.DryRuns }, ""),
		perMachine("requests", func(o outcome) int { return o.Requests }, ""),
		{"conflicts (409)", func(o outcome) float64 { return float64(o.Conflicts) }, noDigit, ""},
		{"reconciles", func(o outcome) float64 { return o.Manager.reconciles() }, noDigit, wanted(part, "≤ 0.33 of stock's")},
		{"reconciles of Machines", func(o outcome) float64 { return o.Manager.reconciles("machine") }, noDigit, ""},
		{"reconciles of MachineSets", func(o outcome) float64 { return o.Manager.reconciles("machineset") }, noDigit, ""},
		{"reconciles of MachineDeployments", func(o outcome) float64 { return o.Manager.reconciles("machinedeployment") }, noDigit, ""},
		{"CPU of the manager, s", func(o outcome) float64 { return o.Manager.CPUSeconds }, oneDigit, wanted(part, "≤ 0.33 of stock's")},
		{"CPU of the extension, s", func(o outcome) float64 { return o.Extension.CPUSeconds }, oneDigit, ""},
		{"CPU of both, s", outcome.cpuSeconds, oneDigit, ""},
		{"RSS of the manager, MB", func(o outcome) float64 { return float64(o.Manager.RSSBytes) / mega }, noDigit, "≤ stock's"},
		{"of which no file (RssAnon), MB", func(o outcome) float64 { return float64(o.Manager.AnonymousBytes) / mega }, noDigit, ""},
		{"heap of the manager, MB", func(o outcome) float64 { return o.Manager.HeapBytes / mega }, noDigit, ""},
	}
	switch part {
	case pairsInPlace, hundredInPlace, fleetUpdated:
		rows = append(rows, row{"hand-over, s", meanHandOver, "%.2f", "< 1"},
			row{"time, s", func(o outcome) float64 { return o.Seconds }, oneDigit, ""})
	case fiveReplaced:
		rows = append(rows, row{"time, s", func(o outcome) float64 { return o.Seconds }, oneDigit, "≤ 0.7 of stock's"})
	case fleetResting: // Its time is the flag's.
	default:
		rows = append(rows, row{"time, s", func(o outcome) float64 { return o.Seconds }, oneDigit, ""})
	}
	return rows
}

// wanted returns the goal of the fleet; other parts have none.
func wanted(part, goal string) string {
	if part == fleetCreated || part == fleetResting || part == fleetUpdated {
		return goal
	}
	return ""
}

func meanHandOver(o outcome) float64 {
	sum := 0.0
	for _, seconds := range o.HandOver {
		sum += seconds
	}
	return sum / max(1, float64(len(o.HandOver)))
}

// markdown is one table of all parts.
func (r results) markdown() string {
	var text strings.Builder
	fmt.Fprintln(&text, "| | stock | windlass | windlass / stock | wanted |\n|---|--:|--:|--:|---|")
	for _, part := range slices.Sorted(maps.Keys(r)) {
		stock, ours := r[part][setup.EngineStock], r[part][setup.EngineWindlass]
		_, title, _ := strings.Cut(part, " ")
		fmt.Fprintf(&text, "| **%s** (%d machines) | | | | |\n", title, max(stock.Machines, ours.Machines))
		for _, line := range rowsOf(part) {
			a, b := line.value(stock), line.value(ours)
			if a != 0 || b != 0 {
				line.write(&text, r[part], a, b)
			}
		}
		frequentRows(&text, stock, ours)
	}
	return text.String()
}

func (l row) write(text *strings.Builder, measured map[setup.Engine]outcome, stock, ours float64) {
	cell := func(engine setup.Engine, value float64) string {
		if _, ok := measured[engine]; !ok {
			return "-"
		}
		return fmt.Sprintf(l.format, value)
	}
	fmt.Fprintf(text, "| %s | %s | %s | %s | %s |\n", l.name, cell(setup.EngineStock, stock),
		cell(setup.EngineWindlass, ours), ratio(stock, ours, len(measured) > 1), l.want)
}

func ratio(stock, ours float64, both bool) string {
	if stock == 0 || !both {
		return "-"
	}
	return fmt.Sprintf("%.2f", ours/stock)
}

// frequentWrites is how many kinds of writes the table lists for each part.
const frequentWrites = 10

// frequentRows lists the most frequent writes of both engines, per machine, with the user.
func frequentRows(text *strings.Builder, stock, ours outcome) {
	both := map[string]int{}
	for _, o := range []outcome{stock, ours} {
		for name, n := range o.ByRequest {
			both[name] = max(both[name], n)
		}
	}
	for _, name := range mostFrequent(both, frequentWrites) {
		a, b := stock.perMachine(stock.ByRequest[name]), ours.perMachine(ours.ByRequest[name])
		fmt.Fprintf(text, "| `%s` | %.1f | %.1f | %s | |\n", name, a, b, ratio(a, b, stock.Machines > 0 && ours.Machines > 0))
	}
}

func mostFrequent(counts map[string]int, most int) []string {
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return names[:min(most, len(names))]
}

// frequent lists all writes, for a failure.
func (o outcome) frequent() string {
	var text strings.Builder
	for _, name := range mostFrequent(o.ByRequest, len(o.ByRequest)) {
		fmt.Fprintf(&text, "%6.1f %s\n", o.perMachine(o.ByRequest[name]), name)
	}
	return text.String()
}
