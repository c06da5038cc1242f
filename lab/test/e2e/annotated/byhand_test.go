package annotated_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// testByHand upgrades single machines of the group by hand, well and badly, while a machine joins.
func (c *cluster) testByHand(ctx context.Context, t *testing.T) {
	t.Helper()
	workers := c.story.machines(c.name, false)
	hand, bad := workers[0].key.Name, workers[1]
	known := c.story.uids(c.name)

	c.workers++
	c.patch(ctx, t, &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.name, Name: c.group().Name}}, map[string]any{"spec": map[string]any{"replicas": c.workers}})

	const wrong = "flavour=vanilla"
	if r := c.run(ctx, t, "upgrade", "machine", bad.key.Name, "-n", c.name, "--to", wrong); r.code != 1 || !strings.Contains(r.output, `"flavour" is not a method`) {
		t.Errorf("an option that cannot be: exit status %d\n%s", r.code, r.output)
	}
	c.annotate(ctx, t, bad.key.Name, map[string]any{v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo: wrong})
	handed := c.begin(ctx, t, "upgrade", "machine", hand, "-n", c.name, "--to", "version=v1.32.9")
	c.story.Await(ctx, t, "waiting until the option is refused", func() string {
		m := c.story.one(kindMachine, bad.key)
		// What is installed stays on record.
		if m.marks.Status != request.Failed || m.marks.Release != channel || m.marks.LastFailed == "" || m.condition == nil || m.condition.Status != metav1.ConditionFalse ||
			m.condition.Reason != string(request.ReasonBadOption) || !strings.Contains(m.condition.Message, `"flavour" is not a method`) {
			return m.String()
		}
		return ""
	})
	c.annotate(ctx, t, bad.key.Name, map[string]any{v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo: nil})
	c.story.Await(ctx, t, "waiting until the refusal is forgotten", func() string {
		if m := c.story.one(kindMachine, bad.key); m.upgrade != nil || m.condition != nil {
			return m.String()
		}
		return ""
	})
	said := c.story.events(ctx, t, kindMachine, bad.key)
	if refusals := slices.DeleteFunc(said, func(e string) bool {
		return !strings.HasPrefix(e, v1alpha1.InPlaceUpgradeFailedEvent+": "+wrong+" is refused")
	}); len(refusals) != 1 {
		t.Errorf("the refusal was said in %d Events: %q", len(refusals), refusals)
	}

	if r := handed(); r.code != 0 {
		t.Errorf("upgrading by hand: exit status %d\n%s", r.code, r.output)
	}
	c.awaitMachine(ctx, t, hand, "version=v1.32.9", "v1.32.9")

	var joined state
	c.story.Await(ctx, t, "waiting until the new machine has the release of its group", func() string {
		workers := c.story.machines(c.name, false)
		i := slices.IndexFunc(workers, func(m state) bool { return !slices.Contains(known, m.uid) })
		if i < 0 {
			return "there is none"
		}
		if joined = workers[i]; joined.marks != (request.Marks{Status: request.Done, Release: channel}) || joined.upgrade != nil {
			return joined.String()
		}
		return ""
	})
	refreshed := c.k8sd(ctx, t)
	for name, want := range map[string]int{hand: 1, bad.key.Name: 1, joined.key.Name: 1} {
		if got := refreshed[name].Refreshes; got != want {
			t.Errorf("k8sd began %d refreshes of Machine %s, want %d", got, name, want)
		}
	}
	if now := len(c.story.uids(c.name)); now != len(known)+1 {
		t.Errorf("there were %d Machines, want the %d from before and the new one", now, len(known))
	}
}

// testCancelled cancels the upgrade of the workers when some of them have ended.
func (c *cluster) testCancelled(ctx context.Context, t *testing.T) {
	t.Helper()
	const option, kubelet = "revision=1250", "v1.32.50"
	known := c.story.uids(c.name)
	before := map[types.UID]state{}
	for _, m := range c.story.machines(c.name, false) {
		before[m.uid] = m
	}
	refreshesBefore := c.k8sd(ctx, t)
	followed := c.begin(ctx, t, "upgrade", "machinedeployment", c.group().Name, "-n", c.name, "--to", option)
	c.story.Await(ctx, t, "waiting until a machine has ended", func() string {
		done, flying := c.countOf(option)
		if done == 0 || flying == 0 {
			return fmt.Sprintf("%d have ended, %d are in flight", done, flying)
		}
		return ""
	})
	c.mustRun(ctx, t, "upgrade", "machinedeployment", c.group().Name, "-n", c.name, "--cancel")
	if r := followed(); r.code != 3 || !strings.Contains(strings.ToLower(r.output), "cancelled") {
		t.Errorf("following an upgrade that is cancelled: exit status %d\n%s", r.code, r.output)
	}

	// The command returns when nothing runs any longer.
	if group := c.story.one(kindGroup, c.group()); group.marks != (request.Marks{}) || group.condition != nil {
		t.Errorf("the group is %s", group)
	}
	refreshed, upgraded := c.k8sd(ctx, t), 0
	for _, m := range c.story.machines(c.name, false) {
		extra := refreshed[m.key.Name].Refreshes - refreshesBefore[m.key.Name].Refreshes
		switch m.marks.Release {
		case option:
			upgraded++
			if extra != 1 || m.marks.Status != request.Done {
				t.Errorf("%d refreshes of a machine that was upgraded: %s", extra, m)
			}
			c.awaitMachine(ctx, t, m.key.Name, option, kubelet)
		default:
			// The record of a request removes the release before k8sd is asked. A Machine that is
			// cancelled between the two has none: it is asked again the next time.
			was := before[m.uid]
			kept := m.marks.Release == was.marks.Release || m.marks.Release == ""
			if extra != 0 || !kept || m.kubelet != was.kubelet {
				t.Errorf("%d refreshes of a machine that was not to begin: %s, before %s", extra, m, was)
			}
		}
		if m.marks.To != "" || m.marks.ChangeID != "" || m.upgrade != nil || m.condition != nil {
			t.Errorf("left after cancelling: %s", m)
		}
	}
	if upgraded == 0 || upgraded > 2*maxInFlight {
		t.Errorf("%d machines were upgraded, want some, and none that began after the cancelling", upgraded)
	}
	if now := c.story.uids(c.name); !slices.Equal(known, now) {
		t.Errorf("Machines were replaced: there were %d, and are %d", len(known), len(now))
	}
	c.checkTidy(ctx, t)
}

// countOf counts the workers that have an option, and those that are on the way to it.
func (c *cluster) countOf(option string) (done, flying int) {
	for _, m := range c.story.machines(c.name, false) {
		switch {
		case m.marks.Release == option:
			done++
		case m.upgrade.IsRunning() && m.upgrade.Option == option:
			flying++
		}
	}
	return done, flying
}
