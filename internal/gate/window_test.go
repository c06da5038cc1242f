package gate_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/gate"
)

func location(t interface{ Fatal(...any) }, name string) *time.Location {
	found, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func clock(t interface{ Fatal(...any) }, s string) gate.Clock {
	parsed, err := gate.ParseClock(s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func instant(t interface{ Fatal(...any) }, s string) time.Time {
	parsed, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// In 2026 Berlin goes from +01:00 to +02:00 on 29 March at 01:00Z, and back on 25 October at 01:00Z. Samoa left out 30 December 2011.
func TestWindowOpens(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		zone, from, to string
		days           []time.Weekday
		now, want      string
	}{
		"later the same day":              {zone: "UTC", from: "10:00", to: "12:00", now: "2026-11-23T09:00:00Z", want: "2026-11-23T10:00:00Z"},
		"open from its first moment":      {zone: "UTC", from: "10:00", to: "12:00", now: "2026-11-23T10:00:00Z", want: "2026-11-23T10:00:00Z"},
		"open until just before its end":  {zone: "UTC", from: "10:00", to: "12:00", now: "2026-11-23T11:59:59Z", want: "2026-11-23T10:00:00Z"},
		"closed at its end":               {zone: "UTC", from: "10:00", to: "12:00", now: "2026-11-23T12:00:00Z", want: "2026-11-24T10:00:00Z"},
		"a day of the week":               {zone: "Europe/Berlin", from: "22:00", to: "04:00", days: []time.Weekday{time.Saturday}, now: "2026-11-23T09:00:00Z", want: "2026-11-28T21:00:00Z"},
		"after midnight, the day before":  {zone: "Europe/Berlin", from: "22:00", to: "04:00", days: []time.Weekday{time.Saturday}, now: "2026-11-29T02:59:59Z", want: "2026-11-28T21:00:00Z"},
		"closed after midnight":           {zone: "Europe/Berlin", from: "22:00", to: "04:00", days: []time.Weekday{time.Saturday}, now: "2026-11-29T03:00:00Z", want: "2026-12-05T21:00:00Z"},
		"all of a day":                    {zone: "UTC", from: "00:00", to: "00:00", days: []time.Weekday{time.Sunday}, now: "2026-11-29T23:59:59Z", want: "2026-11-29T00:00:00Z"},
		"the day there, not here":         {zone: "Pacific/Auckland", from: "01:00", to: "02:00", days: []time.Weekday{time.Tuesday}, now: "2026-11-23T11:30:00Z", want: "2026-11-23T12:00:00Z"},
		"a clock put forward over from":   {zone: "Europe/Berlin", from: "02:30", to: "05:00", now: "2026-03-29T00:30:00Z", want: "2026-03-29T01:00:00Z"},
		"a clock put forward over to":     {zone: "Europe/Berlin", from: "01:00", to: "02:30", now: "2026-03-29T00:59:00Z", want: "2026-03-29T00:00:00Z"},
		"a window that is jumped over":    {zone: "Europe/Berlin", from: "02:15", to: "02:45", now: "2026-03-29T00:30:00Z", want: "2026-03-30T00:15:00Z"},
		"a week later, if jumped over":    {zone: "Europe/Berlin", from: "02:15", to: "02:45", days: []time.Weekday{time.Sunday}, now: "2026-03-29T00:30:00Z", want: "2026-04-05T00:15:00Z"},
		"a clock put back: first from":    {zone: "Europe/Berlin", from: "02:30", to: "05:00", now: "2026-10-25T00:00:00Z", want: "2026-10-25T00:30:00Z"},
		"a clock put back: open between":  {zone: "Europe/Berlin", from: "02:30", to: "05:00", now: "2026-10-25T01:10:00Z", want: "2026-10-25T00:30:00Z"},
		"a clock put back: last to":       {zone: "Europe/Berlin", from: "00:00", to: "02:30", now: "2026-10-25T01:29:59Z", want: "2026-10-24T22:00:00Z"},
		"a clock put back: after last to": {zone: "Europe/Berlin", from: "00:00", to: "02:30", now: "2026-10-25T01:30:00Z", want: "2026-10-25T23:00:00Z"},
		"a day that does not exist":       {zone: "Pacific/Apia", from: "10:00", to: "11:00", days: []time.Weekday{time.Friday}, now: "2011-12-29T00:00:00Z", want: "2012-01-05T20:00:00Z"},
		"half an hour of summer time":     {zone: "Australia/Lord_Howe", from: "02:00", to: "03:00", now: "2026-10-03T15:00:00Z", want: "2026-10-03T15:30:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gate.Window{Location: location(t, test.zone), Days: test.days, From: clock(t, test.from), To: clock(t, test.to)}
			got, ok := w.Opens(instant(t, test.now))
			if want := instant(t, test.want); !ok || !got.Equal(want) {
				t.Errorf("%s opens %s, %t; want %s", w, got.Format(time.RFC3339), ok, test.want)
			}
		})
	}
}

func anyWindow(t *rapid.T) gate.Window {
	zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"}).Draw(t, "zone")
	days := rapid.SliceOfNDistinct(rapid.SampledFrom([]time.Weekday{0, 1, 2, 3, 4, 5, 6}), 0, 7, rapid.ID[time.Weekday]).Draw(t, "days")
	times := rapid.Map(rapid.IntRange(0, 1439), func(m int) gate.Clock { return gate.Clock(m) })
	return gate.Window{Location: location(t, zone), Days: days, From: times.Draw(t, "from"), To: times.Draw(t, "to")}
}

// shown reports whether a clock on the wall shows a time of the window: the plain reading of it.
func shown(w gate.Window, at time.Time) bool {
	wall := at.In(w.Location)
	now := gate.Clock(wall.Hour()*60 + wall.Minute())
	on := func(day time.Weekday) bool { return len(w.Days) == 0 || slices.Contains(w.Days, day) }
	if w.From < w.To {
		return on(wall.Weekday()) && w.From <= now && now < w.To
	}
	return on(wall.Weekday()) && now >= w.From || on((wall.Weekday()+6)%7) && now < w.To
}

func open(w gate.Window, at time.Time) bool {
	begin, ok := w.Opens(at)
	return ok && !begin.After(at)
}

// Whenever a clock on the wall shows a time of the window, it is open; away from clocks that are changed, then only. The next
// opening is the first moment at which it is.
func TestWindowIsWhatAClockShows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := anyWindow(t)
		now := time.Unix(rapid.Int64Range(1_700_000_000/60, 1_900_000_000/60).Draw(t, "minute")*60, 0).UTC()
		_, before := now.AddDate(0, 0, -2).In(w.Location).Zone()
		_, after := now.AddDate(0, 0, 2).In(w.Location).Zone()
		if before == after && open(w, now) != shown(w, now) {
			t.Fatalf("at %s %s: open is %t", now, w, open(w, now))
		}
		begin, ok := w.Opens(now)
		if !ok {
			t.Fatalf("%s does not open after %s", w, now)
		}
		if shown(w, now) && begin.After(now) {
			t.Fatalf("at %s %s is closed", now, w)
		}
		if !open(w, begin) {
			t.Fatalf("%s is closed at its beginning %s", w, begin)
		}
		for at := now; at.Before(begin); at = at.Add(time.Minute) {
			if shown(w, at) {
				t.Fatalf("%s opens at %s already, not at %s", w, at, begin)
			}
		}
	})
}

func TestWindowInWords(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]gate.Window{
		"daily 00:00-00:00 UTC":                   {Location: time.UTC},
		"Sat,Sun 22:00-04:05 Europe/Berlin":       {Location: location(t, "Europe/Berlin"), Days: []time.Weekday{time.Sunday, time.Saturday}, From: clock(t, "22:00"), To: clock(t, "04:05")},
		"Mon 09:30-17:00 America/Argentina/Salta": {Location: location(t, "America/Argentina/Salta"), Days: []time.Weekday{time.Monday}, From: clock(t, "09:30"), To: clock(t, "17:00")},
	} {
		if got := w.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, s := range []string{"", "24:00", "9:00", "09:60", "09:00 ", "-1:00", "22:00:00"} {
		if _, err := gate.ParseClock(s); err == nil {
			t.Errorf("%q was accepted as a time of the day", s)
		}
	}
	for _, s := range []string{"", "monday", "Mon"} {
		if _, err := gate.ParseDay(s); err == nil {
			t.Errorf("%q was accepted as a day", s)
		}
	}
}
