package setup

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

func TestSimulatedUpdater(t *testing.T) {
	u := SimulatedUpdater{Name: "files", Order: 7, Claims: []string{"machine:/spec/version", "bootstrap:/spec/files"}, Duration: time.Second, FailureRate: 0.25, StateFile: "/state"}
	args := strings.Join(u.Child("/bin/windlass").Args, " ")
	for _, want := range []string{"--claims machine:/spec/version,bootstrap:/spec/files", "--duration 1s", "--failure-rate 0.25", "--state /state", "--stats-addr 127.0.0.1:$(PORT_stats)"} {
		if !strings.Contains(args, want) {
			t.Errorf("the arguments lack %q: %s", want, args)
		}
	}
	object := u.object(4711, []byte("ca"))
	want := v1alpha1.UpdaterSpec{Order: 7, Remote: &v1alpha1.RemoteUpdater{URL: "https://127.0.0.1:4711", CABundle: []byte("ca")}}
	if diff := cmp.Diff(want, object.Spec); diff != "" || object.Name != "files" {
		t.Errorf("%s (-want +got):\n%s", object.Name, diff)
	}
}

func TestUpdaterStatuses(t *testing.T) {
	item := func(name string, order int32, ready metav1.ConditionStatus, message string) v1alpha1.Updater {
		return v1alpha1.Updater{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UpdaterSpec{Order: order},
			Status: v1alpha1.UpdaterStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: ready, Message: message}}},
		}
	}
	process := devplane.ChildStatus{Name: "updater-b", State: devplane.ChildReady}
	got := updaterStatuses([]v1alpha1.Updater{
		item("late", 9, metav1.ConditionTrue, ""), item("c", 1, metav1.ConditionFalse, "no answer"), item("b", 1, metav1.ConditionTrue, ""),
		item("first", math.MinInt32, metav1.ConditionTrue, ""),
	}, devplane.Status{Children: []devplane.ChildStatus{{Name: "windlass"}, process}})
	want := []UpdaterStatus{
		{Name: "first", Order: math.MinInt32, Ready: true}, {Name: "b", Order: 1, Process: &process, Ready: true},
		{Name: "c", Order: 1, Message: "no answer"}, {Name: "late", Order: 9, Ready: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUpdaterNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"kubelet": true, "a": true, strings.Repeat("a", 32): true, strings.Repeat("a", 33): false,
		"": false, "Files": false, "a.b": false, "-a": false, "a-": false, "a b": false,
	} {
		if err := CheckUpdaterName(name); (err == nil) != valid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestGuardConfiguration(t *testing.T) {
	config := guardConfiguration("https://127.0.0.1:1/guard", nil)
	if guard := updatepolicy.SelectGuard(config, "demo", nil); !guard.Active {
		t.Errorf("with this configuration the guard is not active: %s", guard.Message)
	}
	if guard := updatepolicy.SelectGuard(config, "demo", map[string]string{v1alpha1.GuardLabel: v1alpha1.GuardDisabled}); guard.Active {
		t.Error("the guard is active in a namespace that is left out")
	}
	if *config.Webhooks[0].FailurePolicy != admissionregistrationv1.Fail {
		t.Error("a guard that cannot be reached lets requests pass")
	}
}
