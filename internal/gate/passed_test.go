package gate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestComputePassed(t *testing.T) {
	t.Parallel()
	last := gate.Step{Hook: gate.AfterClusterUpgrade, Version: workersStep.Version}
	held := metav1.NewTime(now.Add(-time.Hour))
	waiting := v1alpha1.GateWaiting{Cluster: prod.Name, ClusterUID: prod.UID, At: "BeforeWorkersUpgrade", Version: "v1.32.4", Since: held}
	earlier := v1alpha1.GatePassed{Cluster: prod.Name, ClusterUID: prod.UID, At: waiting.At, Version: waiting.Version, Since: metav1.NewTime(now.Add(-2 * time.Hour)), Time: held}
	full := make([]v1alpha1.GatePassed, 200)
	for i := range full {
		full[i] = v1alpha1.GatePassed{Cluster: prod.Name, ClusterUID: prod.UID, At: waiting.At, Version: fmt.Sprintf("v1.31.%d", i)}
	}
	build := gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: version.MustParse("v1.32.4+rke2r1")}
	atBuild := waiting
	atBuild.Version = build.Version.String()
	atBegin := waiting
	atBegin.At, atBegin.Version = "BeforeClusterUpgrade", "v1.33.0"
	before := gate.Step{Hook: gate.BeforeControlPlaneUpgrade, Version: workersStep.Version}
	for name, tt := range map[string]struct {
		status v1alpha1.UpgradeGateStatus
		// approved is a step that was approved; the zero one is none.
		approved, step gate.Step
		ended          bool
		// want has a line for each step; of a full list only the first and the last.
		want []string
	}{
		"nothing waited": {step: workersStep},
		"it waited for a window": {
			status: v1alpha1.UpgradeGateStatus{Waiting: []v1alpha1.GateWaiting{waiting}}, step: workersStep,
			want: []string{"BeforeWorkersUpgrade v1.32.4 held 1h0m0s"},
		},
		"that it passed was not written": {
			status: v1alpha1.UpgradeGateStatus{Waiting: []v1alpha1.GateWaiting{waiting}}, approved: workersStep, step: last, ended: true,
			want: []string{"BeforeWorkersUpgrade v1.32.4 held 1h0m0s approved by jane"},
		},
		"nor that of the whole upgrade": {
			status: v1alpha1.UpgradeGateStatus{Waiting: []v1alpha1.GateWaiting{atBegin}}, step: workersStep,
			want: []string{"BeforeClusterUpgrade v1.33.0 held 1h0m0s"},
		},
		"it waits at a later step":      {status: v1alpha1.UpgradeGateStatus{Waiting: []v1alpha1.GateWaiting{waiting}}, step: before},
		"it waited at a cancelled step": {status: v1alpha1.UpgradeGateStatus{Waiting: []v1alpha1.GateWaiting{atBuild}}, step: last},
		"it waited for an approval": {
			status: v1alpha1.UpgradeGateStatus{Waiting: []v1alpha1.GateWaiting{waiting}}, approved: workersStep, step: workersStep,
			want: []string{"BeforeWorkersUpgrade v1.32.4 held 1h0m0s approved by jane"},
		},
		"another gate held it between": {
			status: v1alpha1.UpgradeGateStatus{Waiting: []v1alpha1.GateWaiting{waiting}, Passed: []v1alpha1.GatePassed{earlier}}, step: workersStep,
			want: []string{"BeforeWorkersUpgrade v1.32.4 held 2h0m0s"},
		},
		"approved in advance, and not at the end": {approved: workersStep, step: workersStep},
		"approved in advance, at the end": {
			approved: workersStep, step: last, ended: true, want: []string{"BeforeWorkersUpgrade v1.32.4 approved by jane"},
		},
		"approved and held, at the end": {
			status: v1alpha1.UpgradeGateStatus{Passed: []v1alpha1.GatePassed{earlier}}, approved: workersStep, step: last, ended: true,
			want: []string{"BeforeWorkersUpgrade v1.32.4 held 1h0m0s"},
		},
		"a build of what was approved": {
			status: v1alpha1.UpgradeGateStatus{Waiting: []v1alpha1.GateWaiting{atBuild}}, approved: workersStep, step: build,
			want: []string{"BeforeWorkersUpgrade v1.32.4+rke2r1 held 1h0m0s approved by jane"},
		},
		"Clusters that are gone leave": {
			status: v1alpha1.UpgradeGateStatus{
				Waiting: []v1alpha1.GateWaiting{waiting}, Passed: []v1alpha1.GatePassed{{Cluster: "gone", ClusterUID: "u0", At: waiting.At, Version: "v1.32.4"}},
			},
			step: workersStep, want: []string{"BeforeWorkersUpgrade v1.32.4 held 1h0m0s"},
		},
		"the oldest leaves": {
			status: v1alpha1.UpgradeGateStatus{Waiting: []v1alpha1.GateWaiting{waiting}, Passed: full}, step: workersStep,
			want: []string{"BeforeWorkersUpgrade v1.31.1", "BeforeWorkersUpgrade v1.32.4 held 1h0m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(nil)
			g.Status = tt.status
			if !tt.approved.Version.IsZero() {
				g.Status.Approvals = gate.ComputeApproved(&g, prod, tt.approved, "jane", now)
			}
			exists := func(_, uid string) bool { return uid == prod.UID }
			passed := gate.ComputePassed(&g, prod, tt.step, tt.ended, exists, now)
			if len(passed) > 200 {
				t.Errorf("%d are more than the API takes", len(passed))
			}
			var got []string
			for i, p := range passed {
				line := fmt.Sprintf("%s %s", p.At, p.Version)
				if !p.Since.IsZero() {
					line += " held " + p.Time.Sub(p.Since.Time).Round(time.Second).String()
				}
				if p.ApprovedBy != "" {
					line += " approved by " + p.ApprovedBy
				}
				if i == 0 || i == len(passed)-1 {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
