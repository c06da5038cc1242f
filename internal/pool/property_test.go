package pool_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestRolloutProperties: in any order of events, a rollout by stock's rules keeps maxSurge and
// maxUnavailable, and ends with all Machines up to date.
func TestRolloutProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(1, 4).Draw(t, "replicas")
		surge := rapid.Int32Range(0, 2).Draw(t, "surge")
		unavailable := rapid.Int32Range(0, min(2, replicas)).Draw(t, "unavailable")
		w := newWorld(replicas, surge, unavailable)
		w.settle(t)
		w.md.Spec.Template.Spec.Version = "v1.31.0"
		w.covered["v1.31.0"] = rapid.SampledFrom(
			[]pool.Answer{pool.AnswerYes, pool.AnswerNo},
		).Draw(
			t,
			"covered",
		)
		least := int(replicas - max(unavailable, 1-min(surge, 1)))
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			w.random(t)
			if n := len(w.machines); n > int(replicas+surge) {
				t.Fatalf("%d Machines exceed maxSurge:\n%s", n, w)
			}
			if n := w.available(); n < least {
				t.Fatalf("%d available Machines are too few:\n%s", n, w)
			}
		}
		w.settle(t)
		w.checkDone(t, replicas)
	})
}

// checkDone: the group has its replicas, all of the current template.
func (w *world) checkDone(t failer, replicas int32) {
	t.Helper()
	if len(w.machines) != int(replicas) || w.available() != int(replicas) {
		t.Fatalf("want %d available Machines:\n%s", replicas, w)
	}
	for _, d := range w.plan.Decisions {
		if d.Action != pool.Keep {
			t.Fatalf("Machine %s: %s, %s:\n%s", d.Machine, d.Action, d.Reason, w)
		}
	}
	for _, m := range w.machines {
		if m.Spec.Version != w.md.Spec.Template.Spec.Version {
			t.Fatalf("Machine %s has version %s:\n%s", m.Name, m.Spec.Version, w)
		}
	}
}

// TestKeepProperties: with a policy that keeps Machines, whatever happens to the template, and in
// any order of events, Machines are created and deleted only to follow spec.replicas, no kubelet
// goes back a version, and no more Machines than allowed are unavailable at a time.
func TestKeepProperties(t *testing.T) {
	t.Parallel()
	versions := []string{"v1.30.0", "v1.31.0", "v1.32.0"}
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(1, 4).Draw(t, "replicas")
		unavailable := rapid.Int32Range(0, min(2, replicas)).Draw(t, "unavailable")
		w := newWorld(replicas, 1, unavailable)
		w.keep = true
		w.settle(t)
		w.created = nil
		for _, v := range versions {
			w.covered[v] = pool.Answer(rapid.IntRange(0, 2).Draw(t, "answer"))
		}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 19).Draw(t, "event") {
			case 0:
				w.md.Spec.Template.Spec.Version = rapid.SampledFrom(versions).Draw(t, "version")
			case 1:
				w.md.Spec.Paused = new(rapid.Bool().Draw(t, "paused"))
			default:
				before := w.kubelets()
				w.random(t)
				w.checkKubelets(t, before)
			}
			if len(w.created)+len(w.deleted) > 0 {
				t.Fatalf("created %v, deleted %v:\n%s", w.created, w.deleted, w)
			}
			if n := w.available(); n < int(replicas-max(unavailable, 1)) {
				t.Fatalf("%d available Machines are too few:\n%s", n, w)
			}
		}
		w.md.Spec.Paused = nil
		w.settle(t)
		if w.covered[w.md.Spec.Template.Spec.Version] != pool.AnswerYes {
			return
		}
		for _, d := range w.plan.Decisions {
			if d.Action != pool.Keep && d.Reason != pool.ReasonKubeletAhead {
				t.Fatalf("Machine %s: %s, %s:\n%s", d.Machine, d.Action, d.Reason, w)
			}
		}
	})
}

// TestKeepScaling: in any order of events, people can scale a kept group, whether its change is
// covered or not, and no more Machines are created or deleted than that takes.
func TestKeepScaling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Int32Range(0, 4).Draw(t, "replicas"), 1, 1)
		w.keep = true
		w.settle(t)
		w.created = nil
		w.md.Spec.Template.Spec.Version = "v1.31.0"
		w.covered["v1.31.0"] = pool.Answer(rapid.IntRange(0, 2).Draw(t, "answer"))
		var up, down int
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			if rapid.IntRange(0, 19).Draw(t, "event") == 0 {
				to := rapid.Int32Range(0, 4).Draw(t, "to")
				up += int(max(to-*w.md.Spec.Replicas, 0))
				down += int(max(*w.md.Spec.Replicas-to, 0))
				w.md.Spec.Replicas = &to
				continue
			}
			before := len(w.machines)
			w.random(t)
			if after := len(
				w.machines,
			); after > before &&
				after > int(max(*w.md.Spec.Replicas, 4)) {
				t.Fatalf("a Machine was created beyond what was ever asked for:\n%s", w)
			}
			if len(w.created) > up || len(w.deleted) > down {
				t.Fatalf(
					"created %v for %d, deleted %v for %d:\n%s",
					w.created,
					up,
					w.deleted,
					down,
					w,
				)
			}
		}
		w.settle(t)
		if len(w.machines) != int(*w.md.Spec.Replicas) {
			t.Fatalf("want %d Machines:\n%s", *w.md.Spec.Replicas, w)
		}
	})
}

func (w *world) kubelets() map[string]string {
	versions := map[string]string{}
	for name, m := range w.machines {
		if m.Status.NodeInfo != nil {
			versions[name] = m.Status.NodeInfo.KubeletVersion
		}
	}
	return versions
}

func (w *world) checkKubelets(t failer, before map[string]string) {
	t.Helper()
	for name, now := range w.kubelets() {
		if before[name] > now {
			t.Fatalf("the kubelet of %s went from %s to %s:\n%s", name, before[name], now, w)
		}
	}
}

// checkBlocked compares why the group is blocked; want is empty if nothing blocks it.
func (w *world) checkBlocked(t *testing.T, want pool.Reason) {
	t.Helper()
	var got pool.Decision
	if d := w.plan.Blocked(); d != nil {
		got = *d
	}
	if got.Reason != want || (got.Message == "") != (want == "") {
		t.Errorf("blocked by %q, %q, want %q:\n%s", got.Reason, got.Message, want, w)
	}
}

// TestKeepBlocked: an uncovered change and its remedy.
func TestKeepBlocked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer pool.Answer
		change func(*clusterv1.MachineDeployment)
		want   pool.Reason
	}{
		"uncovered": {pool.AnswerNo, toVersion("v1.31.0"), pool.ReasonNotCovered},
		"unknown":   {pool.AnswerUnknown, toVersion("v1.31.0"), pool.ReasonCoverageUnknown},
		"older":     {pool.AnswerYes, toVersion("v1.29.0"), pool.ReasonKubeletAhead},
		"covered":   {pool.AnswerYes, toVersion("v1.31.0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, 1, 0)
			w.keep = true
			w.settle(t)
			names := w.names()
			test.change(w.md)
			w.covered[w.md.Spec.Template.Spec.Version] = test.answer
			w.settle(t)
			w.checkBlocked(t, test.want)
			if !slices.Equal(w.names(), names) {
				t.Errorf("Machines %v became %v", names, w.names())
			}
		})
	}
}

func toVersion(version string) func(*clusterv1.MachineDeployment) {
	return func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = version }
}

// TestKeepRevert: in the middle of a rollout, the template is reverted. The Machine that has been
// updated stays, the update of the marked one ends, and no other one moves.
func TestKeepRevert(t *testing.T) {
	t.Parallel()
	w := newWorld(3, 0, 2)
	w.keep = true
	w.settle(t)
	w.covered["v1.31.0"] = pool.AnswerYes
	w.md.Spec.Template.Spec.Version = "v1.31.0"
	names := w.names()
	w.reconcile(t)
	w.scale(w.setOf("v1.30.0"), nil) // one Machine moves
	w.scale(w.setOf("v1.30.0"), nil) // and another
	w.reconcile(t)
	w.scale(w.setOf("v1.31.0"), nil)
	w.work(w.machines[names[0]]) // begins
	w.work(w.machines[names[0]]) // ends

	w.md.Spec.Template.Spec.Version = "v1.30.0"
	w.settle(t)
	got := map[string]string{}
	for _, m := range w.machines {
		got[m.Name] = w.owner(m).Spec.Template.Spec.Version
	}
	for i, want := range []string{"v1.31.0", "v1.31.0", "v1.30.0"} {
		if got[names[i]] != want {
			t.Errorf(
				"Machine %d belongs to the MachineSet of %s, want %s:\n%s",
				i,
				got[names[i]],
				want,
				w,
			)
		}
	}
	w.checkBlocked(t, pool.ReasonKubeletAhead)
}

func (w *world) setOf(version string) *clusterv1.MachineSet {
	for _, set := range w.sets {
		if set.Spec.Template.Spec.Version == version {
			return set
		}
	}
	return nil
}

// TestKeepSurplus: a person scales down while a Machine of the new MachineSet needs remediation.
// That Machine goes, and no healthy one, because its MachineSet deletes it anyway. No Machine moves
// meanwhile.
func TestKeepSurplus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(updated, outdated *clusterv1.Machine)

		// fromOld and fromNew are how many Machines the MachineSets lose.
		fromOld, fromNew int32
	}{
		"all are well":  {change: func(_, _ *clusterv1.Machine) {}, fromOld: 1},
		"new is broken": {change: func(m, _ *clusterv1.Machine) { toRemediate(m) }, fromNew: 1},
		"old is broken": {change: func(_, m *clusterv1.Machine) { toRemediate(m) }, fromOld: 1},
		"both are broken": {change: func(m, o *clusterv1.Machine) { toRemediate(m); toRemediate(o) },
			fromNew: 1},
		"new is asked for": {
			change: func(m, o *clusterv1.Machine) { deleteAsked(m); toRemediate(o) }, fromNew: 1,
		},
		"old is asked for": {
			change: func(m, o *clusterv1.Machine) { toRemediate(m); deleteAsked(o) }, fromOld: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, 0, 1)
			w.keep = true
			w.settle(t)
			w.covered["v1.31.0"] = pool.AnswerYes
			w.md.Spec.Template.Spec.Version = "v1.31.0"
			names := w.names()
			w.reconcile(t)
			w.scale(w.setOf("v1.30.0"), nil) // one Machine moves
			w.reconcile(t)
			w.scale(w.setOf("v1.31.0"), nil)
			w.work(w.machines[names[0]]) // begins
			w.work(w.machines[names[0]]) // ends
			*w.md.Spec.Replicas = 2
			test.change(w.machines[names[0]], w.machines[names[2]])
			w.reconcile(t)
			old, newest := *w.setOf("v1.30.0").Spec.Replicas, *w.setOf("v1.31.0").Spec.Replicas
			if old != 2-test.fromOld || newest != 1-test.fromNew {
				t.Errorf("old %d, new %d Machines, want %d and %d:\n%s",
					old, newest, 2-test.fromOld, 1-test.fromNew, w)
			}
			if to := w.setOf("v1.30.0").Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]; to ==
				w.setOf("v1.31.0").Name {
				t.Errorf("Machines move while others are deleted:\n%s", w)
			}
			wantDeleted := names[1]
			switch {
			case test.fromNew > 0:
				wantDeleted = names[0]
			case name != "all are well":
				wantDeleted = names[2]
			}
			for _, d := range w.plan.Decisions {
				if (d.Action == pool.Delete) != (d.Machine == wantDeleted) {
					t.Errorf("%s of %s is decided, and %s is to be deleted", d.Action, d.Machine, wantDeleted)
				}
			}
		})
	}
}

// TestKeepUnavailable: an unavailable Machine is updated first.
func TestKeepUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(3, 0, 1)
	w.keep = true
	w.settle(t)
	sick := w.machines[w.names()[2]]
	w.set(sick, false)
	w.covered["v1.31.0"] = pool.AnswerYes
	w.md.Spec.Template.Spec.Version = "v1.31.0"
	w.reconcile(t)
	w.scale(w.setOf("v1.30.0"), nil)
	for _, m := range w.machines {
		if moved := w.owner(m).Spec.Template.Spec.Version == "v1.31.0"; moved != (m == sick) {
			t.Errorf("Machine %s moved: %t", m.Name, moved)
		}
	}
}
