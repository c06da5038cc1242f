package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// declined is the error of an updater that does not want a change.
type declined struct{}

func (declined) Error() string  { return "no power" }
func (declined) Declined() bool { return true }

// TestCertainty holds which refusals to replace machines are certain: those in which each updater
// has answered.
func TestCertainty(t *testing.T) {
	t.Parallel()
	const elsewhere = `{"spec":{"template":{"spec":{"version":"v1.99.0"}}}}`
	const notCovered = v1alpha1.NotCoveredReason
	down := errors.New("connection refused")
	ignore := func(s *v1alpha1.UpdaterSpec) { s.Remote.FailurePolicy = v1alpha1.UpdaterIgnore }
	for name, tt := range map[string]struct {
		err    error
		patch  string
		change func(*v1alpha1.UpdaterSpec)
		reason string
		want   bool
	}{
		"covers nothing":            {patch: "{}", reason: notCovered, want: true},
		"leads elsewhere":           {patch: elsewhere, reason: notCovered, want: true},
		"declines":                  {err: declined{}, reason: notCovered, want: true},
		"declines, and may be down": {err: declined{}, change: ignore, reason: notCovered, want: true},
		"is no patch":               {patch: "[", reason: notCovered},
		"is down, and may be":       {err: down, change: ignore, reason: notCovered},
		"is down":                   {err: down, reason: v1alpha1.UpdaterErrorReason},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, external(nil), deployment(), machineSet("old", from))
			w.updaterWith("u", 0, tt.patch, tt.change).err = tt.err
			_, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
			r, ok := errors.AsType[*RefusedError](err)
			if !ok || r.Reason != tt.reason {
				t.Fatalf("error %v, want one for the reason %s", err, tt.reason)
			}
			certain, ok := errors.AsType[*cover.NotCoveredError](err)
			if ok != tt.want || ok && certain.Message != r.Message {
				t.Errorf("error %v wraps %v, want that it is certain: %t", err, certain, tt.want)
			}
		})
	}
}

// TestDeclinedByOne holds that a change which one updater declines is for the next one, and that it is
// not covered, with the reasons, if all decline.
func TestDeclinedByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machineSet("old", from))
	w.updater("first", 0, versionPatch).err = declined{}
	second := w.updater("second", 1, versionPatch)
	second.err = declined{}
	_, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if r, ok := errors.AsType[*RefusedError](err); !ok || r.Reason != v1alpha1.NotCoveredReason || strings.Count(r.Message, "no power") != 2 {
		t.Errorf("both decline: error %v", err)
	}
	second.err = nil
	coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if err != nil || coverage.Message != "updated in place by second" || !strings.Contains(string(coverage.Patches.Machine.Data), to) {
		t.Errorf("one declines: coverage %+v, error %v", coverage, err)
	}
}

// TestNobodyWaits: an updater that does not answer because whoever asked is gone has not failed. The
// group does not say so.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(func(*v1alpha1.UpdatePolicySpec) {}), deployment(), machineSet("old", from))
	w.updater("canceled", 0, "{}").err = context.Canceled
	blocked := func() *metav1.Condition {
		md := &clusterv1.MachineDeployment{}
		key := types.NamespacedName{Namespace: namespace, Name: "md"}
		if err := w.client.Get(t.Context(), key, md); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	w.putSets(machineSet("old", from), machineSet("new", to), infrastructure.Raw, infrastructure.Raw)
	request := setsRequest(machineSet("old", from), machineSet("new", to))
	_, err := w.engine.CanUpdateMachineSet(gone, request)
	if c := blocked(); err == nil || c != nil {
		t.Errorf("nobody waits: error %v, condition %+v", err, c)
	}
	_, err = w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if c := blocked(); err == nil || c == nil || c.Reason != v1alpha1.UpdaterErrorReason {
		t.Errorf("somebody waits: error %v, condition %+v", err, c)
	}
}
