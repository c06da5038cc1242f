package inplace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// newerControlPlane is where the control plane of one machine cannot go while it is kept.
const newerControlPlane = "v1.31.100"

// testStuck: what the commands say about a control plane of one machine that is kept is what Cluster API's controller
// does, before its version changes and after. The way out that they name is one.
func (p *plane) testStuck(ctx context.Context, t *testing.T) {
	t.Helper()
	const why = "UpdatePolicy kept-control-plane keeps its machines, but with maxSurge 1 Cluster API creates a machine beyond replicas 1"
	p.CreatePolicy(ctx, t, rig.PoolsCluster, "kept-control-plane", v1alpha1.UpdatePolicySpec{
		Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone,
		Targets: []v1alpha1.UpdateTarget{{ClusterName: rig.PoolsCluster, ControlPlane: true}},
	})
	var report struct {
		Findings []struct{ ID, Outcome, Message string }
	}
	// Other checks fail on a simulated API server.
	printed := p.say(ctx, "preflight", "--to", newerControlPlane, "-o", "json")
	if err := json.Unmarshal([]byte(printed), &report); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	warned := false
	for _, f := range report.Findings {
		warned = warned || f.ID == "ControlPlaneCanMove" && f.Outcome == "Failed" && strings.Contains(f.Message, why)
	}
	if !warned {
		t.Errorf("windlass preflight does not fail for %q:\n%s", why, printed)
	}

	owner := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: rig.PoolsCluster, Name: rig.PoolsCluster}}
	rig.Patch(ctx, t, p.Client, owner.DeepCopy(), map[string]any{"spec": map[string]any{"version": newerControlPlane}})
	p.History.Await(ctx, t, "waiting until Cluster API cannot scale up", func() string {
		events := &eventsv1.EventList{}
		if err := p.History.List(ctx, events, client.InNamespace(rig.PoolsCluster)); err != nil {
			return err.Error()
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "FailedScaleUp" && e.Regarding.Kind == "KubeadmControlPlane" {
				return ""
			}
		}
		return "there is no Event FailedScaleUp"
	})
	for command, want := range map[string]string{
		"status": "it is stuck: " + why, "doctor": "it is stuck now on its way to " + newerControlPlane,
	} {
		if said := strings.Join(strings.Fields(p.say(ctx, command)), " "); !strings.Contains(said, want) {
			t.Errorf("windlass %s does not say %q:\n%s", command, want, said)
		}
	}
	p.testStuckRequest(ctx, t, owner, why)
}

// testStuckRequest: the control plane that is stuck says so as well where an annotation asks for the version.
func (p *plane) testStuckRequest(
	ctx context.Context, t *testing.T, owner *controlplanev1.KubeadmControlPlane, why string,
) {
	t.Helper()
	const asks = v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo
	rig.AnnotateObject(ctx, t, p.Client, owner.DeepCopy(), map[string]any{asks: "version=" + newerControlPlane})
	p.History.Await(ctx, t, "waiting for the answer to the annotation", func() string {
		now := &controlplanev1.KubeadmControlPlane{}
		if err := p.History.Get(ctx, client.ObjectKeyFromObject(owner), now); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.InPlaceUpgradeCondition)
		if c == nil || !strings.Contains(c.Message, why) {
			return fmt.Sprintf("the condition is %+v, want one that says %q", c, why)
		}
		return ""
	})
	rig.AnnotateObject(ctx, t, p.Client, owner.DeepCopy(), map[string]any{asks: nil})
}

// testWayOut lets the machine be replaced, as the commands advise.
func (p *plane) testWayOut(ctx context.Context, t *testing.T) {
	t.Helper()
	machines := p.MachinesOf(ctx, t, rig.PoolsCluster, "")
	if len(machines) != 1 || machines[0].Spec.Version != rig.PoolsControlPlane {
		t.Fatalf("the control plane has %d machines", len(machines))
	}
	rig.AnnotateObject(ctx, t, p.Client, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: rig.PoolsCluster, Name: machines[0].Name,
	}}, map[string]any{v1alpha1.AllowReplacementAnnotation: ""})
	p.History.Await(ctx, t, "waiting for another machine at "+newerControlPlane, func() string {
		now := p.MachinesOf(ctx, t, rig.PoolsCluster, "")
		if len(now) != 1 || now[0].UID == machines[0].UID {
			return "the old one is there"
		}
		return rig.NotAt(&now[0], newerControlPlane)
	})
}

// say returns what a command about the Cluster of the pools prints, whether it fails or not.
func (p *plane) say(ctx context.Context, command string, flags ...string) string {
	args := append([]string{command, rig.PoolsCluster, "-n", rig.PoolsCluster, "--kubeconfig", p.KubeconfigPath()}, flags...)
	printed, _ := exec.CommandContext(ctx, p.Programs.Windlass, args...).Output() // What it prints is looked at.
	return string(printed)
}
