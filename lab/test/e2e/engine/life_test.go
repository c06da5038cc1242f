package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

var lively = inListed("lively")

// testLife changes a topology in every way but its version. What the stock manager thinks of the result is tested when it takes over: it must find
// nothing to change.
func (w *world) testLife(ctx context.Context, t *testing.T) {
	t.Helper()
	v := versions()[1]
	w.AwaitArrived(ctx, t, lively, v)
	group := func(c *clusterv1.Cluster, i int) *clusterv1.MachineDeploymentTopology {
		return &c.Spec.Topology.Workers.MachineDeployments[i]
	}

	first := w.History.Now(lively)
	w.Change(ctx, t, lively, func(c *clusterv1.Cluster) { group(c, 0).Replicas = new(int32(2)) })
	w.awaitMachines(ctx, t, "md-0", 2)
	if before, now := templates(first), templates(w.History.Now(lively)); now != before {
		t.Errorf("scaling made new templates: %s, before %s", now, before)
	}

	w.Change(ctx, t, lively, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Workers.MachineDeployments = append(c.Spec.Topology.Workers.MachineDeployments, rig.Group{Name: "md-2", Replicas: 1}.Topology())
	})
	w.awaitMachines(ctx, t, "md-2", 1)
	w.Change(ctx, t, lively, func(c *clusterv1.Cluster) {
		list := &c.Spec.Topology.Workers.MachineDeployments
		*list = slices.Delete(*list, 1, 2)
	})
	w.History.Await(ctx, t, "waiting until md-1 is gone with all that was made for it", func() string {
		return remaining(w.History.Now(lively), "md-1")
	})

	before := templates(w.History.Now(lively))
	w.Change(ctx, t, lively, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Variables = []clusterv1.ClusterVariable{{Name: rig.StartupVariable, Value: apiextensionsv1.JSON{Raw: []byte(`"2s"`)}}}
	})
	w.History.Await(ctx, t, "waiting until machines come from a new template, and the old one is gone", func() string {
		o := w.History.Now(lively)
		if templates(o) == before {
			return "the template is that from before"
		}
		oldTemplate, _, _ := strings.Cut(before, " ")
		if slices.ContainsFunc(o.Others, func(f history.Fact) bool { return f.Name == oldTemplate }) {
			return oldTemplate + " is still there"
		}
		return o.NotReady("md-0", v)
	})

	w.Change(ctx, t, lively, func(c *clusterv1.Cluster) {
		group(c, 0).HealthCheck = clusterv1.MachineDeploymentTopologyHealthCheck{
			Enabled: new(true),
			Checks: clusterv1.MachineDeploymentTopologyHealthCheckChecks{UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
				{Type: "Ready", Status: "False", TimeoutSeconds: new(int32(300))},
			}},
			Remediation: clusterv1.MachineDeploymentTopologyHealthCheckRemediation{
				TriggerIf: clusterv1.MachineDeploymentTopologyHealthCheckRemediationTriggerIf{UnhealthyLessThanOrEqualTo: new(intstr.FromInt32(1))},
			},
		}
	})
	w.awaitChecks(ctx, t, 1)
	w.Change(ctx, t, lively, func(c *clusterv1.Cluster) { group(c, 0).HealthCheck.Enabled = new(false) })
	w.awaitChecks(ctx, t, 0)
	w.Change(ctx, t, lively, func(c *clusterv1.Cluster) { group(c, 0).HealthCheck.Enabled = new(true) })
	w.awaitChecks(ctx, t, 1)
	w.AwaitArrived(ctx, t, lively, v)
}

func (w *world) awaitMachines(ctx context.Context, t *testing.T, group string, replicas int32) {
	t.Helper()
	w.History.Await(ctx, t, fmt.Sprintf("waiting for %d machines of %s", replicas, group), func() string {
		o := w.History.Now(lively)
		if got := o.Groups[group].Replicas; got != replicas {
			return fmt.Sprintf("%s asks for %d machines", group, got)
		}
		return o.NotReady(group, versions()[1])
	})
}

func (w *world) awaitChecks(ctx context.Context, t *testing.T, want int) {
	t.Helper()
	w.History.Await(ctx, t, fmt.Sprintf("waiting for %d MachineHealthChecks", want), func() string {
		n := 0
		for _, f := range w.History.Now(lively).Others {
			if f.Kind == rig.KindCheck {
				n++
			}
		}
		if n != want {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
}

// templates are the names of what machines of md-0 are made from.
func templates(o history.Objects) string {
	md, ok := o.Groups["md-0"].Object.(*clusterv1.MachineDeployment)
	if !ok {
		return ""
	}
	spec := md.Spec.Template.Spec
	return spec.InfrastructureRef.Name + " " + spec.Bootstrap.ConfigRef.Name
}

// remaining says what is left of a group.
func remaining(o history.Objects, group string) string {
	if g, exists := o.Groups[group]; exists {
		return g.Name + " is still there"
	}
	if machines := o.Machines[group]; len(machines) > 0 {
		return machines[0].Name + " is still there"
	}
	for _, f := range o.Others {
		if f.Group == group {
			return f.Kind + " " + f.Name + " is still there"
		}
	}
	return ""
}
