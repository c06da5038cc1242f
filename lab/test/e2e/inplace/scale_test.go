package inplace_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const (
	manyMachines = 100
	// mostWrites is how many writes to the API server the extension may add for a machine.
	mostWrites = 4
	// fixedWrites are allowed besides, however many machines there are: decisions, and what is recorded of updaters and policies.
	fixedWrites = 30
)

// TestHundred updates a hundred machines in place at once, and measures what that costs.
func TestHundred(t *testing.T) {
	if !long() {
		t.Skip("set WINDLASS_LONG=1 to update a hundred machines at once")
	}
	ctx, p := start(t)
	many := rig.Pool{Name: "many", Replicas: manyMachines, MaxUnavailable: manyMachines, Policy: v1alpha1.UpdatePolicySpec{MaxInFlight: manyMachines}}
	p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: many.Name, Selector: rig.Labelled("pool", many.Name), Duration: 5 * time.Second})
	p.CreatePools(ctx, t, rig.PoolsCluster, []rig.Pool{many})
	p.AwaitPool(ctx, t, many.Name, rig.FirstVersion, manyMachines)
	p.awaitStatus(ctx, t, many.Name, manyMachines)
	before := p.Census(rig.PoolsCluster, nil)
	writes, ours := p.serverWrites(ctx, t), p.extensionWrites(ctx, t)
	began := time.Now()
	p.Send(ctx, t, many.Name, "v1.31.1")
	p.AwaitPool(ctx, t, many.Name, "v1.31.1", manyMachines)
	took := time.Since(began)
	rig.CheckCensus(t, before, p.Census(rig.PoolsCluster, nil))

	all := difference(p.serverWrites(ctx, t), writes)
	added := p.extensionWrites(ctx, t) - ours
	total := 0.0
	for _, resource := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%6.0f writes of %s", all[resource], resource)
		total += all[resource]
	}
	t.Logf("%d machines took %.0f s; %.1f writes for each, of which the extension's %.1f; the extension's memory is %s",
		manyMachines, took.Seconds(), total/manyMachines, added/manyMachines, p.extensionMemory(ctx, t))
	if added > mostWrites*manyMachines+fixedWrites {
		t.Errorf("the extension wrote %.0f times, want at most %d for each of %d machines and %d besides", added, mostWrites, manyMachines, fixedWrites)
	}
}

// awaitStatus waits until the status of a pool's MachineSets tells of all its machines. A rollout that begins before that has
// Cluster API v1.14.2 count machines as missing that are there: it scales the new MachineSet up in the place of moving
// them, and then deletes them. The guard refuses both, and the rollout stands still.
func (p *plane) awaitStatus(ctx context.Context, t *testing.T, name string, replicas int32) {
	t.Helper()
	p.History.Await(ctx, t, "waiting for the status of the MachineSets of "+name, func() string {
		sets := &clusterv1.MachineSetList{}
		if err := p.History.List(ctx, sets, client.InNamespace(rig.PoolsCluster), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: name}); err != nil {
			return err.Error()
		}
		have, available := int32(0), int32(0)
		for i := range sets.Items {
			status := sets.Items[i].Status
			if status.Replicas != nil && status.AvailableReplicas != nil {
				have, available = have+*status.Replicas, available+*status.AvailableReplicas
			}
		}
		if have != replicas || available != replicas {
			return fmt.Sprintf("%d machines, %d of them available", have, available)
		}
		return ""
	})
}

func difference(after, before map[string]float64) map[string]float64 {
	changed := map[string]float64{}
	for key, value := range after {
		if d := value - before[key]; d > 0 {
			changed[key] = d
		}
	}
	return changed
}

// serverWrites reads how many requests that write the API server has answered, by resource. Leases are left out.
func (p *plane) serverWrites(ctx context.Context, t *testing.T) map[string]float64 {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	writes := map[string]float64{}
	for _, s := range scrape(ctx, t, httpClient, p.RESTConfig().Host+"/metrics", "apiserver_request_total") {
		if !writing(s.labels["verb"]) || !strings.HasPrefix(s.labels["code"], "2") || s.labels["resource"] == "leases" || s.labels["dry_run"] != "" {
			continue
		}
		name := s.labels["resource"]
		if sub := s.labels["subresource"]; sub != "" {
			name += "/" + sub
		}
		writes[name] += s.value
	}
	return writes
}

// extensionWrites reads how many writes the extension has sent to the API server, by its own account. Those to workload
// clusters do not count.
func (p *plane) extensionWrites(ctx context.Context, t *testing.T) float64 {
	t.Helper()
	status, err := p.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(status.Inside.Server)
	if err != nil {
		t.Fatal(err)
	}
	httpClient := p.Inside(&http.Transport{})
	address := fmt.Sprintf("http://127.0.0.1:%d/metrics", p.extension(ctx, t).Ports[setup.MetricsPort])
	sum := 0.0
	for _, s := range scrape(ctx, t, httpClient, address, "rest_client_requests_total") {
		if writing(s.labels["method"]) && s.labels["host"] == server.Host {
			sum += s.value
		}
	}
	if sum == 0 {
		t.Fatalf("the extension's metrics know of no write to %s", server.Host)
	}
	return sum
}

func writing(verb string) bool {
	return slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "APPLY"}, verb)
}

func (p *plane) extension(ctx context.Context, t *testing.T) devplane.ChildStatus {
	t.Helper()
	status, err := p.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range status.Children {
		if child.Name == setup.ExtensionName {
			return child
		}
	}
	t.Fatal("the extension does not run")
	return devplane.ChildStatus{}
}

// extensionMemory says how much memory the extension has now, and had at most where the system tells.
func (p *plane) extensionMemory(ctx context.Context, t *testing.T) string {
	t.Helper()
	const mega = 1 << 20
	child := p.extension(ctx, t)
	text := fmt.Sprintf("%d MB", child.ResidentBytes/mega)
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", child.PID))
	if err != nil {
		return text
	}
	for line := range strings.Lines(string(data)) {
		if peak, is := strings.CutPrefix(line, "VmHWM:"); is {
			text += ", at most " + strings.Join(strings.Fields(peak), " ")
		}
	}
	return text
}

// sample is one line of metrics.
type sample struct {
	labels map[string]string
	value  float64
}

var (
	sampleLine  = regexp.MustCompile(`^(\w+)\{(.*)\} (\S+)$`)
	sampleLabel = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// scrape reads the samples of one metric, in the text format of Prometheus.
func scrape(ctx context.Context, t *testing.T, httpClient *http.Client, address, metric string) []sample {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // only read from
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("%s: %s %s", address, response.Status, body)
	}
	var samples []sample
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		parts := sampleLine.FindStringSubmatch(lines.Text())
		if len(parts) == 0 || parts[1] != metric {
			continue
		}
		value, err := strconv.ParseFloat(parts[3], 64)
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		s := sample{labels: map[string]string{}, value: value}
		for _, label := range sampleLabel.FindAllStringSubmatch(parts[2], -1) {
			s.labels[label[1]] = label[2]
		}
		samples = append(samples, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return samples
}
