package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/feature"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	o := DefaultManagerOptions()
	o.MachineSetPreflightChecks = []string{"", "KubeadmVersionSkew", "ControlPlaneIsStable"}
	o.SkipCRDMigrationPhases = []string{"CleanupManagedFields"}
	o.SyncMachineLabels, o.SyncMachineAnnotations = []string{"^a"}, []string{"b$", "c"}
	got, err := o.check()
	if err != nil {
		t.Fatal(err)
	}
	want := sets.New(clusterv1.MachineSetPreflightCheckKubeadmVersionSkew, clusterv1.MachineSetPreflightCheckControlPlaneIsStable)
	if diff := cmp.Diff(want, got.preflightChecks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]crdmigrator.Phase{crdmigrator.CleanupManagedFieldsPhase}, got.skipMigrationPhases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if len(got.labels) != 1 || len(got.annotations) != 2 || !got.labels[0].MatchString("ab") || !got.annotations[0].MatchString("ab") {
		t.Errorf("expressions are %v and %v", got.labels, got.annotations)
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*ManagerOptions){
		"--remote-conditions-grace-period 50s is not longer than":     func(o *ManagerOptions) { o.ConditionsGracePeriod = o.ConnectionGracePeriod },
		"--remote-conditions-grace-period 1m59s is shorter than 2m0s": func(o *ManagerOptions) { o.ConditionsGracePeriod = 2*time.Minute - time.Second },
		"give both or none": func(o *ManagerOptions) { o.ClientKeyFile = "key" },
		`--machineset-preflight-checks "all" is unknown: use All, `:                           func(o *ManagerOptions) { o.MachineSetPreflightChecks = []string{"all"} },
		`--skip-crd-migration-phases "X" is unknown: use StorageVersionMigration, Cleanup`:    func(o *ManagerOptions) { o.SkipCRDMigrationPhases = []string{"X"} },
		"--additional-sync-machine-labels: error parsing regexp: missing closing ]: `[`":      func(o *ManagerOptions) { o.SyncMachineLabels = []string{"a", "["} },
		"--additional-sync-machine-annotations: error parsing regexp: missing closing ]: `[`": func(o *ManagerOptions) { o.SyncMachineAnnotations = []string{"["} },
	} {
		o := DefaultManagerOptions()
		change(&o)
		if _, err := o.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestCheckGates: the topology controller reads its own writes only with ReconcilerRateLimiting. RuntimeSDK is an option.
func TestCheckGates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		on   []featuregate.Feature
		want string
	}{
		"none":                    {},
		"no topology":             {on: []featuregate.Feature{feature.RuntimeSDK}},
		"topology alone":          {on: []featuregate.Feature{feature.ClusterTopology, feature.RuntimeSDK}, want: "ReconcilerRateLimiting=false"},
		"topology, rate limiting": {on: []featuregate.Feature{feature.ClusterTopology, feature.ReconcilerRateLimiting}},
	} {
		err := checkGates(func(f featuregate.Feature) bool { return slices.Contains(tt.on, f) })
		if (err != nil) != (tt.want != "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := checkGates(feature.Gates.Enabled); err != nil {
		t.Errorf("by default: %v", err)
	}
}
