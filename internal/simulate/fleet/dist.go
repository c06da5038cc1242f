package fleet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// MaxDuration bounds every duration: a machine that takes longer than a month is not one that an upgrade waits for.
const MaxDuration = 31 * 24 * time.Hour

// MaxSamples bounds how many measured durations a distribution keeps.
const MaxSamples = 1000

type shape uint8

const (
	fixed shape = iota
	uniform
	lognormal
	measured
)

// Distribution says how long something takes. The zero Distribution takes no time.
type Distribution struct {
	shape shape
	// a and b are the bounds of a uniform distribution, or the 50th and 90th percentiles of a lognormal one; a alone is the fixed duration.
	a, b time.Duration
	// samples are sorted.
	samples []time.Duration
}

// FixedDuration always takes d.
func FixedDuration(d time.Duration) Distribution { return Distribution{a: d} }

// Uniform takes anything from a to b, all equally likely.
func Uniform(a, b time.Duration) Distribution { return Distribution{shape: uniform, a: a, b: b} }

// LogNormal takes p50 in the middle, and at most p90 nine times out of ten: most are near the middle, and a few take very long, as
// machines do. p90 is not below p50, and p50 above zero.
func LogNormal(p50, p90 time.Duration) Distribution {
	return Distribution{shape: lognormal, a: p50, b: p90}
}

// Measured takes what was measured, each value equally likely. Of more than MaxSamples, as many are kept, evenly spread. None takes no time.
func Measured(samples []time.Duration) Distribution {
	sorted := slices.Clone(samples)
	slices.Sort(sorted)
	if len(sorted) > MaxSamples {
		kept := make([]time.Duration, MaxSamples)
		for i := range kept {
			kept[i] = sorted[i*(len(sorted)-1)/(MaxSamples-1)]
		}
		sorted = kept
	}
	return Distribution{shape: measured, samples: sorted}
}

// IsZero reports whether it is the zero Distribution.
func (d Distribution) IsZero() bool { return d.shape == fixed && d.a == 0 }

// normal90 is the 90th percentile of the standard normal distribution.
const normal90 = 1.2815515655446004

// At returns the duration below which a part u of all are, from 0 to just below 1; outside of that it is the nearest. It never is below zero or
// above MaxDuration.
func (d Distribution) At(u float64) time.Duration {
	u = min(max(u, 0), math.Nextafter(1, 0))
	switch d.shape {
	case fixed:
		return d.a
	case uniform:
		return d.a + time.Duration(u*float64(d.b-d.a))
	case lognormal:
		if u == 0 {
			return 0
		}
		sigma := math.Log(float64(d.b)/float64(d.a)) / normal90
		x := float64(d.a) * math.Exp(sigma*math.Sqrt2*math.Erfinv(2*u-1))
		return time.Duration(min(x, float64(MaxDuration)))
	case measured:
		if len(d.samples) == 0 {
			return 0
		}
		return d.samples[int(u*float64(len(d.samples)))]
	}
	return 0
}

// ParseDistribution reads a distribution: "10m" is fixed, "10m..15m" uniform, "p50=12m,p90=15m" lognormal, and "[9m,10m,12m]" measured.
func ParseDistribution(s string) (Distribution, error) {
	text := strings.TrimSpace(s)
	switch {
	case strings.HasPrefix(text, "["):
		return parseMeasured(text)
	case strings.Contains(text, ".."):
		first, second, _ := strings.Cut(text, "..")
		a, b, err := parsePair(first, second)
		if err != nil {
			return Distribution{}, fmt.Errorf("the range of durations %q: %w", s, err)
		}
		return Uniform(a, b), nil
	case strings.HasPrefix(text, "p50="):
		first, second, found := strings.Cut(strings.TrimPrefix(text, "p50="), ",")
		second = strings.TrimSpace(second)
		if !found || !strings.HasPrefix(second, "p90=") {
			return Distribution{}, fmt.Errorf("the distribution %q has no p90. Fix: write \"p50=12m,p90=15m\", with the quotes inside {}", s)
		}
		a, b, err := parsePair(first, strings.TrimPrefix(second, "p90="))
		if err != nil {
			return Distribution{}, fmt.Errorf("the distribution %q: %w", s, err)
		}
		if a == 0 {
			return Distribution{}, fmt.Errorf("the distribution %q has a p50 of zero. Fix: write a duration above zero", s)
		}
		return LogNormal(a, b), nil
	default:
		d, err := parseDuration(text)
		if err != nil {
			return Distribution{}, err
		}
		return FixedDuration(d), nil
	}
}

func parseMeasured(text string) (Distribution, error) {
	inner, closed := strings.CutSuffix(strings.TrimPrefix(text, "["), "]")
	if !closed || strings.TrimSpace(inner) == "" {
		return Distribution{}, fmt.Errorf("the list of durations %q is empty or not closed. Fix: write [9m,10m,12m]", text)
	}
	var samples []time.Duration
	for word := range strings.SplitSeq(inner, ",") {
		d, err := parseDuration(strings.TrimSpace(word))
		if err != nil {
			return Distribution{}, err
		}
		samples = append(samples, d)
	}
	return Measured(samples), nil
}

func parsePair(first, second string) (a, b time.Duration, err error) {
	if a, err = parseDuration(strings.TrimSpace(first)); err != nil {
		return 0, 0, err
	}
	if b, err = parseDuration(strings.TrimSpace(second)); err != nil {
		return 0, 0, err
	}
	if b < a {
		return 0, 0, fmt.Errorf("%s is below %s. Fix: write the smaller one first", b, a)
	}
	return a, b, nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration. Fix: write one such as 90s, 12m or 1h30m", s)
	}
	if d < 0 || d > MaxDuration {
		return 0, fmt.Errorf("the duration %s is not between 0 and %s", s, MaxDuration)
	}
	return d, nil
}

// String returns what Parse reads.
func (d Distribution) String() string {
	switch d.shape {
	case fixed:
		return short(d.a)
	case uniform:
		return short(d.a) + ".." + short(d.b)
	case lognormal:
		return "p50=" + short(d.a) + ",p90=" + short(d.b)
	case measured:
		words := make([]string, 0, len(d.samples))
		for _, s := range d.samples {
			words = append(words, short(s))
		}
		return "[" + strings.Join(words, ",") + "]"
	}
	return ""
}

// short leaves out the zeros at the end: 12m0s is 12m.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes what String returns.
func (d Distribution) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what Parse does.
func (d *Distribution) UnmarshalText(text []byte) error {
	read, err := ParseDistribution(string(text))
	if err != nil {
		return err
	}
	*d = read
	return nil
}
