package whatif

import (
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

func computeCharts(run fleet.Run, detail fleet.Detail) Charts {
	end := run.Duration
	if n := len(detail.InFlight); n > 0 {
		end = max(end, detail.InFlight[n-1].At)
	}
	return Charts{
		Timeline: computeTimeline(run, detail),
		InFlight: thinInFlight(detail.InFlight, end),
		Versions: versions(detail.Order).strings(),
		Machines: thinVersions(detail.Versions, len(detail.Order)),
	}
}

// thinInFlight keeps of each of many equal parts of the time the peak and the last value, so that no peak is lost. The first value counts from 0 on.
func thinInFlight(samples []fleet.Sample, end time.Duration) []Point {
	points := make([]Point, 0, min(len(samples), maxPoints))
	add := func(s fleet.Sample) { points = append(points, Point{AtSeconds: seconds(s.At), Machines: s.Value}) }
	if len(samples) <= maxPoints {
		for _, s := range samples {
			add(s)
		}
		return points
	}
	const parts = maxPoints / 2
	for rest := samples; len(rest) > 0; {
		bucket := bucketOf(rest[0].At, end, parts)
		n := 1
		for n < len(rest) && bucketOf(rest[n].At, end, parts) == bucket {
			n++
		}
		peak := slices.MaxFunc(rest[:n], func(a, b fleet.Sample) int { return a.Value - b.Value })
		last := rest[n-1]
		if peak != last {
			add(peak)
		}
		add(last)
		rest = rest[n:]
	}
	return points
}

// bucketOf is which of so many equal parts of the time from 0 to end a time is in.
func bucketOf(at, end time.Duration, parts int) int {
	if end <= 0 {
		return 0
	}
	return min(max(int(float64(at)/float64(end)*float64(parts)), 0), parts-1)
}

// thinVersions keeps values that are evenly spread over the samples' times, the first and the last among them.
func thinVersions(samples []fleet.VersionSample, n int) []MachinesPoint {
	points := make([]MachinesPoint, 0, min(len(samples), maxPoints))
	add := func(s fleet.VersionSample) {
		counts := make([]int, n)
		copy(counts, s.Counts)
		points = append(points, MachinesPoint{AtSeconds: seconds(s.At), Counts: counts})
	}
	if len(samples) <= maxPoints {
		for _, s := range samples {
			add(s)
		}
		return points
	}
	end := samples[len(samples)-1].At
	for i, s := range samples {
		if i == 0 || i == len(samples)-1 || bucketOf(s.At, end, maxPoints-2) != bucketOf(samples[i+1].At, end, maxPoints-2) {
			add(s)
		}
	}
	return points
}
