package pool_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// TestNodeMissing: a kept group with a Machine that gets no Node is looked at again when the
// Machine must have one, and is blocked then, also in a strict order in which its place comes
// first.
func TestNodeMissing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits *pool.Limits
		due    time.Duration
	}{
		"without a policy": {due: 20 * time.Minute},
		"with a deadline": {
			limits: &pool.Limits{MachineDeadline: time.Hour, Canary: intstr.FromInt32(1)}, due: time.Hour,
		},
		"a strict order": {
			limits: &pool.Limits{Order: policy.Order{Labels: []string{"rack"}, OneAtATime: true}},
			due:    20 * time.Minute,
		},
	} {
		w := settledGroup(t, true)
		w.limits = tt.limits
		toVersion("v1.31.0")(w.md)
		for i, name := range w.names() {
			m := w.machines[name]
			m.CreationTimestamp = metav1.NewTime(epoch.Add(-24 * time.Hour))
			m.Labels = map[string]string{"rack": "b"}
			if i == 0 {
				withoutNode(m)
				m.CreationTimestamp = metav1.NewTime(epoch)
				m.Labels["rack"] = "a"
			}
		}
		g := w.group()
		coverage := map[string]pool.Coverage{}
		for _, set := range g.MachineSets {
			coverage[set.Name] = pool.Coverage{Answer: pool.AnswerYes}
		}
		at := func(now time.Time) pool.Plan {
			g.Now = now
			plan, err := pool.Decide(g, coverage)
			if err != nil {
				t.Fatal(err)
			}
			return plan
		}
		before := at(epoch.Add(tt.due - time.Second))
		if before.Blocked() != nil || !before.Wake.Equal(epoch.Add(tt.due)) {
			t.Errorf("%s: before, it is blocked by %+v and looked at again at %s", name, before.Blocked(),
				before.Wake)
		}
		after := at(epoch.Add(tt.due))
		if b := after.Blocked(); b == nil || b.Reason != pool.ReasonNodeMissing {
			t.Errorf("%s: after %s it is blocked by %+v", name, tt.due, b)
		}
	}
}
