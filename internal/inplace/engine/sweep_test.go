package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/contract"
)

// logged returns a context whose log adds its lines to lines.
func logged(ctx context.Context, lines *[]string) context.Context {
	var mu sync.Mutex
	return log.IntoContext(ctx, logr.New(funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		*lines = append(*lines, line)
	}, funcr.Options{}).GetSink()))
}

// sweptMachine is a Machine that a sweep looks at: a leftover, or one that it follows.
func sweptMachine(namespace, name string, followed bool) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + name),
		Labels:      map[string]string{clusterv1.ClusterNameLabel: "c"},
		Annotations: map[string]string{v1alpha1.UpdateProgressAnnotation: strings.Repeat("x", 200)},
	}}
	if followed {
		m.Annotations[clusterv1.UpdateInProgressAnnotation] = ""
		m.Annotations[BlockMoveAnnotation] = blockMoveValue
	}
	return m
}

// TestSweepServesAllTenants has a tenant with 1,000 Machines, about each of which a sweep waits for the
// whole budget. Another tenant's Machine is served meanwhile, and the sweep ends.
func TestSweepServesAllTenants(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		followed bool
		// reads is how often a Machine is read.
		reads int
	}{"leftovers": {false, 1}, "moves": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				objects := []client.Object{sweptMachine(modest, "m", tt.followed)}
				for _, namespace := range []string{greedy, modest} {
					objects = append(objects, &clusterv1.Cluster{
						ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"},
						Spec:       clusterv1.ClusterSpec{Paused: new(true)},
					})
				}
				for i := range greedyObjects {
					objects = append(objects, sweptMachine(greedy, fmt.Sprint("g", i), tt.followed))
				}
				e, slow := newSlowEngine(t, objects...)
				for sweep := 1; sweep <= 2; sweep++ {
					done := make(chan error)
					go func() { done <- e.SweepMachines(t.Context()) }()
					synctest.Wait()
					during := slow.counts()
					if during.now != sweptOfTenant || during.modest == 0 {
						t.Errorf("sweep %d: %d Machines of the greedy tenant are served at once, %d of the other",
							sweep, during.now, during.modest)
					}
					if err := <-done; err != nil {
						t.Error(err)
					}
					if got := slow.counts().ended; got != sweep*sweptOfTenant*tt.reads {
						t.Errorf("sweep %d: %d reads of the greedy tenant ended", sweep, got)
					}
				}
			})
		})
	}
}

// TestSweepOfUnreadableRecords reads a record that cannot be read once for each version, a bounded
// number of them in each sweep, and logs one short line per change.
func TestSweepOfUnreadableRecords(t *testing.T) {
	t.Parallel()
	const machines = 2*sweptEach + 1
	var objects []client.Object
	for i := range machines {
		objects = append(objects, sweptMachine("ns", fmt.Sprintf("m%04d", i), false))
	}
	e, _ := newSlowEngine(t, objects...)
	var mu sync.Mutex
	reads := 0
	live, ok := e.Live.(client.WithWatch)
	if !ok {
		t.Fatalf("the client is a %T", e.Live)
	}
	e.Live = interceptor.NewClient(live, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			mu.Lock()
			reads++
			mu.Unlock()
			return c.Get(ctx, key, o, opts...)
		},
	})
	var lines []string
	sweep := func(want int) {
		t.Helper()
		reads = 0
		if err := e.SweepMachines(logged(t.Context(), &lines)); err != nil || reads != want {
			t.Errorf("%d live reads, want %d, %v", reads, want, err)
		}
	}
	for _, want := range []int{sweptEach, sweptEach, 1, 0, 0} {
		sweep(want)
	}
	if len(lines) != 3 || !strings.Contains(lines[0], "m0000") ||
		!strings.Contains(lines[0], "and 253 more") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	for _, line := range lines {
		if len(line) > 2*maxProblems*maxProblemBytes {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
	// Any change has the record read again, and the problem, which is the same, is not logged again.
	last := &clusterv1.Machine{}
	key := client.ObjectKeyFromObject(objects[machines-1])
	if err := e.Client.Get(t.Context(), key, last); err != nil {
		t.Fatal(err)
	}
	last.Labels["changed"] = ""
	if err := e.Client.Update(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	before := len(lines)
	sweep(1)
	sweep(0)
	if len(lines) != before {
		t.Errorf("the same problem is logged again: %q", lines[before:])
	}
}

// TestSweepTakesTurns has a namespace with more objects than one sweep looks at: each is looked at
// before any is looked at twice, and those of another namespace always.
func TestSweepTakesTurns(t *testing.T) {
	t.Parallel()
	const objects = 4*sweptEach - 1
	s := newSweeper("Sweeping", time.Now)
	var mu sync.Mutex
	counts := map[types.NamespacedName]int{}
	newTask := func(namespace string, i int) task {
		key := types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("o", i)}
		return task{key, func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			counts[key]++
			return errors.New(strings.Repeat("x", 1000))
		}}
	}
	var lines []string
	for range 8 {
		tasks := []task{newTask("few", 0)}
		for i := range objects {
			tasks = append(tasks, newTask("many", i))
		}
		s.sweep(logged(t.Context(), &lines), tasks)
	}
	total := 0
	for key, n := range counts {
		if key.Namespace == "few" {
			if n != 8 {
				t.Errorf("%s: %d times", key, n)
			}
			continue
		}
		if total += n; n < 2 || n > 3 {
			t.Errorf("%s: %d times", key, n)
		}
	}
	if total != 8*sweptEach || len(counts) != objects+1 || len(lines) != 2 {
		t.Errorf("%d times in all, %d objects, lines %q", total, len(counts), lines)
	}
}

// TestMemoriesAreBounded: what the engine remembers of Machines and MachineSets grows with neither.
func TestMemoriesAreBounded(t *testing.T) {
	t.Parallel()
	e, now := New(Options{Now: time.Now}), time.Now()
	for i := range 2 * max(mostUnreadable, mostGroups) {
		uid := types.UID(fmt.Sprint("uid-", i))
		e.unreadable.Put(uid, "1", now, sayAgainAfter)
		e.setGroups.Put(setKey{uid: uid}, contract.Group{}, now, groupLifetime)
	}
	if n := e.unreadable.Len(); n > mostUnreadable {
		t.Errorf("%d Machines with unreadable records are remembered, want at most %d", n, mostUnreadable)
	}
	if n := e.setGroups.Len(); n > mostGroups {
		t.Errorf("the groups of %d MachineSets are remembered, want at most %d", n, mostGroups)
	}
}
