package whatif

import (
	"cmp"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/pkg/version"
)

// holdParts is how finely holds are told apart: those with less than this part of the duration between them are put together.
const holdParts = 200

// track is one row of a timeline before it is made shorter.
type track struct {
	kind          Kind
	cluster, name string
	operations    []fleet.Operation
}

// computeTimeline draws each group on a row of its own while there is room. Otherwise pools of a cluster that stand next to each other share one, and where
// there are too many clusters, those that stand next to each other: one row for their holds, one for their control planes, one for their pools.
func computeTimeline(run fleet.Run, detail fleet.Detail) []Row {
	tracks := collectTracks(run, detail)
	lists := splitByKind(tracks)
	rows := make([]Row, 0, maxRows)
	for _, list := range shareRows(lists, len(tracks)) {
		rows = append(rows, computeRow(list, run.Duration))
	}
	return rows
}

// collectTracks returns those with something to draw: clusters in their order, holds first, then groups in theirs.
func collectTracks(run fleet.Run, detail fleet.Detail) []track {
	of := make(map[groupKey][]fleet.Operation)
	for _, o := range detail.Operations {
		key := groupKey{o.Cluster, o.Group}
		of[key] = append(of[key], o)
	}
	holds := make(map[string][]fleet.Operation)
	for _, h := range detail.Holds {
		holds[h.Cluster] = append(holds[h.Cluster], h)
	}
	var tracks []track
	held := make(map[string]bool)
	for _, g := range run.Groups {
		if !held[g.Cluster] && len(holds[g.Cluster]) > 0 {
			tracks = append(tracks, track{Wait, g.Cluster, "", holds[g.Cluster]})
		}
		held[g.Cluster] = true
		if operations := of[groupKey{g.Cluster, g.Group}]; len(operations) > 0 {
			tracks = append(tracks, track{kindOf(g.Group), g.Cluster, g.Group, operations})
		}
	}
	return tracks
}

// splitByKind returns for each cluster its tracks of each kind.
func splitByKind(tracks []track) [][]track {
	return split(tracks, func(a, b track) bool { return a.cluster == b.cluster && a.kind == b.kind })
}

// split returns the longest parts of a list whose items are alike.
func split[T any](items []T, alike func(a, b T) bool) [][]T {
	var parts [][]T
	for i, item := range items {
		if i == 0 || !alike(items[i-1], item) {
			parts = append(parts, nil)
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], item)
	}
	return parts
}

// shareRows returns what each row shows.
func shareRows(lists [][]track, tracks int) [][]track {
	if tracks <= maxRows {
		return cut(lists, 1)
	}
	if len(lists) > maxRows {
		return mergeClusters(lists)
	}
	most := 1
	for len(cut(lists, most)) > maxRows {
		most++
	}
	return cut(lists, most)
}

func cut(lists [][]track, most int) [][]track {
	var rows [][]track
	for _, list := range lists {
		rows = append(rows, slices.Collect(slices.Chunk(list, most))...)
	}
	return rows
}

// mergeClusters puts clusters that stand next to each other together, as few as there can be.
func mergeClusters(lists [][]track) [][]track {
	clusters := split(lists, func(a, b []track) bool { return a[0].cluster == b[0].cluster })
	const kinds = 3
	most := (len(clusters) + maxRows/kinds - 1) / (maxRows / kinds)
	var rows [][]track
	for chunk := range slices.Chunk(clusters, most) {
		for _, kind := range []Kind{Wait, ControlPlane, Pool} {
			var merged []track
			for _, list := range slices.Concat(chunk...) {
				if list[0].kind == kind {
					merged = append(merged, list...)
				}
			}
			if len(merged) > 0 {
				rows = append(rows, merged)
			}
		}
	}
	return rows
}

func computeRow(tracks []track, total time.Duration) Row {
	first, last := tracks[0], tracks[len(tracks)-1]
	row := Row{
		Kind: first.kind, Cluster: first.cluster, Name: first.name, LastCluster: last.cluster, LastName: last.name,
		Groups: len(tracks), Bars: []Bar{},
	}
	var operations []fleet.Operation
	for _, t := range tracks {
		operations = append(operations, t.operations...)
	}
	if row.Kind == Wait {
		row.Bars = computeHolds(operations, total)
	} else {
		row.Bars = computeBars(operations)
	}
	return row
}

// computeBars puts operations to the same version together.
func computeBars(operations []fleet.Operation) []Bar {
	at := make(map[version.Version]int)
	var bars []Bar
	for _, o := range operations {
		bar := Bar{
			From: o.From.String(), To: o.To.String(), Method: methodOf(o.InPlace), Limit: o.Limit,
			BeganSeconds: seconds(o.Began), EndedSeconds: seconds(o.Ended), Operations: 1,
		}
		i, known := at[o.To]
		if !known {
			at[o.To] = len(bars)
			bars = append(bars, bar)
			continue
		}
		bars[i] = mergeBars(bars[i], bar)
	}
	slices.SortStableFunc(bars, func(a, b Bar) int { return cmp.Compare(a.BeganSeconds, b.BeganSeconds) })
	return bars
}

func methodOf(inPlace bool) Method {
	if inPlace {
		return InPlace
	}
	return Replace
}

func mergeBars(a, b Bar) Bar {
	if a.From != b.From {
		a.From = ""
	}
	if a.Limit != b.Limit {
		a.Limit = ""
	}
	if a.Method != b.Method {
		a.Method = Mixed
	}
	a.BeganSeconds, a.EndedSeconds = min(a.BeganSeconds, b.BeganSeconds), max(a.EndedSeconds, b.EndedSeconds)
	a.Operations += b.Operations
	return a
}

// computeHolds puts holds together that overlap, or that could not be told apart.
func computeHolds(holds []fleet.Operation, total time.Duration) []Bar {
	sorted := slices.Clone(holds)
	slices.SortStableFunc(sorted, func(a, b fleet.Operation) int {
		return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.Ended, b.Ended))
	})
	gap := seconds(total) / holdParts
	bars := []Bar{}
	for _, h := range sorted {
		bar := Bar{Limit: h.Limit, BeganSeconds: seconds(h.Began), EndedSeconds: seconds(h.Ended), Operations: 1}
		if n := len(bars); n > 0 && bar.BeganSeconds-bars[n-1].EndedSeconds <= gap {
			bars[n-1] = mergeBars(bars[n-1], bar)
			continue
		}
		bars = append(bars, bar)
	}
	return bars
}
