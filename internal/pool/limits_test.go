package pool_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"sigs.k8s.io/cluster-api/util/conditions"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	percent, number := intstr.FromString, intstr.FromInt32
	type limits = pool.Limits
	type progress = pool.Progress
	for name, tt := range map[string]struct {
		limits limits
		at     progress
		more   int32
		reason pool.Reason
	}{
		"no limits":   {at: progress{Replicas: 10, Touched: 2}, more: 8},
		"all touched": {limits: limits{MaxInFlight: 1}, at: progress{Replicas: 3, Touched: 3}},
		"in flight": {limits{MaxInFlight: 3}, progress{Replicas: 9, Touched: 2, InFlight: 2}, 1,
			pool.ReasonMaxInFlight},
		"too many": {limits{MaxInFlight: 1}, progress{Replicas: 9, Touched: 2, InFlight: 2}, 0,
			pool.ReasonMaxInFlight},
		"a canary begins": {limits{MaxInFlight: 5, Canary: number(2)}, progress{Replicas: 9}, 2,
			pool.ReasonCanary},
		"a canary of 25%": {limits{Canary: percent("25%")}, progress{Replicas: 9}, 3, pool.ReasonCanary},
		"a canary is not done": {
			limits{Canary: number(2)}, progress{Replicas: 9, Touched: 2, Done: 1}, 0, pool.ReasonCanary,
		},
		"a canary is done": {limits{Canary: number(2)}, progress{Replicas: 9, Touched: 2, Done: 2}, 7,
			""},
		"a canary failed": {
			limits{Canary: number(1)}, progress{Replicas: 9, Touched: 1, Failed: []string{"a"}},
			0, pool.ReasonCanaryFailed,
		},
		"a canary failed and is gone": {
			limits{Canary: number(1)}, progress{Replicas: 9, Touched: 1, Done: 1, Held: "gone", Replaced: 1},
			0, pool.ReasonCanaryFailed,
		},
		"a canary failed and is gone, no canary any more": {
			limits{}, progress{Replicas: 9, Touched: 1, Done: 1, Held: "gone", Replaced: 1}, 8, "",
		},
		"a canary that failed is tried again": {
			limits{Canary: number(2)}, progress{Replicas: 9, Touched: 2, Done: 2, Replaced: 1}, 1,
			pool.ReasonCanary,
		},
		"a canary fails again": {
			limits{Canary: number(1)},
			progress{Replicas: 9, Touched: 2, Done: 1, Replaced: 1, Failed: []string{"a"}}, 0,
			pool.ReasonCanaryFailed,
		},
		"a canary is done after a retry": {
			limits{Canary: number(1)}, progress{Replicas: 9, Touched: 2, Done: 2, Replaced: 1}, 7, "",
		},
		"the first batch": {
			limits{Canary: number(1), Batches: []intstr.IntOrString{number(2), percent("50%")}},
			progress{Replicas: 9, Touched: 1, Done: 1}, 2, pool.ReasonBatch,
		},
		"the second batch": {
			limits{Canary: number(1), Batches: []intstr.IntOrString{number(2), number(4)}},
			progress{Replicas: 9, Touched: 4, Done: 3}, 3, pool.ReasonBatch,
		},
		"the last batch repeats": {
			limits{Batches: []intstr.IntOrString{number(1), number(2)}},
			progress{Replicas: 9, Touched: 5, Done: 5}, 2, pool.ReasonBatch,
		},
		"batches without canary": {
			limits{Batches: []intstr.IntOrString{number(3)}}, progress{Replicas: 9}, 3, pool.ReasonBatch,
		},
		"a machine of a batch failed": {
			limits{Batches: []intstr.IntOrString{number(2)}},
			progress{Replicas: 9, Touched: 4, Done: 3, Failed: []string{"a"}}, 0, pool.ReasonBatchFailed,
		},
		"a machine of a batch is overdue": {
			limits{MaxFailures: 3, Batches: []intstr.IntOrString{number(2)}},
			progress{Replicas: 9, Touched: 2, Done: 1, Overdue: []string{"a"}}, 0, pool.ReasonBatchFailed,
		},
		"a failure, and the batch continues": {
			limits{Batches: []intstr.IntOrString{number(3)}},
			progress{Replicas: 9, Touched: 2, Done: 1, Failed: []string{"a"}}, 1, pool.ReasonBatch,
		},
		"a partition": {limits{Partition: percent("30%")}, progress{Replicas: 9, Touched: 4}, 2,
			pool.ReasonPartition},
		"a partition, full": {limits{Partition: number(3)}, progress{Replicas: 9, Touched: 7}, 0,
			pool.ReasonPartition},
		"everything stays": {limits{Partition: percent("100%")}, progress{Replicas: 9}, 0,
			pool.ReasonPartition},
		"a failure, no limit": {limits{}, progress{Replicas: 9, Touched: 1, Failed: []string{"a"}}, 8,
			""},
		"fewer failures": {
			limits{MaxFailures: 2}, progress{Replicas: 9, Touched: 1, Failed: []string{"a"}}, 8, "",
		},
		"failures": {
			limits{MaxFailures: 2}, progress{Replicas: 9, Touched: 2, Failed: []string{"a"},
				Overdue: []string{"b"}},
			0, pool.ReasonMaxFailures,
		},
		"one that fails twice": {
			limits{MaxFailures: 2}, progress{Replicas: 9, Touched: 2, Failed: []string{"a"},
				Overdue: []string{"a"}},
			7, "",
		},
		"a machine's deadline": {
			limits{MachineDeadline: time.Minute}, progress{Replicas: 9, Touched: 2, Overdue: []string{"b"}},
			0, pool.ReasonMachineDeadline,
		},
		"the group's deadline": {limits{}, progress{Replicas: 9, Late: true}, 0,
			pool.ReasonGroupDeadline},
		"late, and a partition": {
			limits{Partition: number(3)}, progress{Replicas: 9, Touched: 6, Late: true}, 0,
			pool.ReasonPartition,
		},
		"late before the partition": {
			limits{Partition: number(3)}, progress{Replicas: 9, Touched: 5, Late: true}, 0,
			pool.ReasonGroupDeadline,
		},
		"the next rack": {
			limits{}, progress{Replicas: 9,
				Turn: &pool.Turn{Place: "rack=1", Machines: 2}}, 2, pool.ReasonOrder,
		},
		"a rack is not done": {
			limits{}, progress{Replicas: 9, Failed: []string{"b"},
				Turn: &pool.Turn{Machines: 2, Before: []string{"a"}}},
			0, pool.ReasonOrder,
		},
		"a machine of a rack does not exist yet": {
			limits{}, progress{Replicas: 9, Turn: &pool.Turn{Machines: 2, Missing: 1}}, 0, pool.ReasonOrder,
		},
		"a rack has a failure": {
			limits{}, progress{Replicas: 9, Failed: []string{"b"},
				Turn: &pool.Turn{Machines: 2, Before: []string{"a", "b"}}},
			0, pool.ReasonOrderFailed,
		},
		"a machine of a rack is overdue": {
			limits{MaxFailures: 2}, progress{Replicas: 9, Overdue: []string{"b"},
				Turn: &pool.Turn{Machines: 2, Before: []string{"a", "b"}}},
			0, pool.ReasonOrderFailed,
		},
		"an unknown policy": {limits{Unknown: "two"}, progress{Replicas: 9}, 0, pool.ReasonPolicyUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.limits.Allow(tt.at)
			want := pool.Allowance{More: tt.more, Reason: tt.reason, Message: got.Message}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if (got.Message == "") != (tt.reason == "") {
				t.Errorf("the message is %q", got.Message)
			}
		})
	}
}

// TestHoldMessages checks that what holds a rollout names the Machine, the limit and a fix.
func TestHoldMessages(t *testing.T) {
	t.Parallel()
	const byHand = "set the annotation windlass.dev/allow-replacement on the Machine and delete it"
	for want, tt := range map[string]struct {
		limits pool.Limits
		at     pool.Progress
	}{
		"Machine a failed (maxFailures 1). Fix: repair it, or " + byHand + ", or raise maxFailures": {
			pool.Limits{MaxFailures: 1}, pool.Progress{Replicas: 9, Failed: []string{"a"}},
		},
		"Machine a and 1 more failed (maxFailures 2). Fix: repair it, or " + byHand +
			", or raise maxFailures": {
			pool.Limits{MaxFailures: 2}, pool.Progress{Replicas: 9, Failed: []string{"b", "a"}},
		},
		"Machine a failed, and is to be done before batch 3 begins. Fix: repair it, or " + byHand: {
			pool.Limits{Batches: []intstr.IntOrString{intstr.FromInt32(1)}},
			pool.Progress{Replicas: 9, Touched: 2, Done: 1, Failed: []string{"a"}},
		},
		"the UpdatePolicy keeps 9 Machines at the old template (partition 100%). " +
			"Fix: lower partition when they are to change": {
			pool.Limits{Partition: intstr.FromString("100%")}, pool.Progress{Replicas: 9},
		},
	} {
		if diff := cmp.Diff(want, tt.limits.Allow(tt.at).Message); diff != "" {
			t.Error(diff)
		}
	}
}

func TestDescribeLimits(t *testing.T) {
	t.Parallel()
	last := labels.Set{"tier": "ingest"}.AsSelector()
	number := intstr.FromInt32
	for want, l := range map[string]pool.Limits{
		"":                      {MaxInFlight: 3, Canary: number(1), Soak: time.Minute},
		"canary 0; partition 2": {Partition: number(2)},
		"canary 25%; batches 2, 50%; maxFailures 2; machineDeadlineSeconds 60; groupDeadlineSeconds 3600": {
			Canary: intstr.FromString("25%"), Batches: []intstr.IntOrString{number(2),
				intstr.FromString("50%")},
			MaxFailures: 2, MachineDeadline: time.Minute, GroupDeadline: time.Hour,
		},
		"order by rack, zone, one value at a time, last tier=ingest": {
			Canary: number(1),
			Order:  policy.Order{Labels: []string{"rack", "zone"}, OneAtATime: true, Last: last},
		},
		"order, last tier=ingest": {Canary: number(1), Order: policy.Order{Last: last}},
	} {
		if got := l.Describe(); got != want {
			t.Errorf("the limits are %q, want %q", got, want)
		}
	}
}

// TestLimitsProperties: in any order of events, in place and by replacement, with and without kept
// Machines, a rollout keeps the partition, leaves all but the canary alone until it is done, and
// reaches all others. By replacement it has at most maxInFlight Machines in flight.
func TestLimitsProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(1, 5).Draw(t, "replicas")
		surge := rapid.Int32Range(0, 2).Draw(t, "surge")
		w := newWorld(replicas, surge, rapid.Int32Range(0, min(2, replicas)).Draw(t, "unavailable"))
		w.keep = rapid.Bool().Draw(t, "keep")
		w.limits = &pool.Limits{
			MaxInFlight: rapid.Int32Range(1, 3).Draw(t, "maxInFlight"),
			Canary:      intstr.FromInt32(rapid.Int32Range(0, 2).Draw(t, "canary")),
			Partition:   intstr.FromInt32(rapid.Int32Range(0, replicas).Draw(t, "partition")),
		}
		if rapid.Bool().Draw(t, "batches") {
			w.limits.Batches = []intstr.IntOrString{intstr.FromInt32(rapid.Int32Range(1, 2).Draw(t,
				"batch"))}
		}
		w.settle(t)
		before := w.names()
		w.md.Spec.Template.Spec.Version = "v1.31.0"
		w.covered["v1.31.0"] = pool.AnswerYes
		if !w.keep && rapid.Bool().Draw(t, "replace") {
			w.covered["v1.31.0"] = pool.AnswerNo
		}
		canaryDone := false
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			w.random(t)
			canaryDone = canaryDone || w.upToDate() >= w.limits.Canary.IntValue()
			w.checkLimits(t, before, canaryDone)
		}
		w.settle(t)
		partition := w.limits.Partition.IntVal
		if n := w.upToDate(); n != int(replicas-partition) || len(w.machines) != int(replicas) {
			t.Fatalf("%d of %d Machines are up to date, and the partition is %d:\n%s",
				n, len(w.machines), partition, w)
		}
	})
}

// TestFailingCanary: a canary that fails is the only Machine that is touched.
func TestFailingCanary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(1, 5).Draw(t, "replicas")
		w := newWorld(replicas, rapid.Int32Range(0, 2).Draw(t, "surge"),
			rapid.Int32Range(0, min(2, replicas)).Draw(t, "unavailable"))
		w.keep = rapid.Bool().Draw(t, "keep")
		w.limits = &pool.Limits{MaxInFlight: 3, Canary: intstr.FromInt32(1)}
		w.settle(t)
		before := w.names()
		w.fails, w.md.Spec.Template.Spec.Version = "v1.31.0", "v1.31.0"
		w.covered["v1.31.0"] = pool.AnswerYes
		if !w.keep && rapid.Bool().Draw(t, "replace") {
			w.covered["v1.31.0"] = pool.AnswerNo
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			w.random(t)
			w.checkTouched(t, before, 1)
		}
		w.settle(t)
		w.checkTouched(t, before, 1)
		if replicas > 1 && w.plan.Allowance.More > 0 {
			t.Fatalf("the rollout goes on: %+v\n%s", w.plan.Allowance, w)
		}
	})
}

// upToDate is how many Machines have the current version and work.
func (w *world) upToDate() int {
	n := 0
	for _, m := range w.machines {
		if m.Spec.Version == w.md.Spec.Template.Spec.Version && !pool.IsUpdating(m) &&
			conditions.IsTrue(m, clusterv1.MachineAvailableCondition) {
			n++
		}
	}
	return n
}

// checkTouched: at most so many Machines are gone or not as they were.
func (w *world) checkTouched(t failer, before []string, most int) {
	t.Helper()
	touched := 0
	for _, name := range before {
		m := w.machines[name]
		if m == nil || pool.IsUpdating(m) || m.Spec.Version == w.md.Spec.Template.Spec.Version {
			touched++
		}
	}
	if touched > most {
		t.Fatalf("%d Machines are touched, at most %d may be:\n%s", touched, most, w)
	}
}

func (w *world) checkLimits(t failer, before []string, canaryDone bool) {
	t.Helper()
	replicas := int(*w.md.Spec.Replicas)
	partition := w.limits.Partition.IntValue()
	w.checkTouched(t, before, replicas-partition)
	if canary := w.limits.Canary.IntValue(); canary > 0 && !canaryDone {
		w.checkTouched(t, before, canary)
	}
	if w.covered[w.md.Spec.Template.Spec.Version] == pool.AnswerYes {
		return // The engine of updates in place bounds them.
	}
	busy := 0
	for _, m := range w.machines {
		if pool.IsUpdating(m) || !m.Status.NodeRef.IsDefined() {
			busy++
		}
	}
	busy += max(replicas-len(w.machines), 0)
	if most := int(w.limits.MaxInFlight); busy > most {
		t.Fatalf("%d Machines are in flight, maxInFlight is %d:\n%s", busy, most, w)
	}
}

// TestEveryLimitHasAText holds that Describe and Names know each field of LimitFields.
func TestEveryLimitHasAText(t *testing.T) {
	t.Parallel()
	for field := range reflect.TypeFor[pool.LimitFields]().Fields() {
		fields := pool.LimitFields{Canary: intstr.FromInt32(1)}
		switch v := reflect.ValueOf(&fields).Elem().FieldByIndex(field.Index).Addr().Interface().(type) {
		case *intstr.IntOrString:
			*v = intstr.FromInt32(2)
		case *[]intstr.IntOrString:
			*v = []intstr.IntOrString{intstr.FromInt32(2)}
		case **intstr.IntOrString:
			*v = new(intstr.FromInt32(2))
		case **pool.OrderFields:
			*v = &pool.OrderFields{Labels: []string{"rack"}}
		case *int32:
			*v = 2
		case *int64:
			*v = 2
		default:
			t.Fatalf("the test does not know how to set %s", field.Name)
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if diff := cmp.Diff([]string{name}, fields.Names()); diff != "" {
			t.Errorf("the names of %+v (-want +got):\n%s", fields, diff)
		}
	}
}
