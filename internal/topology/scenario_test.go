package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestScenarios runs the scripts in testdata/scenarios. `go test -run TestScenarios -rewrite` writes their outputs anew.
//
//	load [running=v…]      starts anew with testdata/world.yaml; running brings its Cluster to where everything runs this version
//	reconcile              once; the output is what was called, written and logged, and what has changed of what can be seen
//	settle                 until nothing is written, with the Cluster's own controller at work
//	patch KIND NAME        merges the input into an object; a ClusterClass is looked at again at once, but for the argument unseen
//	report cp=v… NAME=v…   what the control plane and the machines of groups run
//	hook NAME [retry=30s] [fail] [absent]
//	                       what a hook answers from now on, with the input as its message
//	plan [cp=(v…,…)] [workers=(v…,…)]
//	                       what GenerateUpgradePlan extensions answer; without arguments they fail
//	plan from=v… [refused] [away] [cp=(v…,…)]
//	                       what they answer for the way from this version of the control plane
//	join v…                the control plane's Machine has a Node, and its kubelet this version
//	nodes [NAME…]          the Nodes of the control plane, or: away, if nobody answers
//	rules [NAME…]          the groups that the upgrade graph makes stop at every minor; with an input, they cannot be read because of it
//	offer v…               the versions of the upgrade graph
//	limit NAME=n           how many minors machines of a group can be moved at once; below 0 that cannot be told
//	fail VERB KIND REASON  fails the next such write
//	meanwhile VERB KIND    merges the input into the Cluster just before the next such write
//	delete KIND NAME       deletes an object; the name of a group stands for its DevMachineTemplate
//	advance DURATION       lets time go by
//	initialize             the control plane is initialized
//	count                  how many objects of each kind there are
//	restart                forgets what the process remembers
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Helper()
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			if d.Cmd == "load" {
				w = load(t, d)
				return w.changes()
			}
			w.t = t
			command, ok := commands[d.Cmd]
			if !ok {
				d.Fatalf(t, "there is no command %s", d.Cmd)
			}
			return command(w, d)
		})
	})
}

var commands = map[string]func(*world, *datadriven.TestData) string{
	"reconcile": func(w *world, _ *datadriven.TestData) string { return w.report(w.reconcile()) },
	"settle":    func(w *world, _ *datadriven.TestData) string { return w.settle() },
	"patch":     (*world).patch,
	"report": func(w *world, d *datadriven.TestData) string {
		for _, arg := range d.CmdArgs {
			if arg.Key == "cp" {
				w.provision(arg.Vals[0])
				continue
			}
			w.arrive(arg.Key, arg.Vals)
		}
		return ""
	},
	"hook": func(w *world, d *datadriven.TestData) string {
		given := answer{message: strings.TrimSpace(d.Input), failed: d.HasArg("fail")}
		if d.HasArg("retry") {
			given.retryAfter = duration(w, argument(w, d, "retry"))
		}
		w.answers[d.CmdArgs[0].Key], w.absent[d.CmdArgs[0].Key] = given, d.HasArg("absent")
		return ""
	},
	"plan": func(w *world, d *datadriven.TestData) string {
		var from string
		var given *runtimehooksv1.GenerateUpgradePlanResponse
		for _, arg := range d.CmdArgs {
			if given == nil {
				given = &runtimehooksv1.GenerateUpgradePlanResponse{}
			}
			for _, version := range arg.Vals {
				step := runtimehooksv1.UpgradeStep{Version: version}
				switch arg.Key {
				case "from":
					from = version
				case "cp":
					given.ControlPlaneUpgrades = append(given.ControlPlaneUpgrades, step)
				default:
					given.WorkersUpgrades = append(given.WorkersUpgrades, step)
				}
			}
		}
		if d.HasArg("refused") {
			given.Status = runtimehooksv1.ResponseStatusFailure
		}
		if d.HasArg("away") {
			given = nil
		}
		w.plans[from] = given
		return ""
	},
	// approve is that a gate has changed at which the Cluster waits.
	"approve": func(w *world, _ *datadriven.TestData) string {
		gate := &v1alpha1.UpgradeGate{ObjectMeta: metav1.ObjectMeta{Namespace: w.Key.Namespace, Name: "approval"}}
		gate.Status.Waiting = []v1alpha1.GateWaiting{{Cluster: w.Key.Name}}
		return fmt.Sprintln(w.r.clustersAtGate(w.t.Context(), gate))
	},
	"join": func(w *world, d *datadriven.TestData) string {
		w.join(d.CmdArgs[0].Key)
		return ""
	},
	// start makes a control plane Machine with a host, and without a Node.
	"start": func(w *world, d *datadriven.TestData) string {
		machine := w.newMember(d.CmdArgs[0].Key)
		machine.Status.Initialization.InfrastructureProvisioned = new(true)
		w.create(machine)
		return ""
	},
	"gone": func(w *world, d *datadriven.TestData) string {
		if err := w.Inner.Delete(w.t.Context(), w.newMember(d.CmdArgs[0].Key)); err != nil {
			w.t.Fatal(err)
		}
		return ""
	},
	// nodes are those of the control plane, or: away.
	"nodes": func(w *world, d *datadriven.TestData) string {
		w.nodes = nil
		for _, arg := range d.CmdArgs {
			w.nodes = append(w.nodes, arg.Key)
		}
		return ""
	},
	"rules": func(w *world, d *datadriven.TestData) string {
		w.rules, w.rulesProblem = nil, strings.TrimSpace(d.Input)
		for _, arg := range d.CmdArgs {
			w.rules = append(w.rules, plan.StopRule{Groups: []string{arg.Key}, EveryMinor: true})
		}
		return ""
	},
	"offer": func(w *world, d *datadriven.TestData) string {
		w.offered = nil
		for _, arg := range d.CmdArgs {
			w.offered = append(w.offered, version.MustParse(arg.Key))
		}
		return ""
	},
	"limit": func(w *world, d *datadriven.TestData) string {
		for _, arg := range d.CmdArgs {
			n, err := strconv.Atoi(arg.Vals[0])
			if err != nil {
				w.t.Fatal(err)
			}
			w.limits[arg.Key] = n
		}
		return ""
	},
	"fail": func(w *world, d *datadriven.TestData) string {
		w.failNext(d.CmdArgs[0].Key, d.CmdArgs[1].Key, d.CmdArgs[2].Key)
		return ""
	},
	"meanwhile": func(w *world, d *datadriven.TestData) string {
		verb, kind, text := d.CmdArgs[0].Key, d.CmdArgs[1].Key, d.Input
		w.Fail = func(v, k string) (error, bool) {
			if v == verb && k == kind {
				w.Fail = nil
				w.merge("Cluster", w.Key.Name, text)
			}
			return nil, false
		}
		return ""
	},
	"delete": func(w *world, d *datadriven.TestData) string {
		if err := w.Inner.Delete(w.t.Context(), w.object(d.CmdArgs[0].Key, d.CmdArgs[1].Key)); err != nil {
			w.t.Fatal(err)
		}
		return ""
	},
	"advance": func(w *world, d *datadriven.TestData) string {
		w.now = w.now.Add(duration(w, d.CmdArgs[0].Key))
		return ""
	},
	"initialize": func(w *world, _ *datadriven.TestData) string { w.initialize(); return "" },
	"count":      func(w *world, _ *datadriven.TestData) string { return w.count() },
	"restart":    func(w *world, _ *datadriven.TestData) string { w.restart(); return "" },
}

func load(t *testing.T, d *datadriven.TestData) *world {
	t.Helper()
	w := newWorld(t)
	if !d.HasArg("running") {
		return w
	}
	return w.running(argument(w, d, "running"))
}

// running brings the Cluster to where everything runs a version and nothing is left to do.
func (w *world) running(version string) *world {
	w.t.Helper()
	w.merge("Cluster", w.Key.Name, `{spec: {topology: {version: `+version+`}}}`)
	w.settle()
	w.initialize()
	w.provision(version)
	w.arrive("a", []string{version})
	w.arrive("b", []string{version})
	w.settle()
	w.changes()
	return w
}

func argument(w *world, d *datadriven.TestData, key string) string {
	w.t.Helper()
	for _, arg := range d.CmdArgs {
		if arg.Key == key && len(arg.Vals) == 1 {
			return arg.Vals[0]
		}
	}
	w.t.Fatalf("%s: %s needs one value", d.Pos, key)
	return ""
}

func duration(w *world, text string) time.Duration {
	w.t.Helper()
	parsed, err := time.ParseDuration(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return parsed
}

// settle reconciles until nothing is written.
func (w *world) settle() string {
	w.t.Helper()
	var calls, logged []string
	for range 8 {
		result, err := w.reconcile()
		calls, logged = append(calls, w.calls...), append(logged, w.logged...)
		w.calls, w.logged = nil, nil
		writes := w.Take()
		if err != nil {
			w.t.Fatalf("settling: %v", err)
		}
		if len(writes) == 0 {
			w.calls, w.logged = calls, logged
			return w.report(result, nil)
		}
		w.Adopt()
	}
	w.t.Fatal("there is always something to write")
	return ""
}

func (w *world) patch(d *datadriven.TestData) string {
	w.t.Helper()
	w.merge(d.CmdArgs[0].Key, d.CmdArgs[1].Key, d.Input)
	if d.CmdArgs[0].Key == "ClusterClass" && !d.HasArg("unseen") {
		class := &clusterv1.ClusterClass{}
		if err := w.Inner.Get(w.t.Context(), client.ObjectKey{Namespace: w.Key.Namespace, Name: d.CmdArgs[1].Key}, class); err != nil {
			w.t.Fatal(err)
		}
		class.Status.ObservedGeneration = class.Generation
		w.update(class)
	}
	return ""
}

// merge merges YAML into an object.
func (w *world) merge(kind, name, text string) {
	w.t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	if kind == "Cluster" && strings.HasPrefix(text, "status:") {
		if err := w.Inner.Status().Patch(w.t.Context(), w.object(kind, name), client.RawPatch(types.MergePatchType, encoded)); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	if err := w.Inner.Patch(w.t.Context(), w.object(kind, name), client.RawPatch(types.MergePatchType, encoded), client.FieldOwner("somebody")); err != nil {
		w.t.Fatal(err)
	}
}

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}
	bootstrap      = schema.GroupVersion{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2"}
	controlPlane   = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2"}
)

// object is one with a kind and a name only; a group's is that in the topology.
func (w *world) object(kind, name string) client.Object {
	object := &unstructured.Unstructured{}
	gv := clusterv1.GroupVersion
	switch kind {
	case "DevMachineTemplate":
		gv = infrastructure
		for _, g := range w.groups() {
			if md, ok := g.object.(*clusterv1.MachineDeployment); ok && g.name == name {
				name = md.Spec.Template.Spec.InfrastructureRef.Name
			}
		}
	case "MachineDeployment", "MachinePool":
		for _, g := range w.groups() {
			if g.name == name {
				name = g.object.GetName()
			}
		}
	case "KubeadmControlPlane":
		return w.Referenced(w.Cluster().Spec.ControlPlaneRef)
	}
	object.SetGroupVersionKind(gv.WithKind(kind))
	object.SetNamespace(w.Key.Namespace)
	object.SetName(name)
	return object
}

// provision has the control plane report a version.
func (w *world) provision(version string) {
	w.t.Helper()
	object := w.Referenced(w.Cluster().Spec.ControlPlaneRef)
	if err := unstructured.SetNestedField(object.Object, version, "status", "version"); err != nil {
		w.t.Fatal(err)
	}
	w.update(object)
}

// join gives the control plane a Machine whose Node runs a version.
func (w *world) join(version string) {
	w.t.Helper()
	machine := w.newMember(version)
	machine.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: version}
	machine.Status.NodeRef.Name = machine.Name
	w.nodes = append(w.nodes, machine.Name)
	w.create(machine)
}

func (w *world) newMember(version string) *clusterv1.Machine {
	machine := &clusterv1.Machine{}
	machine.Namespace, machine.Name = w.Key.Namespace, "cp-"+version
	machine.Labels = map[string]string{
		clusterv1.ClusterNameLabel: w.Key.Name, clusterv1.MachineControlPlaneLabel: "",
	}
	machine.Spec.Version = version
	return machine
}

func (w *world) create(machine *clusterv1.Machine) {
	w.t.Helper()
	if err := w.Inner.Create(w.t.Context(), machine); err != nil {
		w.t.Fatal(err)
	}
}

// listNodes is the workload cluster's answer.
func (w *world) listNodes(context.Context, types.NamespacedName) ([]string, error) {
	if slices.Contains(w.nodes, "away") {
		return nil, errors.New("connection refused")
	}
	return w.nodes, nil
}

func (w *world) count() string {
	w.t.Helper()
	var out strings.Builder
	for _, kind := range []schema.GroupVersionKind{
		infrastructure.WithKind("DevCluster"), infrastructure.WithKind("DevMachineTemplate"), bootstrap.WithKind("KubeadmConfigTemplate"),
		controlPlane.WithKind("KubeadmControlPlane"), clusterv1.GroupVersion.WithKind("MachineDeployment"), clusterv1.GroupVersion.WithKind("MachinePool"),
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := w.Inner.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %d\n", kind.Kind, len(list.Items))
	}
	return out.String()
}

func (w *world) initialize() {
	w.t.Helper()
	cluster := w.Cluster()
	conditions.Set(cluster, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized"})
	if err := w.Inner.Status().Update(w.t.Context(), cluster); err != nil {
		w.t.Fatal(err)
	}
}

// failNext fails the next write of a kind.
func (w *world) failNext(verb, kind, reason string) {
	resource := schema.GroupResource{Resource: kind}
	w.Fail = func(v, k string) (error, bool) {
		if v != verb || k != kind {
			return nil, false
		}
		w.Fail = nil
		switch reason {
		case "conflict":
			return apierrors.NewConflict(resource, w.LastName, errors.New("it has changed")), false
		case "lost":
			return apierrors.NewTimeoutError("no answer", 1), true
		default:
			return apierrors.NewForbidden(resource, w.LastName, errors.New("it is not allowed")), false
		}
	}
}
