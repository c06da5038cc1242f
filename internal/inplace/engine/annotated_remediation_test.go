package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// remediationOf is what a Machine has of the annotations of remediation.
func remediationOf(m *clusterv1.Machine) (found []string) {
	for _, key := range remediationKeys {
		if has(m, key) {
			found = append(found, key[strings.LastIndex(key, "/")+1:])
		}
	}
	return found
}

// TestRemediatedOnce: a failure hands a machine to remediation, once, and stops the group until a
// person asks for another try, also when the machine that takes its place has joined: otherwise an
// option that fails everywhere would have every machine replaced.
func TestRemediatedOnce(t *testing.T) {
	t.Parallel()
	policy := inPlaceOnly(1)
	policy.Spec.OnFailure, policy.Spec.MaxAttempts = v1alpha1.FailureRemediate, 1
	w := newUpgradeWorld(t, policy)
	kubelet, _ := w.register()
	failing := true
	kubelet.answer = func(request *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
		if failing {
			return inplace.Answer{Outcome: inplace.Fails, Message: "disk full"}
		}
		return kubelet.work(&request.Desired.Machine)
	}
	w.addGroup(deploymentKind, "md", "a", "b")
	w.askGroup(deploymentKind, "md", toVersion)
	w.until("a is handed over", func() bool { return has(w.machine("a"), clusterv1.RemediateMachineAnnotation) })
	if diff := cmp.Diff([]string{"remediate-machine"}, remediationOf(w.machine("a"))); diff != "" {
		t.Errorf("annotations of the failed machine (-want +got):\n%s", diff)
	}
	w.until("the group has failed", func() bool { return w.groupMarks(deploymentKind, "md").Status == request.Failed })
	// A MachineHealthCheck has it replaced.
	if err := w.client.Delete(t.Context(), w.machine("a")); err != nil {
		t.Fatal(err)
	}
	w.add(newMachine("c", ""))
	for range 10 {
		w.step()
	}
	if got := w.groupMarks(deploymentKind, "md").Status; got != request.Failed || w.marks("b") != (request.Marks{}) || w.marks("c") != (request.Marks{}) {
		t.Errorf("the group is %s, and goes on with b %+v, c %+v", got, w.marks("b"), w.marks("c"))
	}
	if c := conditionOf(capi.Conditions(w.group(deploymentKind, "md"))); c == nil || !strings.Contains(c.Message, "handed to remediation; set windlass.dev/update-retry on the group") {
		t.Errorf("the condition of the group is %+v", c)
	}
	failing = false
	w.annotate(w.group(deploymentKind, "md"), map[string]any{v1alpha1.UpdateRetryAnnotation: ""})
	w.untilDone("b", toVersion)
	w.untilDone("c", toVersion)
	if diff := cmp.Diff([]string{"InProgress", "Failed", "InProgress"}, w.said("md")[:3]); diff != "" {
		t.Errorf("Events of the group (-want +got):\n%s", diff)
	}
}

// TestProtectionCostsNoWrite: the protection from remediation comes and goes with the records; it
// costs no write of its own.
func TestProtectionCostsNoWrite(t *testing.T) {
	t.Parallel()
	var writes [2]int
	for i, persons := range []bool{true, false} {
		w := newUpgradeWorld(t)
		w.register()
		m := newMachine("a", "")
		if persons {
			// There is nothing to protect then.
			m.Annotations[clusterv1.MachineSkipRemediationAnnotation] = "by a person"
		}
		w.add(m)
		w.ask("a", toVersion)
		w.onWrite = func(string, client.Object) { writes[i]++ }
		w.untilDone("a", toVersion)
		if left := remediationOf(w.machine("a")); (len(left) == 1) != persons || len(left) > 1 {
			t.Errorf("left are %v", left)
		}
	}
	if writes[0] != writes[1] || writes[0] == 0 {
		t.Errorf("with the protection of a person there were %d writes, and %d with ours", writes[0], writes[1])
	}
}
