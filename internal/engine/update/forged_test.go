package update

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
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
		6, // The Machine twice, its infrastructure machine, its MachineSet with the template, and the list of MachineSets.
		3, // The Machine twice and its infrastructure machine.
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
