package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestGuardOff: windlass manager keeps the machines of pools without the guard. Control planes, and
// pools of stock Cluster API, need it.
func TestGuardOff(t *testing.T) {
	t.Parallel()
	manager := func(f *Facts) { f.Engine, f.EngineKnown = v1alpha1.EngineManager, true }
	workersOnly := func(f *Facts) {
		f.Policies[0].Spec.Targets[0].MachineDeployments = []v1alpha1.MachineDeploymentName{"md-0"}
	}
	const missing = `there is no ValidatingWebhookConfiguration "windlass-guard"`
	const kept = "OK " + workers + ": windlass manager keeps its machines"
	for name, test := range map[string]struct {
		changes []func(*Facts)
		// want begin the findings of the check; unsafe are the groups of which the summary names it.
		want, unsafe []string
	}{
		"manager": {
			changes: []func(*Facts){manager},
			want:    []string{"Error " + controlPlane + ": " + missing, kept}, unsafe: []string{controlPlane},
		},
		"manager, pools only": {changes: []func(*Facts){manager, workersOnly}, want: []string{kept}},
		"manager, namespace left out": {
			changes: []func(*Facts){manager, workersOnly, func(f *Facts) {
				f.Guard = guardPolicy()
				f.NamespaceLabels = map[string]string{v1alpha1.GuardLabel: v1alpha1.GuardDisabled}
			}},
			want: []string{kept},
		},
		"manager, guard that nobody can call": {
			changes: []func(*Facts){manager, workersOnly, func(f *Facts) {
				f.Guard = guardPolicy()
				f.Guard.Webhooks[0].ClientConfig.Service = new(admissionregistrationv1.ServiceReference)
			}},
			want: []string{`Error guard: webhook "guard.windlass.dev"`}, unsafe: []string{workers},
		},
		"stock": {
			changes: []func(*Facts){func(f *Facts) { f.EngineKnown = true }},
			want:    []string{"Error guard: " + missing}, unsafe: []string{controlPlane, workers},
		},
		"engine unknown": {want: []string{"Error guard: " + missing}, unsafe: []string{controlPlane, workers}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			f.Guard = nil
			for _, change := range test.changes {
				change(&f)
			}
			var got, unsafe []string
			for _, found := range examine(f, listGroups(f)) {
				line := string(found.Severity) + " " + found.Subject + ": " + found.Message
				if found.ID == CheckGuard {
					i := slices.IndexFunc(test.want, func(w string) bool { return strings.HasPrefix(line, w) })
					if i >= 0 {
						line = test.want[i]
					}
					got = append(got, line)
				}
				if found.ID == CheckMachinesKept && strings.Contains(found.Message, string(CheckGuard)) {
					unsafe = append(unsafe, found.Subject)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.unsafe, unsafe); diff != "" {
				t.Errorf("groups that are not safe (-want +got):\n%s", diff)
			}
		})
	}
}
