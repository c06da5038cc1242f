package fleet_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

func TestAt(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	for name, tt := range map[string]struct {
		d    fleet.Distribution
		u    float64
		want time.Duration
	}{
		"nothing":                  {u: 0.5},
		"fixed":                    {d: fleet.FixedDuration(3 * m), u: 0.9, want: 3 * m},
		"uniform, low":             {d: fleet.Uniform(10*m, 15*m), want: 10 * m},
		"uniform, middle":          {d: fleet.Uniform(10*m, 15*m), u: 0.5, want: 750 * time.Second},
		"lognormal, median":        {d: fleet.LogNormal(12*m, 15*m), u: 0.5, want: 12 * m},
		"lognormal, 90th":          {d: fleet.LogNormal(12*m, 15*m), u: 0.9, want: 15 * m},
		"lognormal, lowest":        {d: fleet.LogNormal(12*m, 15*m)},
		"lognormal, beyond bounds": {d: fleet.LogNormal(time.Hour, fleet.MaxDuration), u: 1, want: fleet.MaxDuration},
		"measured, low":            {d: fleet.Measured([]time.Duration{3 * m, m, 2 * m}), want: m},
		"measured, high":           {d: fleet.Measured([]time.Duration{3 * m, m, 2 * m}), u: 0.99, want: 3 * m},
		"measured, none":           {d: fleet.Measured(nil), u: 0.5},
		"below zero":               {d: fleet.Uniform(m, 2*m), u: -1, want: m},
		"not a number":             {d: fleet.FixedDuration(m), u: math.NaN(), want: m},
	} {
		if got := tt.d.At(tt.u); got.Round(time.Second) != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "soon", "-1s", "10m..", "..", "15m..10m", "p50=12m", "p50=,p90=", "p50=0s,p90=1m", "p50=12m,p90=10m", "[]", "[1m", "[1m,x]", "900h", "p50=12m,p99=20m"} {
		d, err := fleet.ParseDistribution(text)
		if err == nil {
			t.Errorf("%q is read as %s", text, d)
		} else if !strings.Contains(err.Error(), "\"") && !strings.Contains(err.Error(), "below") && !strings.Contains(err.Error(), "between") {
			t.Errorf("%q: the error does not say what is wrong: %v", text, err)
		}
	}
}

// TestRoundTrip: what is printed reads as what was printed, durations never fall as u grows, and all are within bounds.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	duration := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(1, int64(fleet.MaxDuration)).Draw(t, "duration"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := duration.Draw(t, "a"), duration.Draw(t, "b")
		d := rapid.SampledFrom([]fleet.Distribution{
			fleet.FixedDuration(a), fleet.Uniform(min(a, b), max(a, b)), fleet.LogNormal(min(a, b), max(a, b)), fleet.Measured([]time.Duration{a, b, a}),
		}).Draw(t, "distribution")
		read, err := fleet.ParseDistribution(d.String())
		if err != nil {
			t.Fatal(err)
		}
		last := time.Duration(0)
		for u := 0.0; u <= 1; u += 1.0 / 64 {
			if read.At(u) != d.At(u) {
				t.Fatalf("at %g %s is read as %s", u, d.At(u), read.At(u))
			}
			if at := d.At(u); at < last || at > fleet.MaxDuration {
				t.Fatalf("at %g it is %s, before it was %s", u, at, last)
			}
			last = d.At(u)
		}
	})
}

// TestManySamples keeps the ends and the middle of what was measured.
func TestManySamples(t *testing.T) {
	t.Parallel()
	samples := make([]time.Duration, 10*fleet.MaxSamples)
	for i := range samples {
		samples[i] = time.Duration(len(samples)-i) * time.Second
	}
	d := fleet.Measured(samples)
	if got := strings.Count(d.String(), ",") + 1; got != fleet.MaxSamples {
		t.Errorf("%d samples are kept", got)
	}
	for u, want := range map[float64]time.Duration{0: time.Second, 1: time.Duration(len(samples)) * time.Second, 0.5: time.Duration(len(samples)/2) * time.Second} {
		if got := d.At(u); got < want-20*time.Second || got > want+20*time.Second {
			t.Errorf("at %g it is %s, want about %s", u, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"10m", "10m..15m", "p50=12m,p90=15m", "[1m,2m]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := fleet.ParseDistribution(s)
		if err != nil {
			return
		}
		if again, err := fleet.ParseDistribution(d.String()); err != nil || again.At(0.3) != d.At(0.3) {
			t.Errorf("%q prints as %q, which reads as %s, %v", s, d, again, err)
		}
	})
}
