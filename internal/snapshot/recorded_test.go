package snapshot

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/recordjson/formtest"
	"github.com/windlass-dev/windlass/pkg/version"
)

func recordedVersion() *rapid.Generator[version.Version] {
	return rapid.Custom(func(t *rapid.T) version.Version {
		return v(rapid.StringMatching(`v1\.[1-9][0-9]\.(0|[1-9])(-rc\.[0-9])?(\+[a-z0-9]{1,5})?`).Draw(t, "version"))
	})
}

func recordedTime() *rapid.Generator[time.Time] {
	return rapid.Map(rapid.Int64Range(1, 1<<33), func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() })
}

// anyRecorded generates what a Record can leave on a Cluster.
func anyRecorded() *rapid.Generator[chain.Recorded] {
	hooks := []chain.Hook{ // sorted
		chain.AfterClusterUpgrade, chain.AfterControlPlaneInitialized, chain.AfterControlPlaneUpgrade, chain.AfterWorkersUpgrade, chain.BeforeWorkersUpgrade,
	}
	return rapid.Custom(func(t *rapid.T) chain.Recorded {
		r := chain.Recorded{OKToDelete: rapid.Bool().Draw(t, "ok to delete")}
		for _, hook := range hooks {
			if rapid.Bool().Draw(t, string(hook)) {
				r.Pending = append(r.Pending, hook)
			}
		}
		if rapid.Bool().Draw(t, "intent") {
			r.Intent = &chain.Intent{From: recordedVersion().Draw(t, "from"), To: recordedVersion().Draw(t, "to"), Workers: rapid.Bool().Draw(t, "workers")}
		}
		if rapid.Bool().Draw(t, "chain") {
			r.Chain = &chain.Progress{From: recordedVersion().Draw(t, "from"), Target: recordedVersion().Draw(t, "target"), Began: recordedTime().Draw(t, "began")}
			for range rapid.IntRange(0, 3).Draw(t, "steps") {
				step := chain.Step{To: recordedVersion().Draw(t, "to"), Began: recordedTime().Draw(t, "began")}
				if rapid.Bool().Draw(t, "control plane done") {
					step.ControlPlane = recordedTime().Draw(t, "control plane")
				}
				if rapid.Bool().Draw(t, "workers done") {
					step.Workers = recordedTime().Draw(t, "workers")
				}
				if rapid.Bool().Draw(t, "lacked") {
					step.Lacked = map[string]int32{"md-0": rapid.Int32Min(1).Draw(t, "missing")}
				}
				r.Chain.Steps = append(r.Chain.Steps, step)
			}
		}
		if rapid.Bool().Draw(t, "step") {
			r.UpgradeStep = recordedVersion().Draw(t, "upgrade step")
		}
		return r
	})
}

// TestRecordedRoundTrip checks that what is written is read again, over whatever was recorded before, and that other annotations stay.
func TestRecordedRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before, after := anyRecorded().Draw(t, "before"), anyRecorded().Draw(t, "after")
		// What lets a Cluster go is never taken back.
		after.OKToDelete = after.OKToDelete || before.OKToDelete
		foreign := map[string]string{"somebody.example/annotation": "x", "before-upgrade.hook.cluster.cluster.x-k8s.io/y": ""}
		first, err := WriteRecorded(foreign, before)
		if err != nil {
			t.Fatal(err)
		}
		kept := maps.Clone(first)
		second, err := WriteRecorded(first, after)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(first, kept) || len(foreign) != 2 {
			t.Fatal("the input was changed")
		}
		c := cluster("v1.33.0", nil, nil)
		c.Annotations = second
		got, err := ReadRecorded(c)
		if err != nil || !got.Equal(after) {
			t.Fatalf("read %+v, %v; written was %+v", got, err, after)
		}
		for key, value := range foreign {
			if second[key] != value {
				t.Fatalf("the annotation %s became %q", key, second[key])
			}
		}
		again, err := WriteRecorded(second, got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(second, again); diff != "" {
			t.Fatalf("writing what was read changes annotations:\n%s", diff)
		}
		for key, value := range second {
			if value == "" && key != runtimev1.OkToDeleteAnnotation && foreign[key] != value {
				t.Fatalf("the annotation %s is empty", key)
			}
		}
	})
}

func TestWriteRecorded(t *testing.T) {
	t.Parallel()
	got, err := WriteRecorded(nil, chain.Recorded{
		Pending:     chain.Pending{chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade},
		Intent:      &chain.Intent{From: v("v1.31.0"), To: v("v1.32.0"), Workers: true},
		Chain:       &chain.Progress{From: v("v1.31.0"), Target: v("v1.33.0"), Began: time.Unix(0, 0).UTC()},
		UpgradeStep: v("v1.31.0"), OKToDelete: true,
		Last: &chain.Past{Progress: chain.Progress{From: v("v1.30.0"), Target: v("v1.31.0"), Began: time.Unix(0, 0).UTC()}, Ended: time.Unix(60, 0).UTC()},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		runtimev1.PendingHooksAnnotation:               "AfterClusterUpgrade,AfterControlPlaneUpgrade",
		runtimev1.OkToDeleteAnnotation:                 "",
		clusterv1.ClusterTopologyUpgradeStepAnnotation: "v1.31.0",
		v1alpha1.ChainIntentAnnotation:                 `{"from":"v1.31.0","to":"v1.32.0","workers":true}`,
		v1alpha1.ChainProgressAnnotation:               `{"from":"v1.31.0","target":"v1.33.0","began":"1970-01-01T00:00:00Z"}`,
		v1alpha1.LastUpgradeAnnotation:                 `{"from":"v1.30.0","target":"v1.31.0","began":"1970-01-01T00:00:00Z","ended":"1970-01-01T00:01:00Z"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if got, err = WriteRecorded(nil, chain.Recorded{}); err != nil || got == nil || len(got) > 0 {
		t.Errorf("nothing recorded is written as %v, %v", got, err)
	}
}

// recordedForm is the form of an annotation that WriteRecorded writes and ReadRecorded reads.
func recordedForm[T any](name, key string, value T, field func(*chain.Recorded) **T) formtest.Form[T] {
	return formtest.Form[T]{
		Name: name, Value: value, Maps: []string{"lacked"},
		Write: func(value T, before string) (string, error) {
			var r chain.Recorded
			*field(&r) = &value
			written, err := WriteRecorded(map[string]string{key: before}, r)
			return written[key], err
		},
		Read: func(text string) (T, error) {
			c := cluster("v1.33.0", nil, nil)
			c.Annotations = map[string]string{key: text}
			r, err := ReadRecorded(c)
			if err != nil {
				return value, err
			}
			return **field(&r), nil
		},
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	recordedForm("chain-intent", v1alpha1.ChainIntentAnnotation,
		chain.Intent{From: v("v1.31.0"), To: v("v1.32.0"), Workers: true, Passed: at},
		func(r *chain.Recorded) **chain.Intent { return &r.Intent }).Test(t)
	recordedForm("chain-progress", v1alpha1.ChainProgressAnnotation,
		chain.Progress{
			From: v("v1.31.0"), Target: v("v1.33.0"), At: v("v1.32.0"), Generation: 3, Began: at,
			Planned: &chain.Planned{Made: at, ControlPlane: []version.Version{v("v1.32.0"), v("v1.33.0")}, Workers: []version.Version{v("v1.33.0")}},
			Steps: []chain.Step{{
				To: v("v1.32.0"), Began: at, InsteadOf: v("v1.32.9"), ControlPlane: at.Add(time.Hour), Workers: at.Add(2 * time.Hour), Lacked: map[string]int32{"md-0": 1},
			}},
		},
		func(r *chain.Recorded) **chain.Progress { return &r.Chain }).Test(t)
	last := recordedForm("last-upgrade", v1alpha1.LastUpgradeAnnotation,
		chain.Past{
			Progress: chain.Progress{
				From: v("v1.31.0"), Target: v("v1.33.0"), At: v("v1.32.0"), Generation: 3, Began: at,
				Planned: &chain.Planned{Made: at, ControlPlane: []version.Version{v("v1.32.0")}, Workers: []version.Version{v("v1.33.0")}},
				Steps:   []chain.Step{{To: v("v1.32.0"), Began: at, InsteadOf: v("v1.32.9"), ControlPlane: at.Add(time.Hour), Workers: at.Add(2 * time.Hour), Lacked: map[string]int32{"md-0": 1}}},
			},
			Ended: at.Add(3 * time.Hour),
		},
		func(r *chain.Recorded) **chain.Past { return &r.Last })
	last.Read = func(text string) (chain.Past, error) {
		c := cluster("v1.33.0", nil, nil)
		c.Annotations = map[string]string{v1alpha1.LastUpgradeAnnotation: text}
		read, err := ReadLastUpgrade(c)
		if err != nil {
			return chain.Past{}, err
		}
		return *read, nil
	}
	last.Test(t)
}

// TestReadRecorded reads what other engines, and people, may have written.
func TestReadRecorded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        chain.Recorded
		// field and problem are parts of the error.
		field, problem string
	}{
		"nothing": {},
		"hooks that are not sorted, stand twice, or are not known": {
			annotations: map[string]string{runtimev1.PendingHooksAnnotation: ",BeforeWorkersUpgrade,AfterClusterUpgrade,,AfterClusterUpgrade,Other"},
			want:        chain.Recorded{Pending: chain.Pending{chain.AfterClusterUpgrade, chain.BeforeWorkersUpgrade, "Other"}},
		},
		"a step without the v": {
			annotations: map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: "1.31.0"}, want: chain.Recorded{UpgradeStep: v("v1.31.0")},
		},
		"empty annotations": {annotations: map[string]string{
			runtimev1.PendingHooksAnnotation: "", clusterv1.ClusterTopologyUpgradeStepAnnotation: "", v1alpha1.ChainIntentAnnotation: "", v1alpha1.ChainProgressAnnotation: "",
		}},
		"fields of a newer release": {
			annotations: map[string]string{v1alpha1.ChainIntentAnnotation: `{"from":"v1.31.0","to":"v1.32.0","newer":{}}`},
			want:        chain.Recorded{Intent: &chain.Intent{From: v("v1.31.0"), To: v("v1.32.0")}},
		},
		"a Cluster that may go": {annotations: map[string]string{runtimev1.OkToDeleteAnnotation: "x"}, want: chain.Recorded{OKToDelete: true}},
		"a step that is none": {
			annotations: map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: "next"},
			field:       "metadata.annotations[topology.internal.cluster.x-k8s.io/upgrade-step]", problem: "is not a Kubernetes version",
		},
		"an intent that ends early": {
			annotations: map[string]string{v1alpha1.ChainIntentAnnotation: `{"from":"v1.31.0"`}, field: "metadata.annotations[" + v1alpha1.ChainIntentAnnotation + "]", problem: "remove it",
		},
		"an intent of another type": {
			annotations: map[string]string{v1alpha1.ChainIntentAnnotation: `"v1.32.0"`}, field: "metadata.annotations[" + v1alpha1.ChainIntentAnnotation + "]", problem: "remove it",
		},
		"an intent to a version that is none": {
			annotations: map[string]string{v1alpha1.ChainIntentAnnotation: `{"from":"v1.31.0","to":"soon"}`}, field: "metadata.annotations[" + v1alpha1.ChainIntentAnnotation + "]", problem: "remove it",
		},
		"a progress with a time that is none": {
			annotations: map[string]string{v1alpha1.ChainProgressAnnotation: `{"from":"v1.31.0","target":"v1.32.0","began":"yesterday"}`}, field: "metadata.annotations[" + v1alpha1.ChainProgressAnnotation + "]", problem: "remove it",
		},
	} {
		c := cluster("v1.33.0", nil, nil)
		c.Annotations = tt.annotations
		got, err := ReadRecorded(c)
		if tt.field != "" {
			field, ok := errors.AsType[*FieldError](err)
			if !ok || field.Ref.Field != tt.field || field.Ref.Object != c || !strings.Contains(field.Problem, tt.problem) {
				t.Errorf("%s: error %v, want a FieldError about %s with %q", name, err, tt.field, tt.problem)
			}
			if _, _, err := Chain(Objects{Cluster: c}); err == nil {
				t.Errorf("%s: Chain does not refuse it", name)
			}
			continue
		}
		if err != nil || !got.Equal(tt.want) {
			t.Errorf("%s: read %+v, %v, want %+v", name, got, err, tt.want)
		}
	}
}

// FuzzReadRecorded reads garbage: an error, and never a panic.
func FuzzReadRecorded(f *testing.F) {
	f.Add("AfterClusterUpgrade", "v1.31.0", `{"from":"v1.31.0","to":"v1.32.0"}`, `{"steps":[{}]}`)
	f.Add(",", "+", "null", "[]")
	f.Add("", "", "{}", "{}")
	f.Fuzz(func(t *testing.T, pending, step, intent, progress string) {
		c := cluster("v1.33.0", nil, nil)
		c.Annotations = map[string]string{
			runtimev1.PendingHooksAnnotation: pending, clusterv1.ClusterTopologyUpgradeStepAnnotation: step,
			v1alpha1.ChainIntentAnnotation: intent, v1alpha1.ChainProgressAnnotation: progress,
		}
		read, err := ReadRecorded(c)
		if err != nil {
			if _, ok := errors.AsType[*FieldError](err); !ok {
				t.Errorf("%v is no FieldError", err)
			}
			return
		}
		if c.Annotations, err = WriteRecorded(c.Annotations, read); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if again, err := ReadRecorded(c); err != nil || !again.Equal(read) {
			t.Errorf("what was written of %+v is read as %+v, %v", read, again, err)
		}
	})
}
