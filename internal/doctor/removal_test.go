package doctor_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/doctor"
)

// owned returns a kind's object team-a/NAME with annotations.
func owned(kind, name string, annotations ...string) doctor.Owned {
	meta := &metav1.ObjectMeta{Namespace: "team-a", Name: name, Annotations: map[string]string{}}
	for _, key := range annotations {
		meta.Annotations[key] = "x"
	}
	return doctor.Owned{Kind: kind, Object: meta}
}

// TestExamineRemoval: what is in progress, and what calls a Service that is gone, is an Error; what
// is merely left is a Warning.
func TestExamineRemoval(t *testing.T) {
	t.Parallel()
	service := types.NamespacedName{Namespace: "windlass-system", Name: "windlass-extension"}
	class := types.NamespacedName{Namespace: "team-a", Name: "class"}
	plans := map[types.NamespacedName]string{class: "generate-upgrade-plan.windlass"}
	gone := &doctor.Called{Service: service, Missing: true}
	const prefix = v1alpha1.DefaultInPlaceUpgradePrefix
	for name, tt := range map[string]struct {
		removal doctor.Removal
		want    []string
	}{
		"nothing": {},
		"healthy machines, and those of others": {removal: doctor.Removal{
			Objects: []doctor.Owned{
				owned("Machine", "m", v1alpha1.LastUpdateAnnotation,
					prefix+v1alpha1.InPlaceUpgradeRelease),
				owned("Cluster", "c", v1alpha1.LastUpgradeAnnotation),
			},
			Extensions: map[string]*doctor.Called{"other": nil},
			Plans:      map[types.NamespacedName]string{class: "plan.other"},
		}},
		"in progress": {
			removal: doctor.Removal{Objects: []doctor.Owned{
				owned("Machine", "b", v1alpha1.UpdatePlanAnnotation,
					v1alpha1.UpdateProgressAnnotation),
				owned("Machine", "a", prefix+v1alpha1.InPlaceUpgradeTo),
				owned("MachineSet", "s", v1alpha1.HandedOverAnnotation),
				owned("Cluster", "c", v1alpha1.ChainProgressAnnotation),
				owned("ConfigMap", "c"+v1alpha1.InPlaceUpgradeLockSuffix),
			}},
			want: []string{
				"Error InProgress Cluster team-a/c",
				"Error InProgress ConfigMap team-a/c-cp-inplace-upgrade-lock",
				"Error InProgress Machine team-a/a",
				"Error InProgress Machine team-a/b",
				"Error InProgress MachineSet team-a/s",
			},
		},
		"installed": {
			removal: doctor.Removal{
				Extensions: map[string]*doctor.Called{"windlass": {Service: service}},
				Guard:      &doctor.Called{Service: service},
				Plans:      plans,
				Leftovers:  []doctor.Owned{owned("ClusterRole", "windlass-extension")},
				Stored:     []doctor.Owned{owned("UpdatePolicy", "p")},
			},
			want: []string{
				"Error Plans ClusterClass team-a/class",
				"Warning Registrations ExtensionConfig windlass",
				"Warning Registrations ValidatingWebhookConfiguration windlass-guard",
				"Warning Leftovers ClusterRole team-a/windlass-extension",
				"Warning Objects UpdatePolicy team-a/p",
			},
		},
		"the Service is gone": {
			removal: doctor.Removal{
				Extensions: map[string]*doctor.Called{"windlass": gone},
				Guard:      gone,
			},
			want: []string{
				"Error Registrations ExtensionConfig windlass",
				"Error Registrations ValidatingWebhookConfiguration windlass-guard",
			},
		},
		"the ExtensionConfig is gone": {
			removal: doctor.Removal{
				Plans: plans,
			},
			want: []string{"Error Plans ClusterClass team-a/class"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.removal.Prefix = prefix
			found, verdict := doctor.ExamineRemoval(tt.removal)
			var got []string
			for _, f := range found {
				got = append(got, string(f.Severity)+" "+string(f.ID)+" "+f.Subject)
				if f.Fix == "" || f.Message == "" {
					t.Errorf("%s lacks a message or a fix", f.Subject)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if (verdict == "Nothing is left of Windlass.") != (len(tt.want) == 0) {
				t.Errorf("the verdict is %q", verdict)
			}
		})
	}
}
