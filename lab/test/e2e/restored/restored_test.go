package restored_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// timeout is for everything; far beyond what a busy machine needs.
const timeout = 10 * time.Minute

const (
	// kept is a pool that hooks update in place, asked one that an annotation upgrades, and replaced one
	// whose Machines are replaced. They go from rig.FirstVersion to nextVersion.
	kept, asked, replaced = "kept", "asked", "replaced"
	nextVersion           = "v1.31.1"
	replicas              = 3
	// soakSeconds is the time between an update and the next one of a group.
	soakSeconds = 4
	// group is the first MachineDeployment of the chain, whose Machines are updated in place, and
	// lastGroup the one after it.
	group, lastGroup = "a", "b"
	groupReplicas    = 2
)

const chainFrom, chainTo = "v1.30.0", "v1.31.0"

// chain is the Cluster of the chain.
var chain = types.NamespacedName{Namespace: "chain", Name: "chain"}

// The behaviour of updaters.
const (
	working  = `{"updater": {"mode": "Normal"}}`
	stalling = `{"updater": {"mode": "Stall"}}`
)

type plane struct {
	*rig.Plane
	updaters map[string]*rig.Updater
}

// TestRestored restores etcd to an older state, in the middle of a chain, of a group that hooks update
// in place, of one that an annotation upgrades, and of one whose Machines are replaced. Windlass'
// processes have caches of the lost state, and end by themselves. The next ones end each upgrade, and
// no machine is updated twice, also where the record of its update is lost.
func TestRestored(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	if os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("long; set WINDLASS_LONG=1")
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("it took longer than %s", timeout))
	defer cancel()
	p := &plane{Plane: rig.StartWithExtension(ctx, t, setup.EngineWindlass), updaters: map[string]*rig.Updater{}}
	p.create(ctx, t)
	p.begin(ctx, t)
	saved := filepath.Join(t.TempDir(), "etcd")
	p.whileDown(ctx, t, func(etcd string) { copyFolder(t, etcd, saved) })

	for _, name := range []string{kept, asked} {
		p.updaters[name].Behave(ctx, t, working)
	}
	p.History.Await(ctx, t, "waiting for the end of the pools' upgrades", func() string {
		return p.pending(ctx, t)
	})
	lost, starts := p.revision(ctx, t), p.starts(ctx, t)
	p.whileDown(ctx, t, func(etcd string) {
		if err := os.RemoveAll(etcd); err != nil {
			t.Fatal(err)
		}
		copyFolder(t, saved, etcd)
	})
	// The caches of the History are of the lost state, too.
	p.History = rig.Follow(ctx, t, p.RESTConfig(), p.Client.Scheme())
	if p.pending(ctx, t) == "" {
		t.Fatal("nothing was lost, so this test shows nothing")
	}
	p.awaitNextProcesses(ctx, t, starts)
	p.reviveProviders(ctx, t, lost)
	p.checkStatus(ctx, t, chain.Name, "under way", "waits for MachineDeployment "+group)

	p.updaters[group].Behave(ctx, t, working)
	p.History.Await(ctx, t, "waiting for the end of the pools' upgrades", func() string {
		return p.pending(ctx, t)
	})
	p.AwaitArrived(ctx, t, chain, chainTo)
	p.checkStatus(ctx, t, chain.Name, "All machines are up to date")
	for _, name := range []string{kept, asked, replaced} {
		p.AwaitPool(ctx, t, name, nextVersion, replicas)
	}
	p.checkStatus(ctx, t, rig.PoolsCluster, "All machines are up to date")
	for name, want := range map[string]int{group: groupReplicas, kept: replicas, asked: replicas} {
		p.checkOnce(ctx, t, name, want)
	}
	// An API server that starts refuses requests until it has read the roles.
	if err := os.Truncate(p.AuditLog(), 0); err != nil {
		t.Error(err)
	}
}

// create creates both clusters and their updaters, and waits until they are ready.
func (p *plane) create(ctx context.Context, t *testing.T) {
	t.Helper()
	for name, selector := range map[string][2]string{
		kept: {"pool", kept}, asked: {"pool", asked}, group: {clusterv1.ClusterNameLabel, chain.Name},
	} {
		p.updaters[name] = p.NewUpdater(ctx, t, setup.SimulatedUpdater{
			Name: "restored-" + name, Selector: rig.Labelled(selector[0], selector[1]),
		})
	}
	p.Namespace(ctx, t, chain.Namespace, nil)
	p.ApplyClass(ctx, t, chain.Namespace, rig.Class{Versions: []string{chainFrom, chainTo}})
	one := v1alpha1.UpdatePolicySpec{
		Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, MaxInFlight: 1,
		RolloutLimits: v1alpha1.RolloutLimits{Canary: new(intstr.FromInt32(0))}, SoakSeconds: soakSeconds,
		Targets: []v1alpha1.UpdateTarget{{
			ClusterName: chain.Name, MachineDeployments: []v1alpha1.MachineDeploymentName{group},
		}},
	}
	p.CreatePolicy(ctx, t, chain.Namespace, group, one)
	cluster := rig.NewCluster(chain, chainFrom, 1,
		rig.Group{Name: group, Replicas: groupReplicas}, rig.Group{Name: lastGroup, Replicas: 1})
	rollout := &cluster.Spec.Topology.Workers.MachineDeployments[0].Rollout.Strategy
	rollout.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
	rollout.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
	rollout.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	if err := p.Client.Create(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	p.CreatePools(ctx, t, rig.PoolsCluster, []rig.Pool{
		{Name: kept, Replicas: replicas, MaxUnavailable: 1, Policy: one},
		{Name: asked, Replicas: replicas, MaxUnavailable: 1, Policy: one},
		{Name: replaced, Replicas: replicas, MaxSurge: 1, NoPolicy: true},
	})
	for _, name := range []string{kept, asked, replaced} {
		p.AwaitPool(ctx, t, name, rig.FirstVersion, replicas)
	}
	p.AwaitArrived(ctx, t, chain, chainFrom)
}

// begin begins all upgrades. It returns when one machine of each is at the new version, and each updater
// works on a second one.
func (p *plane) begin(ctx context.Context, t *testing.T) {
	t.Helper()
	p.SetTarget(ctx, t, chain, chainTo)
	p.stall(ctx, t, group)
	p.Send(ctx, t, kept, nextVersion)
	p.Send(ctx, t, replaced, nextVersion)
	rig.AnnotateObject(ctx, t, p.Client, rig.MachineDeployment(asked), map[string]any{
		v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo: "version=" + nextVersion,
	})
	p.stall(ctx, t, kept)
	p.stall(ctx, t, asked)
	for name, u := range p.updaters {
		p.History.Await(ctx, t, "waiting for the second update by "+name, func() string {
			if stats := u.Stats(ctx, t); stats.Started == stats.Completed {
				return fmt.Sprintf("it has ended %d", stats.Completed)
			}
			return ""
		})
	}
	p.History.Await(ctx, t, "waiting for a Machine that replaces another", func() string {
		if p.count(ctx, t, replaced, isNext) == 0 {
			return "there is none"
		}
		return ""
	})
}

// stall lets an updater end one operation. The next one begins seconds later, and does not end.
func (p *plane) stall(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	u := p.updaters[name]
	p.History.Await(ctx, t, "waiting for the first update by "+name, func() string {
		if u.Stats(ctx, t).Completed == 0 {
			return "there is none"
		}
		return ""
	})
	u.Behave(ctx, t, stalling)
}

// pending names a pool whose upgrade has not ended; empty where all have.
func (p *plane) pending(ctx context.Context, t *testing.T) string {
	t.Helper()
	for pool, is := range map[string]func(*clusterv1.Machine) bool{kept: isNext, asked: isDone, replaced: isNext} {
		if n := p.count(ctx, t, pool, is); n != replicas {
			return fmt.Sprintf("%d of %d Machines of %s are upgraded", n, replicas, pool)
		}
	}
	return ""
}

func (p *plane) count(
	ctx context.Context, t *testing.T, pool string, is func(*clusterv1.Machine) bool,
) (n int) {
	t.Helper()
	for _, m := range p.MachinesOf(ctx, t, rig.PoolsCluster, pool) {
		if is(&m) {
			n++
		}
	}
	return n
}

func isNext(m *clusterv1.Machine) bool { return rig.NotAt(m, nextVersion) == "" }

// isDone reports whether a Machine has the release that an annotation asked for.
func isDone(m *clusterv1.Machine) bool {
	status := v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeStatus
	return isNext(m) && m.Annotations[status] == string(request.Done)
}

// checkStatus fails the test unless `windlass status` of a Cluster says all of it.
func (p *plane) checkStatus(ctx context.Context, t *testing.T, name string, says ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, p.Programs.Windlass, "status", name, "-n", name)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.KubeconfigPath())
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("windlass status %s: %v\n%s", name, err, output)
	}
	for _, part := range says {
		if !strings.Contains(string(output), part) {
			t.Errorf("windlass status %s does not say %q:\n%s", name, part, output)
		}
	}
}

// checkOnce fails the test unless an updater has updated machines, each of them once. An operation whose
// record was lost may be asked for by another id; the machine has the version, so nothing is started.
func (p *plane) checkOnce(ctx context.Context, t *testing.T, name string, machines int) {
	t.Helper()
	stats := p.updaters[name].Stats(ctx, t)
	if len(stats.Machines) != machines {
		t.Errorf("updater %s was asked about %d machines, want %d", name, len(stats.Machines), machines)
	}
	for machine, m := range stats.Machines {
		if m.Started != 1 || m.Completed != 1 {
			t.Errorf("updater %s has started %d operations on %s and completed %d, want 1: %+v",
				name, m.Started, machine, m.Completed, m.Operations)
		}
	}
}
