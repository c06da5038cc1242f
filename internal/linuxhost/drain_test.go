package linuxhost_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/pkg/version"
)

// heldNode is a node whose drain a PodDisruptionBudget holds.
type heldNode struct{ cordoned bool }

func (n *heldNode) Look(context.Context) inplace.Node {
	return inplace.Node{
		Exists: true, Ready: true, Kubelet: version.MustParse("v1.35.4"), Unschedulable: n.cordoned,
	}
}

func (n *heldNode) Drain(context.Context) (port.DrainStatus, error) {
	n.cordoned = true
	return port.DrainStatus{Message: "Pod default/web: The disruption budget web"}, nil
}

func (n *heldNode) Uncordon(context.Context) error { return nil }

// TestHeldDrain checks that an upgrade stays at the step drain while a budget holds it, says so in
// the words of the drain, and begins nothing on the host.
func TestHeldDrain(t *testing.T) {
	t.Parallel()
	host, upgrade := fresh(t)
	host.goal.Drain = true
	host.checks = "fetch-kubeadm 0\nfetch-kubelet 0\n"
	upgrade.Goal, upgrade.Node = host.goal, &heldNode{}
	for range 2 {
		host.asked = nil
		p, err := linuxhost.Advance(t.Context(), upgrade)
		const want = "draining the node: Pod default/web: The disruption budget web"
		if err != nil || p.Step != linuxhost.Drain || p.Message != want {
			t.Errorf("%v, %+v, want message %q", err, p, want)
		}
	}
	if diff := cmp.Diff([]string{"facts", "checks"}, host.asked); diff != "" {
		t.Errorf("the host was asked (-want +got):\n%s", diff)
	}
}

// TestUncordonedByAPerson checks that an upgrade forgets that it cordoned a node which a person has
// made schedulable: later, the person may cordon it.
func TestUncordonedByAPerson(t *testing.T) {
	t.Parallel()
	for cordoned, want := range map[bool][]string{
		false: {"facts", "checks", "start", "start"}, // It cleans up, and forgets.
		true:  {"facts", "checks", "start"},          // It records that it has made the node schedulable.
	} {
		host, upgrade := fresh(t)
		host.goal.Drain = true
		host.cordoned = true
		upgrade.Goal, upgrade.Node = host.goal, &doneNode{cordoned}
		steps, _ := linuxhost.ComputeSteps(host.goal, linuxhost.Facts{
			Arch: "amd64", Installed: version.MustParse("v1.35.4"), Service: "kubelet",
		})
		for _, step := range steps {
			if step.Check != "" {
				host.checks += string(step.Name) + " 0\n"
			}
		}
		p, err := linuxhost.Advance(t.Context(), upgrade)
		if err != nil || p.Done == cordoned {
			t.Errorf("%v, %+v", err, p)
		}
		if diff := cmp.Diff(want, host.asked); diff != "" {
			t.Errorf("the host was asked (-want +got):\n%s", diff)
		}
		if last := host.started.Script; !strings.HasSuffix(last, "rm -f \"$KEEP/cordoned\"\n") {
			t.Errorf("the last script is\n%s", last)
		}
	}
}

// doneNode is a node that is Ready at the version.
type doneNode struct{ cordoned bool }

func (n *doneNode) Look(context.Context) inplace.Node {
	return inplace.Node{
		Exists: true, Ready: true, Kubelet: version.MustParse("v1.36.3"), Unschedulable: n.cordoned,
	}
}

func (n *doneNode) Drain(context.Context) (port.DrainStatus, error) {
	return port.DrainStatus{Done: true}, nil
}

func (n *doneNode) Uncordon(context.Context) error { return nil }
