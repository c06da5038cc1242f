package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/shares"
	"github.com/windlass-dev/windlass/internal/text"
)

const (
	// sweptEach is how many objects of a namespace one sweep looks at. The next sweep begins after them.
	sweptEach = 256
	// sweepTime is how long one sweep begins with objects of a namespace, from the first one on. Each
	// may then take a whole budget: an updater of the tenant may be slow to answer.
	sweepTime = 10 * time.Second
	// mostUnreadable bounds how many Machines with unreadable records are remembered. If there are more,
	// all of them are read again.
	mostUnreadable = 4096
	// maxProblems bounds the problems in a line of the log, and maxProblemBytes each.
	maxProblems, maxProblemBytes = 3, 250
)

// task is what a sweep does about one object.
type task struct {
	key types.NamespacedName
	do  func(context.Context) error
}

// sweeper carries out the tasks of many namespaces, within bounds for each, so that no namespace keeps
// others waiting. It is safe for concurrent use.
type sweeper struct {
	// what the log says that the sweeper does.
	what   string
	places *shares.Shares
	now    func() time.Time
	// last is the name of the object that the last sweep of a namespace began with last.
	last keyed.Memory[string, string]
	// said is what was logged last about a namespace.
	said *keyed.Once[string]
}

func newSweeper(what string, now func() time.Time) *sweeper {
	return &sweeper{
		what: what, now: now, places: shares.New(maxSwept, sweptOfTenant),
		said: keyed.NewOnce[string](sayAgainAfter, 0),
	}
}

// sweep carries out tasks, and returns once those that it began have ended. It logs the problems of a
// namespace in one line, once per change: one fault hides no other, and no namespace those of others.
func (s *sweeper) sweep(ctx context.Context, tasks []task) {
	byNamespace := map[string][]task{}
	for _, t := range tasks {
		byNamespace[t.key.Namespace] = append(byNamespace[t.key.Namespace], t)
	}
	var namespaces sync.WaitGroup
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		namespaces.Go(func() { s.sweepNamespace(ctx, namespace, byNamespace[namespace]) })
	}
	namespaces.Wait()
}

func (s *sweeper) sweepNamespace(ctx context.Context, namespace string, tasks []task) {
	now := s.now()
	last, _ := s.last.Get(namespace, now)
	turn := &turn{left: rotate(tasks, last)}
	var workers sync.WaitGroup
	for range min(len(turn.left), sweptOfTenant) {
		workers.Go(func() {
			release, err := s.places.Acquire(ctx, namespace)
			if err != nil {
				return // The process ends.
			}
			defer release()
			turn.work(ctx)
		})
	}
	workers.Wait()
	s.last.Put(namespace, turn.last, now, sayAgainAfter)
	if len(turn.problems) == 0 || ctx.Err() != nil {
		return
	}
	slices.Sort(turn.problems)
	message := text.JoinSome(turn.problems, maxProblems, "; ")
	if s.said.Changed(namespace, message, now) {
		logFor(ctx).Error(errors.New(message), s.what, "namespace", namespace)
	}
}

// rotate returns the tasks that one sweep may begin with, those after an object's name first.
func rotate(tasks []task, last string) []task {
	slices.SortFunc(tasks, func(a, b task) int { return strings.Compare(a.key.Name, b.key.Name) })
	first, found := slices.BinarySearchFunc(tasks, last, func(t task, name string) int {
		return strings.Compare(t.key.Name, name)
	})
	if found {
		first++
	}
	return slices.Concat(tasks[first:], tasks[:first])[:min(len(tasks), sweptEach)]
}

// turn is what one sweep does in one namespace. Several workers share it.
type turn struct {
	mu sync.Mutex
	// ends is when no task is begun any longer. It is zero until the first one is.
	ends     <-chan time.Time
	left     []task
	last     string
	problems []string
}

func (t *turn) work(ctx context.Context) {
	for {
		next, ok := t.next(ctx)
		if !ok {
			return
		}
		if err := next.withinBudget(ctx); err != nil {
			t.mu.Lock()
			t.problems = append(t.problems, text.Fit(err.Error(), maxProblemBytes))
			t.mu.Unlock()
		}
	}
}

func (t task) withinBudget(ctx context.Context) error {
	ctx, cancel := withBudget(ctx)
	defer cancel()
	return t.do(ctx)
}

func (t *turn) next(ctx context.Context) (next task, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends == nil {
		t.ends = time.After(sweepTime)
	}
	select {
	case <-ctx.Done():
		t.left = nil
	case <-t.ends:
		t.left = nil
	default:
	}
	if len(t.left) == 0 {
		return task{}, false
	}
	next, t.left = t.left[0], t.left[1:]
	t.last = next.key.Name
	return next, true
}
