package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/journal"
)

// API is the cluster as its client sees it. Calls of Write and of Read overlap.
type API interface {
	// Write stores a new object, and returns its revision.
	Write(ctx context.Context, number int, value string) (revision int64, err error)
	// Read returns the value of an object. ErrMissing is the API's answer that there is none.
	Read(ctx context.Context, number int) (value string, err error)
}

// ErrMissing is the answer of an API that an object does not exist.
var ErrMissing = errors.New("the object does not exist")

// Options of a Recorder. API and Journal are required.
type Options struct {
	API API
	// Journal gets each attempt when it has ended.
	Journal io.Writer
	// Interval is the time from the beginning of an attempt to that of the next one of the same
	// operation. Default: 250 ms.
	Interval time.Duration
	// Timeout bounds an attempt; a longer one has failed. Default: 2 s.
	Timeout time.Duration
}

// Recorder writes and reads until it is stopped.
type Recorder struct {
	options Options
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu sync.Mutex
	// last is the number of the last acknowledged write, 0 if there is none.
	last int
	err  error
}

// Start begins to write and to read. The caller calls Stop.
func Start(ctx context.Context, o Options) *Recorder {
	if o.Interval == 0 {
		o.Interval = 250 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	ctx, stop := context.WithCancel(ctx)
	r := &Recorder{options: o, stop: stop}
	r.done.Go(func() { r.repeat(ctx, r.write) })
	r.done.Go(func() { r.repeat(ctx, r.read) })
	return r
}

// Stop waits until running attempts have ended. It returns why the journal is not complete.
func (r *Recorder) Stop() error {
	r.stop()
	r.done.Wait()
	return r.err
}

// repeat makes attempts until ctx ends. An attempt that has begun is not cut short, because it
// would count as failed.
func (r *Recorder) repeat(ctx context.Context, attempt func(ctx context.Context, n int) (journal.Attempt, bool)) {
	ticker := time.NewTicker(r.options.Interval)
	defer ticker.Stop()
	for n := 1; ctx.Err() == nil; n++ {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.options.Timeout)
		began := time.Now()
		a, ok := attempt(limited, n)
		a.Began, a.Ended = began, time.Now()
		cancel()
		if ok {
			r.record(a)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// record adds an attempt to the journal. A journal that cannot be written ends the Recorder.
func (r *Recorder) record(a journal.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := journal.Append(r.options.Journal, a); err != nil && r.err == nil {
		r.err = err
		r.stop()
	}
	if a.Operation == journal.Write && !a.Failed() {
		r.last = a.Number
	}
}

func (r *Recorder) write(ctx context.Context, number int) (journal.Attempt, bool) {
	a := journal.Attempt{Operation: journal.Write, Number: number}
	revision, err := r.options.API.Write(ctx, number, journal.Value(number))
	a.Revision = revision
	if err != nil {
		a.Error = err.Error()
	}
	return a, true
}

// read asks for the last acknowledged write; there may be none yet.
func (r *Recorder) read(ctx context.Context, _ int) (journal.Attempt, bool) {
	r.mu.Lock()
	a := journal.Attempt{Operation: journal.Read, Number: r.last}
	r.mu.Unlock()
	if a.Number == 0 {
		return a, false
	}
	value, err := r.options.API.Read(ctx, a.Number)
	switch {
	case errors.Is(err, ErrMissing):
		a.Wrong = fmt.Sprintf("write %d was acknowledged, and a later read does not find it", a.Number)
	case err != nil:
		a.Error = err.Error()
	case value != journal.Value(a.Number):
		a.Wrong = fmt.Sprintf("a read after write %d returns another value: %q", a.Number, value)
	}
	return a, true
}
