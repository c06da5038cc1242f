package view

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/version"
)

var statusNow = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return statusNow.Add(-d) }

func upToDate(n int) map[status.State]int {
	count := make(map[status.State]int)
	count[status.UpToDate] = n
	return count
}

// busyReport has one of everything, and what a terminal must not act on.
func busyReport() status.Report {
	from, to := version.MustParse("v1.31.2"), version.MustParse("v1.32.1")
	return status.Report{
		Namespace: "team-a", Cluster: "prod",
		Groups: []status.Group{
			{Name: "control plane", Kind: "KubeadmControlPlane", Object: "prod-cp", Machines: 3,
				Policy: status.Policy{Strategy: v1alpha1.RollingUpdate, MaxInFlight: 1, MaxAttempts: 3}, Count: upToDate(3)},
			{Name: "md-0", Kind: "MachineDeployment", Object: "prod-md-0", Machines: 18,
				Policy: status.Policy{Name: "workers", Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, MaxInFlight: 4, MaxAttempts: 3, Soak: status.Seconds{Duration: time.Minute},
					Limits: &pool.LimitFields{Canary: intstr.FromInt32(2), Batches: []intstr.IntOrString{intstr.FromInt32(3), intstr.FromString("50%")}}},
				Rollout: &status.Rollout{Replicas: 18, Begun: 14, Updated: 7, InFlight: 5, Failed: []string{"w-5"}, Batch: 2, Batches: 3},
				Count: map[status.State]int{
					status.UpToDate: 7, status.Marked: 1, status.Queued: 2, status.Updating: 3, status.Finished: 1, status.Failed: 1, status.Waiting: 1, status.Deleting: 1, status.Unreadable: 1,
				}},
			{Name: "md-1", Kind: "MachineDeployment", Object: "prod-md-1", Machines: 1, Waits: "its rollout strategy is OnDelete. Fix: delete one", Missing: 1, Count: upToDate(1),
				Policy: status.Policy{Problem: `UpdatePolicies "a", "b" select the MachineDeployment team-a/prod-md-1 with the same precision (by name of the group)`}},
		},
		Machines: []status.Machine{{Name: "prod-md-0-a", Group: "md-0", State: status.Updating, Version: "v1.32.1"}},
		Updates: []status.Update{
			{Machine: "prod-md-0-x5kzq-abcde-fghij", Group: "md-0", State: status.Updating, Phase: inplace.Updating, Updater: "kubeadm", Step: 2, Steps: 2,
				Attempt: 1, MaxAttempts: 3, From: from, To: to, Began: ago(5 * time.Minute), Since: ago(90 * time.Second), Operation: "6f1c-2",
				Message: "In-place update in progress: kubelet restarts\x1b[31m", ETA: status.ETA{At: statusNow.Add(200 * time.Second)}},
			{Machine: "prod-md-0-b", Group: "md-0", State: status.Updating, Phase: inplace.BackingOff, Updater: "os", Step: 1, Steps: 2,
				Attempt: 2, MaxAttempts: 3, From: from, To: to, Began: ago(3 * time.Hour), Since: ago(20 * time.Minute), NotBefore: statusNow.Add(time.Minute),
				Operation: "77aa-2", Message: "In-place update in progress", LastError: "apt is locked by unattended-upgrades, and has been for longer than anybody should have to wait for a lock"},
			{Machine: "prod-md-0-c", Group: "md-0", State: status.Updating, Phase: inplace.Soaking, Step: 2, Steps: 2, From: from, To: to,
				Began: ago(9 * time.Minute), Since: ago(2 * time.Minute), ETA: status.ETA{At: ago(time.Minute), Late: true}},
			{Machine: "prod-md-0-d", Group: "md-0", State: status.Queued, MaxAttempts: 3, To: to, Message: "not started: 4 of at most 4 machines are being updated"},
			{Machine: "prod-md-0-d2", Group: "md-0", State: status.Queued, MaxAttempts: 3, To: to, Message: "not started: 4 of at most 4 machines are being updated"},
			{Machine: "prod-md-0-e", Group: "md-0", State: status.Failed, Phase: inplace.Failed, Updater: "kubeadm", Step: 1, Steps: 1, Attempt: 3, MaxAttempts: 3,
				From: from, To: to, Began: ago(50 * time.Hour), Since: ago(49 * time.Hour), Operation: "88bb-3", LastError: "updater \"kubeadm\" failed"},
			{Machine: "prod-md-0-f", Group: "md-0", State: status.Unreadable, To: to},
			{Machine: "prod-md-0-g", Group: "md-0", State: status.Marked, MaxAttempts: 3, To: to, Message: "Cluster API has not changed its spec yet"},
			{Machine: "prod-md-0-h", Group: "md-0", State: status.Finished, To: to, Message: "Cluster API has not noticed yet"},
		},
		Blocked: []status.Blocked{{Kind: "MachineDeployment", Name: "prod-md-0", Group: "md-0", Reason: v1alpha1.NotCoveredReason,
			Message: "no updater covers MachineSet /spec/template/spec/version, InfrastructureMachine /spec/template/spec/image", Since: ago(time.Hour)}},
		Dirty: []status.Dirty{
			{Machine: "prod-md-0-a", Group: "md-0", Pointer: cover.Pointer{Part: cover.PartInfrastructure, Path: "/spec/image"}, Since: ago(30 * time.Hour)},
			{Machine: "prod-md-0-a", Group: "md-0", Pointer: cover.Pointer{Part: cover.PartMachine, Path: "/spec/minReadySeconds"}, Since: ago(time.Second)},
		},
		Durations: []status.Duration{{Updater: "kubeadm", Median: status.Seconds{Duration: 95 * time.Second}, Measured: 7}},
		Problems:  []status.Problem{{Kind: "Machine", Name: "prod-md-0-f", Annotation: v1alpha1.UpdateProgressAnnotation, Message: "it cannot be read: unexpected end of JSON input"}},
	}
}

func TestStatusGolden(t *testing.T) {
	quiet := status.Report{Namespace: "team-a", Cluster: "prod", Groups: busyReport().Groups[:1]}
	for name, r := range map[string]status.Report{"busy": busyReport(), "quiet": quiet, "nothing": {Cluster: "prod"}} {
		for _, f := range StatusFormats() {
			t.Run(name+"/"+string(f), func(t *testing.T) {
				var got strings.Builder
				if err := WriteStatus(&got, f, narrow, r, statusNow); err != nil {
					t.Fatalf("WriteStatus: %v", err)
				}
				golden(t, "status-"+name+"."+string(f), got.String())
				checkText(t, f, got.String())
			})
		}
	}
}

func TestStatusFormats(t *testing.T) {
	if _, err := ParseFormat("mermaid", StatusFormats()); err == nil || !strings.Contains(err.Error(), `"wide"`) {
		t.Errorf("ParseFormat: %v, want an error that lists the formats", err)
	}
	for _, f := range []Format{Mermaid, "xml"} {
		if err := WriteStatus(&strings.Builder{}, f, narrow, status.Report{}, statusNow); err == nil {
			t.Errorf("format %s: no error", f)
		}
	}
	if err := WriteStatus(brokenWriter{}, Table, narrow, status.Report{}, statusNow); !errors.Is(err, errBroken) {
		t.Errorf("%v, want the writer's error", err)
	}
}

func TestFormatAge(t *testing.T) {
	for _, test := range []struct {
		age  time.Duration
		want string
	}{
		{-time.Second, "0s"}, {0, "0s"}, {59 * time.Second, "59s"}, {9*time.Minute + 59*time.Second, "9m59s"},
		{10 * time.Minute, "10m"}, {119 * time.Minute, "119m"}, {2 * time.Hour, "2h"}, {47 * time.Hour, "47h"}, {48 * time.Hour, "2d"},
	} {
		if got := formatAge(statusNow, ago(test.age)); got != test.want {
			t.Errorf("formatAge of %s is %q, want %q", test.age, got, test.want)
		}
	}
	if got := formatAge(statusNow, time.Time{}); got != "-" {
		t.Errorf("formatAge of no time is %q", got)
	}
}
