package htmlpage

import (
	"math"
	"strconv"
	"strings"
)

// Tick is a place of an axis.
type Tick struct {
	// At is where it is, such as "12.5%"; Unit the same of 1000 units of a plot.
	At, Unit string
	Text     string
	// Anchor is the end of the text that is at the tick, so that no text leaves the axis.
	Anchor string
	// Wide says that there is only room for it on wide screens.
	Wide bool
}

// PlotWidth is how many units a plot is wide, and high; it is stretched to what there is.
const PlotWidth = 1000

// How many ticks there are at most, besides the one at zero.
const (
	narrowTicks = 4
	wideTicks   = 9
	valueTicks  = 4
)

// timeSteps are round distances between ticks, in seconds. Above them it is thousands of days.
func timeSteps() []float64 {
	return []float64{
		1, 2, 5, 10, 20, 30,
		minute, 2 * minute, 5 * minute, 10 * minute, 20 * minute, 30 * minute,
		hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour,
		day, 2 * day, 5 * day, 10 * day, 20 * day, 50 * day, 100 * day, 200 * day, 500 * day,
	}
}

// timeStep is the smallest round step that makes at most so many ticks, and that goes into the coarser step where there is one.
func timeStep(end float64, most int, coarser float64) float64 {
	for _, s := range timeSteps() {
		// An axis of days has no hours.
		if end/s <= float64(most) && (coarser == 0 || math.Mod(coarser, s) == 0 && (s >= day) == (coarser >= day)) {
			return s
		}
	}
	if coarser > 0 {
		return coarser
	}
	return decade(end/float64(most)/day) * day
}

// decade is the smallest of 1, 2 and 5 times a power of ten that is not below x, which is positive.
func decade(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= x {
			return n * power
		}
	}
	return 10 * power
}

// TimeTicks are those of an axis from 0 to end seconds.
func TimeTicks(end float64) []Tick {
	ticks := []Tick{{At: "0%", Unit: "0", Text: "0", Anchor: "start"}}
	end = Finite(end)
	if end == 0 {
		return ticks
	}
	narrow := timeStep(end, narrowTicks, 0)
	step := timeStep(end, wideTicks, narrow)
	for i := 1; float64(i)*step <= end; i++ {
		at := float64(i) * step
		t := Tick{At: Share(at, end), Unit: Unit(at, end), Text: timeText(at, step), Anchor: "middle", Wide: math.Mod(at, narrow) != 0}
		if at/end > 0.95 {
			t.Anchor = "end"
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// timeText is a tick in the unit of its axis' step.
func timeText(at, step float64) string {
	switch {
	case step >= day:
		return Bind(Number(at/day) + " d")
	case step >= hour:
		return Bind(Number(at/hour) + " h")
	case step >= minute:
		return Bind(Number(at/minute) + " min")
	default:
		return Bind(Number(at) + " s")
	}
}

// MachineTicks are those of an axis of machines, from the bottom up, and the value at its top: at least most, and at least 1.
func MachineTicks(most float64) (ticks []Tick, top float64) {
	most = max(math.Ceil(Finite(most)), 1)
	step := max(decade(most/valueTicks), 1)
	top = math.Ceil(most/step) * step
	for i := 0; float64(i)*step <= top; i++ {
		at := float64(i) * step
		ticks = append(ticks, Tick{At: Share(top-at, top), Text: Number(at)})
	}
	return ticks, top
}

// Share is a place between 0 and end as a percentage.
func Share(at, end float64) string { return Fixed(Part(at, end)*100, 2) + "%" }

// Unit is a place between 0 and end as one of PlotWidth.
func Unit(at, end float64) string { return Fixed(Part(at, end)*PlotWidth, 1) }

// Part is a as a part of b, from 0 to 1.
func Part(a, b float64) float64 {
	a, b = Finite(a), Finite(b)
	if b == 0 {
		return 0
	}
	return min(a/b, 1)
}

// Fixed has at most so many digits after the point.
func Fixed(x float64, digits int) string {
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
