package htmlpage

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFormats(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 s", 0.2: "< 1 s", 59.4: "59 s", 60: "1 min", 61: "1 min 1 s", 3599.6: "1 h", 3660: "1 h 1 min", 47.99 * hour: "47 h 59 min", 2 * day: "2 d", 49.5 * hour: "2 d 2 h",
		1234567 * day: "1,234,567 d", -5: "0 s", math.Inf(1): "1,157,407,407 d 10 h", math.NaN(): "0 s",
	} {
		if got := Duration(seconds); got != want && !math.IsNaN(seconds) {
			t.Errorf("%v seconds are %q, want %q", seconds, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0.00", 9.999: "10.0", 99.96: "100", 1234.5: "1,235", 3.14159: "3.14"} {
		if got := Decimal(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0 %", 0.001: "< 1 %", 0.57: "57 %", 7: "100 %"} {
		if got := Percent(x); got != want {
			t.Errorf("a share of %v is %q, want %q", x, got, want)
		}
	}
}

// Ticks are round, in order and on the axis, and not more than there is room for.
func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.Float64Range(0, 1e10).Draw(t, "end")
		ticks := TimeTicks(end)
		narrow := 0
		for _, tick := range ticks {
			if !tick.Wide {
				narrow++
			}
		}
		if len(ticks) > wideTicks+1 || narrow > narrowTicks+1 || end >= 1 && narrow < 2 {
			t.Fatalf("%d ticks up to %v, %d on narrow screens: %v", len(ticks), end, narrow, ticks)
		}
		most := rapid.Float64Range(0, 1e9).Draw(t, "most")
		values, top := MachineTicks(most)
		if top < most || top < 1 || len(values) < 2 || len(values) > valueTicks+2 || values[0].At != "100%" || values[len(values)-1].At != "0%" {
			t.Fatalf("up to %v: %v, top %v", most, values, top)
		}
	})
	var texts []string
	for _, tick := range TimeTicks(24.2 * hour) {
		texts = append(texts, tick.Text)
	}
	if got, want := strings.Join(texts, ","), "0,3\u00a0h,6\u00a0h,9\u00a0h,12\u00a0h,15\u00a0h,18\u00a0h,21\u00a0h,24\u00a0h"; got != want {
		t.Errorf("ticks of a day: %s, want %s", got, want)
	}
}
