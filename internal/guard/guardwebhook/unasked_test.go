package guardwebhook_test

import (
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// In the middle of a rollout about which no hook was asked, a refusal says so.
func TestUnasked(t *testing.T) {
	const hint = "If stock Cluster API drives the Cluster and the policy is newer than the rollout, " +
		"change the template again or restart capi-controller-manager"
	rollingOut := metav1.Condition{Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionTrue}
	blocked := metav1.Condition{Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue}
	over := metav1.Condition{Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionFalse}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		// decisions are on the old MachineSet.
		decisions string
		operation admissionv1.Operation
		object    func(*world) any
		fails     bool
		want      bool
	}{
		"deleted":                    {conditions: []metav1.Condition{rollingOut}, operation: admissionv1.Delete, object: (*world).worker, want: true},
		"created":                    {conditions: []metav1.Condition{rollingOut}, operation: admissionv1.Create, object: (*world).newWorker, want: true},
		"no rollout":                 {conditions: []metav1.Condition{over}, operation: admissionv1.Delete, object: (*world).worker},
		"nothing known":              {operation: admissionv1.Delete, object: (*world).worker},
		"a hook refused":             {conditions: []metav1.Condition{rollingOut, blocked}, operation: admissionv1.Delete, object: (*world).worker},
		"decided, deleted":           {conditions: []metav1.Condition{rollingOut}, decisions: `[{"id":"d1","target":"ms-new"}]`, operation: admissionv1.Delete, object: (*world).worker},
		"decided, created":           {conditions: []metav1.Condition{rollingOut}, decisions: `[{"id":"d1","target":"ms-new"}]`, operation: admissionv1.Create, object: (*world).newWorker},
		"an earlier rollout decided": {conditions: []metav1.Condition{rollingOut}, decisions: `[{"id":"d1","target":"ms-old"}]`, operation: admissionv1.Delete, object: (*world).worker, want: true},
		"decisions that nobody can read": {
			conditions: []metav1.Condition{rollingOut}, decisions: `{`, operation: admissionv1.Delete, object: (*world).worker, want: true,
		},
		"a Machine that is not replaced": {
			conditions: []metav1.Condition{rollingOut}, operation: admissionv1.Delete, object: func(w *world) any { return w.machine("w-2") },
		},
		"a control plane":            {conditions: []metav1.Condition{rollingOut}, operation: admissionv1.Delete, object: (*world).plane},
		"MachineSets are not listed": {conditions: []metav1.Condition{rollingOut}, operation: admissionv1.Delete, object: (*world).worker, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			md := deployment()
			w.update(md, func() { md.Status.Conditions = test.conditions })
			older, newer := machineSet("ms-old", nil), machineSet("ms-new", nil)
			w.update(older, func() {
				older.Annotations = map[string]string{clusterv1.RevisionAnnotation: "9", v1alpha1.UpdateDecisionsAnnotation: test.decisions}
			})
			w.update(newer, func() { newer.Annotations = map[string]string{clusterv1.RevisionAnnotation: "10"} })
			object := test.object(w)
			if test.fails {
				w.fail["MachineSetList"] = errors.New("no rule")
			}
			response := w.ask(test.operation, object)
			expect(t, response, false, "UpdatePolicy keep keeps machines")
			if got := strings.Contains(response.Result.Message, hint); got != test.want {
				t.Errorf("the message explains: %t, want %t: %s", got, test.want, response.Result.Message)
			}
			if w.recorder.longest > 1024 || w.recorder.longest < len(response.Result.Message) {
				t.Errorf("a note of %d bytes, of a message of %d", w.recorder.longest, len(response.Result.Message))
			}
		})
	}
}
