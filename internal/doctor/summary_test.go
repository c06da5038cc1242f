package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestSummary checks what the findings come to for each group.
func TestSummary(t *testing.T) {
	for _, test := range []struct {
		name          string
		change        func(*Facts)
		cp, workers   Severity
		cpSays        string
		workersSay    string
		worstExpected Severity
	}{
		{"healthy", func(*Facts) {}, OK, OK, "machines can be updated in place", "machines can be updated in place", OK},
		{"surge of the workers", func(f *Facts) { f.Objects.MachineDeployments[0].Spec.Rollout.Strategy.RollingUpdate.MaxSurge = nil },
			OK, Error, "machines can be updated in place", "cannot be updated in place: see Surge", Error},
		{"for all groups", func(f *Facts) { f.Extensions, f.Guard = nil, nil }, Error, Error, "see Extension, Guard", "see Extension, Guard", Error},
		{"cannot be told", func(f *Facts) { f.Managers = nil }, Warning, Warning, "unless a check prevents it: see FeatureGates", "see FeatureGates", Warning},
		{"not for this group", func(f *Facts) {
			f.Policies[0].Spec.Targets[0].ControlPlane = true
			f.Guard = nil
		}, Error, OK, "see Guard", "machines are replaced one by one", Error},
		{"a failed machine is no obstacle to others", func(f *Facts) {
			f.Objects.Machines[1].Annotations[v1alpha1.UpdateProgressAnnotation] = `{"phase": "Failed"}`
		}, OK, OK, "machines can be", "machines can be", Error},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := healthy()
			test.change(&f)
			all, _ := Examine(f)
			for i, want := range []struct {
				severity Severity
				message  string
			}{{test.cp, test.cpSays}, {test.workers, test.workersSay}} {
				if got := all[i]; got.ID != CheckMachinesKept || got.Severity != want.severity || !strings.Contains(got.Message, want.message) {
					t.Errorf("finding %d is %+v, want %s %q", i, got, want.severity, want.message)
				}
			}
			if got := Worst(all); got != test.worstExpected {
				t.Errorf("the worst is %s, want %s", got, test.worstExpected)
			}
		})
	}
}

// TestVerdict checks what a reader learns from the first sentence.
func TestVerdict(t *testing.T) {
	surge := func(f *Facts) { f.Objects.MachineDeployments[0].Spec.Rollout.Strategy.RollingUpdate.MaxSurge = nil }
	for _, test := range []struct {
		name   string
		change func(*Facts)
		want   string
	}{
		{"healthy", func(*Facts) {}, "All 2 machines can be updated in place."},
		{"one group cannot", surge, "1 of 2 machines cannot be updated in place, 1 can be updated in place."},
		{"none can", func(f *Facts) { f.Extensions, f.Guard = nil, nil }, "None of the 2 machines can be updated in place."},
		{"a check could not run", func(f *Facts) { f.Managers = nil },
			"All 2 machines can be updated in place unless a warning applies; 1 check could not run."},
		{"no permission", func(f *Facts) {
			f.Managers = nil
			f.Unread = []Unread{{Source: SourceManagers, Problem: "forbidden"}, {Source: SourceHealthChecks, Problem: "forbidden"}}
		}, "All 2 machines can be updated in place unless a warning applies; 2 checks could not run."},
		{"no permission to read the guard", func(f *Facts) {
			f.Guard = nil
			f.Unread = []Unread{{Source: SourceGuard, Problem: "forbidden"}}
		}, "All 2 machines can be updated in place unless a warning applies; 1 check could not run."},
		{"no policy", func(f *Facts) { f.Policies = nil }, "All 2 machines are replaced, because no UpdatePolicy keeps them."},
		{"the workers are replaced", func(f *Facts) { f.Policies[0].Spec.Targets[0].ControlPlane = true },
			"1 of 2 machines can be updated in place, 1 is replaced, because no UpdatePolicy keeps it."},
		{"no machine yet", func(f *Facts) { f.Objects.Machines = nil; surge(f) },
			"1 of 2 groups cannot be updated in place, 1 can be updated in place."},
		{"a failed update", func(f *Facts) {
			f.Objects.Machines[1].Annotations[v1alpha1.UpdateProgressAnnotation] = `{"phase": "Failed"}`
		}, "1 of 2 machines can be updated in place, 1 has an update that is blocked or failed now."},
		{"a blocked group", func(f *Facts) {
			f.Objects.MachineDeployments[0].Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue,
				Reason: v1alpha1.NotCoveredReason, Message: "no updater covers x",
			}}
		},
			"1 of 2 machines can be updated in place, 1 has an update that is blocked or failed now."},
		{"one machine", func(f *Facts) { f.Objects.Machines = f.Objects.Machines[:1] }, "The only machine can be updated in place."},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := healthy()
			test.change(&f)
			_, got := Examine(f)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotInstalled: without our CRDs nobody is asked to write a policy.
func TestNotInstalled(t *testing.T) {
	f := healthy()
	f.Policies, f.NotInstalled = nil, true
	found, _ := Examine(f)
	told := 0
	for _, finding := range found {
		if strings.Contains(finding.Fix, "write an UpdatePolicy") {
			t.Errorf("%+v", finding)
		}
		if strings.Contains(finding.Message, "Windlass is not installed") &&
			strings.Contains(finding.Fix, "docs/how-to/install.md") {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%d findings tell that Windlass is not installed, want one for each group", told)
	}
}

// TestObstacles checks what keeps Cluster API from asking, group by group.
func TestObstacles(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Facts)
		want   map[string]bool // by subject: whether it is unknown
	}{
		{"healthy", func(*Facts) {}, map[string]bool{}},
		{"surge", func(f *Facts) { f.Objects.MachineDeployments[0].Spec.Rollout.Strategy.RollingUpdate.MaxSurge = nil }, map[string]bool{workers: false}},
		{"surge, replaced anyway", func(f *Facts) {
			f.Objects.MachineDeployments[0].Spec.Rollout.Strategy.RollingUpdate.MaxSurge = nil
			f.Policies = nil
		}, map[string]bool{}},
		{"nothing known of the control plane", func(f *Facts) { f.Objects.ControlPlane = nil }, map[string]bool{"control plane": true}},
		{"certain goes before unknown", func(f *Facts) {
			unstructured.RemoveNestedField(f.Objects.ControlPlane.Object, "spec", "replicas")
			unstructured.RemoveNestedField(f.Objects.ControlPlane.Object, "spec", "rollout")
		}, map[string]bool{controlPlane: false}},
		{"no class, no object", func(f *Facts) { f.Objects.MachineDeployments = nil }, map[string]bool{"MachineDeployment of topology md-0": true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := healthy()
			test.change(&f)
			got := map[string]bool{}
			for subject, o := range Obstacles(f) {
				got[subject] = o.Unknown
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Obstacles (-want +got):\n%s", diff)
			}
		})
	}
}
