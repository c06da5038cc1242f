package inplace

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

const pendingHooks = "runtime.cluster.x-k8s.io/pending-hooks"

// withFiles adds evil files to the spec at a path of an object.
func withFiles(t *testing.T, object runtime.RawExtension, path ...string) runtime.RawExtension {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(object.Raw, &root); err != nil {
		t.Fatal(err)
	}
	at := root
	for _, key := range path {
		next, ok := at[key].(map[string]any)
		if !ok {
			t.Fatalf("%s has no %s", object.Raw, strings.Join(path, "."))
		}
		at = next
	}
	if err := json.Unmarshal([]byte("{"+evil+"}"), &at); err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: mustJSON(t, root)}
}

// inVersion claims that an object is in another API version.
func inVersion(object runtime.RawExtension, version string) runtime.RawExtension {
	text := strings.Replace(string(object.Raw), ".cluster.x-k8s.io/v1beta2\"", ".cluster.x-k8s.io/"+version+"\"", 1)
	return runtime.RawExtension{Raw: []byte(text)}
}

// TestForgedQuestions asks whether machines can be updated from what they are not, or to what nobody desires. It is refused, and nothing is written: not even
// that it was refused.
func TestForgedQuestions(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a")
	updater := newUpdater(t, plane, pool, "u")
	extension := plane.Run(t)
	before := versions(t, plane, pool)
	type question = runtimehooksv1.CanUpdateMachineSetRequest
	for name, tt := range map[string]struct {
		forge func(*question)
		want  string
	}{
		"another current version": {func(q *question) { q.Current.MachineSet.Spec.Template.Spec.Version = "v1.30.9" }, "CurrentDiffers"},
		"another current template": {func(q *question) {
			q.Current.BootstrapConfigTemplate = withFiles(t, q.Current.BootstrapConfigTemplate, "spec", "template", "spec")
		}, "CurrentDiffers"},
		"another kind of template": {func(q *question) { q.Current.BootstrapConfigTemplate = q.Current.InfrastructureMachineTemplate }, "CurrentDiffers"},
		"a current template in another API version": {func(q *question) {
			q.Current.InfrastructureMachineTemplate = inVersion(q.Current.InfrastructureMachineTemplate, "v1beta1")
		}, "CurrentDiffers"},
		"a desired template in another API version": {func(q *question) {
			q.Desired.BootstrapConfigTemplate = inVersion(q.Desired.BootstrapConfigTemplate, "v1beta1")
		}, "DesiredDiffers"},
		"a desired template in an API version that is not served": {func(q *question) {
			q.Desired.InfrastructureMachineTemplate = inVersion(q.Desired.InfrastructureMachineTemplate, "v9")
		}, "DesiredDiffers"},
		"no current template":     {func(q *question) { q.Current.InfrastructureMachineTemplate = runtime.RawExtension{} }, "CurrentDiffers"},
		"another desired version": {func(q *question) { q.Desired.MachineSet.Spec.Template.Spec.Version = "v1.31.99" }, "DesiredDiffers"},
		"a desired downgrade":     {func(q *question) { q.Desired.MachineSet.Spec.Template.Spec.Version = "v1.30.0" }, "DesiredDiffers"},
		"another desired template": {func(q *question) {
			q.Desired.BootstrapConfigTemplate = withFiles(t, q.Desired.BootstrapConfigTemplate, "spec", "template", "spec")
		}, "DesiredDiffers"},
		"no desired template":       {func(q *question) { q.Desired.BootstrapConfigTemplate = runtime.RawExtension{} }, "DesiredDiffers"},
		"a desired failure domain":  {func(q *question) { q.Desired.MachineSet.Spec.Template.Spec.FailureDomain = "z" }, "DesiredDiffers"},
		"a MachineSet that is none": {func(q *question) { q.Current.MachineSet.Name = "none" }, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			request := pool.Question(t)
			tt.forge(request)
			answer := extension.Call(t, wire.CanUpdateMachineSet, request)
			if answer.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(answer.Message, tt.want) {
				t.Errorf("the answer is %+v, want a refusal with %s", answer, tt.want)
			}
		})
	}
	t.Run("about a worker as a control plane machine", func(t *testing.T) {
		objects := runtimehooksv1.CanUpdateMachineRequestObjects(pool.Update(t, "a").Desired)
		request := &runtimehooksv1.CanUpdateMachineRequest{Current: objects, Desired: *objects.DeepCopy()}
		request.Desired.Machine.Spec.Version = wire.To
		if answer := extension.Call(t, wire.CanUpdateMachine, request); answer.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(answer.Message, "DesiredDiffers") {
			t.Errorf("the answer is %+v", answer)
		}
	})
	if diff := cmp.Diff(before, versions(t, plane, pool)); diff != "" {
		t.Errorf("forged questions changed objects (-before +after)\n%s", diff)
	}
	for _, hook := range []wire.Hook{wire.CanUpdateMachine, wire.CanUpdateMachineSet, wire.UpdateMachine} {
		if got := updater.Requests(hook.Hook); len(got) > 0 {
			t.Errorf("the updater was asked %d times: %s", len(got), hook.Hook)
		}
	}
	// The genuine question is answered after all of these.
	decide(t, extension, pool)
}

// TestForgedUpdates calls UpdateMachine about a machine that Cluster API has not marked, or with objects of the caller's own. It is refused, and nothing is
// written.
func TestForgedUpdates(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "unmarked", "marked")
	updater := newUpdater(t, plane, pool, "u")
	updater.Update = working
	extension := plane.Run(t)
	decide(t, extension, pool)
	pool.Move(t, "marked")
	refused := func(t *testing.T, request *runtimehooksv1.UpdateMachineRequest, want string) {
		t.Helper()
		before := versions(t, plane, pool)
		for range 2 {
			if answer := extension.Call(t, wire.UpdateMachine, request); answer.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(answer.Message, want) {
				t.Errorf("the answer is %+v, want a refusal with %s", answer, want)
			}
		}
		if diff := cmp.Diff(before, versions(t, plane, pool)); diff != "" {
			t.Errorf("a forged call changed objects (-before +after)\n%s", diff)
		}
		if got := updater.Requests(wire.UpdateMachine.Hook); len(got) > 0 {
			t.Errorf("the updater was told %s", got[0].Body)
		}
	}
	t.Run("a machine that nobody has marked", func(t *testing.T) {
		request := pool.Update(t, "unmarked")
		request.Desired.Machine.Spec.Version = wire.To
		request.Desired.Machine.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: "", pendingHooks: "UpdateMachine"}
		request.Desired.BootstrapConfig = withFiles(t, request.Desired.BootstrapConfig, "spec")
		refused(t, request, "NotMarked")
	})
	for annotation, object := range map[string]string{clusterv1.UpdateInProgressAnnotation: "the mark", pendingHooks: "the pending hook"} {
		t.Run("without "+object, func(t *testing.T) {
			value := pool.Machine(t, "marked").Annotations[annotation]
			pool.Annotate(t, "marked", map[string]any{annotation: nil})
			refused(t, pool.Update(t, "marked"), "NotMarked")
			pool.Annotate(t, "marked", map[string]any{annotation: value})
		})
	}
	t.Run("a bootstrap config of the caller's own", func(t *testing.T) {
		request := pool.Update(t, "marked")
		request.Desired.BootstrapConfig = withFiles(t, request.Desired.BootstrapConfig, "spec")
		refused(t, request, "RequestDiffers")
	})
	t.Run("no bootstrap config", func(t *testing.T) {
		request := pool.Update(t, "marked")
		request.Desired.BootstrapConfig = runtime.RawExtension{}
		refused(t, request, "RequestDiffers")
	})
	t.Run("another version", func(t *testing.T) {
		request := pool.Update(t, "marked")
		request.Desired.Machine.Spec.Version = "v1.31.99"
		refused(t, request, "RequestDiffers")
	})
	genuine := pool.Update(t, "marked")
	t.Run("what Cluster API sends", func(t *testing.T) {
		answer := extension.Call(t, wire.UpdateMachine, genuine)
		if answer.Status != runtimehooksv1.ResponseStatusSuccess || len(updater.Requests(wire.UpdateMachine.Hook)) != 1 {
			t.Errorf("the answer is %+v, and the updater was asked %d times", answer, len(updater.Requests(wire.UpdateMachine.Hook)))
		}
	})
	t.Run("what Cluster API sends once the bootstrap config is deleted", func(t *testing.T) {
		config := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: "marked"}}
		if err := plane.Client.Delete(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		genuine.Desired.BootstrapConfig = runtime.RawExtension{}
		answer := extension.Call(t, wire.UpdateMachine, genuine)
		if answer.Status != runtimehooksv1.ResponseStatusSuccess || len(updater.Requests(wire.UpdateMachine.Hook)) != 2 {
			t.Errorf("the answer is %+v, and the updater was asked %d times", answer, len(updater.Requests(wire.UpdateMachine.Hook)))
		}
	})
}

// TestForgedCallsDoNotWait holds that a forged call about a machine neither waits for the call that
// is under way nor delays the next one.
func TestForgedCallsDoNotWait(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a")
	updater := newUpdater(t, plane, pool, "u")
	asked, release := make(chan struct{}), make(chan struct{})
	updater.Update = func(*runtimehooksv1.UpdateMachineRequest) wire.Answer {
		close(asked)
		<-release
		return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess, Message: "working", RetryAfterSeconds: 1}
	}
	extension := plane.Run(t)
	decide(t, extension, pool)
	pool.Move(t, "a")
	genuine, forged := pool.Update(t, "a"), pool.Update(t, "a")
	forged.Desired.Machine.Spec.Version = "v1.31.99"
	answered := make(chan wire.Answer, 1)
	go func() { answered <- extension.Call(t, wire.UpdateMachine, genuine) }()
	<-asked
	refused := make(chan wire.Answer, 1)
	go func() { refused <- extension.Call(t, wire.UpdateMachine, forged) }()
	select {
	case answer := <-refused:
		if answer.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(answer.Message, "RequestDiffers") {
			t.Errorf("the answer to the forged call is %+v", answer)
		}
	case answer := <-answered:
		t.Errorf("the forged call waits until the other one ends: %+v", answer)
		answered <- answer
	}
	close(release)
	if answer := <-answered; answer.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Errorf("the answer is %+v", answer)
	}
}

// TestForgedCallsDoNotMoveTheQueue holds that a forged call about a machine that waits for a slot of
// maxInFlight is refused like any other, and that no number of calls has the machine wait longer.
func TestForgedCallsDoNotMoveTheQueue(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a", "b")
	updater := newUpdater(t, plane, pool, "u")
	updater.Update = working
	extension := plane.Run(t)
	decide(t, extension, pool)
	pool.Move(t, "a")
	pool.Move(t, "b")
	if answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, "a")); answer.Message == "" || answer.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Fatalf("UpdateMachine: %+v", answer)
	}
	genuine, forged := pool.Update(t, "b"), pool.Update(t, "b")
	forged.Desired.Machine.Spec.Version = "v1.31.99"
	for i := range 20 {
		answer := extension.Call(t, wire.UpdateMachine, genuine)
		if answer.Status != runtimehooksv1.ResponseStatusSuccess || !strings.Contains(answer.Message, "maxInFlight") || answer.RetryAfterSeconds > 5 {
			t.Fatalf("call %d: the answer is %+v", i, answer)
		}
		answer = extension.Call(t, wire.UpdateMachine, forged)
		if answer.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(answer.Message, "RequestDiffers") {
			t.Fatalf("call %d: the answer to the forged call is %+v", i, answer)
		}
	}
}

// TestUpdaterIsToldWhatIsLive holds that nothing that a person sets on a machine reaches its updater under a key of Windlass' own.
func TestUpdaterIsToldWhatIsLive(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a")
	updater := newUpdater(t, plane, pool, "u")
	updater.Update = working
	extension := plane.Run(t)
	decide(t, extension, pool)
	pool.Move(t, "a")
	pool.Annotate(t, "a", map[string]any{
		v1alpha1.InPlaceUpgradeOptionAnnotation: "version=v1.31.99", v1alpha1.InPlaceUpgradeFollowAnnotation: "true", v1alpha1.OperationIDAnnotation: "forged",
		v1alpha1.DefaultInPlaceUpgradePrefix + "release": "version=v1.31.99", "example.com/team": "kept",
	})
	if answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, "a")); answer.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Fatalf("UpdateMachine: %+v", answer)
	}
	told := updater.Requests(wire.UpdateMachine.Hook)
	if len(told) != 1 {
		t.Fatalf("the updater was asked %d times", len(told))
	}
	request := &runtimehooksv1.UpdateMachineRequest{}
	if err := json.Unmarshal(told[0].Body, request); err != nil {
		t.Fatal(err)
	}
	annotations := request.Desired.Machine.Annotations
	for _, key := range []string{v1alpha1.InPlaceUpgradeOptionAnnotation, v1alpha1.InPlaceUpgradeFollowAnnotation, v1alpha1.DefaultInPlaceUpgradePrefix + "release"} {
		if value, ok := annotations[key]; ok {
			t.Errorf("the updater is told %s=%s", key, value)
		}
	}
	if operation := annotations[v1alpha1.OperationIDAnnotation]; operation == "" || operation == "forged" {
		t.Errorf("the operation is %q", operation)
	}
	if annotations["example.com/team"] != "kept" || request.Desired.Machine.Spec.Version != wire.To {
		t.Errorf("the updater is told %s", told[0].Body)
	}
}

// TestForeignUpdater holds that a name on a machine's record opens no updater that is registered for other namespaces.
func TestForeignUpdater(t *testing.T) {
	plane := wire.Start(t)
	pool, other := plane.NewPool(t, "a"), plane.NewPool(t, "b")
	own, foreign := newUpdater(t, plane, pool, "u"), newUpdater(t, plane, other, "u")
	own.Update, foreign.Update = working, working
	extension := plane.Run(t)
	decide(t, extension, pool)
	pool.Move(t, "a")
	if answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, "a")); answer.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Fatalf("UpdateMachine: %+v", answer)
	}
	record := pool.Machine(t, "a").Annotations[v1alpha1.UpdateProgressAnnotation]
	changed := strings.ReplaceAll(record, `"`+pool.Namespace+`-u"`, `"`+other.Namespace+`-u"`)
	if changed == record {
		t.Fatalf("the record names no updater: %s", record)
	}
	pool.Annotate(t, "a", map[string]any{v1alpha1.UpdateProgressAnnotation: changed})
	answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, "a"))
	if answer.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(answer.Message, "namespaceSelector") {
		t.Errorf("the answer is %+v", answer)
	}
	c := meta.FindStatusCondition(pool.Machine(t, "a").Status.Conditions, v1alpha1.UpdateBlockedCondition)
	if c == nil || !strings.Contains(c.Message, "namespaceSelector") {
		t.Errorf("the condition is %+v", c)
	}
	if got := foreign.Requests(wire.UpdateMachine.Hook); len(got) > 0 {
		t.Errorf("an updater for %s was told %s", other.Namespace, got[0].Body)
	}
}
