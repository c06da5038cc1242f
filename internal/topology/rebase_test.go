package topology

import (
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// addClass creates a ClusterClass without patches that lists versions.
func (w *world) addClass(name string, versions ...string) {
	w.t.Helper()
	class := &clusterv1.ClusterClass{}
	if err := w.Inner.Get(w.t.Context(), client.ObjectKey{Namespace: w.Key.Namespace, Name: "stable"}, class); err != nil {
		w.t.Fatal(err)
	}
	status := class.Status
	class.Name, class.UID, class.ResourceVersion = name, "other", ""
	class.Spec.KubernetesVersions, class.Spec.Patches = versions, nil
	if err := w.Inner.Create(w.t.Context(), class); err != nil {
		w.t.Fatal(err)
	}
	class.Status, class.Status.ObservedGeneration = status, class.Generation
	w.update(class)
}

// reconciled reconciles until nothing changes, and returns all that was reported.
func (w *world) reconciled() string {
	w.t.Helper()
	var said strings.Builder
	for range 8 {
		report := w.report(w.reconcile())
		if report == "nothing\n" {
			return said.String()
		}
		said.WriteString(report)
	}
	w.t.Fatalf("there is always something to report:\n%s", &said)
	return ""
}

// TestRebaseInChain gives a Cluster another ClusterClass while its control plane is on the first of two
// minors. What runs is finished. Then the versions of the new class count: the chain goes on, or the
// Cluster says what is missing, and goes on when it is there.
func TestRebaseInChain(t *testing.T) {
	for name, tt := range map[string]struct {
		versions []string
		says     string
	}{
		"all versions":             {[]string{"v1.31.0", "v1.32.0", "v1.33.0"}, ""},
		"another patch of a minor": {[]string{"v1.31.0", "v1.32.5", "v1.33.0"}, ""},
		"only the target":          {[]string{"v1.33.0"}, ""},
		"without the target":       {[]string{"v1.31.0", "v1.32.0"}, "Fix: add v1.33.0 to the list of versions"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).running("v1.31.0")
			w.addClass("other", tt.versions...)
			w.merge("Cluster", "c", "spec: {topology: {version: v1.33.0}}")
			w.reconciled()
			w.merge("Cluster", "c", "spec: {topology: {classRef: {name: other}}}")
			if said := w.reconciled(); strings.Contains(said, "call ") || w.controlPlaneVersion() != "v1.32.0" {
				t.Errorf("the running step is not finished first:\n%s", said)
			}
			w.provision("v1.32.0")
			said := w.reconciled()
			if tt.says != "" {
				if !strings.Contains(said, tt.says) || w.controlPlaneVersion() != "v1.32.0" {
					t.Errorf("the control plane goes to %s; the Cluster does not say %q:\n%s", w.controlPlaneVersion(), tt.says, said)
				}
				w.merge("ClusterClass", "other", "spec: {kubernetesVersions: [v1.31.0, v1.32.0, v1.33.0]}")
				class := &clusterv1.ClusterClass{}
				if err := w.Inner.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "other"}, class); err != nil {
					t.Fatal(err)
				}
				class.Status.ObservedGeneration = class.Generation
				w.update(class)
				said = w.reconciled()
			}
			w.provision("v1.33.0")
			said += w.reconciled()
			w.arrive("a", []string{"v1.33.0"})
			said += w.reconciled()
			w.arrive("b", []string{"v1.33.0"})
			said += w.reconciled()
			if !strings.Contains(said, "condition: True ReconcileSucceeded") || !strings.Contains(said, "chain-progress: none") {
				t.Errorf("the chain has not ended:\n%s", said)
			}
			w.checkHooksOnce(t, said)
		})
	}
}

// checkHooksOnce fails the test where a hook was called twice about the same step.
func (w *world) checkHooksOnce(t *testing.T, said string) {
	t.Helper()
	var calls []string
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "call ") {
			calls = append(calls, line)
		}
	}
	slices.Sort(calls)
	if before := len(calls); len(slices.Compact(slices.Clone(calls))) != before || before == 0 {
		t.Errorf("hooks are called twice, or never:\n%s", strings.Join(calls, ""))
	}
}

// TestGroupRemovedInRollout removes a MachineDeployment from the topology in the middle of its own
// rollout. It is deleted, the next group goes on, and the chain ends.
func TestGroupRemovedInRollout(t *testing.T) {
	w := newWorld(t).running("v1.31.0")
	w.merge("Cluster", "c", "spec: {topology: {version: v1.32.0}}")
	said := w.reconciled()
	w.provision("v1.32.0")
	said += w.reconciled()
	w.arrive("a", []string{"v1.31.0", "v1.32.0"})
	said += w.reconciled()
	w.merge("Cluster", "c", "spec: {topology: {workers: {machineDeployments: [{class: worker, name: b, replicas: 1}]}}}")
	removed := w.reconciled()
	if !strings.Contains(removed, "delete MachineDeployment") || !strings.Contains(removed, "MachineDeployment b to v1.32.0") {
		t.Errorf("the group is not deleted, or the next one does not go on:\n%s", removed)
	}
	w.arrive("b", []string{"v1.32.0"})
	ended := w.reconciled()
	if !strings.Contains(ended, "condition: True ReconcileSucceeded") || !strings.Contains(ended, "chain-progress: none") {
		t.Errorf("the chain has not ended:\n%s", ended)
	}
	w.checkHooksOnce(t, said+removed+ended)
}
