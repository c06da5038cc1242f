package annotated_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// singleMinor and singleFailing are what the cluster of one machine is upgraded to.
const (
	singleMinor   = "channel=1.32-classic/stable"
	singleFailing = "revision=77"
)

// singleEvents are those of its machine after the first upgrade.
func singleEvents() []string {
	return []string{
		"InPlaceUpgradeInProgress: upgrading in place to " + singleMinor,
		"InPlaceUpgradeDone: upgraded in place to " + singleMinor + "; the kubelet reports v1.32.5",
	}
}

// testSingle takes a cluster of one control plane machine to the next minor.
func (c *cluster) testSingle(ctx context.Context, t *testing.T) {
	t.Helper()
	c.story.Await(ctx, t, "waiting for the cluster of one machine", func() string { return c.notSettled(1, firstVersion) })
	machine := c.story.machines(c.name, true)[0]
	c.mustRun(ctx, t, "upgrade", "machine", machine.key.Name, "-n", c.name, "--to", singleMinor)
	c.awaitMachine(ctx, t, machine.key.Name, singleMinor, "v1.32.5")
	c.checkEvents(ctx, t, kindMachine, machine, singleEvents())
	if controlPlane := c.story.one(kindControlPlane, c.key()); controlPlane.marks != (request.Marks{}) || controlPlane.spec != firstVersion {
		t.Errorf("the control plane is %s", controlPlane)
	}
	c.checkTidy(ctx, t)
}

// testFailsTwice upgrades the control plane of that cluster while k8sd refuses two requests. The version of the spec stays: Cluster API would replace the
// machine for it.
func (c *cluster) testFailsTwice(ctx context.Context, t *testing.T) {
	t.Helper()
	before := c.story.uids(c.name)
	machine := c.story.machines(c.name, true)[0]
	c.mustRunLab(ctx, t, "k8sd", "--state-dir", c.StateDir, "--faults", c.name+"/"+machine.key.Name+`={"times": 2, "internalError": "disk full"}`)
	output := c.mustRun(ctx, t, "upgrade", "controlplane", c.name, "-n", c.name, "--to", singleFailing)
	if !strings.Contains(output, "disk full") {
		t.Errorf("the command does not say what k8sd said:\n%s", output)
	}
	c.awaitMachine(ctx, t, machine.key.Name, singleFailing, "v1.32.77")
	c.checkEvents(ctx, t, kindMachine, machine, append(singleEvents(),
		"InPlaceUpgradeInProgress: upgrading in place to "+singleFailing,
		"InPlaceUpgradeAttemptFailed: attempt 1 by updater \"k8sd\" to reach "+singleFailing+" failed: k8sd answered: disk full",
		"InPlaceUpgradeAttemptFailed: attempt 2 by updater \"k8sd\" to reach "+singleFailing+" failed: k8sd answered: disk full",
		"InPlaceUpgradeDone: upgraded in place to "+singleFailing+"; the kubelet reports v1.32.77",
	))
	if done := c.k8sd(ctx, t)[machine.key.Name]; done.Refreshes != 2 || done.Completed != 2 {
		t.Errorf("k8sd began %d refreshes and completed %d, want 2 of each: %+v", done.Refreshes, done.Completed, done.Changes)
	}

	controlPlane := c.story.one(kindControlPlane, c.key())
	if want := (request.Marks{Status: request.Done, Release: singleFailing}); controlPlane.marks != want || controlPlane.spec != firstVersion {
		t.Errorf("the control plane is %s", controlPlane)
	}
	c.checkEvents(ctx, t, kindControlPlane, controlPlane, []string{
		"InPlaceUpgradeInProgress: upgrading 1 machine in place to " + singleFailing,
		"InPlaceUpgradeDone: upgraded 1 machine in place to " + singleFailing + "; the version of the spec stays v1.31.0: " +
			"Cluster API replaces the machines of a KubeadmControlPlane of 1 for it; set spec.version yourself when that may happen",
	})
	if diff := cmp.Diff(before, c.story.uids(c.name)); diff != "" {
		t.Errorf("Machines were replaced (-before +after):\n%s", diff)
	}
	c.checkTidy(ctx, t)
}

// awaitMachine waits until a Machine has a release, and Cluster API knows what its node reports.
func (c *cluster) awaitMachine(ctx context.Context, t *testing.T, name, release, kubelet string) {
	t.Helper()
	key := c.key()
	key.Name = name
	c.story.Await(ctx, t, "waiting until Machine "+name+" has "+release, func() string {
		m := c.story.one(kindMachine, key)
		if m.marks != (request.Marks{Status: request.Done, Release: release}) || m.upgrade != nil || m.condition != nil || m.kubelet != kubelet || !m.settled {
			return m.String()
		}
		return ""
	})
}

// checkEvents waits until an object has these Events, in order; they are written in the background.
func (c *cluster) checkEvents(ctx context.Context, t *testing.T, kind string, of state, want []string) {
	t.Helper()
	c.story.Await(ctx, t, "waiting for the Events of "+of.key.Name, func() string {
		if said := c.story.events(ctx, t, kind, of.key); len(said) < len(want) {
			return strings.Join(said, "\n")
		}
		return ""
	})
	if diff := cmp.Diff(want, c.story.events(ctx, t, kind, of.key)); diff != "" {
		t.Errorf("the Events of %s (-want +got):\n%s", of.key.Name, diff)
	}
}
