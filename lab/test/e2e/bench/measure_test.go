package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// topologyResources are those that nobody but the topology controller applies.
func topologyResources() []string {
	return []string{
		"kubeadmcontrolplanes", "machinedeployments", "machinepools", "machinehealthchecks", "devclusters", "devmachinetemplates", "kubeadmconfigtemplates",
	}
}

// The managers run with their profilers on, under one name. The plane has a network of its own, so the port is free.
const (
	managerName     = "measured"
	profilerAddress = "127.0.0.1:9790"
)

func profilerArgs() []string { return []string{"--profiler-address=" + profilerAddress} }

// controllerFrames matches the functions of each engine's topology controller in a profile's stacks.
func controllerFrames(e setup.Engine) string {
	if e == setup.EngineWindlass {
		return `windlass/internal/controller/topology\.`
	}
	return `core/reconcilers/topology/cluster\.`
}

// figures are what was counted up to one moment; the difference of two is a measurement.
type figures struct {
	at time.Time
	// requests counts what the API server was asked, by verb, dry run, resource and subresource.
	requests map[string]float64
	// reconciles of the topology controller, and the seconds that they took.
	reconciles, reconcileSeconds float64
	cpu, apiServerCPU            time.Duration
	rss, peak                    int64
	// clusterWrites are the versions of Clusters in which something is new that only the topology controller writes.
	clusterWrites int
	machines      int
}

// measured is what happened between two moments.
type measured struct {
	figures
	took time.Duration
	// controllerCPU is the part of the manager's CPU in which the topology controller was on the stack, by profile.
	controllerCPU time.Duration
	profile       string
}

type meter struct {
	plane  *rig.Plane
	engine setup.Engine
	http   *http.Client
	dir    string
}

func newMeter(t *testing.T, p *rig.Plane, engine setup.Engine) *meter {
	t.Helper()
	return &meter{plane: p, engine: engine, dir: t.TempDir(), http: p.HTTPClient()}
}

// during measures what work does.
func (m *meter) during(ctx context.Context, t *testing.T, work func()) measured {
	t.Helper()
	before := m.read(ctx, t)
	profiled, cancel := context.WithCancel(ctx)
	var profiles []string
	var group sync.WaitGroup
	group.Go(func() { profiles = profileCPU(profiled, m.http, filepath.Join(m.dir, string(m.engine))) })
	work()
	after := m.read(ctx, t)
	cancel()
	group.Wait()
	result := measured{figures: after, took: after.at.Sub(before.at)}
	result.requests = map[string]float64{}
	for name, n := range after.requests {
		if d := n - before.requests[name]; d > 0 {
			result.requests[name] = d
		}
	}
	result.reconciles -= before.reconciles
	result.reconcileSeconds -= before.reconcileSeconds
	result.cpu -= before.cpu
	result.apiServerCPU -= before.apiServerCPU
	result.clusterWrites -= before.clusterWrites
	result.machines -= before.machines
	share, top := m.analyse(ctx, t, profiles)
	result.controllerCPU, result.profile = time.Duration(share*float64(result.cpu)), top
	return result
}

func (m *meter) read(ctx context.Context, t *testing.T) figures {
	t.Helper()
	f := figures{at: time.Now(), requests: map[string]float64{}}
	status, err := m.plane.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range status.Children {
		switch c.Name {
		case managerName:
			f.cpu, f.rss, f.peak = c.CPU, c.ResidentBytes, c.PeakResidentBytes
		case devplane.APIServer:
			f.apiServerCPU = c.CPU
		}
	}
	config := m.plane.RESTConfig()
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for line := range lines(m.get(ctx, t, transport, config.Host+"/metrics")) {
		if labels, n, ok := sample(line, "apiserver_request_total"); ok {
			if name, write := requestName(labels); write {
				f.requests[name] += n
			}
		}
	}
	for line := range lines(m.get(ctx, t, m.http, m.diagnostics(ctx, t)+"/metrics")) {
		if labels, n, ok := sample(line, "controller_runtime_reconcile_total"); ok && labels["controller"] == "topology/cluster" {
			f.reconciles += n
		}
		if labels, n, ok := sample(line, "controller_runtime_reconcile_time_seconds_sum"); ok && labels["controller"] == "topology/cluster" {
			f.reconcileSeconds += n
		}
	}
	f.clusterWrites, f.machines = clusterWrites(m.plane.History), len(m.plane.History.Machines(namespace))
	return f
}

// clusterWrites counts the versions of Clusters in which something is new that only the topology controller writes.
func clusterWrites(h rig.History) int {
	writes, before := 0, map[types.UID]string{}
	for _, f := range h.Facts(func(f history.Fact) bool { return f.Kind == history.KindCluster }) {
		o, ok := f.Object.(*clusterv1.Cluster)
		if !ok {
			continue
		}
		plans := [2][]clusterv1.StatusUpgradePlanVersion{}
		if o.Status.ControlPlane != nil {
			plans[0] = o.Status.ControlPlane.UpgradePlan
		}
		if o.Status.Workers != nil {
			plans[1] = o.Status.Workers.UpgradePlan
		}
		deprecated := v1beta1conditions.Get(o, clusterv1.TopologyReconciledV1Beta1Condition)
		written := fmt.Sprint(o.Annotations, f.Reconciled(), deprecated, plans, o.Spec.ControlPlaneRef, o.Spec.InfrastructureRef)
		if written != before[f.UID] {
			writes++
		}
		before[f.UID] = written
	}
	return writes
}

// diagnostics is the address of the manager's metrics and profiles.
func (m *meter) diagnostics(ctx context.Context, t *testing.T) string {
	t.Helper()
	status, err := m.plane.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range status.Children {
		for _, argument := range c.Command {
			if address, ok := strings.CutPrefix(argument, "--diagnostics-address="); ok && c.Name == managerName {
				return "http://" + address
			}
		}
	}
	t.Fatalf("no process %s has a diagnostics address", managerName)
	return ""
}

func (m *meter) get(ctx context.Context, t *testing.T, c *http.Client, url string) []byte {
	t.Helper()
	data, err := fetch(ctx, c, url)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func fetch(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // only read from
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return data, err
}

// profileCPU takes profiles of the manager's CPU, one after another, until ctx ends or one fails. The
// names of the files begin with prefix.
func profileCPU(ctx context.Context, c *http.Client, prefix string) (files []string) {
	for ctx.Err() == nil {
		data, err := fetch(ctx, c, "http://"+profilerAddress+"/debug/pprof/profile?seconds=10")
		file := fmt.Sprintf("%s-cpu-%03d.pprof", prefix, len(files))
		if err != nil || os.WriteFile(file, data, 0o600) != nil {
			return files
		}
		files = append(files, file)
	}
	return files
}

// analyse returns which share of the samples has the topology controller on its stack, and where its time goes.
func (m *meter) analyse(ctx context.Context, t *testing.T, files []string) (share float64, top string) {
	t.Helper()
	if len(files) == 0 {
		return 0, "no profile"
	}
	args := append([]string{"tool", "pprof", "-top", "-cum", "-nodefraction=0", "-edgefraction=0", "-nodecount=70", "-focus=" + controllerFrames(m.engine)}, files...)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, err.Error() + "\n" + stderr.String()
	}
	// The share is that of the frame at the bottom of the focused stacks: what has the highest cumulative value.
	for line := range lines(out) {
		if fields := strings.Fields(line); len(fields) > 5 && strings.HasSuffix(fields[4], "%") {
			percent, err := strconv.ParseFloat(strings.TrimSuffix(fields[4], "%"), 64)
			if err == nil {
				share = max(share, percent/100)
			}
		}
	}
	return share, string(out)
}

func lines(data []byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		scanner := bufio.NewScanner(bytes.NewReader(data))
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			if !yield(scanner.Text()) {
				return
			}
		}
	}
}

var label = regexp.MustCompile(`(\w+)="([^"]*)"`)

// sample reads a line of Prometheus' text format.
func sample(line, metric string) (labels map[string]string, value float64, ok bool) {
	rest, ok := strings.CutPrefix(line, metric+"{")
	if !ok {
		return nil, 0, false
	}
	end := strings.LastIndex(rest, "} ")
	if end < 0 {
		return nil, 0, false
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(rest[end+2:]), 64)
	if err != nil {
		return nil, 0, false
	}
	labels = map[string]string{}
	for _, pair := range label.FindAllStringSubmatch(rest[:end], -1) {
		labels[pair[1]] = pair[2]
	}
	return labels, value, true
}

// requestName names a request that writes, or would, were it no dry run.
func requestName(labels map[string]string) (name string, writes bool) {
	if !slices.Contains([]string{"APPLY", "PATCH", "POST", "PUT", "DELETE", "DELETECOLLECTION"}, labels["verb"]) || !strings.HasSuffix(labels["group"], clusterv1.GroupVersion.Group) {
		return "", false
	}
	name = labels["verb"] + " " + labels["resource"]
	if sub := labels["subresource"]; sub != "" {
		name += "/" + sub
	}
	if labels["dry_run"] != "" {
		name = dryRun + name
	}
	if labels["code"] == strconv.Itoa(http.StatusConflict) {
		name += " (conflict)"
	}
	return name, true
}

const dryRun = "dry run "

// writes counts requests, dry runs apart.
func (f figures) writes() (written, dry float64) {
	for name, n := range f.requests {
		if strings.HasPrefix(name, dryRun) {
			dry += n
		} else {
			written += n
		}
	}
	return written, dry
}

// topologyWrites counts what the topology controller has written of its objects, Clusters apart, and its dry runs.
func (f figures) topologyWrites() (written, dry float64) {
	for _, resource := range topologyResources() {
		written += f.requests["APPLY "+resource]
		dry += f.requests[dryRun+"APPLY "+resource]
	}
	return written, dry
}

// most lists the requests of which there were most.
func (f figures) most(n int) []string {
	names := slices.Sorted(maps.Keys(f.requests))
	slices.SortStableFunc(names, func(a, b string) int { return int(f.requests[b] - f.requests[a]) })
	return names[:min(n, len(names))]
}
