package app

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// TestMachineSettles: the addition of a Machine waits for the condition Paused that its MachineSet
// writes, and comes by itself where the MachineSet does not.
func TestMachineSettles(t *testing.T) {
	t.Parallel()
	isOwned := new(true)
	added := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "m", ResourceVersion: "1", OwnerReferences: []metav1.OwnerReference{
			{Kind: "MachineSet", Name: "ms", Controller: isOwned},
		},
	}}
	notPaused := added.DeepCopy()
	notPaused.ResourceVersion = "2"
	notPaused.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse},
	}
	other := added.DeepCopy()
	other.OwnerReferences[0].Kind = "KubeadmControlPlane"
	for name, tt := range map[string]struct {
		send func(h toolscache.ResourceEventHandler)
		// at are the events that come at once; all includes those that come later.
		at, all []string
	}{
		"the condition follows": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(added, false)
			h.OnUpdate(added, notPaused)
		}, []string{"update"}, []string{"update"}},
		"no condition follows": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(added, false)
		}, nil, []string{"addition"}},
		"has the condition": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(notPaused, false)
		}, []string{"addition"}, []string{"addition"}},
		"existed at the start": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(added, true)
		}, []string{"addition"}, []string{"addition"}},
		"of a control plane": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(other, false)
		}, []string{"addition"}, []string{"addition"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			var late []func()
			rules := machineEvents()
			rules.later = func(_ time.Duration, pass func()) { late = append(late, pass) }
			tt.send(rules.narrow(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { got = append(got, "addition") },
				UpdateFunc: func(any, any) { got = append(got, "update") },
			}))
			if diff := cmp.Diff(tt.at, got); diff != "" {
				t.Errorf("at once (-want +got):\n%s", diff)
			}
			for _, pass := range late {
				pass()
			}
			if diff := cmp.Diff(tt.all, got); diff != "" {
				t.Errorf("in the end (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMachineWatchesMove has the steps of a move enqueue a Machine later, and what begins and ends
// its update at once.
func TestMachineWatchesMove(t *testing.T) {
	t.Parallel()
	marked := map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
	machine := func(change func(*clusterv1.Machine)) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(marked)}}
		change(m)
		return m
	}
	external := func(annotations map[string]string, path ...string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
		if len(path) > 0 {
			if err := unstructured.SetNestedField(o.Object, "x", path...); err != nil {
				t.Fatal(err)
			}
		}
		o.SetAnnotations(annotations)
		return o
	}
	for _, test := range []struct {
		name  string
		after any
		want  urgency
	}{
		{"a Machine that moves", machine(func(*clusterv1.Machine) {}), soon},
		{"a Machine whose update begins", machine(func(m *clusterv1.Machine) {
			m.Annotations[runtimev1.PendingHooksAnnotation] = "UpdateMachine"
		}), now},
		{"a Machine that moves and is deleted", machine(func(m *clusterv1.Machine) {
			m.DeletionTimestamp = &epoch
		}), now},
		{"a resync of a Machine", &clusterv1.Machine{}, now},
		{"the status of a Machine", &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"},
		}, soon},
		{"the condition Paused of a Machine", &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"},
			Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{{
				Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse,
			}}},
		}, now},
		{"the spec of a Machine", &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2", Generation: 2},
		}, now},
		{"labels of an object", external(nil, "metadata", "labels", "a"), soon},
		{"annotations of an object", external(marked), soon},
		{"spec of an object", external(nil, "spec", "a"), now},
		{"spec of an object that is marked", external(marked, "spec", "a"), soon},
		{"status of an object that is marked", external(marked, "status", "a"), now},
		{"owners of an object", external(nil, "metadata", "ownerReferences"), now},
		{"deletion of an object", external(nil, "metadata", "deletionTimestamp"), soon},
	} {
		var before any = external(nil)
		if _, ok := test.after.(*clusterv1.Machine); ok {
			before = &clusterv1.Machine{}
		}
		if got := machineUrgency(before, test.after); got != test.want {
			t.Errorf("%s: urgency %d, want %d", test.name, got, test.want)
		}
	}
}

// TestExternalConditions: of the conditions of an infrastructure machine or a bootstrap config, only
// the status of Ready is urgent, in each contract of Cluster API.
func TestExternalConditions(t *testing.T) {
	t.Parallel()
	object := func(path, kind, status, message string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"initialization": map[string]any{"provisioned": true}},
		}}
		all := []any{map[string]any{"type": kind, "status": status, "message": message}}
		err := unstructured.SetNestedSlice(o.Object, all, strings.Split("status."+path, ".")...)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, path := range []string{"conditions", "v1beta2.conditions", "deprecated.v1beta1.conditions"} {
		ready := object(path, "Ready", "False", "one")
		without := ready.DeepCopy()
		delete(without.Object, "status")
		provisioning := ready.DeepCopy()
		provisioning.Object["status"].(map[string]any)["initialization"] = nil //nolint:errcheck // It is made above.
		for name, tt := range map[string]struct {
			before, after *unstructured.Unstructured
			want          urgency
		}{
			"Ready's status": {ready, object(path, "Ready", "True", "one"), now},
			"Ready's words":  {ready, object(path, "Ready", "False", "two"), soon},
			"another one": {
				object(path, "Other", "False", "one"), object(path, "Other", "True", "two"), soon,
			},
			"the first status":    {without, ready, now},
			"what it waits for":   {provisioning, ready, now},
			"nothing, it resyncs": {ready, ready, soon},
		} {
			if got := machineUrgency(tt.before, tt.after); got != tt.want {
				t.Errorf("%s, %s: urgency %d, want %d", path, name, got, tt.want)
			}
		}
	}
}

// TestOwnStatusWaits: what the Machine controller wrote itself waits longest.
func TestOwnStatusWaits(t *testing.T) {
	t.Parallel()
	with := func(kind string, status metav1.ConditionStatus) *clusterv1.Machine {
		return &clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{
			{Type: clusterv1.MachineUpToDateCondition}, {Type: kind, Status: status},
		}}}
	}
	for kind, want := range map[string]time.Duration{
		clusterv1.ReadyCondition:                       ownDelay,
		clusterv1.MachineNodeHealthyCondition:          ownDelay,
		clusterv1.MachineHealthCheckSucceededCondition: rolloutDelay,
		clusterv1.MachineOwnerRemediatedCondition:      rolloutDelay,
		"Somebody/Else":                                rolloutDelay,
	} {
		got := machineDelay(with(kind, metav1.ConditionFalse), with(kind, metav1.ConditionTrue))
		if got != want {
			t.Errorf("%s waits for %s, want %s", kind, got, want)
		}
	}
}

// TestMachineControllerReads pins the functions of Cluster API's Machine controller that name a
// MachineSet, a MachineDeployment, a bootstrap config or an infrastructure machine. When it fails
// after an update of Cluster API, see what they read now, correct groupUrgency and
// isExternalUrgent, and write the new digests here.
func TestMachineControllerReads(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(clusterAPI(t), "core", "reconcilers", "machine", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		got = append(got, readers(t, file)...)
	}
	slices.Sort(got)
	want := []string{
		"Reconcile 133419df856251d4",
		"SetupWithManager 05165d187adfb75d",
		"callUpdateMachineHook 09e80130d87326a5",
		"cleanupUnstructured f9d311d14bbfadd3",
		"completeInPlaceUpdate 5c127c2a0d2d2fe5",
		"ensureExternalOwnershipAndWatch b50cb1d26d0ffb7a",
		"getOwnerMachineDeployment 7568b9fb1bb9ceef",
		"getOwnerMachineSet 8f795ae8955af3a7",
		"hasOnCreateOwnerRefs ad714f143cb14e7a",
		"isBootstrapConfigReadyForUpdate 39b00ab955341eda",
		"isDeleteNodeAllowed 2f7459b5bf15ca44",
		"isInfraMachineReadyForUpdate e51527e1b792d3f2",
		"isNodeDrainAllowed e276fee2367bab86",
		"isNodeVolumeDetachingAllowed 9e777b17b3ce2e09",
		"patchNode 7f96c0b51234d442",
		"reconcileBootstrap c7872668a01a7566",
		"reconcileCertificateExpiry d05b8d8c4ffcb855",
		"reconcileDelete 9d344dec2e01868e",
		"reconcileDeleteBootstrap 6581d06d667b69f5",
		"reconcileDeleteInfrastructure 1dad586308004f59",
		"reconcileExternal 44f8b3aaa1e0a09f",
		"reconcileInPlaceUpdate fc02a59f42680132",
		"reconcileInfrastructure dc8a651d5c6f6cc8",
		"reconcileNode 54d8f36c5944bf24",
		"removeOnCreateOwnerRefs 0b844a7e91602251",
		"setBootstrapReadyCondition 12154238ca9c6c92",
		"setInfrastructureReadyCondition 231e13381241be73",
		"setUpToDateCondition 69010b5c83a384d0",
		"shouldNodeHaveOutdatedTaint 30ffbfe6164a1ae8",
		"updateStatus 4da8b6989895e0cd",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions that read objects of others (-reviewed +found):\n%s", diff)
	}
}

// readers returns name and digest of each function of a file that names an object of others.
func readers(t *testing.T, file string) []string {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range parsed.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || !names(function) {
			continue
		}
		var text bytes.Buffer
		if err := format.Node(&text, fset, function); err != nil {
			t.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%s %.8x", function.Name.Name, sha256.Sum256(text.Bytes())))
	}
	return found
}

func names(function *ast.FuncDecl) bool {
	found := false
	ast.Inspect(function, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			found = found || slices.Contains([]string{
				"MachineSet", "MachineDeployment", "owningMachineSet", "owningMachineDeployment",
				"bootstrapConfig", "infraMachine", "Unstructured",
			}, id.Name)
		}
		return !found
	})
	return found
}

// TestEventsWait: an update that may wait comes later, and no other one of the same object until then.
func TestEventsWait(t *testing.T) {
	t.Parallel()
	var passed []string
	var timers []func()
	rules := machineEvents()
	rules.later = func(d time.Duration, pass func()) {
		if d != rolloutDelay {
			t.Errorf("a rollout waits for %s", d)
		}
		timers = append(timers, pass)
	}
	handler := rules.narrow(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, after any) {
		md, _ := after.(*clusterv1.MachineDeployment)
		passed = append(passed, md.Name+" "+md.Spec.Template.Spec.Version)
	}})
	md := func(name, version string) *clusterv1.MachineDeployment {
		o := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		o.Spec.Template.Spec.Version = version
		return o
	}
	handler.OnUpdate(md("a", "1"), md("a", "2"))
	handler.OnUpdate(md("a", "2"), md("a", "3"))
	handler.OnUpdate(md("b", "1"), md("b", "2"))
	for _, pass := range timers {
		pass()
	}
	handler.OnUpdate(md("a", "3"), md("a", "4"))
	timers[len(timers)-1]()
	if diff := cmp.Diff([]string{"a 2", "b 2", "a 4"}, passed); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}
