package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

// soaks is a Machine whose kubelet has its version, while its update from another one has not ended.
func soaks(t *testing.T, from, to string) func(*clusterv1.Machine) {
	t.Helper()
	return withAnnotation(t, v1alpha1.UpdateProgressAnnotation, inplace.Progress{
		Phase: inplace.Soaking, From: version.MustParse(from), To: version.MustParse(to),
	})
}

// joined is a Machine with a Node, created after a time.
func joined(created time.Duration, ready metav1.ConditionStatus) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.CreationTimestamp = metav1.NewTime(after(created))
		m.Status.NodeRef.Name = m.Name
		condition(clusterv1.MachineReadyCondition, ready, "etcd", "")(m)
	}
}

// TestStepsEndWithTheirMachines: no step is done, and no upgrade over, while a machine of it is in
// motion, whatever hooks and owners say.
func TestStepsEndWithTheirMachines(t *testing.T) {
	t.Parallel()
	followed := midChain()
	followed.groups[0].kubelets, followed.groups[1].kubelets = repeat(2, "v1.32.0"), repeat(2, "v1.32.0")
	followed.groups[1].template = "v1.32.0"
	followed.pending = "AfterClusterUpgrade"
	followed.progress.Steps[1].Workers = after(30 * time.Minute)
	over := midChain()
	over.target, over.source, over.reason, over.message = "v1.32.0", versions("v1.32.0"), chain.ReconcileSucceeded, ""
	over.groups, over.pending, over.progress = followed.groups, "", nil
	stock := midChain()
	stock.stamp, stock.progress, stock.source, stock.groups = "", nil, fourMinors, followed.groups[:1]
	stock.pending, stock.groups[0].template = "AfterClusterUpgrade,AfterControlPlaneUpgrade", "v1.32.0"
	stock.events = []corev1.Event{
		topologyEvent(time.Minute, `Updated KubeadmControlPlane "team-a/prod-cp" with version change from v1.31.0 to v1.32.0`),
	}

	const (
		controlPlane = "Done ControlPlaneUpgrade v1.31.0->v1.32.0 [] +12m0s +16m0s"
		workers      = "Done WorkersUpgrade ->v1.32.0 [] +16m0s +30m0s"
	)
	for name, tt := range map[string]struct {
		upgrade upgrade
		machine string
		change  func(*clusterv1.Machine)
		state   ChainState
		// steps are those to v1.32.0 that are done or running.
		steps []string
		// at is how many machines have the target, of how many.
		at string
	}{
		"at rest": {upgrade: followed, state: ChainHeld, steps: []string{controlPlane, workers}, at: "0/7"},
		"a worker soaks": {
			followed, "md-1-1-0", soaks(t, "v1.31.0", "v1.32.0"), ChainUpgrading,
			[]string{controlPlane, "Running WorkersUpgrade ->v1.32.0 [md-0 md-1] 3/4 +16m0s"}, "",
		},
		"a worker is configured anew": {
			followed, "md-1-1-0", soaks(t, "v1.32.0", "v1.32.0"), ChainHeld, []string{controlPlane, workers}, "",
		},
		"a machine of the control plane soaks": {
			followed, "cp-1", soaks(t, "v1.31.0", "v1.32.0"), ChainUpgrading,
			[]string{workers, "Running ControlPlaneUpgrade v1.31.0->v1.32.0 [] 2/3 +12m0s"}, "",
		},
		"a new machine of the control plane is not ready": {
			followed, "cp-1", joined(13*time.Minute, "False"), ChainUpgrading,
			[]string{workers, "Running ControlPlaneUpgrade v1.31.0->v1.32.0 [] 2/3 +12m0s"}, "",
		},
		"it is ready": {
			followed, "cp-1", joined(13*time.Minute, "True"), ChainHeld, []string{controlPlane, workers}, "",
		},
		"an old machine is not ready": {
			followed, "cp-1", joined(-time.Hour, "False"), ChainHeld, []string{controlPlane, workers}, "",
		},
		"the last machine soaks after the last hook": {
			over, "md-1-1-0", soaks(t, "v1.31.0", "v1.32.0"), ChainUpgrading,
			[]string{"Running WorkersUpgrade ->v1.32.0 [md-0 md-1] 3/4"}, "6/7",
		},
		"nothing soaks after the last hook": {upgrade: over, state: ChainUpToDate, at: "7/7"},
		"stock": {
			upgrade: stock, state: ChainUpgrading,
			steps: []string{"Done ControlPlaneUpgrade v1.31.0->v1.32.0 [] +1m0s"},
		},
		"stock, the third machine is not ready": {
			stock, "cp-2", joined(2*time.Minute, "Unknown"), ChainUpgrading,
			[]string{"Running ControlPlaneUpgrade v1.31.0->v1.32.0 [] 2/3 +1m0s"}, "0/5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := tt.upgrade.facts(t)
			for _, m := range f.Machines {
				if m.Name == tt.machine {
					tt.change(m)
				}
			}
			c := Compute(f, after(time.Hour)).Chain
			if c.State != tt.state {
				t.Errorf("it is %s, want %s", c.State, tt.state)
			}
			if at := fmt.Sprintf("%d/%d", c.AtTarget, c.Machines); tt.at != "" && at != tt.at {
				t.Errorf("%s machines have the target, want %s", at, tt.at)
			}
			report := Chain{}
			for _, s := range c.Steps {
				if s.State != StepNext && s.To.String() == "v1.32.0" {
					report.Steps = append(report.Steps, s)
				}
			}
			if diff := cmp.Diff(tt.steps, texts(report)[1:], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMotion: what a machine runs is what its kubelet reports, and its motion does not depend on what it
// is asked for.
func TestMotion(t *testing.T) {
	t.Parallel()
	withNode := joined(time.Hour, metav1.ConditionTrue)
	marked := func(m *clusterv1.Machine) { m.Annotations[clusterv1.UpdateInProgressAnnotation] = "" }
	going := func(m *clusterv1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: start} }
	for name, tt := range map[string]struct {
		changes []func(*clusterv1.Machine)
		want    Motion
	}{
		"rests":             {[]func(*clusterv1.Machine){withNode}, ""},
		"has no Node":       {nil, Creation},
		"is marked":         {[]func(*clusterv1.Machine){withNode, marked}, InPlaceUpdate},
		"soaks":             {[]func(*clusterv1.Machine){withNode, soaks(t, "v1.31.0", "v1.32.1")}, InPlaceUpdate},
		"goes":              {[]func(*clusterv1.Machine){withNode, marked, going}, Removal},
		"goes without Node": {[]func(*clusterv1.Machine){going}, Removal},
		"has failed": {[]func(*clusterv1.Machine){withNode, marked, withAnnotation(
			t, v1alpha1.UpdateProgressAnnotation, inplace.Progress{Phase: inplace.Failed})}, ""},
	} {
		f := midChain().facts(t)
		m := machine("m", tt.changes...)
		m.Labels[clusterv1.MachineDeploymentNameLabel] = f.MachineDeployments[0].Name
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.31.0"}
		f.Machines = []*clusterv1.Machine{m}
		got := Compute(f, start).Machines
		if len(got) != 1 || got[0].Motion != tt.want || got[0].Runs != "v1.31.0" {
			t.Errorf("a machine that %s: %+v, want motion %q", name, got, tt.want)
		}
	}
}
