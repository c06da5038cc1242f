package objects_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool/objects"
	"github.com/windlass-dev/windlass/test/fakeapi"
)

const (
	manager         = "capi-machineset"
	metadataManager = "capi-machineset-metadata"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// intent is a Machine as a controller applies it.
func intent() *clusterv1.Machine {
	return &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: "m", Namespace: "default",
			Labels:      map[string]string{"ours": "1", clusterv1.ClusterNameLabel: "c"},
			Annotations: map[string]string{"note": "1"},
		},
		Spec: clusterv1.MachineSpec{ClusterName: "c", Version: "v1.33.0"},
	}
}

type world struct {
	*fakeapi.API
	t *testing.T
}

func newWorld(t *testing.T) world {
	t.Helper()
	return world{fakeapi.New(t, "", &clusterv1.Machine{}), t}
}

func (w world) machine() *clusterv1.Machine {
	w.t.Helper()
	m := &clusterv1.Machine{}
	if err := w.Inner.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "m"}, m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// update changes the Machine as somebody else does.
func (w world) update(change func(*clusterv1.Machine)) {
	w.t.Helper()
	m := w.machine()
	change(m)
	if err := w.Inner.Update(w.t.Context(), m, client.FieldOwner("somebody")); err != nil {
		w.t.Fatal(err)
	}
}

// TestApplyIfChanged checks which changes of an object, or of the intent for it, cost a request.
func TestApplyIfChanged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(w world, i *clusterv1.Machine)
		after  time.Duration
		want   []string
	}{
		"nothing":     {},
		"within 29 m": {after: 29 * time.Minute},
		"after 31 m":  {after: 31 * time.Minute, want: []string{"apply Machine"}},
		"status": {change: func(w world, _ *clusterv1.Machine) {
			m := w.machine()
			m.Status.Phase = "Running"
			if err := w.Inner.Status().Update(w.t.Context(), m); err != nil {
				w.t.Fatal(err)
			}
		}},
		"another's annotation": {change: func(w world, _ *clusterv1.Machine) {
			w.update(func(m *clusterv1.Machine) { m.Annotations["theirs"] = "1" })
		}},
		"our label": {change: func(w world, _ *clusterv1.Machine) {
			w.update(func(m *clusterv1.Machine) { m.Labels["ours"] = "2" })
		}, want: []string{"apply Machine"}},
		"our label is gone": {change: func(w world, _ *clusterv1.Machine) {
			w.update(func(m *clusterv1.Machine) { delete(m.Labels, "ours") })
		}, want: []string{"apply Machine"}},
		"the spec": {change: func(w world, _ *clusterv1.Machine) {
			w.update(func(m *clusterv1.Machine) { m.Spec.FailureDomain = "z" })
		}, want: []string{"apply Machine"}},
		"the intent": {change: func(_ world, i *clusterv1.Machine) { i.Spec.Version = "v1.34.0" },
			want: []string{"apply Machine"}},
		"a label leaves the intent": {change: func(_ world, i *clusterv1.Machine) { delete(i.Labels, "ours") },
			want: []string{"apply Machine"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, now := newWorld(t), start
			// The fake API server lets who creates an object own its empty status.
			w.Put(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}})
			applier := objects.NewApplier(w.Client, func() time.Time { return now })
			if err := applier.Apply(t.Context(), manager, intent()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := applier.ApplyIfChanged(t.Context(), manager, intent(), w.machine()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{"apply Machine"}, w.Take()); diff != "" {
				t.Fatalf("requests before (-want +got):\n%s", diff)
			}
			i := intent()
			if tt.change != nil {
				tt.change(w, i)
			}
			now = now.Add(tt.after)
			want := i.DeepCopy()
			for range 2 {
				current := i.DeepCopy()
				if err := applier.ApplyIfChanged(t.Context(), manager, current, w.machine()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.Spec.Version, current.Spec.Version); diff != "" || current.UID == "" {
					t.Errorf("the result is not the object (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(tt.want, w.Take()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.Labels["ours"], w.machine().Labels["ours"]); diff != "" {
				t.Errorf("label (-want +got):\n%s", diff)
			}
		})
	}
}

// TestApplyIfChangedWithoutManagedFields: where it is unknown who owns what, each intent is sent.
func TestApplyIfChangedWithoutManagedFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	applier := objects.NewApplier(w.Client, func() time.Time { return start })
	if err := applier.Apply(t.Context(), manager, intent()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		bare := w.machine()
		bare.ManagedFields = nil
		if err := applier.ApplyIfChanged(t.Context(), manager, intent(), bare); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"apply Machine", "apply Machine", "apply Machine"}, w.Take()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestApplyIfChangedOfMetadata: a manager of labels and annotations does not look at the spec.
func TestApplyIfChangedOfMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Put(intent())
	applier := objects.NewApplier(w.Client, func() time.Time { return start })
	apply := func() {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
		u.SetNamespace("default")
		u.SetName("m")
		u.SetLabels(map[string]string{"ours": "1"})
		if err := applier.ApplyIfChanged(t.Context(), metadataManager, u, w.machine()); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	w.update(func(m *clusterv1.Machine) { m.Spec.ProviderID = "x://1" })
	apply()
	if diff := cmp.Diff([]string{"apply Machine"}, w.Take()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestRestoreOwnership covers each form of managed fields that the API server may leave.
func TestRestoreOwnership(t *testing.T) {
	t.Parallel()
	entry := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: clusterv1.GroupVersion.String(),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:clusterName":{}}}`),
		}
	}
	for name, tt := range map[string]struct {
		have, want []string
		stale      bool
		writes     []string
	}{
		"nothing was lost": {have: []string{manager}, want: []string{manager}},
		"of others":        {have: []string{"other"}, want: []string{"other"}},
		"none":             {want: []string{manager}, writes: []string{"patch Machine"}},
		"invented":         {have: []string{"before-first-apply"}, want: []string{manager}, writes: []string{"patch Machine"}},
		"invented, and others": {have: []string{"before-first-apply", "other", manager}, want: []string{"other", manager},
			writes: []string{"patch Machine"}},
		"out of date": {stale: true, writes: []string{"patch Machine"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Put(intent())
			object := w.machine()
			object.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"}
			object.ManagedFields = nil
			for _, m := range tt.have {
				object.ManagedFields = append(object.ManagedFields, entry(m))
			}
			if tt.stale {
				w.update(func(m *clusterv1.Machine) { m.Labels["x"] = "1" })
			}
			recorded := &recordingClient{Client: w.Client}
			restored, err := objects.RestoreOwnership(t.Context(), recorded, object, manager)
			if tt.stale != (err != nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.writes, w.Take()); diff != "" || restored != (tt.writes != nil && !tt.stale) {
				t.Errorf("restored %t, writes (-want +got):\n%s", restored, diff)
			}
			if tt.stale || !restored {
				return
			}
			var got []string
			for _, e := range recorded.patchedFields(t) {
				got = append(got, e.Manager)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("managers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSplitAndReleaseOwnership takes an object from the form of Cluster API 1.11, and a new object,
// to the form in which two managers own their parts.
func TestSplitAndReleaseOwnership(t *testing.T) {
	t.Parallel()
	labels := func(w world) []string {
		var out []string
		for _, e := range w.machine().GetManagedFields() {
			var fields map[string]any
			if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields); err != nil {
				t.Fatal(err)
			}
			if found, _, _ := unstructured.NestedMap(fields, "f:metadata", "f:labels"); found != nil {
				out = append(out, e.Manager)
			}
		}
		return out
	}
	for name, step := range map[string]func(w world, object *clusterv1.Machine) error{
		"split": func(w world, object *clusterv1.Machine) error {
			return objects.SplitOwnership(t.Context(), w.Client, object, manager, metadataManager)
		},
		"release": func(w world, object *clusterv1.Machine) error {
			return objects.ReleaseMetadata(t.Context(), w.Client, w.Client, object, manager)
		},
		"release after a conflict": func(w world, object *clusterv1.Machine) error {
			w.update(func(m *clusterv1.Machine) { m.Annotations["theirs"] = "1" })
			return objects.ReleaseMetadata(t.Context(), w.Client, w.Client, object, manager)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			applier := objects.NewApplier(w.Client, func() time.Time { return start })
			if err := applier.Apply(t.Context(), manager, intent()); err != nil {
				t.Fatal(err)
			}
			w.Take()
			if err := step(w, w.machine()); err != nil {
				t.Fatal(err)
			}
			if got := labels(w); len(got) != 0 {
				t.Errorf("labels are owned by %s", got)
			}
			w.Take()
			if err := step(w, w.machine()); err != nil && name != "release after a conflict" {
				t.Fatal(err)
			}
			if got := w.Take(); got != nil {
				t.Errorf("done again: %s", got)
			}
		})
	}
}

// TestSave checks that each part is written once, and only if it changed.
func TestSave(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change   func(m *clusterv1.Machine)
		meddle   bool
		conflict bool
		want     []string
	}{
		"nothing": {change: func(*clusterv1.Machine) {}},
		"status": {change: func(m *clusterv1.Machine) { m.Status.Phase = "Running" },
			want: []string{"patch-status Machine"}},
		"conditions and status": {change: func(m *clusterv1.Machine) {
			m.Status.Phase = "Running"
			m.Status.Conditions = []metav1.Condition{{Type: "A", Status: "True", Reason: "B"}}
		}, want: []string{"patch-status Machine"}},
		"labels":        {change: func(m *clusterv1.Machine) { m.Labels["x"] = "1" }, want: []string{"patch Machine"}},
		"labels, stale": {change: func(m *clusterv1.Machine) { m.Labels["x"] = "1" }, meddle: true, want: []string{"patch Machine"}},
		"both": {change: func(m *clusterv1.Machine) { m.Labels["x"], m.Status.Phase = "1", "Running" },
			want: []string{"patch-status Machine", "patch Machine"}},
		"status, stale": {change: func(m *clusterv1.Machine) { m.Status.Phase = "Running" }, meddle: true, conflict: true,
			want: []string{"patch-status Machine"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Put(intent())
			before := w.machine()
			after := before.DeepCopy()
			tt.change(after)
			if tt.meddle {
				w.update(func(m *clusterv1.Machine) { m.Annotations["theirs"] = "1" })
			}
			err := objects.Save(t.Context(), w.Client, before, after)
			if apierrors.IsConflict(err) != tt.conflict || err != nil && !tt.conflict {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, w.Take()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if got := w.machine(); !tt.conflict && got.ResourceVersion != after.ResourceVersion {
				t.Errorf("version %s, saved %s", after.ResourceVersion, got.ResourceVersion)
			}
			if got := w.machine(); !tt.conflict && (got.Status.Phase != after.Status.Phase || got.Labels["x"] != after.Labels["x"]) {
				t.Errorf("saved %v", got)
			}
		})
	}
}

// TestSaveOfADeletedObject: the last finalizer goes, and the object with it.
func TestSaveOfADeletedObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := intent()
	m.Finalizers = []string{"x/y"}
	w.Put(m)
	if err := w.Inner.Delete(t.Context(), w.machine()); err != nil {
		t.Fatal(err)
	}
	before := w.machine()
	after := before.DeepCopy()
	after.Finalizers = nil
	for range 2 {
		if err := objects.Save(t.Context(), w.Client, before, after); err != nil {
			t.Fatal(err)
		}
	}
}
