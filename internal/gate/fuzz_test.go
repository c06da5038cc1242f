package gate_test

import (
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/gate"
)

// farthest is how far away the next opening of a weekly window can be: a week, and one more where the
// window's hour does not exist on a day when clocks change.
const farthest = 15 * 24 * time.Hour

// FuzzWindow checks that a window opens when it says it opens.
func FuzzWindow(f *testing.F) {
	f.Add("Europe/Berlin", "22:00", "04:00", "Saturday", int64(1774746000))
	f.Add("Africa/Casablanca", "02:30", "02:30", "Sunday", int64(1774746000))
	f.Add("Pacific/Apia", "23:59", "00:00", "Friday", int64(1325203200))
	f.Add("Antarctica/Troll", "00:00", "23:59", "", int64(0))
	f.Fuzz(func(t *testing.T, zone, from, to, day string, at int64) {
		location, err := time.LoadLocation(zone)
		if err != nil || zone == "Local" {
			return
		}
		begins, err := gate.ParseClock(from)
		if err != nil {
			return
		}
		ends, err := gate.ParseClock(to)
		if err != nil {
			return
		}
		w := gate.Window{Location: location, From: begins, To: ends}
		if weekday, err := gate.ParseDay(day); err == nil {
			w.Days = []time.Weekday{weekday}
		}
		now := time.Unix(at%(1<<36), 0)
		opens, ok := w.Opens(now)
		if !ok {
			return
		}
		if again, ok := w.Opens(opens); !ok || again.After(opens) {
			t.Errorf("%s at %s opens at %s; at that time it opens at %s, %t", w, now.UTC(), opens, again, ok)
		}
		if opens.Sub(now) > farthest {
			t.Errorf("%s at %s opens only at %s", w, now.UTC(), opens)
		}
	})
}
