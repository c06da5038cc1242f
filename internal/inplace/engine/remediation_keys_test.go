package engine_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
	"github.com/windlass-dev/windlass/internal/policy"
)

const (
	skip      = clusterv1.MachineSkipRemediationAnnotation
	ours      = v1alpha1.RemediationPausedAnnotation
	remediate = clusterv1.RemediateMachineAnnotation
)

// with returns annotations; all are empty.
func with(keys ...string) map[string]string {
	annotations := map[string]string{}
	for _, key := range keys {
		annotations[key] = ""
	}
	return annotations
}

// TestChange holds the annotations that a Machine has after each change of the record of its
// update.
func TestChange(t *testing.T) {
	t.Parallel()
	running, failed, unanswered := &inplace.Progress{Phase: inplace.Updating}, &inplace.Progress{Phase: inplace.Failed}, &inplace.Progress{Phase: inplace.Failed, Unanswered: true}
	replace := policy.Policy{Remediate: true}
	persons := map[string]string{skip: "true", ours: ""}
	for name, tt := range map[string]struct {
		annotations   map[string]string
		before, after *inplace.Progress
		policy        policy.Policy
		underWay      bool
		want          map[string]string
	}{
		"begins": {after: running, want: with(skip, ours)},
		"begins on a Machine that a person protects": {annotations: with(skip), after: running, want: with(skip)},
		"goes on":                                  {annotations: with(skip, ours), before: running, after: running, want: with(skip, ours)},
		"goes on, protection removed":              {annotations: with(ours), before: running, after: running, want: with(skip, ours)},
		"goes on, a person asks for remediation":   {annotations: with(skip, ours, remediate), before: running, after: running, want: with(skip, ours, remediate)},
		"goes on, its owner replaces it":           {annotations: with(skip, ours), before: running, after: running, underWay: true, want: with()},
		"ends":                                     {annotations: with(skip, ours), before: running, want: with()},
		"ends on a Machine that a person protects": {annotations: with(skip), before: running, want: with(skip)},
		"ends, a person has protected it since":    {annotations: persons, before: running, want: map[string]string{skip: "true"}},
		"ends, a person has asked for remediation": {annotations: with(skip, ours, remediate), before: running, want: with(remediate)},
		"fails":              {annotations: with(skip, ours), before: running, after: failed, want: with(skip, ours)},
		"fails, is replaced": {annotations: with(skip, ours), before: running, after: failed, policy: replace, want: with(remediate)},
		"fails, is replaced, a person protects it": {annotations: with(skip), before: running, after: failed, policy: replace, want: with(skip, remediate)},
		"fails, its updater was not heard":         {annotations: with(skip, ours), before: running, after: unanswered, policy: replace, want: with(skip, ours)},
		"has failed, the policy is edited":         {annotations: with(skip, ours), before: failed, after: failed, policy: replace, want: with(skip, ours)},
		"has failed, a person takes it back":       {before: failed, after: failed, policy: replace, want: with()},
		"has failed, a person asks for it":         {annotations: with(skip, ours, remediate), before: failed, after: failed, want: with(remediate)},
		"is tried again":                           {annotations: with(remediate), before: failed, after: running, policy: replace, want: with(skip, ours)},
		"is given up":                              {annotations: with(remediate), before: failed, want: with()},
		"has lost its record":                      {annotations: with(skip, ours), want: with()},
		"never was":                                {annotations: with(skip, remediate), want: with(skip, remediate)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := with()
			maps.Copy(got, tt.annotations)
			change := engine.ChangeRemediation(got, tt.before, tt.after, tt.policy, tt.underWay)
			for key, value := range change {
				if value == nil {
					delete(got, key)
				} else {
					got[key] = *value
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			// The same decision about what was written changes nothing.
			if again := engine.ChangeRemediation(got, tt.after, tt.after, tt.policy, tt.underWay); len(again) != 0 {
				t.Errorf("decided again it changes %v", again)
			}
		})
	}
}

// TestAsked tells what keeps an update from beginning from what a running one goes on beside.
func TestAsked(t *testing.T) {
	t.Parallel()
	falseOf := func(kinds ...string) (conditions []metav1.Condition) {
		for _, kind := range kinds {
			conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Waiting"})
		}
		return conditions
	}
	external := clusterv1.MachineExternallyRemediatedCondition
	for name, tt := range map[string]struct {
		annotations map[string]string
		conditions  []metav1.Condition
		// begins and goesOn say whether an update may begin, and go on.
		begins, goesOn bool
	}{
		"nothing":                         {begins: true, goesOn: true},
		"an annotation":                   {annotations: with(remediate), goesOn: true},
		"an annotation without effect":    {annotations: with(remediate, skip), begins: true, goesOn: true},
		"its owner":                       {conditions: falseOf(clusterv1.MachineOwnerRemediatedCondition)},
		"its owner, whatever is skipped":  {annotations: with(skip), conditions: falseOf(clusterv1.MachineOwnerRemediatedCondition)},
		"an external controller":          {conditions: falseOf(external, clusterv1.MachineHealthCheckSucceededCondition)},
		"an external controller, earlier": {conditions: falseOf(external), begins: true, goesOn: true},
		"unhealthy":                       {conditions: falseOf(clusterv1.MachineHealthCheckSucceededCondition), begins: true, goesOn: true},
	} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}, Status: clusterv1.MachineStatus{Conditions: tt.conditions}}
		if why := engine.RemediationAsked(m, nil); (why == "") != tt.begins {
			t.Errorf("%s: an update that begins: %q", name, why)
		}
		if why := engine.RemediationAsked(m, &inplace.Progress{}); (why == "") != tt.goesOn || why != engine.RemediationHeld(m) {
			t.Errorf("%s: an update that goes on: %q", name, why)
		}
	}
}
