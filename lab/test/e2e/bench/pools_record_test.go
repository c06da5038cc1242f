package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/requests"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// usage is what a process used. CPU is that of a measurement; memory is that at its end.
type usage struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	// RSSBytes has the pages of the program's file, too; AnonymousBytes has not. 0 means unknown.
	RSSBytes       int64   `json:"rssBytes"`
	AnonymousBytes int64   `json:"anonymousBytes,omitempty"`
	HeapBytes      float64 `json:"heapBytes"`
	// Reconciles by controller.
	Reconciles map[string]float64 `json:"reconciles,omitempty"`
}

// minus returns what was used after before.
func (u usage) minus(before usage) usage {
	u.CPUSeconds -= before.CPUSeconds
	reconciles := map[string]float64{}
	for name, n := range u.Reconciles {
		if d := n - before.Reconciles[name]; d > 0 {
			reconciles[name] = d
		}
	}
	u.Reconciles = reconciles
	return u
}

// plus adds CPU and reconciles. The memory is that of the later one.
func (u usage) plus(later usage) usage {
	later.CPUSeconds += u.CPUSeconds
	reconciles := map[string]float64{}
	for _, part := range []usage{u, later} {
		for name, n := range part.Reconciles {
			reconciles[name] += n
		}
	}
	later.Reconciles = reconciles
	return later
}

func (u usage) reconciles(controllers ...string) float64 {
	sum := 0.0
	for name, n := range u.Reconciles {
		for _, controller := range controllers {
			if name == controller {
				sum += n
			}
		}
		if len(controllers) == 0 {
			sum += n
		}
	}
	return sum
}

// outcome is what happened while something was measured.
type outcome struct {
	Machines int `json:"machines"`
	// Seconds is the time until the machines were where they should be.
	Seconds float64 `json:"seconds"`
	// HandOver has for each pool the seconds from its change to the first update of a machine.
	HandOver []float64 `json:"handOverSeconds,omitempty"`
	// Writes are the requests that write objects of Cluster API, also those that fail or change nothing.
	// OtherWrites are about other objects, such as Events and Secrets. DryRuns are in neither.
	Writes      int `json:"writes"`
	OtherWrites int `json:"otherWrites"`
	DryRuns     int `json:"dryRuns"`
	Conflicts   int `json:"conflicts"`
	// Requests are all but watches and those about leases.
	Requests int `json:"requests"`
	// ByRequest has all writes by user, verb and resource.
	ByRequest map[string]int `json:"byRequest"`
	Manager   usage          `json:"manager"`
	Extension usage          `json:"extension"`
}

// plus returns the sum of two measurements on one plane.
func (o outcome) plus(later outcome) outcome {
	later.Machines += o.Machines
	later.Seconds += o.Seconds
	later.HandOver = slices.Concat(o.HandOver, later.HandOver)
	later.Writes += o.Writes
	later.OtherWrites += o.OtherWrites
	later.DryRuns += o.DryRuns
	later.Conflicts += o.Conflicts
	later.Requests += o.Requests
	by := map[string]int{}
	for _, part := range []outcome{o, later} {
		for name, n := range part.ByRequest {
			by[name] += n
		}
	}
	later.ByRequest = by
	later.Manager, later.Extension = o.Manager.plus(later.Manager), o.Extension.plus(later.Extension)
	return later
}

func (o outcome) perMachine(n int) float64 {
	if o.Machines == 0 {
		return 0
	}
	return float64(n) / float64(o.Machines)
}

// cpuSeconds is the CPU of the manager and of the extension, which does what either manager asks for.
func (o outcome) cpuSeconds() float64 { return o.Manager.CPUSeconds + o.Extension.CPUSeconds }

// recorder measures what happens on a plane.
type recorder struct {
	plane  *rig.Plane
	engine setup.Engine
	part   string
	log    *requests.Log
	http   *http.Client
	// measured counts the measurements whose profiles are written.
	measured int
}

func newRecorder(p *rig.Plane, engine setup.Engine, part string) *recorder {
	return &recorder{
		plane: p, engine: engine, part: part, log: requests.NewLog(p.AuditLog()), http: p.HTTPClient(),
	}
}

// during measures what work causes, up to the last write that follows from it. The plane is quiet before.
func (r *recorder) during(ctx context.Context, t *testing.T, machines int, work func()) outcome {
	t.Helper()
	r.awaitQuiet(ctx, t)
	manager, extension := r.usage(ctx, t, managerName), r.usage(ctx, t, setup.ExtensionName)
	endProfiles := r.beginProfiles(ctx, t)
	began := time.Now()
	work()
	took := time.Since(began)
	o := counted(r.awaitQuiet(ctx, t))
	o.Machines, o.Seconds = machines, took.Seconds()
	o.Manager = r.usage(ctx, t, managerName).minus(manager)
	o.Extension = r.usage(ctx, t, setup.ExtensionName).minus(extension)
	endProfiles()
	return o
}

// beginProfiles profiles the manager's CPU until the function that it returns is called. That one
// writes the heap, too.
func (r *recorder) beginProfiles(ctx context.Context, t *testing.T) (end func()) {
	t.Helper()
	if *poolsPprof == "" {
		return func() {}
	}
	r.measured++
	prefix := filepath.Join(*poolsPprof, fmt.Sprintf("%s-%s-%d", r.engine, r.part, r.measured))
	profiled, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { profileCPU(profiled, r.http, prefix) })
	return func() {
		cancel()
		group.Wait()
		heap, err := fetch(ctx, r.http, "http://"+profilerAddress+"/debug/pprof/heap?gc=1")
		if err == nil {
			err = os.WriteFile(prefix+"-heap.pprof", heap, 0o600)
		}
		if err != nil {
			t.Errorf("writing the profile of the heap: %v", err)
		}
	}
}

// counted counts the requests of everybody but the test itself.
func counted(all []requests.Request) outcome {
	o := outcome{ByRequest: map[string]int{}}
	for _, r := range all {
		if r.User == testUser || r.Resource == "leases" {
			continue
		}
		o.Requests++
		if r.Conflict() {
			o.Conflicts++
		}
		if r.DryRun {
			o.DryRuns++
		}
		if !r.Writes() {
			continue
		}
		if r.ClusterAPI() {
			o.Writes++
		} else {
			o.OtherWrites++
		}
		o.ByRequest[shortUser(r.User)+" "+r.String()]++
	}
	return o
}

// testUser is the user of tests, of the plane's supervisor and of simulated updaters.
const testUser = "windlass-dev-admin"

// shortUser returns the name of a ServiceAccount without its namespace, and of others their name.
func shortUser(user string) string { return user[strings.LastIndexByte(user, ':')+1:] }

const (
	// quietFor is how long nobody writes after the last write that follows from a change: longer than
	// the time after which controllers look at an object again.
	quietFor = 4 * time.Second
	// quietWithin bounds the wait, for an engine that never stops writing.
	quietWithin = 90 * time.Second
	quietPoll   = 250 * time.Millisecond
)

// awaitQuiet waits until nobody has written objects of Cluster API for some time, and returns all
// requests since the last call.
func (r *recorder) awaitQuiet(ctx context.Context, t *testing.T) []requests.Request {
	t.Helper()
	var all []requests.Request
	began := time.Now()
	ticker := time.NewTicker(quietPoll)
	defer ticker.Stop()
	for last := began; time.Since(last) < quietFor && time.Since(began) < quietWithin; {
		found, err := r.log.Next()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
		writes := requests.Select(found, func(r requests.Request) bool { return r.Writes() && r.ClusterAPI() })
		if len(writes) > 0 {
			last = time.Now()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
	return all
}

// usage reads what a process of the plane has used so far.
func (r *recorder) usage(ctx context.Context, t *testing.T, name string) usage {
	t.Helper()
	child := r.child(ctx, t, name)
	u := usage{
		CPUSeconds: child.CPU.Seconds(), RSSBytes: child.ResidentBytes, AnonymousBytes: anonymous(child.PID),
		Reconciles: map[string]float64{},
	}
	data, err := fetch(ctx, r.http, "http://"+diagnosticsAddress(child)+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range lines(data) {
		if labels, n, ok := sample(line, "controller_runtime_reconcile_total"); ok {
			u.Reconciles[labels["controller"]] += n
		}
		if value, ok := strings.CutPrefix(line, "go_memstats_heap_alloc_bytes "); ok {
			u.HeapBytes, _ = strconv.ParseFloat(value, 64) // 0 means unknown.
		}
	}
	return u
}

func (r *recorder) child(ctx context.Context, t *testing.T, name string) devplane.ChildStatus {
	t.Helper()
	status, err := r.plane.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range status.Children {
		if child.Name == name {
			return child
		}
	}
	t.Fatalf("the plane has no process %s", name)
	return devplane.ChildStatus{}
}

// diagnosticsAddress returns where a process serves its metrics.
func diagnosticsAddress(child devplane.ChildStatus) string {
	for i, argument := range child.Command {
		if address, ok := strings.CutPrefix(argument, "--diagnostics-address="); ok {
			return address
		}
		if argument == "--diagnostics-address" && i+1 < len(child.Command) {
			return child.Command[i+1]
		}
	}
	return ""
}

// anonymous returns the memory of a process that is no part of a file; 0 if it is unknown.
func anonymous(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64) // 0 means unknown.
			return kilobytes << 10
		}
	}
	return 0
}
