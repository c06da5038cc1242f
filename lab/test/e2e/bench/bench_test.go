// Package bench_test measures the project's engine beside the stock one: the same manifests on planes of the same kind.
package bench_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

var (
	clusters     = flag.Int("clusters", 50, "how many small Clusters there are at once; 0 leaves that part out")
	large        = flag.Bool("large", true, "upgrade one Cluster with two pools by four minors")
	replicas     = flag.Int("replicas", 5, "machines of each pool of that Cluster")
	controlPlane = flag.Int("control-plane", 3, "machines of its control plane")
	restFor      = flag.Duration("rest", 3*time.Minute, "how long the small Clusters are measured at rest")
	chain        = flag.Bool("chain", true, "upgrade all small Clusters by two minors at once")
	profiles     = flag.Bool("profiles", false, "print where the topology controller's CPU goes")
	engines      = flag.String("engines", "stock,windlass", "which engines are measured")
)

const (
	namespace = "bench"
	limit     = 3 * time.Hour
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

func versions() []string { return []string{"v1.29.0", "v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0"} }

// TestSideBySide prints a table for each part. It fails only when an engine does not get there: figures are for people to judge.
func TestSideBySide(t *testing.T) {
	if os.Getenv("WINDLASS_BENCH") != "1" {
		t.Skip("set WINDLASS_BENCH=1 to measure engines side by side; it takes an hour")
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	results := map[string]map[setup.Engine]measured{}
	for name := range strings.SplitSeq(*engines, ",") {
		engine, err := setup.ParseEngine(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			for part, result := range measure(ctx, t, engine) {
				if results[part] == nil {
					results[part] = make(map[setup.Engine]measured)
				}
				results[part][engine] = result
			}
		})
	}
	for _, part := range slices.Sorted(maps.Keys(results)) {
		t.Logf("%s\n%s", part, table(results[part]))
		for _, engine := range slices.Sorted(maps.Keys(results[part])) {
			if *profiles {
				t.Logf("%s, %s:\n%s", part, engine, results[part][engine].profile)
			}
		}
	}
}

// measure does all parts with one engine, on one plane.
func measure(ctx context.Context, t *testing.T, engine setup.Engine) map[string]measured {
	t.Helper()
	p := rig.StartAs(ctx, t, engine, managerName, profilerArgs())
	p.Namespace(ctx, t, namespace, nil)
	p.ApplyClass(ctx, t, namespace, rig.Class{Versions: versions()})
	m := newMeter(t, p, engine)
	v, results := versions(), map[string]measured{}
	part := func(name string, work func()) {
		results[name] = m.during(ctx, t, work)
		alone := make(map[setup.Engine]measured)
		alone[engine] = results[name]
		t.Logf("%s, %s\n%s", engine, name, table(alone))
	}
	if *large {
		key := types.NamespacedName{Namespace: namespace, Name: "large"}
		pools := []rig.Group{{Name: "md-0", Replicas: int32(*replicas)}, {Name: "md-1", Replicas: int32(*replicas)}}
		part("1 one Cluster, creation", func() {
			create(ctx, t, p, key, v[0], int32(*controlPlane), pools...)
			p.AwaitArrived(ctx, t, key, v[0])
		})
		part("2 one Cluster, chain of four minors", func() { send(ctx, t, p, v[4], key) })
	}
	if *clusters > 0 {
		var keys []types.NamespacedName
		for i := range *clusters {
			keys = append(keys, types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("c%03d", i)})
		}
		part(fmt.Sprintf("3 %d Clusters, creation", *clusters), func() {
			for _, key := range keys {
				create(ctx, t, p, key, v[2], 1, rig.Group{Name: "md-0", Replicas: 1})
			}
			for _, key := range keys {
				p.AwaitArrived(ctx, t, key, v[2])
			}
		})
		part(fmt.Sprintf("4 %d Clusters at rest", *clusters), func() {
			select {
			case <-time.After(*restFor):
			case <-ctx.Done():
				t.Fatal(context.Cause(ctx))
			}
		})
		if *chain {
			part(fmt.Sprintf("5 %d Clusters, chains of two minors", *clusters), func() { send(ctx, t, p, v[4], keys...) })
		}
	}
	return results
}

func create(ctx context.Context, t *testing.T, p *rig.Plane, key types.NamespacedName, version string, controlPlane int32, groups ...rig.Group) {
	t.Helper()
	if err := p.Client.Create(ctx, rig.NewCluster(key, version, controlPlane, groups...)); err != nil {
		t.Fatal(err)
	}
}

// send upgrades Clusters and waits until all have arrived.
func send(ctx context.Context, t *testing.T, p *rig.Plane, to string, keys ...types.NamespacedName) {
	t.Helper()
	for _, key := range keys {
		p.SetTarget(ctx, t, key, to)
	}
	for _, key := range keys {
		p.AwaitArrived(ctx, t, key, to)
	}
}

// table puts the engines beside each other, with the ratio of ours to stock.
func table(results map[setup.Engine]measured) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value func(measured) float64) {
		stock, ours := value(results[setup.EngineStock]), value(results[setup.EngineWindlass])
		ratio := "-"
		if stock > 0 {
			ratio = fmt.Sprintf("%.2f", ours/stock)
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%s\t\n", name, stock, ours, ratio)
	}
	fmt.Fprintln(w, "\tstock\twindlass\tratio\t")
	row("duration, s", func(m measured) float64 { return m.took.Seconds() })
	row("machines made", func(m measured) float64 { return float64(m.machines) })
	row("topology controller: writes of Clusters", func(m measured) float64 { return float64(m.clusterWrites) })
	row("topology controller: applies", func(m measured) float64 { n, _ := m.topologyWrites(); return n })
	row("topology controller: dry runs", func(m measured) float64 { _, dry := m.topologyWrites(); return dry })
	row("topology controller: all requests that write", func(m measured) float64 {
		n, dry := m.topologyWrites()
		return n + dry + float64(m.clusterWrites)
	})
	row("topology controller: reconciles", func(m measured) float64 { return m.reconciles })
	row("topology controller: CPU, s (profile)", func(m measured) float64 { return m.controllerCPU.Seconds() })
	row("topology controller: time in reconciles, s", func(m measured) float64 { return m.reconcileSeconds })
	row("manager: CPU, s", func(m measured) float64 { return m.cpu.Seconds() })
	row("manager: RSS at the end, MB", func(m measured) float64 { return float64(m.rss) / 1e6 })
	row("manager: most RSS, MB", func(m measured) float64 { return float64(m.peak) / 1e6 })
	row("API server: CPU, s", func(m measured) float64 { return m.apiServerCPU.Seconds() })
	row("API writes, all of Cluster API", func(m measured) float64 { n, _ := m.writes(); return n })
	row("dry runs, all of Cluster API", func(m measured) float64 { _, dry := m.writes(); return dry })
	const most = 14
	names := results[setup.EngineStock].most(most)
	for _, name := range results[setup.EngineWindlass].most(most) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		row(name, func(m measured) float64 { return m.requests[name] })
	}
	fmt.Fprintln(w)
	_ = w.Flush() // to memory
	return text.String()
}
