package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/journal"
	"github.com/windlass-dev/windlass/lab/internal/journal/recorder"
)

// api takes 10 ms for an answer. It hangs or refuses at times since its beginning, and forgets writes.
type api struct {
	began   time.Time
	hangs   [2]time.Duration
	refuses [2]time.Duration
	forgets bool
}

func (a *api) answer(ctx context.Context) error {
	within := func(w [2]time.Duration) bool {
		since := time.Since(a.began)
		return since >= w[0] && since < w[1]
	}
	if within(a.hangs) {
		<-ctx.Done()
		return ctx.Err()
	}
	<-time.After(10 * time.Millisecond)
	if within(a.refuses) {
		return errors.New("refused")
	}
	return nil
}

func (a *api) Write(ctx context.Context, number int, _ string) (int64, error) {
	if err := a.answer(ctx); err != nil {
		return 0, err
	}
	return int64(1000 + number), nil
}

func (a *api) Read(ctx context.Context, number int) (string, error) {
	if err := a.answer(ctx); err != nil {
		return "", err
	}
	if a.forgets {
		return "", recorder.ErrMissing
	}
	return journal.Value(number), nil
}

// run records for 10 s, and returns the attempts.
func run(t *testing.T, a *api) []journal.Attempt {
	t.Helper()
	var file bytes.Buffer
	a.began = time.Now()
	r := recorder.Start(t.Context(), recorder.Options{API: a, Journal: &file})
	<-time.After(10100 * time.Millisecond) // not at the beginning of an attempt
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	attempts, err := journal.Parse(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return attempts
}

func isWrong(a journal.Attempt) bool { return a.Wrong != "" }

func TestRecorder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		attempts := run(t, &api{
			refuses: [2]time.Duration{time.Second, 2 * time.Second}, hangs: [2]time.Duration{5 * time.Second, 6 * time.Second},
		})
		// An attempt begins each 250 ms. The one that hangs ends after 2 s.
		at := began.Add
		want := journal.Availability{
			Succeeded: 29, Failed: 5, Slowest: 10 * time.Millisecond,
			Outages: []journal.Outage{
				{From: at(time.Second), To: at(2010 * time.Millisecond), Attempts: 4, Error: "refused"},
				{From: at(5 * time.Second), To: at(7010 * time.Millisecond), Attempts: 1, Error: context.DeadlineExceeded.Error()},
			},
		}
		got := journal.Measure(attempts, journal.Write)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		// The first read comes when there is a write.
		want.Succeeded--
		if diff := cmp.Diff(want, journal.Measure(attempts, journal.Read)); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
		if slices.ContainsFunc(attempts, isWrong) {
			t.Errorf("a read is wrong in %+v", attempts)
		}
	})
}

func TestRecorderSeesAWriteThatIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := run(t, &api{forgets: true})
		if !slices.ContainsFunc(attempts, isWrong) || !journal.Measure(attempts, journal.Read).Recovered() {
			t.Errorf("no read is wrong in %+v", attempts)
		}
	})
}

// full is a disk without room.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestRecorderWithoutAJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder.Start(t.Context(), recorder.Options{API: &api{}, Journal: full{}})
		synctest.Wait()
		<-time.After(time.Second)
		if err := r.Stop(); !errors.Is(err, errFull) {
			t.Errorf("Stop: %v, want %v", err, errFull)
		}
	})
}
