package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/provider/cloudconfig"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

func TestComputeReady(t *testing.T) {
	ended := site.HostStatus{UnitEnded: true}
	tests := map[string]struct {
		state   hostState
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"running":            {hostState{result: cloudconfig.Running}, metav1.ConditionFalse, v1alpha1.BootstrappingReason, ""},
		"succeeded":          {hostState{host: ended, result: cloudconfig.Succeeded}, metav1.ConditionTrue, v1alpha1.HostRunningReason, ""},
		"recorded before":    {hostState{bootstrapped: true, result: cloudconfig.Running}, metav1.ConditionTrue, v1alpha1.HostRunningReason, ""},
		"failed":             {hostState{host: ended, result: cloudconfig.Failed, message: "why"}, metav1.ConditionFalse, v1alpha1.BootstrapFailedReason, "why"},
		"interrupted":        {hostState{result: cloudconfig.Interrupted}, metav1.ConditionFalse, v1alpha1.BootstrapFailedReason, "power"},
		"ended with nothing": {hostState{host: ended, result: cloudconfig.Running}, metav1.ConditionFalse, v1alpha1.BootstrapFailedReason, "without a result"},
		"all faults": {
			hostState{bootstrapped: true, host: site.HostStatus{Condition: site.Condition{
				PowerOff: true, Disconnected: true, DiskFull: true, SyncDelay: time.Second,
			}}},
			metav1.ConditionFalse, v1alpha1.HostFaultReason, "a full disk, a slow disk (1s), no network, no power",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := computeReady(test.state)
			if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.message) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestComputeCondition(t *testing.T) {
	type annotations = map[string]string
	tests := map[string]struct {
		annotations annotations
		want        site.Condition
		err         bool
	}{
		"none":                       {annotations{"other": "x"}, site.Condition{}, false},
		"power":                      {annotations{v1alpha1.PowerOffAnnotation: "true"}, site.Condition{PowerOff: true}, false},
		"disk":                       {annotations{v1alpha1.DiskFullAnnotation: "true"}, site.Condition{DiskFull: true}, false},
		"network":                    {annotations{v1alpha1.NetworkLostAnnotation: "true"}, site.Condition{Disconnected: true}, false},
		"network without power":      {annotations{v1alpha1.NetworkLostAnnotation: "true", v1alpha1.PowerOffAnnotation: "true"}, site.Condition{PowerOff: true}, false},
		"slow":                       {annotations{v1alpha1.SlowDiskAnnotation: "100ms"}, site.Condition{SyncDelay: 100 * time.Millisecond}, false},
		"slow without a unit":        {annotations{v1alpha1.SlowDiskAnnotation: "100"}, site.Condition{}, true},
		"slow by less than nothing":  {annotations{v1alpha1.SlowDiskAnnotation: "-1s"}, site.Condition{}, true},
		"a fault that there is not":  {annotations{v1alpha1.FaultPrefix + "poweroff": "true"}, site.Condition{}, true},
		"a value that means nothing": {annotations{v1alpha1.PowerOffAnnotation: "false"}, site.Condition{}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := computeCondition(test.annotations)
			if (err != nil) != test.err {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecidePool(t *testing.T) {
	before, now := memberSpec{version: "v1.35.4"}, memberSpec{version: "v1.36.3"}
	m := func(name string, spec memberSpec, flags string) member {
		return member{
			name: name, spec: spec, available: strings.Contains(flags, "a"), deleting: strings.Contains(flags, "d"),
			preferred: strings.Contains(flags, "p"),
		}
	}
	tests := map[string]struct {
		replicas int
		members  []member
		create   int
		remove   []string
		done     bool
	}{
		"a new pool is made at once":           {3, nil, 3, nil, false},
		"nothing to do":                        {2, []member{m("x", now, "a"), m("y", now, "a")}, 0, nil, true},
		"not available yet":                    {1, []member{m("x", now, "")}, 0, nil, false},
		"one more than replicas first":         {2, []member{m("x", before, "a"), m("y", before, "a")}, 1, nil, false},
		"the old one waits for the new one":    {2, []member{m("x", before, "a"), m("y", before, "a"), m("z", now, "")}, 0, nil, false},
		"then one goes":                        {2, []member{m("x", before, "a"), m("y", before, "a"), m("z", now, "a")}, 0, []string{"x"}, false},
		"while it goes no other is made":       {2, []member{m("x", before, "d"), m("y", before, "a"), m("z", now, "a")}, 0, nil, false},
		"an outdated one that fails goes":      {2, []member{m("x", before, "a"), m("y", before, "")}, 1, []string{"y"}, false},
		"the last one goes":                    {2, []member{m("w", now, "a"), m("y", before, "a"), m("z", now, "a")}, 0, []string{"y"}, false},
		"fewer: the unavailable first":         {1, []member{m("x", now, "a"), m("y", now, "")}, 0, []string{"y"}, false},
		"fewer: the preferred first":           {1, []member{m("x", now, "a"), m("y", now, "ap")}, 0, []string{"y"}, false},
		"fewer: by name":                       {1, []member{m("y", now, "a"), m("x", now, "a"), m("z", now, "a")}, 0, []string{"x", "y"}, false},
		"none":                                 {0, []member{m("x", now, "a")}, 0, []string{"x"}, false},
		"fewer and outdated":                   {1, []member{m("x", before, "a"), m("y", before, "a")}, 0, []string{"x"}, false},
		"a deleted machine counts for nothing": {1, []member{m("x", now, "ad")}, 0, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := decidePool(test.replicas, now, test.members)
			if d.create != test.create || cmp.Diff(test.remove, d.remove) != "" || (d.message == "") != test.done {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestAPoolIsReplacedWithoutLoss lets a pool run from random beginnings, where machines become available in any order.
func TestAPoolIsReplacedWithoutLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := memberSpec{version: "now"}
		replicas := rapid.IntRange(0, 4).Draw(t, "replicas")
		var members []member
		for i := range rapid.IntRange(0, 5).Draw(t, "members") {
			members = append(members, member{
				name: string(rune('a' + i)), spec: memberSpec{version: rapid.SampledFrom([]string{"now", "before"}).Draw(t, "version")},
				available: rapid.Bool().Draw(t, "available"),
			})
		}
		first := len(members)
		for step := 0; ; step++ {
			if step > 1000 {
				t.Fatalf("it does not end: %+v", members)
			}
			d := decidePool(replicas, now, members)
			if d.message == "" {
				break
			}
			available := count(members)
			members = apply(members, d, now, step)
			if got := count(members); got < min(available, replicas) {
				t.Fatalf("%d of %d are available after %+v", got, replicas, d)
			}
			if len(members) > max(first, replicas+1) {
				t.Fatalf("%d machines for %d replicas", len(members), replicas)
			}
			advance(t, members)
			members = gone(t, members)
		}
	})
}

func count(members []member) (available int) {
	for _, m := range members {
		if m.available && !m.deleting {
			available++
		}
	}
	return available
}

func apply(members []member, d poolDecision, spec memberSpec, step int) []member {
	for i := range members {
		for _, name := range d.remove {
			members[i].deleting = members[i].deleting || members[i].name == name
		}
	}
	for i := range d.create {
		members = append(members, member{name: "new-" + string(rune('a'+step%26)) + string(rune('a'+i)) + strings.Repeat("x", step/26), spec: spec})
	}
	return members
}

// advance makes one machine available, so that the pool always moves.
func advance(t *rapid.T, members []member) {
	var waiting []int
	for i, m := range members {
		if !m.available && !m.deleting {
			waiting = append(waiting, i)
		}
	}
	if len(waiting) > 0 {
		members[rapid.SampledFrom(waiting).Draw(t, "becomes available")].available = true
	}
}

// gone removes some of the machines that are being deleted.
func gone(t *rapid.T, members []member) []member {
	var result []member
	for _, m := range members {
		if !m.deleting || rapid.Bool().Draw(t, "stays a while") {
			result = append(result, m)
		}
	}
	return result
}
