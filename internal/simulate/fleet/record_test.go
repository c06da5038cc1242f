package fleet

import (
	"testing"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Long series of machines that change their version in place, which is two changes at a time, are thinned evenly.
func TestLongVersionSeriesIsKept(t *testing.T) {
	const machines = 10 * maxSamples
	from, to := version.MustParse("v1.30.0"), version.MustParse("v1.31.0")
	r := recorder{detail: true}
	for range machines {
		r.versions = append(r.versions, versionChange{at: 0, version: from, by: 1})
	}
	for i := range machines {
		at := time.Duration(i+1) * time.Second
		r.versions = append(r.versions, versionChange{at: at, version: from, by: -1}, versionChange{at: at, version: to, by: 1})
	}
	_, series := r.versionSeries()
	if n := len(series); n < maxSamples/4 || n > maxSamples+2 {
		t.Errorf("%d samples are kept, want not many less than %d", n, maxSamples)
	}
	for i, s := range series {
		if s.Counts[0]+s.Counts[1] != machines {
			t.Fatalf("sample %d has %v of %d machines", i, s.Counts, machines)
		}
	}
	if last := series[len(series)-1]; last.Counts[1] != machines {
		t.Errorf("ends with %v", last)
	}
}
