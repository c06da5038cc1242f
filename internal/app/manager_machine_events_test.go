package app

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			rules := machineEvents(newPace())
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
	machine := func(change func(*clusterv1.Machine)) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{clusterv1.UpdateInProgressAnnotation: ""},
		}}
		change(m)
		return m
	}
	for _, test := range []struct {
		name  string
		after *clusterv1.Machine
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
	} {
		if got := machineUrgency(&clusterv1.Machine{}, test.after); got != test.want {
			t.Errorf("%s: urgency %d, want %d", test.name, got, test.want)
		}
	}
}

// TestOwnWritesWait: what the Machine controller writes at the end of a reconcile comes later. What
// it writes and then waits for comes at once, and so does what others write.
func TestOwnWritesWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*clusterv1.Machine)
		want   urgency
	}{
		"the status": {func(m *clusterv1.Machine) { m.Status.Phase = "Running" }, soon},
		"the provider ID": {func(m *clusterv1.Machine) {
			m.Generation, m.Spec.ProviderID = 2, "x"
		}, soon},
		"the Secret's name": {func(m *clusterv1.Machine) {
			m.Generation, m.Spec.Bootstrap.DataSecretName = 2, new("x")
		}, soon},
		"the failure domain": {func(m *clusterv1.Machine) {
			m.Generation, m.Spec.FailureDomain = 2, "x"
		}, soon},
		"the provider ID, and what others write": {func(m *clusterv1.Machine) {
			m.Generation, m.Spec.ProviderID, m.Spec.MinReadySeconds = 2, "x", new(int32(1))
		}, now},
		"the bootstrap config": {func(m *clusterv1.Machine) {
			m.Generation, m.Spec.Bootstrap.ConfigRef.Name = 2, "x"
		}, now},
		"the finalizer": {func(m *clusterv1.Machine) {
			m.Finalizers = []string{clusterv1.MachineFinalizer}
		}, now},
		"the condition Paused": {func(m *clusterv1.Machine) {
			m.Status.Conditions = []metav1.Condition{
				{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse},
			}
		}, now},
		"an annotation": {func(m *clusterv1.Machine) { m.Annotations = map[string]string{"a": ""} }, now},
		"a label":       {func(m *clusterv1.Machine) { m.Labels = map[string]string{"a": ""} }, now},
		"a deletion":    {func(m *clusterv1.Machine) { m.DeletionTimestamp = &epoch }, now},
	} {
		before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Generation: 1}}
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		tt.change(after)
		if got := machineUrgency(before, after); got != tt.want {
			t.Errorf("%s: urgency %d, want %d", name, got, tt.want)
		}
	}
}

// TestOwnStatusWaits: what the Machine controller wrote itself waits longest, and so do words of
// others.
func TestOwnStatusWaits(t *testing.T) {
	t.Parallel()
	with := func(kind string, status metav1.ConditionStatus, message string) *clusterv1.Machine {
		return &clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{
			{Type: kind, Status: status, Message: message},
		}}}
	}
	for kind, want := range map[string]time.Duration{
		clusterv1.ReadyCondition:                       ownDelay,
		clusterv1.MachineNodeHealthyCondition:          ownDelay,
		clusterv1.MachineUpToDateCondition:             ownDelay,
		clusterv1.MachineHealthCheckSucceededCondition: rolloutDelay,
		clusterv1.MachineOwnerRemediatedCondition:      rolloutDelay,
		"Somebody/Else":                                rolloutDelay,
	} {
		one, other := with(kind, metav1.ConditionFalse, "one"), with(kind, metav1.ConditionFalse, "other")
		if got := machineDelay(one, with(kind, metav1.ConditionTrue, "one")); got != want {
			t.Errorf("%s waits for %s, want %s", kind, got, want)
		}
		if got := machineDelay(one, other); got != ownDelay {
			t.Errorf("the words of %s wait for %s, want %s", kind, got, ownDelay)
		}
	}
}

// TestProviderIDWaitsLess: the controller may have looked for the Node of a Machine before the Node
// was there, and the event of the Node may have found no Machine, because the cache did not show
// the provider ID. The event of the provider ID makes up for that.
func TestProviderIDWaitsLess(t *testing.T) {
	t.Parallel()
	with := func(id, phase string) *clusterv1.Machine {
		return &clusterv1.Machine{
			Spec:   clusterv1.MachineSpec{ProviderID: id},
			Status: clusterv1.MachineStatus{Phase: phase},
		}
	}
	for _, tt := range []struct {
		name          string
		before, after *clusterv1.Machine
		want          time.Duration
	}{
		{"none yet", with("", "Pending"), with("", "Provisioning"), ownDelay},
		{"the first one", with("", "Provisioning"), with("x", "Provisioned"), rolloutDelay},
		{"as before", with("x", "Provisioned"), with("x", "Running"), ownDelay},
	} {
		if got := machineDelay(tt.before, tt.after); got != tt.want {
			t.Errorf("%s: it waits for %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestContractFields pins the paths of the fields that Cluster API's contracts have for bootstrap
// configs and infrastructure machines. When it fails after an update of Cluster API, see which
// fields the Machine controller reads now, correct isExternalUrgent, and write the new digests
// here.
func TestContractFields(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, name := range []string{"bootstrap.go", "infrastructure_machine.go"} {
		file := filepath.Join(clusterAPI(t), "internal", "contract", name)
		var all strings.Builder
		for _, digest := range functions(t, file, func(*ast.FuncDecl) bool { return true }) {
			all.WriteString(digest)
		}
		got[name] = fmt.Sprintf("%.8x", sha256.Sum256([]byte(all.String())))
	}
	want := map[string]string{
		"bootstrap.go":              "c9800c033d51fa4d",
		"infrastructure_machine.go": "30aa1b6e82e6da60",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions of the contracts (-reviewed +found):\n%s", diff)
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
		got = append(got, functions(t, file, names)...)
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

// functions returns name and digest of each function of a file that is wanted.
func functions(t *testing.T, file string, wanted func(*ast.FuncDecl) bool) []string {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range parsed.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || !wanted(function) {
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

// names reports whether a function names an object of others.
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

// TestEventsWait: an update that may wait comes later, with newer ones of the same object.
func TestEventsWait(t *testing.T) {
	t.Parallel()
	var passed []string
	var timers []func()
	rules := machineEvents(newPace())
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
	if diff := cmp.Diff([]string{"a 3", "b 2", "a 4"}, passed); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}
