package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/record"
)

// TestForgedControlPlaneQuestions asks about a control plane Machine what its KubeadmControlPlane does not. Nothing is written, and no updater is asked.
func TestForgedControlPlaneQuestions(t *testing.T) {
	t.Parallel()
	const evil = `"files":[{"path":"/etc/cron.d/evil"}],"format"`
	type request = runtimehooksv1.CanUpdateMachineRequest
	raw := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	for name, tt := range map[string]struct {
		forge func(*request)
		want  string
	}{
		"another current version": {func(r *request) { r.Current.Machine.Spec.Version = "v1.29.0" }, CurrentDiffers},
		"another current bootstrap config": {func(r *request) {
			r.Current.BootstrapConfig = raw(strings.Replace(bootstrapCurrent, `"format"`, evil, 1))
		}, CurrentDiffers},
		"another current infrastructure": {func(r *request) {
			r.Current.InfrastructureMachine = raw(strings.Replace(infrastructureMachine, "in-memory", "x", 1))
		}, CurrentDiffers},
		"a current bootstrap config in another API version": {func(r *request) {
			r.Current.BootstrapConfig = raw(strings.Replace(bootstrapCurrent, "v1beta2", "v1beta1", 1))
		}, CurrentDiffers},
		"a current infrastructure machine in an API version that is not served": {func(r *request) {
			r.Current.InfrastructureMachine = raw(strings.Replace(infrastructureMachine, "v1beta2", "v9", 1))
		}, CurrentDiffers},
		"a desired bootstrap config in another API version": {func(r *request) {
			r.Desired.BootstrapConfig = raw(strings.Replace(bootstrapDesired, "v1beta2", "v1beta1", 1))
		}, DesiredDiffers},
		"a desired infrastructure machine in another API version": {func(r *request) {
			r.Desired.InfrastructureMachine = raw(strings.Replace(infrastructureMachine, "v1beta2", "v1beta1", 1))
		}, DesiredDiffers},
		"no desired infrastructure machine": {func(r *request) {
			r.Desired.InfrastructureMachine = runtime.RawExtension{}
		}, DesiredDiffers},
		"an object of another kind":      {func(r *request) { r.Current.BootstrapConfig = raw(infrastructureMachine) }, CurrentDiffers},
		"an object that is none":         {func(r *request) { r.Current.BootstrapConfig = raw(`{`) }, CurrentDiffers},
		"another desired version":        {func(r *request) { r.Desired.Machine.Spec.Version = "v1.31.99" }, DesiredDiffers},
		"another desired failure domain": {func(r *request) { r.Desired.Machine.Spec.FailureDomain = "z" }, DesiredDiffers},
		"another desired bootstrap config": {func(r *request) {
			r.Desired.BootstrapConfig = raw(strings.Replace(bootstrapDesired, `"format"`, evil, 1))
		}, DesiredDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newControlPlane(t)
			s.err = errors.New("the updater was asked")
			before := w.machine("cp")
			w.writes.Store(0)
			forged := canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))
			tt.forge(forged)
			_, err := w.engine.CanUpdateMachine(t.Context(), forged)
			if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if diff := cmp.Diff(before, w.machine("cp")); diff != "" || w.writes.Load() != 0 {
				t.Errorf("%d writes (-before +after)\n%s", w.writes.Load(), diff)
			}
		})
	}
}

// isBlocked reports whether the control plane has the condition UpdateBlocked with this in its message.
func (w *world) isBlocked(message string) bool {
	w.Helper()
	kcp := controlPlane()
	w.must(w.client.Get(w.Context(), client.ObjectKeyFromObject(kcp), kcp))
	data, err := json.Marshal(kcp.Object["status"])
	w.must(err)
	return isBlocked(kcp) && strings.Contains(string(data), message)
}

// TestLastingDifference: desired objects that the live control plane does not ask for count as a
// stale cache for a while. Then they are not covered, and the policy's fallback counts.
func TestLastingDifference(t *testing.T) {
	t.Parallel()
	const field = "InfrastructureMachine /spec/added"
	added := strings.Replace(infrastructureMachine, `"spec":{`, `"spec":{"added":"x",`, 1)
	for name, tt := range map[string]struct {
		policy func(*v1alpha1.UpdatePolicySpec)
		// upToDate: Cluster API does not report the Machine as outdated, so no question is due.
		upToDate bool
		// change is made after half the time.
		change func(*world)
		want   string
		// blocked: the condition says so.
		blocked bool
	}{
		"no fallback":            {want: "forbids to replace", blocked: true},
		"no question is due":     {upToDate: true, want: "forbids to replace"},
		"replacement allowed":    {policy: func(p *v1alpha1.UpdatePolicySpec) { p.Fallback = v1alpha1.FallbackRollingUpdate }, want: "replaced: "},
		"no update in place":     {policy: func(p *v1alpha1.UpdatePolicySpec) { p.Strategy, p.Fallback = v1alpha1.RollingUpdate, "" }, want: "no UpdatePolicy"},
		"a change in the middle": {change: func(w *world) { w.changeControlPlane() }, want: DesiredDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newControlPlaneWith(t, tt.policy)
			s.err = errors.New("the updater was asked")
			if !tt.upToDate {
				m := w.machine("cp")
				m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason}}
				w.must(w.client.Status().Update(t.Context(), m))
			}
			before := w.machine("cp")
			w.writes.Store(0)
			request := canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))
			request.Desired.InfrastructureMachine = runtime.RawExtension{Raw: []byte(added)}
			for i := range 6 {
				_, err := w.engine.CanUpdateMachine(t.Context(), request)
				if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != DesiredDiffers || !strings.Contains(u.Message, field) {
					t.Fatalf("after %d s: error %v", 10*i, err)
				}
				if i == 3 && tt.change != nil {
					tt.change(w)
				}
				w.now = w.now.Add(10 * time.Second)
			}
			coverage, err := w.engine.CanUpdateMachine(t.Context(), request)
			if said := fmt.Sprint(coverage.Message, err); !strings.Contains(said, tt.want) || tt.want != "no UpdatePolicy" && !strings.Contains(said, field) {
				t.Errorf("coverage %+v, error %v, want %q", coverage, err, tt.want)
			}
			if !cmp.Equal(coverage.Patches, cover.Patches{}) {
				t.Errorf("patches %+v", coverage.Patches)
			}
			if diff := cmp.Diff(before, w.machine("cp")); diff != "" {
				t.Errorf("the Machine was changed (-before +after)\n%s", diff)
			}
			if w.isBlocked(field) != tt.blocked || (w.writes.Load() > 0) != tt.blocked {
				t.Errorf("blocked %v, %d writes", w.isBlocked(field), w.writes.Load())
			}
		})
	}
	t.Run("until it is asked for", func(t *testing.T) {
		t.Parallel()
		w, s := newControlPlane(t)
		s.infrastructure = `{"spec":{"added":"x"}}`
		request := canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))
		request.Desired.InfrastructureMachine = runtime.RawExtension{Raw: []byte(added)}
		for range 2 {
			if _, err := w.engine.CanUpdateMachine(t.Context(), request); err == nil {
				t.Fatal("it is covered")
			}
			w.now = w.now.Add(unaskedAfter)
		}
		w.putObject([]byte(templateWith("DevMachineTemplate", `{"added":"x"}`)), "cp")
		if coverage, err := w.engine.CanUpdateMachine(t.Context(), request); err != nil || len(record.DecisionsOf(w.machine("cp").GetAnnotations())) != 1 {
			t.Errorf("coverage %+v, error %v", coverage, err)
		}
	})
}

// changeControlPlane makes a new generation of the KubeadmControlPlane.
func (w *world) changeControlPlane() {
	w.Helper()
	kcp := controlPlane()
	w.must(w.client.Get(w.Context(), client.ObjectKeyFromObject(kcp), kcp))
	kcp.SetGeneration(kcp.GetGeneration() + 1)
	w.must(w.client.Update(w.Context(), kcp))
}

// TestMarks acts only if all three objects of a machine are marked.
func TestMarks(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"DevMachine", "KubeadmConfig", "Machine"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w, s := markedControlPlane(t)
			stored := map[string]string{"DevMachine": infrastructureMachine, "KubeadmConfig": bootstrapStored}
			w.putObject([]byte(bootstrapStored), "cp")
			if kind == "Machine" {
				w.annotate("cp", clusterv1.UpdateInProgressAnnotation, nil)
			} else {
				object := w.putObject([]byte(stored[kind]), "cp")
				object.SetAnnotations(nil)
				w.must(w.client.Update(t.Context(), object))
			}
			w.writes.Store(0)
			_, err := w.callControlPlane(bootstrapStored)
			if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != NotMarked || !strings.Contains(u.Message, kind) {
				t.Errorf("error %v", err)
			}
			if len(s.updates) > 0 || w.writes.Load() != 0 {
				t.Errorf("calls %v, %d writes", s.updates, w.writes.Load())
			}
		})
	}
}

// TestRequestsDiffer refuses requests about a marked Machine whose objects are not the live ones.
func TestRequestsDiffer(t *testing.T) {
	t.Parallel()
	for name, bootstrap := range map[string]string{
		"broken": `{"spec":[`, "other files": strings.Replace(bootstrapStored, `"spec":{`, `"spec":{"files":[{"path":"/etc/cron.d/evil"}],`, 1), "none": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := markedControlPlane(t)
			w.putObject([]byte(bootstrapStored), "cp")
			w.writes.Store(0)
			_, err := w.callControlPlane(bootstrap)
			if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != RequestDiffers {
				t.Errorf("error %v", err)
			}
			if len(s.updates) > 0 || w.writes.Load() != 0 {
				t.Errorf("calls %v, %d writes", s.updates, w.writes.Load())
			}
		})
	}
}

// TestObjectsChangedMeanwhile calls no updater for objects that are not those that the update began with, and does again once they are set back.
func TestObjectsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w, s := markedControlPlane(t)
	if _, err := w.updateControlPlane(bootstrapStored); err != nil || len(s.updates) != 1 {
		t.Fatalf("error %v, calls %v", err, s.updates)
	}
	changed := strings.Replace(bootstrapStored, `"spec":{`, `"spec":{"files":[{"path":"/etc/cron.d/evil"}],`, 1)
	_, err := w.updateControlPlane(changed)
	if r, ok := errors.AsType[*RefusedError](err); !ok || r.Reason != v1alpha1.DesiredChangedReason || len(s.updates) != 1 {
		t.Errorf("error %v, calls %v", err, s.updates)
	}
	if _, err := w.updateControlPlane(bootstrapStored); err != nil || len(s.updates) != 2 {
		t.Errorf("error %v, calls %v", err, s.updates)
	}
}

// countingReader counts reads.
type countingReader struct {
	client.Reader
	reads int
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	r.reads++
	return r.Reader.Get(ctx, key, object, options...)
}

func (r *countingReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.reads++
	return r.Reader.List(ctx, list, options...)
}

// TestReads counts what one call reads from the API server beside the node: it does not depend on how many machines there are.
func TestReads(t *testing.T) {
	t.Parallel()
	w, _ := moving(t, external(nil))
	live := &countingReader{Reader: w.client}
	o := w.engine.Options
	o.Live = live
	w.engine = New(o)
	for i, want := range []int{
		5, // The Machine, its infrastructure machine, its MachineSet with the template, and the list of MachineSets.
		2, // The Machine and its infrastructure machine.
	} {
		live.reads = 0
		if _, err := w.update("a"); err != nil {
			t.Fatal(err)
		}
		if live.reads != want {
			t.Errorf("call %d: %d reads, want %d", i+1, live.reads, want)
		}
	}
}
