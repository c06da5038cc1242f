// Package topology tests internal/topology against a real API server: server-side apply and managed fields have no faithful imitation.
package topology

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/topology"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
)

// world is a Cluster on a real API server, where nothing runs but the test.
type world struct {
	t        *testing.T
	inner    client.WithWatch
	client   client.WithWatch
	objects  *topology.Objects
	requests []string
	// lose makes an apply of a kind fail before it reaches the API server.
	lose string
}

var errLost = errors.New("connection lost")

func TestWrites(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	log.SetLogger(logr.Discard())
	w := newWorld(t)
	v1, v2 := w.versions("v1.31.0"), w.versions("v1.31.5")

	w.at(v1, "create Secret", "apply DevCluster", "apply MachineHealthCheck", "apply DevMachineTemplate", "apply KubeadmControlPlane", "patch Cluster",
		"apply DevMachineTemplate", "apply KubeadmConfigTemplate", "apply MachineDeployment", "apply MachineHealthCheck",
		"apply DevMachineTemplate", "apply KubeadmConfigTemplate", "apply MachineDeployment", "apply MachineHealthCheck",
		"apply DevMachinePool", "apply KubeadmConfig", "apply MachinePool")
	w.at(v1)

	// The Cluster's controller becomes the owner; the shim goes, and references to it.
	w.adopt()
	w.at(v1, "delete Secret", "dry-run DevCluster", "dry-run DevCluster", "apply DevCluster", "dry-run KubeadmControlPlane", "dry-run KubeadmControlPlane", "apply KubeadmControlPlane")
	w.at(v1)
	for _, object := range w.pair() {
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "Cluster" {
			t.Errorf("owners of %s: %v", object.GetKind(), owners)
		}
	}

	// Status, and what others own.
	_, current := w.read()
	controlPlane, md := current.ControlPlane.Object, current.MachineDeployments["a"].Object
	w.must(unstructured.SetNestedField(controlPlane.Object, int64(1), "status", "replicas"))
	w.must(w.inner.Status().Update(t.Context(), controlPlane))
	md.Status.Replicas = new(int32(1))
	w.must(w.inner.Status().Update(t.Context(), md))
	w.merge(md, `{"metadata":{"annotations":{"machinedeployment.clusters.x-k8s.io/revision":"1"},"finalizers":["example.com/x"]}}`)
	w.at(v1)
	w.merge(md, `{"metadata":{"finalizers":null}}`)

	// What we own.
	w.merge(md, `{"spec":{"replicas":5}}`)
	w.at(v1, "dry-run MachineDeployment", "dry-run MachineDeployment", "apply MachineDeployment")
	w.at(v1)

	// A new process asks once about each object, and changes none.
	w.restart()
	if asked := w.reconcile(v1); len(asked) != 2*15 || slices.ContainsFunc(asked, func(request string) bool { return !strings.HasPrefix(request, "dry-run ") }) {
		t.Errorf("%d requests after a restart: %s", len(asked), asked)
	}
	w.at(v1)

	// The control plane, then one group; the other waits.
	step := w.versions("v1.31.0")
	step.ControlPlane = "v1.31.5"
	w.at(step, "dry-run DevMachineTemplate", "dry-run DevMachineTemplate", "apply DevMachineTemplate", "apply KubeadmControlPlane", "delete DevMachineTemplate")
	w.at(step)
	step.MachineDeployments["a"] = topology.Worker{Version: "v1.31.5"}
	step.MachineDeployments["b"] = topology.Worker{Version: "v1.31.0", Hold: true}

	// A crash between the new template and its MachineDeployment makes no second template.
	w.lose = "MachineDeployment"
	if asked := w.reconcile(step); asked[len(asked)-1] != "apply MachineDeployment" {
		t.Errorf("requests %s", asked)
	}
	w.lose = ""
	templates := w.count("KubeadmConfigTemplate")
	w.restart()
	w.reconcile(step)
	if got := w.count("KubeadmConfigTemplate"); got != templates {
		t.Errorf("%d templates became %d", templates, got)
	}
	w.at(step)
	_, current = w.read()
	if group := current.MachineDeployments["a"]; group.Object.Spec.Template.Spec.Version != "v1.31.5" || !strings.Contains(commands(group.BootstrapTemplate), "v1.31.5") {
		t.Errorf("MachineDeployment at %s with %s", group.Object.Spec.Template.Spec.Version, commands(group.BootstrapTemplate))
	}
	// Of the group that was held since the restart nothing is known.
	w.at(v2, "dry-run DevMachineTemplate", "dry-run DevMachineTemplate", "dry-run KubeadmConfigTemplate", "dry-run KubeadmConfigTemplate",
		"apply KubeadmConfigTemplate", "dry-run MachineDeployment", "dry-run MachineDeployment", "apply MachineDeployment", "apply MachinePool")
	w.at(v2)
}

func commands(template *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedStringSlice(template.Object, "spec", "template", "spec", "preKubeadmCommands")
	return strings.Join(list, ";")
}

func newWorld(t *testing.T) *world {
	t.Helper()
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(programs.Remove)
	if err := devplane.Build(t.Context(), devplane.BuildOptions{SourceDir: source}); err != nil {
		t.Fatal(err)
	}
	plane, err := devplane.Start(t.Context(), devplane.Config{
		SupervisorPath: paths.Lab, AssetsDir: devplane.DefaultOutDir(source), StateDir: filepath.Join(t.TempDir(), "state"), Without: devplane.StockManagers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := plane.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t}
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, corev1.AddToScheme} {
		w.must(add(types))
	}
	w.inner, err = client.NewWithWatch(plane.RESTConfig(), client.Options{Scheme: types})
	w.must(err)
	w.client = w.counting()
	w.load()
	w.restart()
	return w
}

func (w *world) counting() client.WithWatch {
	kind := func(object runtime.Object) string {
		gvk, err := w.inner.GroupVersionKindFor(object)
		w.must(err)
		return gvk.Kind
	}
	return interceptor.NewClient(w.inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			w.requests = append(w.requests, "create "+kind(object))
			return c.Create(ctx, object, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			w.requests = append(w.requests, "delete "+kind(object))
			return c.Delete(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			w.requests = append(w.requests, "patch "+kind(object))
			return c.Patch(ctx, object, patch, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, configuration runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			verb, object := "apply ", "?"
			if len((&client.ApplyOptions{}).ApplyOptions(opts).DryRun) > 0 {
				verb = "dry-run "
			}
			if u, ok := configuration.(interface{ GetKind() string }); ok {
				object = u.GetKind()
			}
			w.requests = append(w.requests, verb+object)
			if verb == "apply " && object == w.lose {
				return errLost
			}
			return c.Apply(ctx, configuration, opts...)
		},
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) load() {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "objects.yaml"))
	w.must(err)
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		object := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal([]byte(document), &object.Object))
		w.must(w.inner.Create(w.t.Context(), object))
	}
}

// restart forgets everything that a process remembers.
func (w *world) restart() {
	w.t.Helper()
	objects, err := topology.New(topology.ObjectOptions{Client: w.client, APIReader: w.inner, Recorder: &events.FakeRecorder{}, Now: time.Now})
	w.must(err)
	w.objects = objects
}

func (w *world) read() (*scope.ClusterBlueprint, *scope.ClusterState) {
	w.t.Helper()
	cluster, class := &clusterv1.Cluster{}, &clusterv1.ClusterClass{}
	w.must(w.inner.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "c"}, cluster))
	w.must(w.inner.Get(w.t.Context(), cluster.GetClassKey(), class))
	blueprint, err := w.objects.ReadBlueprint(w.t.Context(), cluster, class)
	w.must(err)
	current, err := w.objects.ReadCurrent(w.t.Context(), cluster, blueprint)
	w.must(err)
	return blueprint, current
}

// pair is the infrastructure cluster and the control plane.
func (w *world) pair() []*unstructured.Unstructured {
	w.t.Helper()
	_, current := w.read()
	return []*unstructured.Unstructured{current.InfrastructureCluster, current.ControlPlane.Object}
}

func (w *world) versions(version string) topology.Versions {
	return topology.Versions{
		ControlPlane:       version,
		MachineDeployments: map[string]topology.Worker{"a": {Version: version}, "b": {Version: version}},
		MachinePools:       map[string]topology.Worker{"p": {Version: version}},
	}
}

// reconcile reads, computes and applies once, and returns the writes. It fails the test unless a write is made to fail.
func (w *world) reconcile(versions topology.Versions) []string {
	w.t.Helper()
	w.requests = nil
	blueprint, current := w.read()
	desired, err := w.objects.ComputeDesired(w.t.Context(), blueprint, current, versions)
	w.must(err)
	if _, err = w.objects.Apply(w.t.Context(), blueprint, current, desired, versions, topology.ApplyOptions{}); err != nil && w.lose == "" {
		w.t.Fatal(err)
	}
	return w.requests
}

// at reconciles and expects exactly these writes.
func (w *world) at(versions topology.Versions, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.reconcile(versions)); diff != "" {
		w.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func (w *world) merge(object client.Object, patch string) {
	w.t.Helper()
	w.must(w.inner.Patch(w.t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("somebody")))
}

// adopt makes the Cluster the owner of its objects, as the Cluster's controller does.
func (w *world) adopt() {
	w.t.Helper()
	_, current := w.read()
	for _, object := range w.pair() {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: current.Cluster.Name, UID: current.Cluster.UID,
		}))
		w.must(w.inner.Update(w.t.Context(), object, client.FieldOwner("manager")))
	}
}

func (w *world) count(kind string) int {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: kind + "List"})
	w.must(w.inner.List(w.t.Context(), list))
	return len(list.Items)
}
