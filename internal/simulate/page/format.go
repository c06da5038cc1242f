package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windlass-dev/windlass/internal/text"
)

// Bounds of what is shown.
const (
	// maxNumber is far above everything that means something, and far below where a float64 is no exact integer any longer.
	maxNumber = 1e14
	maxName   = 120
	maxText   = 1000
)

const (
	minute = 60.0
	hour   = 60 * minute
	day    = 24 * hour
)

// finite is x, or the nearest number that can be drawn.
func finite(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(max(x, 0), maxNumber)
}

// duration is a number of seconds in the two largest units that matter.
func duration(seconds float64) string {
	s := math.Round(finite(seconds))
	switch {
	case s >= 2*day:
		return twoUnits(math.Round(s/hour), 24, "d", "h")
	case s >= hour:
		return twoUnits(math.Round(s/minute), 60, "h", "min")
	case s >= minute:
		return twoUnits(s, 60, "min", "s")
	case s == 0 && seconds > 0:
		return "< 1 s"
	default:
		return number(s) + " s"
	}
}

// twoUnits says n of the small unit as the large one, which is so many of them, and the rest.
func twoUnits(n, many float64, large, small string) string {
	whole, rest := math.Floor(n/many), math.Mod(n, many)
	if rest == 0 {
		return number(whole) + " " + large
	}
	return number(whole) + " " + large + " " + number(rest) + " " + small
}

// hours is a number of seconds as hours, with one digit after the point below 10.
func hours(seconds float64) string {
	h := finite(seconds) / hour
	if h < 9.95 && h > 0 {
		return strconv.FormatFloat(h, 'f', 1, 64)
	}
	return number(h)
}

// number is rounded, with a comma for thousands.
func number(x float64) string {
	digits := strconv.FormatFloat(math.Round(finite(x)), 'f', 0, 64)
	var grouped strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			grouped.WriteByte(',')
		}
		grouped.WriteRune(d)
	}
	return grouped.String()
}

func integer(n int) string { return number(float64(n)) }

// decimal has two digits after the point below 10, one below 100.
func decimal(x float64) string {
	switch x = finite(x); {
	case x < 9.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return number(x)
	}
}

// percent is a part of 1.
func percent(x float64) string {
	x = min(finite(x), 1)
	if x > 0 && x < 0.005 {
		return "< 1 %"
	}
	return number(x*100) + " %"
}

// count is a number with what is counted.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return integer(n) + " " + what + "s"
}

// name is a name from outside as one line that says something.
func name(s string) string {
	if s = text.Bound(s, maxName); s == "" {
		return "(no name)"
	}
	return s
}

// words are a text from outside, as one line.
func words(s string) string { return text.Bound(s, maxText) }

// sentence makes words from outside begin and end as a sentence does.
func sentence(s string) string {
	s = words(s)
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	s = string(unicode.ToUpper(first)) + s[size:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// list is a list of words in a sentence.
func list(items []string) string {
	const most = 4
	shown := make([]string, 0, most)
	for i, s := range items {
		if i == most-1 && len(items) > most {
			return strings.Join(shown, ", ") + fmt.Sprintf(" and %d more", len(items)-i)
		}
		shown = append(shown, name(s))
	}
	if len(shown) < 2 {
		return strings.Join(shown, "")
	}
	return strings.Join(shown[:len(shown)-1], ", ") + " and " + shown[len(shown)-1]
}

// bind keeps numbers and their units on one line.
func bind(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }
