package htmlpage

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

// Finite is x, or the nearest number that can be drawn.
func Finite(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(max(x, 0), maxNumber)
}

// Duration is a number of seconds in the two largest units that matter.
func Duration(seconds float64) string {
	s := math.Round(Finite(seconds))
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
		return Number(s) + " s"
	}
}

// twoUnits says n of the small unit as the large one, which is so many of them, and the rest.
func twoUnits(n, many float64, large, small string) string {
	whole, rest := math.Floor(n/many), math.Mod(n, many)
	if rest == 0 {
		return Number(whole) + " " + large
	}
	return Number(whole) + " " + large + " " + Number(rest) + " " + small
}

// Hours is a number of seconds as hours, with one digit after the point below 10.
func Hours(seconds float64) string {
	h := Finite(seconds) / hour
	if h < 9.95 && h > 0 {
		return strconv.FormatFloat(h, 'f', 1, 64)
	}
	return Number(h)
}

// Number is rounded, with a comma for thousands.
func Number(x float64) string {
	digits := strconv.FormatFloat(math.Round(Finite(x)), 'f', 0, 64)
	var grouped strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			grouped.WriteByte(',')
		}
		grouped.WriteRune(d)
	}
	return grouped.String()
}

// Integer is a whole number, with a comma for thousands.
func Integer(n int) string { return Number(float64(n)) }

// Decimal has two digits after the point below 10, one below 100.
func Decimal(x float64) string {
	switch x = Finite(x); {
	case x < 9.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return Number(x)
	}
}

// Percent is a part of 1.
func Percent(x float64) string {
	x = min(Finite(x), 1)
	if x > 0 && x < 0.005 {
		return "< 1 %"
	}
	return Number(x*100) + " %"
}

// Count is a number with what is counted.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Integer(n) + " " + what + "s"
}

// Name is a name from outside as one line that says something.
func Name(s string) string {
	if s = text.Bound(s, maxName); s == "" {
		return "(no name)"
	}
	return s
}

// Words are a text from outside, as one line.
func Words(s string) string { return text.Bound(s, maxText) }

// Sentence makes words from outside begin and end as a sentence does.
func Sentence(s string) string {
	s = Words(s)
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

// List is a list of words in a sentence.
func List(items []string) string {
	const most = 4
	shown := make([]string, 0, most)
	for i, s := range items {
		if i == most-1 && len(items) > most {
			return strings.Join(shown, ", ") + fmt.Sprintf(" and %d more", len(items)-i)
		}
		shown = append(shown, Name(s))
	}
	if len(shown) < 2 {
		return strings.Join(shown, "")
	}
	return strings.Join(shown[:len(shown)-1], ", ") + " and " + shown[len(shown)-1]
}

// Bind keeps numbers and their units on one line.
func Bind(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }
