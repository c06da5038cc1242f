package snapshot_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/snapshot"
)

// TestTopologyFailure: an error of the topology's controller has a way out that fits it, and a wait is no
// error.
func TestTopologyFailure(t *testing.T) {
	t.Parallel()
	const (
		failed   = clusterv1.ClusterTopologyReconciledFailedReason
		template = `error reconciling the Cluster topology: failed to create patch helper for ProxmoxMachineTemplate ` +
			`lab/lab-6x84x: server side apply dry-run failed for modified object: admission webhook "validation.example" ` +
			`denied the request: spec: Forbidden: ProxmoxMachineTemplate is immutable`
	)
	for name, tt := range map[string]struct {
		status                metav1.ConditionStatus
		reason, message       string
		isNone, noPath        bool
		wantMessage, wantsFix string
	}{
		"no error":       {metav1.ConditionTrue, "ReconcileSucceeded", "", true, false, "", ""},
		"a wait":         {metav1.ConditionFalse, "ClusterUpgrading", "Cluster is upgrading to v1.35.0", true, false, "", ""},
		"a template":     {metav1.ConditionFalse, failed, template, false, false, "lab/lab-6x84x", "update the provider of that template"},
		"another object": {metav1.ConditionFalse, failed, strings.ReplaceAll(template, "MachineTemplate", "Cluster"), false, false, "ProxmoxCluster", "take back the change"},
		"a path":         {metav1.ConditionFalse, failed, "failed to compute upgrade path: no", false, true, "no", "WindlassUpgradePathLost"},
		"our own":        {metav1.ConditionFalse, failed, "there is no upgrade path. Fix: add it", false, true, "there is no upgrade path", "add it"},
		"anything else":  {metav1.ConditionFalse, failed, "a patch does not apply", false, false, "a patch does not apply", "correct what the message names"},
	} {
		cluster := &clusterv1.Cluster{}
		cluster.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ClusterTopologyReconciledCondition, Status: tt.status, Reason: tt.reason, Message: tt.message,
		}}
		f, ok := snapshot.TopologyFailure(cluster)
		if ok == tt.isNone || f.NoPath != tt.noPath {
			t.Errorf("%s: %+v, %t", name, f, ok)
		}
		if !strings.Contains(f.Message, tt.wantMessage) || !strings.HasPrefix(f.Fix, tt.wantsFix) && !strings.HasSuffix(f.Fix, tt.wantsFix) {
			t.Errorf("%s: %+v, want %q, Fix: %q", name, f, tt.wantMessage, tt.wantsFix)
		}
	}
	// A long message stays within its bound, in one line.
	cluster := &clusterv1.Cluster{}
	cluster.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse, Reason: failed,
		Message: strings.Repeat("x\n", 10_000),
	}}
	f, ok := snapshot.TopologyFailure(cluster)
	if !ok || len(f.Message) > 1024 || strings.Contains(f.Message, "\n") {
		t.Errorf("%d bytes, %t", len(f.Message), ok)
	}
}
