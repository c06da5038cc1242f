package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Clock is a time of the day, in minutes since midnight, from 0 to 1439.
type Clock int

// ParseClock reads a time such as 22:00.
func ParseClock(s string) (Clock, error) {
	parsed, err := time.Parse("15:04", s)
	if err != nil || len(s) != len("15:04") {
		return 0, fmt.Errorf("%q is not a time of day. Fix: write one such as 22:00", s)
	}
	return Clock(parsed.Hour()*60 + parsed.Minute()), nil
}

func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", int(c)/60, int(c)%60) }

// ParseDay reads the English name of a day of the week.
func ParseDay(s string) (time.Weekday, error) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if day.String() == s {
			return day, nil
		}
	}
	return 0, fmt.Errorf("%q is not a day of the week. Fix: write one such as %s", s, time.Saturday)
}

// Window is a time of the day on some days of the week, in a time zone.
type Window struct {
	// Location is the time zone; it is not nil.
	Location *time.Location
	// Days are those on which the window opens; empty means every day.
	Days []time.Weekday
	// From and To are when it opens and closes: the next day, if To is not later than From.
	From, To Clock
}

// String describes a window, such as "Sat,Sun 22:00-04:00 Europe/Berlin".
func (w Window) String() string {
	var days []string
	for i := range 7 {
		// The week begins on Monday.
		day := time.Weekday((i + 1) % 7)
		if len(w.Days) > 0 && w.on(day) {
			days = append(days, day.String()[:3])
		}
	}
	if len(days) == 0 {
		days = []string{"daily"}
	}
	return fmt.Sprintf("%s %s-%s %s", strings.Join(days, ","), w.From, w.To, w.Location)
}

func (w Window) on(day time.Weekday) bool {
	return len(w.Days) == 0 || slices.Contains(w.Days, day)
}

// searchedDays is how far Opens looks ahead: a window of one day a week may be left out once, where a clock that is put forward
// jumps over it.
const searchedDays = 15

// Opens returns the beginning of the window that now is in, or, outside of it, of the next one; ok is false where that is more
// than a fortnight away. The window is open if the beginning is not after now.
//
// Where the clock is put forward over From or To, the moment of that stands for them; a window that is jumped over does not
// open. Where it is put back, From is its first and To its second pass.
func (w Window) Opens(now time.Time) (begin time.Time, ok bool) {
	year, month, day := now.In(w.Location).Date()
	// A window may have opened yesterday, and the day before if it is a long one and clocks were put back.
	for offset := -2; offset <= searchedDays; offset++ {
		date := time.Date(year, month, day+offset, 0, 0, 0, 0, time.UTC)
		if !w.on(date.Weekday()) {
			continue
		}
		last := date
		if w.To <= w.From {
			last = date.AddDate(0, 0, 1)
		}
		begin, _ := resolve(date, w.From, w.Location)
		_, end := resolve(last, w.To, w.Location)
		if now.Before(end) && begin.Before(end) {
			return begin.UTC(), true
		}
	}
	return time.Time{}, false
}

// resolve returns the moments at which a clock in a time zone shows a time on a date: the first and the last one, which differ
// where the clock is put back over it. Where it is put forward over it, both are the moment of that.
func resolve(date time.Time, at Clock, location *time.Location) (first, last time.Time) {
	wall := date.Add(time.Duration(at) * time.Minute)
	// The offset a day before and a day after are those on both sides of a change, if there is one nearby.
	early, late := wall.Add(-offsetAt(wall.AddDate(0, 0, -1), location)), wall.Add(-offsetAt(wall.AddDate(0, 0, 1), location))
	if late.Before(early) {
		early, late = late, early
	}
	earlyShows, lateShows := shows(early, wall, location), shows(late, wall, location)
	switch {
	case earlyShows && lateShows:
		return early, late
	case earlyShows:
		return early, early
	case lateShows:
		return late, late
	}
	start, _ := late.In(location).ZoneBounds()
	return start, start
}

func offsetAt(t time.Time, location *time.Location) time.Duration {
	_, seconds := t.In(location).Zone()
	return time.Duration(seconds) * time.Second
}

// shows reports whether a clock in a time zone shows the date and time of wall at a moment.
func shows(moment, wall time.Time, location *time.Location) bool {
	return moment.Add(offsetAt(moment, location)).Equal(wall)
}

// NextWindow returns the window that opens first, or one that is open, and when it opens or has opened; ok is false where none opens within a fortnight.
func NextWindow(windows []Window, now time.Time) (next Window, opens time.Time, ok bool) {
	for _, w := range windows {
		if begin, found := w.Opens(now); found && (!ok || begin.Before(opens)) {
			next, opens, ok = w, begin, true
		}
	}
	return next, opens, ok
}
