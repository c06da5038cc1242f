package inplace_test

import (
	"errors"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
)

func set(names ...string) map[string]struct{} {
	s := map[string]struct{}{}
	for _, n := range names {
		s[n] = struct{}{}
	}
	return s
}

// shown is what a cache shows: the update of each machine, by its name followed by the update's number.
func shown(updates ...string) map[string]string {
	s := map[string]string{}
	for _, u := range updates {
		s[u[:1]] = u
	}
	return s
}

// TestCount checks how many others count as in flight, after begins and ends that the cache shows or does not show yet.
func TestCount(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		begun, ended []string
		seen         inplace.Seen[string]
		after        time.Duration
		want         int
	}{
		"nobody":                                              {},
		"one that the cache shows":                            {seen: inplace.Seen[string]{Noted: shown("b1")}, want: 1},
		"one that it does not show yet":                       {begun: []string{"b1"}, want: 1},
		"one that both show":                                  {begun: []string{"b1"}, seen: inplace.Seen[string]{Noted: shown("b1")}, want: 1},
		"an end that it does not show yet":                    {ended: []string{"b1"}, seen: inplace.Seen[string]{Noted: shown("b1", "c1")}, want: 1},
		"a begin that it never showed":                        {begun: []string{"b1"}, after: 6 * time.Minute},
		"the machine itself":                                  {begun: []string{"a1"}, seen: inplace.Seen[string]{Noted: shown("a1")}},
		"those of whom nothing is noted":                      {seen: inplace.Seen[string]{Others: set("b", "c")}, want: 2},
		"itself, of whom nothing is noted":                    {seen: inplace.Seen[string]{Others: set("a", "b")}, want: 1},
		"an end hides none of those":                          {ended: []string{"b1"}, seen: inplace.Seen[string]{Others: set("b")}, want: 1},
		"an end that is too old to be remembered":             {ended: []string{"b1"}, seen: inplace.Seen[string]{Noted: shown("b1")}, after: 6 * time.Minute, want: 1},
		"the next update, while the cache shows the last one": {ended: []string{"b1"}, begun: []string{"b2"}, seen: inplace.Seen[string]{Noted: shown("b1")}, want: 1},
		"the next update, which the cache shows":              {ended: []string{"b1"}, begun: []string{"b2"}, seen: inplace.Seen[string]{Noted: shown("b2")}, want: 1},
		"an update that cannot be read":                       {seen: inplace.Seen[string]{Noted: map[string]string{"b": ""}}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inplace.NewInFlight[string]()
			none := func() (inplace.Seen[string], error) { return inplace.Seen[string]{}, nil }
			for _, key := range tt.ended {
				s.End("scope", key[:1], key, epoch)
			}
			for _, key := range tt.begun {
				if err := s.Begin("scope", key[:1], key, epoch, none, func(int) (bool, error) { return true, nil }); err != nil {
					t.Fatal(err)
				}
			}
			got := -1
			err := s.Begin("scope", "a", "a1", epoch.Add(tt.after), func() (inplace.Seen[string], error) { return tt.seen, nil }, func(others int) (bool, error) {
				got = others
				return false, nil
			})
			if err != nil || got != tt.want {
				t.Errorf("%d others are in flight, error %v; want %d", got, err, tt.want)
			}
		})
	}
}

// TestScopeInUse forgets no begin while it may not be shown yet, whenever scopes are swept.
func TestScopeInUse(t *testing.T) {
	t.Parallel()
	s := inplace.NewInFlight[string]()
	none := func() (inplace.Seen[string], error) { return inplace.Seen[string]{}, nil }
	first := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s.End("other", "x", "x1", first)
	begin := func(int) (bool, error) { return true, nil }
	if err := s.Begin("scope", "b", "b1", first.Add(3*time.Minute), none, begin); err != nil {
		t.Fatal(err)
	}
	count := 0
	err := s.Begin("scope", "a", "a1", first.Add(6*time.Minute), none, func(others int) (bool, error) {
		count = others
		return false, nil
	})
	if err != nil || count != 1 {
		t.Errorf("%d others are in flight, error %v; want 1", count, err)
	}
}

// TestNextUpdateIsNotForgotten: the cache shows a machine's last update, then none, and then the next one, which began in between. It counts all the time.
func TestNextUpdateIsNotForgotten(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := inplace.NewInFlight[string]()
	begin := func(key, id string, seen ...string) (others int) {
		err := s.Begin("scope", key, id, epoch, func() (inplace.Seen[string], error) { return inplace.Seen[string]{Noted: shown(seen...)}, nil }, func(n int) (bool, error) {
			others = n
			return key == "b", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return others
	}
	begin("b", "b1")
	s.End("scope", "b", "b1", epoch)
	begin("b", "b2", "b1")
	for i, seen := range [][]string{{"b1"}, nil, {"b2"}} {
		if others := begin("a", "a1", seen...); others != 1 {
			t.Errorf("reading %d: %d others are in flight, want 1", i+1, others)
		}
	}
}

// TestSuperseded: the update that ends need not be the one that began.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	s := inplace.NewInFlight[string]()
	none := func() (inplace.Seen[string], error) { return inplace.Seen[string]{}, nil }
	for _, begin := range []struct {
		key, id string
		want    int
	}{{"a", "a1", 0}, {"b", "b1", 0}} {
		err := s.Begin("scope", begin.key, begin.id, time.Unix(0, 0), none, func(others int) (bool, error) {
			if others != begin.want {
				t.Errorf("%s: %d others are in flight, want %d", begin.key, others, begin.want)
			}
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.End("scope", begin.key, begin.key+"2", time.Unix(0, 0))
	}
}

// TestErrors: nothing begins where it is not known who is in flight, nor where beginning fails.
func TestErrors(t *testing.T) {
	t.Parallel()
	s, fault := inplace.NewInFlight[string](), errors.New("fault")
	err := s.Begin("scope", "a", "a1", time.Unix(0, 0), func() (inplace.Seen[string], error) { return inplace.Seen[string]{}, fault }, func(int) (bool, error) {
		t.Error("decided without knowing who is in flight")
		return true, nil
	})
	if !errors.Is(err, fault) {
		t.Errorf("error %v", err)
	}
	none := func() (inplace.Seen[string], error) { return inplace.Seen[string]{}, nil }
	if err := s.Begin("scope", "a", "a1", time.Unix(0, 0), none, func(int) (bool, error) { return false, fault }); !errors.Is(err, fault) {
		t.Errorf("error %v", err)
	}
	if err := s.Begin("scope", "b", "b1", time.Unix(0, 0), none, func(others int) (bool, error) { return others != 0, nil }); err != nil {
		t.Error(err)
	}
}
