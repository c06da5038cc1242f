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
	host.checks = "fetch-kubeadm 0\nfetch-kubelet 0\npull-images 0\n"
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
		host.finish()
		upgrade.Goal, upgrade.Node = host.goal, &doneNode{cordoned}
		p, err := linuxhost.Advance(t.Context(), upgrade)
		if err != nil || p.Done == cordoned {
			t.Errorf("%v, %+v", err, p)
		}
		if diff := cmp.Diff(want, host.asked); diff != "" {
			t.Errorf("the host was asked (-want +got):\n%s", diff)
		}
		if !host.forgets() {
			t.Errorf("the last script is\n%s", host.started.Script)
		}
	}
}

// finish has all checks of the host's goal succeed.
func (h *scriptedHost) finish() {
	steps, _ := linuxhost.ComputeSteps(h.goal, linuxhost.Facts{
		Arch: "amd64", Installed: version.MustParse("v1.35.4"), Service: "kubelet",
	})
	for _, step := range steps {
		if step.Check != "" {
			h.checks += string(step.Name) + " 0\n"
		}
	}
}

// forgets reports whether the last script removes the record that an upgrade cordoned the node.
func (h *scriptedHost) forgets() bool {
	return strings.HasSuffix(h.started.Script, "rm -f \"$KEEP/cordoned\"\n")
}

// TestCordonedByAnEarlierRun: an upgrade that does not drain reports at its end that an earlier run
// cordoned the node, unless it sees that the node is schedulable. Then it forgets the record: a
// person may cordon the node later.
func TestCordonedByAnEarlierRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		node             linuxhost.Node
		never            bool
		reports, forgets bool
	}{
		"nobody looks at the node": {reports: true},
		"it is cordoned":           {node: &doneNode{cordoned: true}, reports: true},
		"a person uncordoned it":   {node: &doneNode{}, forgets: true},
		"a person cordoned it":     {node: &doneNode{cordoned: true}, never: true},
		"nobody ever cordoned it":  {never: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for by, look := range map[string]func(context.Context, linuxhost.Upgrade) (linuxhost.Progress, error){
				"Advance": linuxhost.Advance, "Follow": linuxhost.Follow,
			} {
				host, upgrade := fresh(t)
				host.cordoned = !test.never
				host.finish()
				upgrade.Node = test.node
				p, err := look(t.Context(), upgrade)
				if err != nil || !p.Done || p.Cordoned != test.reports {
					t.Errorf("%s: %v, %+v, want Cordoned: %t", by, err, p, test.reports)
				}
				if got := host.forgets(); got != test.forgets {
					t.Errorf("%s: it forgets: %t, want %t; the last script is\n%s",
						by, got, test.forgets, host.started.Script)
				}
			}
		})
	}
}

// TestCordonedBeforeTheEnd: nothing is reported about a cordon while the upgrade is not done.
func TestCordonedBeforeTheEnd(t *testing.T) {
	t.Parallel()
	host, upgrade := fresh(t)
	host.cordoned = true
	if p, err := linuxhost.Advance(t.Context(), upgrade); err != nil || p.Done || p.Cordoned {
		t.Errorf("%v, %+v", err, p)
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
