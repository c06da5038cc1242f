package engine

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// applyUpstream does what ApplyPatchToObject and CopyFields do in Cluster API's internal/util/patch/patch.go: it applies a
// patch, and takes over the spec only.
func applyUpstream(t *testing.T, object []byte, p cover.Patch, path ...string) map[string]any {
	t.Helper()
	result := map[string]any{}
	if err := json.Unmarshal(object, &result); err != nil {
		t.Fatal(err)
	}
	// Patch.IsDefined.
	if p.Type == "" && len(p.Data) == 0 {
		return result
	}
	patched, err := object, error(nil)
	switch p.Type {
	case cover.JSONPatch:
		decoded, decodeErr := jsonpatch.DecodePatch(p.Data)
		if decodeErr != nil {
			t.Fatal(decodeErr)
		}
		patched, err = decoded.Apply(object)
	case cover.JSONMergePatch:
		patched, err = jsonpatch.MergePatch(object, p.Data)
	default:
		t.Fatalf("patch type %q", p.Type)
	}
	if err != nil {
		t.Fatalf("%s does not apply to %s: %v", p.Data, object, err)
	}
	source := map[string]any{}
	if err := json.Unmarshal(patched, &source); err != nil {
		t.Fatal(err)
	}
	value, found, err := unstructured.NestedFieldCopy(source, path...)
	if err != nil {
		t.Fatal(err)
	}
	if found {
		if err := unstructured.SetNestedField(result, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	return result
}

// cleanUpstream is CleanupMachineSpecForDiff of Cluster API's internal/util/inplace/inplace.go.
func cleanUpstream(t *testing.T, spec any) clusterv1.MachineSpec {
	t.Helper()
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var s clusterv1.MachineSpec
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	s.ClusterName, s.ProviderID, s.Bootstrap, s.InfrastructureRef = "", "", clusterv1.Bootstrap{}, clusterv1.ContractVersionedObjectReference{}
	s.MinReadySeconds, s.ReadinessGates, s.Taints = nil, nil, nil
	s.Deletion.NodeDrainTimeoutSeconds, s.Deletion.NodeVolumeDetachTimeoutSeconds, s.Deletion.NodeDeletionTimeoutSeconds = nil, nil, nil
	return s
}

// differsUpstream compares as matchesMachine does in Cluster API's kubeadmcontrolplane/inplace_canupdatemachine.go, and
// matchesMachineSet in its machinedeployment/machinedeployment_canupdatemachineset.go. It is empty where they match.
func differsUpstream(t *testing.T, current, desired [3][]byte, p cover.Patches, path ...string) string {
	t.Helper()
	diff := ""
	for i, patch := range []cover.Patch{p.Machine, p.Infrastructure, p.Bootstrap} {
		if len(current[i]) == 0 {
			continue
		}
		patched := applyUpstream(t, current[i], patch, path...)
		want := applyUpstream(t, desired[i], cover.Patch{}, path...)
		a, _, _ := unstructured.NestedFieldNoCopy(patched, path...)
		b, _, _ := unstructured.NestedFieldNoCopy(want, path...)
		if i == 0 {
			diff += cmp.Diff(cleanUpstream(t, b), cleanUpstream(t, a))
			continue
		}
		diff += cmp.Diff(b, a)
	}
	return diff
}

func encoded(t *testing.T, object any, others ...string) [3][]byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	all := [3][]byte{data}
	for i, o := range others {
		all[i+1] = []byte(o)
	}
	return all
}

// TestUpstreamMatchesMachine applies what is answered as stock Cluster API does, and compares as it does: a decision to update
// in place is nothing without that.
func TestUpstreamMatchesMachine(t *testing.T) {
	t.Parallel()
	w, _ := newControlPlane(t)
	current, desired := controlPlaneMachine("cp", from), controlPlaneMachine("cp", to)
	seconds := int32(10)
	desired.Spec.Deletion.NodeDrainTimeoutSeconds = &seconds
	a, b := encoded(t, current, infrastructureMachine, bootstrapCurrent), encoded(t, desired, infrastructureMachine, bootstrapDesired)
	if differsUpstream(t, a, b, cover.Patches{}, "spec") == "" {
		t.Fatal("without any patch they match already")
	}
	// Asked again, it is answered from the record.
	for _, want := range []string{"updated in place by kubeadm", "updated in place, as decided before: kubeadm"} {
		coverage, err := w.engine.CanUpdateMachine(t.Context(), canUpdateMachine(current, desired))
		if err != nil || coverage.Message != want {
			t.Fatalf("coverage %+v, error %v", coverage, err)
		}
		if diff := differsUpstream(t, a, b, coverage.Patches, "spec"); diff != "" {
			t.Errorf("%s: Cluster API would not update in place (-desired +patched)\n%s", want, diff)
		}
	}
}

func templateWith(kind, spec string) string {
	return `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"` + kind + `","metadata":{"name":"x"},"spec":{"template":{"spec":` + spec + `}}}`
}

func TestUpstreamMatchesMachineSet(t *testing.T) {
	t.Parallel()
	ignoring := func(p *v1alpha1.UpdatePolicySpec) {
		p.IgnorePaths = []v1alpha1.IgnorePath{{Object: v1alpha1.IgnoreInfrastructure, Path: "/spec/image"}}
	}
	for name, tt := range map[string]struct {
		policy                 func(*v1alpha1.UpdatePolicySpec)
		patches                map[string]string
		zone                   string
		currentInfra, newInfra string
		matches                bool
	}{
		"one updater":             {patches: map[string]string{"kubelet": versionPatch}, currentInfra: `{}`, newInfra: `{}`, matches: true},
		"one for each half":       {patches: map[string]string{"files": `{"spec":{"failureDomain":"z2"}}`, "kubelet": versionPatch}, zone: "z2", currentInfra: `{}`, newInfra: `{}`, matches: true},
		"one that is ignored":     {policy: ignoring, patches: map[string]string{"kubelet": versionPatch}, currentInfra: `{"image":"a","cpus":2}`, newInfra: `{"image":"b","cpus":2}`, matches: true},
		"an ignored one appears":  {policy: ignoring, patches: map[string]string{"kubelet": versionPatch}, currentInfra: `{}`, newInfra: `{"image":{"name":"b","tags":["x"]}}`, matches: true},
		"an ignored one goes":     {policy: ignoring, patches: map[string]string{"kubelet": versionPatch}, currentInfra: `{"image":"a","cpus":2}`, newInfra: `{"cpus":2}`, matches: true},
		"a half that is replaced": {patches: map[string]string{"kubelet": versionPatch}, zone: "z2", currentInfra: `{}`, newInfra: `{}`},
		"another template":        {patches: map[string]string{"kubelet": versionPatch}, currentInfra: `{"cpus":2}`, newInfra: `{"cpus":4}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, external(func(p *v1alpha1.UpdatePolicySpec) {
				p.Fallback = v1alpha1.FallbackRollingUpdate
				if tt.policy != nil {
					tt.policy(p)
				}
			}), deployment(), machineSet("old", from))
			for updater, patch := range tt.patches {
				w.updater(updater, 0, patch)
			}
			current, desired := machineSet("old", from), machineSet("new", to)
			desired.Spec.Template.Spec.FailureDomain = tt.zone
			current.Spec.Template.Spec.InfrastructureRef = infrastructureRef("DevMachineTemplate", "x")
			desired.Spec.Template.Spec.InfrastructureRef = infrastructureRef("DevMachineTemplate", "rotated")
			oldTemplate, newTemplate := templateWith("DevMachineTemplate", tt.currentInfra), templateWith("DevMachineTemplate", tt.newInfra)
			w.putSets(current, desired, []byte(oldTemplate), []byte(newTemplate))
			for i := range 2 {
				coverage, err := w.engine.CanUpdateMachineSet(t.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{
					Current: runtimehooksv1.CanUpdateMachineSetRequestObjects{MachineSet: *current, InfrastructureMachineTemplate: runtime.RawExtension{Raw: []byte(oldTemplate)}},
					Desired: runtimehooksv1.CanUpdateMachineSetRequestObjects{MachineSet: *desired, InfrastructureMachineTemplate: runtime.RawExtension{Raw: []byte(newTemplate)}},
				})
				if err != nil {
					t.Fatal(err)
				}
				diff := differsUpstream(t, encoded(t, current, oldTemplate), encoded(t, desired, newTemplate), coverage.Patches, "spec", "template", "spec")
				if (diff == "") != tt.matches {
					t.Errorf("asked %s: matches %v, want %v: %s (-desired +patched)\n%s", []string{"first", "again"}[i], diff == "", tt.matches, coverage.Message, diff)
				}
			}
		})
	}
}

// TestWrites counts what one machine's update costs the API server beside Cluster API's own writes.
func TestWrites(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy func(*v1alpha1.UpdatePolicySpec)
		two    bool
		want   int64
	}{
		"one updater":                         {want: 2},
		"one updater, soak":                   {policy: func(p *v1alpha1.UpdatePolicySpec) { p.SoakSeconds = 10 }, want: 3},
		"one updater, drain":                  {policy: func(p *v1alpha1.UpdatePolicySpec) { p.Drain = true }, want: 4},
		"one updater, drain and soak":         {policy: func(p *v1alpha1.UpdatePolicySpec) { p.Drain, p.SoakSeconds = true, 10 }, want: 4},
		"two updaters":                        {two: true, want: 3},
		"two updaters, drain for the second":  {two: true, policy: func(p *v1alpha1.UpdatePolicySpec) { p.Drain = true }, want: 5},
		"two updaters, soak":                  {two: true, policy: func(p *v1alpha1.UpdatePolicySpec) { p.SoakSeconds = 10 }, want: 4},
		"two updaters, drain for it and soak": {two: true, policy: func(p *v1alpha1.UpdatePolicySpec) { p.Drain, p.SoakSeconds = true, 10 }, want: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w *world
			if tt.two {
				w, _, _ = halves(t, external(tt.policy))
			} else {
				w = newWorld(t, external(tt.policy), deployment(), machineSet("old", from), machine("a", "new", to))
				w.updaterWith("kubelet", 0, versionPatch, func(s *v1alpha1.UpdaterSpec) { s.Transitions.NeedsDrain = true })
				w.worker("kubelet", true)
				w.node("a", from)
			}
			decide := w.decideHalves
			if !tt.two {
				decide = func() error {
					_, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
					return err
				}
			}
			if err := decide(); err != nil {
				t.Fatal(err)
			}
			w.writes.Store(0)
			w.until("a", "updated in place")
			if n := w.writes.Load(); n != tt.want {
				t.Errorf("%d writes, want %d", n, tt.want)
			}
		})
	}
}
