package keyed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/keyed"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// entry is what the model of a Memory has of a key.
type entry struct {
	value int
	until time.Time
}

// TestMemoryIsAMapThatForgets compares a Memory without a bound with a map.
func TestMemoryIsAMapThatForgets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var memory keyed.Memory[string, int]
		now, model, mostAlive := start, map[string]entry{}, 0
		alive := func(key string) (int, bool) {
			e, ok := model[key]
			if ok && !e.until.IsZero() && !now.Before(e.until) {
				return 0, false
			}
			return e.value, ok
		}
		put := func(key string, value int, lifetime time.Duration) {
			switch {
			case lifetime <= 0:
				delete(model, key)
			case lifetime == keyed.Forever:
				model[key] = entry{value: value}
			default:
				model[key] = entry{value, now.Add(lifetime)}
			}
		}
		lifetimes := rapid.SampledFrom([]time.Duration{-1, 0, 1, time.Second, time.Minute, time.Minute, keyed.Forever})
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, 60).Draw(t, "key"))
			value, lifetime := rapid.Int().Draw(t, "value"), lifetimes.Draw(t, "lifetime")
			was, known := alive(key)
			switch rapid.IntRange(0, 6).Draw(t, "call") {
			case 0:
				memory.Put(key, value, now, lifetime)
				put(key, value, lifetime)
			case 1:
				got, found := memory.GetOrPut(key, value, now, lifetime)
				if want := map[bool]int{true: was, false: value}[known]; got != want || found != known {
					t.Fatalf("GetOrPut: %d, %t, want %d, %t", got, found, want, known)
				}
				if !known {
					put(key, value, lifetime)
				}
			case 2:
				edits := rapid.Bool().Draw(t, "edits")
				memory.Edit(key, now, func(got int, found bool) (int, time.Duration, bool) {
					if got != was || found != known {
						t.Fatalf("Edit gets %d, %t, want %d, %t", got, found, was, known)
					}
					return value, lifetime, edits
				})
				if edits {
					put(key, value, lifetime)
				}
			case 3:
				if forgot := memory.Forget(key); known && !forgot {
					t.Fatalf("what is known was not forgotten")
				}
				delete(model, key)
			case 4:
				memory.ForgetFunc(func(k string) bool { return k < key })
				for k := range model {
					if k < key {
						delete(model, k)
					}
				}
			default:
				now = now.Add(rapid.SampledFrom([]time.Duration{1, time.Second, 30 * time.Second}).Draw(t, "pass"))
			}
			count := 0
			for k := range model {
				want, wantKnown := alive(k)
				if wantKnown {
					count++
				}
				if got, known := memory.Get(k, now); got != want || known != wantKnown {
					t.Fatalf("%s is %d, %t, want %d, %t", k, got, known, want, wantKnown)
				}
			}
			mostAlive = max(mostAlive, count)
			if kept := memory.Len(); kept < count || kept > 1+2*mostAlive {
				t.Fatalf("%d values are kept, %d of them alive, never more than %d", kept, count, mostAlive)
			}
		}
	})
}

// TestMemoryDropsWhatIsOver: keys come and go, and about twice as many are kept as live.
func TestMemoryDropsWhatIsOver(t *testing.T) {
	t.Parallel()
	var memory keyed.Memory[int, string]
	for i := range 1000 {
		now := start.Add(time.Duration(i) * time.Minute)
		memory.Put(i, "gone", now, time.Hour)
		memory.Put(-1, "there", now, time.Hour)
		if n := memory.Len(); n > 2*61+1 {
			t.Fatalf("after %d minutes %d values are kept", i, n)
		}
	}
}

// TestMemoryIsBounded: a value that was just put is known, however many there are.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		memory := keyed.Memory[int, int]{Most: rapid.IntRange(1, 40).Draw(t, "most")}
		now := start
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "pass"))
			key, lifetime := rapid.IntRange(0, 99).Draw(t, "key"), rapid.SampledFrom([]time.Duration{time.Second, keyed.Forever}).Draw(t, "lifetime")
			memory.Put(key, key, now, lifetime)
			if got, known := memory.Get(key, now); got != key || !known || memory.Len() > memory.Most {
				t.Fatalf("%d is %d, %t; %d of %d values are kept", key, got, known, memory.Len(), memory.Most)
			}
		}
	})
}

// TestMemoryDropsTheOldForRoom: what lives stays while there is room for it.
func TestMemoryDropsTheOldForRoom(t *testing.T) {
	t.Parallel()
	memory := keyed.Memory[int, int]{Most: 3}
	memory.Put(1, 1, start, keyed.Forever)
	memory.Put(2, 2, start, time.Second)
	memory.Put(3, 3, start, time.Second)
	memory.Put(4, 4, start.Add(time.Minute), time.Second)
	if _, known := memory.Get(1, start); !known {
		t.Error("it was forgotten although others were over")
	}
}

// TestOnceSaysChanges compares Once with the list of all that was said about a key.
func TestOnceSaysChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lifetime := rapid.SampledFrom([]time.Duration{keyed.Forever, time.Minute}).Draw(t, "lifetime")
		once := keyed.NewOnce[string](lifetime, 0)
		type said struct {
			text      string
			since, at time.Time
		}
		now, last := start, map[string]said{}
		passes := []time.Duration{time.Second, time.Minute}
		if lifetime == keyed.Forever {
			passes = append(passes, -time.Hour) // The clock is set back.
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			key, text := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "text")
			was, known := last[key]
			known = known && now.Sub(was.at) < lifetime
			changed := !known || was.text != text
			is := said{text, was.since, now}
			if changed || now.Before(was.since) {
				is.since = now
			}
			switch rapid.IntRange(0, 3).Draw(t, "call") {
			case 0:
				if got := once.Changed(key, text, now); got != changed {
					t.Fatalf("changed: %t, want %t", got, changed)
				}
				last[key] = is
			case 1:
				if got := once.Lasts(key, text, now); got != now.Sub(is.since) {
					t.Fatalf("it lasts %s, want %s", got, now.Sub(is.since))
				}
				last[key] = is
			case 2:
				if got := once.Forget(key); known && !got {
					t.Fatal("nothing was forgotten")
				}
				delete(last, key)
			default:
				now = now.Add(rapid.SampledFrom(passes).Draw(t, "pass"))
			}
		}
	})
}

// TestOnceAfterTheClockWasSetBack holds that a caller who says something again after a while does
// so after that while, not after as much longer as the clock was ahead.
func TestOnceAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	once := keyed.NewOnce[string](time.Hour, 0)
	once.Lasts("a", "x", start.Add(12*time.Hour))
	for _, passed := range []time.Duration{0, time.Minute, 10 * time.Minute} {
		if got := once.Lasts("a", "x", start.Add(passed)); got != passed {
			t.Errorf("%s after the clock was set back it lasts %s", passed, got)
		}
	}
}

// TestLocks: two holders of one key exclude each other, those of two keys do not, and nothing is kept.
func TestLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var locks keyed.Locks[string]
		var all sync.WaitGroup
		holders := map[string]*int{"a": new(int), "b": new(int)}
		for i := range 20 {
			key := []string{"a", "b"}[i%2]
			all.Go(func() {
				unlock, err := locks.Lock(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				defer unlock()
				*holders[key]++
				if *holders[key] != 1 {
					t.Errorf("%d hold %s", *holders[key], key)
				}
				<-time.After(time.Second)
				*holders[key]--
			})
		}
		all.Wait()
		if took := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); took != 10*time.Second {
			t.Errorf("all took %s: the keys wait for each other, or not for themselves", took)
		}
	})
}

func TestLocksOfBusyKeys(t *testing.T) {
	t.Parallel()
	var locks keyed.Locks[string]
	unlock, free := locks.TryLock("a")
	if !free {
		t.Fatal("nobody holds it")
	}
	if _, free := locks.TryLock("a"); free {
		t.Error("two hold it")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := locks.Lock(over, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for it ends with %v", err)
	}
	unlock()
	if unlock, free = locks.TryLock("a"); !free {
		t.Error("it stays locked")
	}
	unlock()
}

// TestSharedLivesAsLongAsItsUsers: all users of a key at one time get one value.
func TestSharedLivesAsLongAsItsUsers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var shared keyed.Shared[string, *int]
		users, current := map[string][]func(){}, map[string]*int{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			if n := len(users[key]); n > 0 && rapid.Bool().Draw(t, "leave") {
				users[key][n-1]()
				users[key] = users[key][:n-1]
			} else {
				value, leave := shared.Use(key, func() *int { return new(int) })
				if n > 0 && value != current[key] || n == 0 && value == current[key] {
					t.Fatalf("the user after %d others gets another value than it should", n)
				}
				current[key], users[key] = value, append(users[key], leave)
			}
			used := 0
			for _, of := range users {
				if len(of) > 0 {
					used++
				}
			}
			if shared.Len() != used {
				t.Fatalf("%d values are kept for %d keys", shared.Len(), used)
			}
		}
	})
}
