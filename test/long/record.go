package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A result is how a run of a battery ended.
type result string

const (
	passed result = "passed"
	failed result = "failed"
	// stopped says that the budget ended before the battery.
	stopped result = "stopped"
)

// entry is what is known about one battery.
type entry struct {
	name string
	last run
	// pass is the last run that passed; the zero value if none did.
	pass run
}

// run is one run of a battery.
type run struct {
	day    string
	commit string
	result result
	took   time.Duration
}

const (
	header = "battery last-run commit result seconds last-pass commit"
	never  = "-"
)

// parseRecord returns the entries of a record.
func parseRecord(text string) ([]entry, error) {
	var entries []entry
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.Join(fields, " ") == header {
			continue
		}
		e, err := parseEntry(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func parseEntry(fields []string) (entry, error) {
	if len(fields) != len(strings.Fields(header)) {
		return entry{}, fmt.Errorf("%d columns, not those of %q", len(fields), header)
	}
	e := entry{name: fields[0]}
	e.last = run{day: fields[1], commit: fields[2], result: result(fields[3])}
	if !slices.Contains([]result{passed, failed, stopped}, e.last.result) {
		return entry{}, fmt.Errorf("the result %q is none of a battery", e.last.result)
	}
	seconds, err := strconv.Atoi(fields[4])
	if err != nil {
		return entry{}, fmt.Errorf("the seconds %q are no number", fields[4])
	}
	e.last.took = time.Duration(seconds) * time.Second
	days := []string{e.last.day}
	if fields[5] != never {
		e.pass = run{day: fields[5], commit: fields[6], result: passed}
		days = append(days, e.pass.day)
	}
	for _, day := range days {
		if _, err := time.Parse(time.DateTime, strings.Replace(day, "T", " ", 1)); err != nil {
			return entry{}, fmt.Errorf("%q is no time", day)
		}
	}
	return e, nil
}

// formatRecord returns the record of entries, sorted by name.
func formatRecord(entries []entry) string {
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b entry) int {
		return strings.Compare(a.name, b.name)
	})
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(header, " ", "\t"))
	for _, e := range sorted {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", e.name, e.last.day, e.last.commit, e.last.result,
			int(e.last.took.Seconds()), cmp.Or(e.pass.day, never), cmp.Or(e.pass.commit, never))
	}
	w.Flush() //nolint:errcheck // A bytes.Buffer has room.
	return out.String()
}

// note returns the entries with the run of a battery added.
func note(entries []entry, name string, r run) []entry {
	noted := slices.Clone(entries)
	i := slices.IndexFunc(noted, func(e entry) bool { return e.name == name })
	if i < 0 {
		noted, i = append(noted, entry{name: name}), len(noted)
	}
	noted[i].last = r
	if r.result == passed {
		noted[i].pass = r
	}
	return noted
}

// order returns the batteries in the order in which they run: those that ran longest ago first, and
// those that never ran before all. By the last pass, a battery that always fails would run first each
// time, and others never.
func order(all []battery, entries []entry) []battery {
	return slices.SortedStableFunc(slices.Values(all), func(a, b battery) int {
		return strings.Compare(find(entries, a.name).last.day, find(entries, b.name).last.day)
	})
}

// needs returns how much time must be left when a battery begins, by its last run; more than budget
// if it can never run. A battery that was stopped takes longer than that run. Twice as long is a guess,
// but nine tenths of the budget are enough unless they were too short already.
func needs(e entry, budget time.Duration) time.Duration {
	took, most := e.last.took, budget/10*9
	switch {
	case e.last.result != stopped:
		return took
	case took < most:
		return min(2*took, most)
	}
	return max(2*took, budget+time.Second)
}

// find returns the entry of a battery; one without runs if it has none.
func find(entries []entry, name string) entry {
	for _, e := range entries {
		if e.name == name {
			return e
		}
	}
	return entry{name: name}
}
