package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/test/loopback"
)

// ofGroup is a request that hands both machines of the inventory over, but for those that stay.
func ofGroup(operation string, stay int32) *updatesv1.HandOverRequest {
	raw := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	request := of(updatesv1.HandOver, operation, "worker-0", "worker-1")
	request.Budget = &updatesv1.Budget{AtOnce: 1, Stay: stay}
	request.Desired = &updatesv1.Objects{
		Machine:               raw(`{"spec":{"version":"v1.32.1","infrastructureRef":{"name":"t"},"bootstrap":{"configRef":{"name":"t"}}}}`),
		InfrastructureMachine: raw(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"HostMachine","spec":{"size":2}}`),
		BootstrapConfig:       raw(`{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfig","spec":{"format":"x"}}`),
	}
	return request
}

func (s *apiServer) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.specs)
}

// specsOf are the writes of the objects of a machine, the Machine last.
func specsOf(name string) []string {
	return []string{
		"hostmachines i-" + name + ` {"size":2}`, "kubeadmconfigs b-" + name + ` {"format":"x"}`, "machines " + name + ` {"version":"v1.32.1"}`,
	}
}

func answerAll(t *testing.T, u *updater, requests ...*updatesv1.HandOverRequest) {
	t.Helper()
	for _, request := range requests {
		if _, declined := u.answer(request); declined != "" {
			t.Errorf("%s %s was declined: %s", request.Phase, request.OperationID, declined)
		}
	}
}

// TestGroup updates a group in the order of the inventory, writes the objects of each machine, and leaves
// those that stay until the budget is another one.
func TestGroup(t *testing.T) {
	r := start(t, "cat >>told\necho $1 >>runs\n")
	u := r.newUpdater(t)
	answerAll(t, u, ofGroup("one", 1))
	u.running.Wait()
	if diff := cmp.Diff(specsOf("worker-1"), r.api.written()); diff != "" {
		t.Errorf("with one that stays (-want +got):\n%s", diff)
	}
	answerAll(t, u, ofGroup("one", 1))
	u.running.Wait()
	answerAll(t, u, ofGroup("one", 0))
	u.running.Wait()
	want := slices.Concat(specsOf("worker-1"), specsOf("worker-0"))
	if diff := cmp.Diff(want, r.api.written()); diff != "" {
		t.Errorf("in the end (-want +got):\n%s", diff)
	}
	if got := strings.Join(r.runs(t), " "); got != "10.0.0.8 10.0.0.7" {
		t.Errorf("the command was run for %s", got)
	}
	bad := ofGroup("three", 0)
	bad.Budget = nil
	if _, declined := u.answer(bad); !strings.Contains(declined, "budget") {
		t.Errorf("without a budget it says %q", declined)
	}
}

// TestGroupFails marks a machine whose command fails, writes none of its objects, and continues. The next
// operation tries the machine again.
func TestGroupFails(t *testing.T) {
	r := start(t, "echo $1 >>runs\nif test $1 = 10.0.0.8 && test $(wc -l <runs) = 1; then echo disk full; exit 1; fi\n")
	u := r.newUpdater(t)
	answerAll(t, u, ofGroup("one", 0))
	u.running.Wait()
	if diff := cmp.Diff(specsOf("worker-0"), r.api.written()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if mark := r.api.of("default/worker-1")[v1alpha1.UpdateFailedAnnotation]; !strings.HasPrefix(mark, "one: running") || !strings.Contains(mark, "disk full") {
		t.Errorf("the mark is %q", mark)
	}
	answerAll(t, u, of(updatesv1.Cancel, "one"), ofGroup("two", 0))
	u.running.Wait()
	want := slices.Concat(specsOf("worker-0"), specsOf("worker-1"), specsOf("worker-0"))
	if diff := cmp.Diff(want, r.api.written()); diff != "" {
		t.Errorf("writes after another operation (-want +got):\n%s", diff)
	}
}

// TestGroupIsCancelled ends the command, and takes nothing of the operation any more. A restart continues
// only what was not cancelled.
func TestGroupIsCancelled(t *testing.T) {
	r := start(t, "echo $1 >>runs\nif test $(wc -l <runs) = 1; then exec sleep 600; fi\n")
	u := r.newUpdater(t)
	answerAll(t, u, ofGroup("one", 0))
	loopback.Eventually(t, "the command runs", func() bool { return len(r.runs(t)) > 0 })
	answerAll(t, u, of(updatesv1.Cancel, "one"), of(updatesv1.Cancel, "one"), of(updatesv1.Cancel, "late"))
	for _, operation := range []string{"one", "late"} {
		if _, declined := u.answer(ofGroup(operation, 0)); !strings.Contains(declined, "cancelled") {
			t.Errorf("after its Cancel %s is answered with %q", operation, declined)
		}
	}
	if got := r.api.written(); len(got) > 0 {
		t.Errorf("it has written %q", got)
	}
	again := func() *updater {
		t.Helper()
		config, err := clientcmd.BuildConfigFromFlags("", r.options.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		next, err := newUpdater(t.Context(), r.options, config)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.resume(); err != nil {
			t.Fatal(err)
		}
		next.running.Wait()
		return next
	}
	if next := again(); len(r.runs(t)) != 1 {
		t.Errorf("after a restart the command was run %q", r.runs(t))
	} else if _, declined := next.answer(ofGroup("one", 0)); declined == "" {
		t.Error("after a restart, an operation that was cancelled is accepted")
	}
	if err := u.writeGroup(takenGroup{Operation: "two", Machines: ofGroup("", 0).Machines[:1], Version: "v1.32.1", Desired: *ofGroup("", 0).Desired}); err != nil {
		t.Fatal(err)
	}
	again()
	if diff := cmp.Diff(specsOf("worker-0"), r.api.written()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}
