package capi_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// lease returns a manager's lease that was renewed so long ago.
func lease(identity string, age time.Duration) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: capi.ManagerLease}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &identity, new(int32(15))
	l.Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-age)))
	return l
}

func TestEngine(t *testing.T) {
	t.Parallel()
	ours := func(namespace, filter string) *coordinationv1.Lease {
		return lease(capi.HolderPrefix(namespace, filter)+"capi-controller-manager-5d_8e1b", time.Second)
	}
	stock := lease("capi-controller-manager-7c_91aa", time.Second)
	none := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: capi.ManagerLease}}
	other := ours("", "")
	other.Name = "another"
	infrastructure := func(engine string) *metav1.ObjectMeta {
		o := &metav1.ObjectMeta{}
		if engine != "" {
			o.Annotations = map[string]string{v1alpha1.EngineAnnotation: engine}
		}
		return o
	}
	for name, tt := range map[string]struct {
		topology, paused bool
		filter           string
		infrastructure   *metav1.ObjectMeta
		leases           []*coordinationv1.Lease
		engine           string
		known            bool
	}{
		"nothing is read": {},
		"the annotation": {topology: true, infrastructure: infrastructure(v1alpha1.EngineManager),
			engine: v1alpha1.EngineManager, known: true},
		"no annotation": {topology: true, infrastructure: infrastructure(""),
			leases: []*coordinationv1.Lease{ours("", "")}, known: true},
		"paused, with the annotation": {
			topology: true, paused: true, infrastructure: infrastructure(v1alpha1.EngineManager),
			engine: v1alpha1.EngineManager, known: true,
		},
		"paused, without it": {topology: true, paused: true, infrastructure: infrastructure("")},
		"paused, without it, and the lease": {
			topology: true, paused: true, infrastructure: infrastructure(""),
			leases: []*coordinationv1.Lease{ours("", "")}, engine: v1alpha1.EngineManager, known: true,
		},
		"an annotation without a topology": {
			infrastructure: infrastructure(v1alpha1.EngineManager), leases: []*coordinationv1.Lease{stock},
			known: true,
		},
		"ours": {leases: []*coordinationv1.Lease{none, ours("", "")},
			engine: v1alpha1.EngineManager, known: true},
		"stock":         {leases: []*coordinationv1.Lease{stock}, known: true},
		"nobody leads":  {leases: []*coordinationv1.Lease{none}},
		"another lease": {leases: []*coordinationv1.Lease{other}},
		"long silent": {leases: []*coordinationv1.Lease{lease(capi.HolderPrefix("", "")+"a_b",
			2*time.Minute)}},
		"our namespace": {leases: []*coordinationv1.Lease{ours("team", "")},
			engine: v1alpha1.EngineManager, known: true},
		"another namespace": {leases: []*coordinationv1.Lease{ours("other", "")}},
		"our filter": {
			filter: "a_b", leases: []*coordinationv1.Lease{ours("team", "a_b"), stock},
			engine: v1alpha1.EngineManager, known: true,
		},
		"another filter": {filter: "a",
			leases: []*coordinationv1.Lease{ours("", "b"), ours("", "c")}},
		"another filter, and stock": {filter: "a", leases: []*coordinationv1.Lease{ours("", "b"), stock},
			known: true},
		"both without a filter": {leases: []*coordinationv1.Lease{ours("", ""), stock}},
		"a name that begins like us": {leases: []*coordinationv1.Lease{lease("windlass-manager-0_91aa",
			0)}, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := capi.EngineFacts{Cluster: &clusterv1.Cluster{}, Leases: tt.leases, Now: now}
			f.Cluster.Namespace = "team"
			f.Cluster.Labels = map[string]string{clusterv1.WatchLabel: tt.filter}
			f.Cluster.Spec.Paused = &tt.paused
			if tt.topology {
				f.Cluster.Spec.Topology.ClassRef.Name = "class"
			}
			if tt.infrastructure != nil {
				f.Infrastructure = tt.infrastructure
			}
			if engine, known := f.Engine(); engine != tt.engine || known != tt.known {
				t.Errorf("the engine is %q, known %t, want %q, %t", engine, known, tt.engine, tt.known)
			}
		})
	}
}

func TestSilentSince(t *testing.T) {
	t.Parallel()
	ours, other := capi.HolderPrefix("", "")+"a_b", capi.HolderPrefix("other", "")+"a_b"
	const stock, manager = "capi-controller-manager-7c_91aa", v1alpha1.EngineManager
	another := lease(ours, time.Hour)
	another.Name = "another"
	for name, tt := range map[string]struct {
		engine string
		leases []*coordinationv1.Lease
		// want is how long ago the last renewal was; 0 for none.
		want time.Duration
	}{
		"renewed":                    {engine: manager, leases: []*coordinationv1.Lease{lease(ours, time.Second)}},
		"within the slack of clocks": {engine: manager, leases: []*coordinationv1.Lease{lease(ours, 74*time.Second)}},
		"expired": {engine: manager, leases: []*coordinationv1.Lease{lease(ours, 76*time.Second)},
			want: 76 * time.Second},
		"expired, engine unknown": {leases: []*coordinationv1.Lease{lease(ours, time.Hour)}, want: time.Hour},
		"the latest of two": {engine: manager,
			leases: []*coordinationv1.Lease{lease(ours, time.Hour), lease(ours, 2*time.Hour)}, want: time.Hour},
		"released a moment ago": {engine: manager, leases: []*coordinationv1.Lease{lease("", 14*time.Second)}},
		"released": {engine: manager, leases: []*coordinationv1.Lease{lease("", 15*time.Second)},
			want: 15 * time.Second},
		"released, engine unknown": {leases: []*coordinationv1.Lease{lease("", time.Hour)}},
		"stock took over":          {leases: []*coordinationv1.Lease{lease(ours, time.Hour), lease(stock, 0)}},
		"stock is silent":          {leases: []*coordinationv1.Lease{lease(stock, time.Hour)}},
		"one for other namespaces is not": {engine: manager,
			leases: []*coordinationv1.Lease{lease(other, 0), lease(ours, time.Hour)}, want: time.Hour},
		"one for other namespaces is": {engine: manager, leases: []*coordinationv1.Lease{lease(other, time.Hour)}},
		"another lease":               {engine: manager, leases: []*coordinationv1.Lease{another}},
		"no lease":                    {engine: manager},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := capi.EngineFacts{Cluster: &clusterv1.Cluster{}, Leases: tt.leases, Now: now}
			f.Cluster.Namespace = "team"
			got := time.Duration(0)
			if since := f.SilentSince(tt.engine); !since.IsZero() {
				got = now.Sub(since)
			}
			if got != tt.want {
				t.Errorf("the last renewal was %s ago, want %s", got, tt.want)
			}
		})
	}
}

func TestLastSeen(t *testing.T) {
	t.Parallel()
	ours, other := capi.HolderPrefix("", "")+"a_b", capi.HolderPrefix("other", "")+"a_b"
	another := lease(ours, 0)
	another.Name = "another"
	for name, tt := range map[string]struct {
		leases []*coordinationv1.Lease
		// want is how long ago; negative for never.
		want time.Duration
	}{
		"ours, the latest of two":  {[]*coordinationv1.Lease{lease(ours, time.Hour), lease(ours, time.Second)}, time.Second},
		"stock":                    {[]*coordinationv1.Lease{lease("capi-controller-manager-7c_91aa", time.Minute)}, time.Minute},
		"one for other namespaces": {[]*coordinationv1.Lease{lease(other, 0)}, -1},
		"released":                 {[]*coordinationv1.Lease{lease("", 0)}, -1},
		"another lease":            {[]*coordinationv1.Lease{another}, -1},
		"none":                     {nil, -1},
	} {
		f := capi.EngineFacts{Cluster: &clusterv1.Cluster{}, Leases: tt.leases, Now: now}
		f.Cluster.Namespace = "team"
		got := time.Duration(-1)
		if seen := f.LastSeen(); !seen.IsZero() {
			got = now.Sub(seen)
		}
		if got != tt.want {
			t.Errorf("%s: %s ago, want %s", name, got, tt.want)
		}
	}
}
