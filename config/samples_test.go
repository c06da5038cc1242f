package config_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
	"github.com/windlass-dev/windlass/pkg/version"
)

// readSamples decodes the documents of a file strictly.
func readSamples[T any](t *testing.T, path string) []T {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var items []T
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var item T
		if err := yaml.UnmarshalStrict([]byte(document), &item); err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

// TestUpdatePolicySample selects from the examples as their comments say.
func TestUpdatePolicySample(t *testing.T) {
	t.Parallel()
	policies := readSamples[v1alpha1.UpdatePolicy](t, "samples/updatepolicy.yaml")
	for name, tt := range map[string]struct {
		group   policy.Group
		want    string
		guarded bool
	}{
		"control plane":   {group: policy.Group{Namespace: "clusters", Cluster: "prod", ControlPlane: true}, want: "keep-machines", guarded: true},
		"workers":         {group: policy.Group{Namespace: "clusters", Cluster: "prod", Topology: "db"}, want: "keep-machines", guarded: true},
		"stateless":       {group: policy.Group{Namespace: "clusters", Cluster: "prod", Topology: "web"}, want: "stateless-workers"},
		"another cluster": {group: policy.Group{Namespace: "clusters", Cluster: "test", Topology: "db"}},
	} {
		got, err := policy.CompileAll(policies).Select(tt.group)
		if err != nil || got.Name != tt.want || got.Guarded != tt.guarded {
			t.Errorf("%s: selected %q, guarded %t, %v; want %q, %t", name, got.Name, got.Guarded, err, tt.want, tt.guarded)
		}
	}
}

func TestUpdaterSample(t *testing.T) {
	t.Parallel()
	updaters := readSamples[v1alpha1.Updater](t, "samples/updater.yaml")
	machine := map[string]string{"hardware": "gpu"}
	for name, tt := range map[string]struct {
		namespace, machine map[string]string
		want               []string
	}{
		"here":            {namespace: map[string]string{"site": "north"}, machine: machine, want: []string{"packages", "kubernetes"}},
		"elsewhere":       {machine: machine, want: []string{"kubernetes"}},
		"virtual machine": {namespace: map[string]string{"site": "north"}},
	} {
		selected, err := updatepolicy.SelectUpdaters(updaters, tt.namespace, tt.machine)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, u := range selected {
			got = append(got, u.Name)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUpgradeGateSample holds steps as the examples' comments say.
func TestUpgradeGateSample(t *testing.T) {
	t.Parallel()
	gates := readSamples[v1alpha1.UpgradeGate](t, "samples/upgradegate.yaml")
	prod := gate.Cluster{Namespace: "clusters", Name: "prod", UID: "u", Labels: map[string]string{"environment": "production"}}
	// On a Monday.
	monday := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		step gate.Step
		want string
	}{
		"workers": {step: gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: version.MustParse("v1.30.2")},
			want: "gate maintenance: before workers v1.30.2: waits for the window Fri,Sat 22:00-04:00 Europe/Berlin, opens 2026-11-27T21:00:00Z"},
		"control plane": {step: gate.Step{Hook: gate.BeforeControlPlaneUpgrade, Version: version.MustParse("v1.33.0")},
			want: `gate removed-apis: before control plane v1.33.0: needs approval: windlass approve prod -n clusters --gate removed-apis --step "before control plane v1.33.0"`},
		"another minor": {step: gate.Step{Hook: gate.BeforeControlPlaneUpgrade, Version: version.MustParse("v1.31.0")}},
	} {
		got := gate.Decide(tt.step, gate.Select(gates, prod, tt.step), gate.Facts{}, monday)
		if message := got.Message(tt.step); message != tt.want {
			t.Errorf("%s: got %q, want %q", name, message, tt.want)
		}
	}
}

// TestKubeadmUpdaterSample holds that the example can be used as it is.
func TestKubeadmUpdaterSample(t *testing.T) {
	t.Parallel()
	for _, u := range readSamples[v1alpha1.Updater](t, "samples/updater_kubeadm.yaml") {
		if err := updatepolicy.CheckUpdater(&u); err != nil || updatepolicy.MaxMinors(&u) != 1 {
			t.Errorf("%s: %v, at most %d minors at once", u.Name, err, updatepolicy.MaxMinors(&u))
		}
	}
}
