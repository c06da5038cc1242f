package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	capicontract "sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// preparer is an updater of this process. It covers versions, and is asked whether it can begin.
type preparer struct {
	port.Updater

	mu sync.Mutex
	// answers are by machine; without one it is prepared.
	answers map[string]inplace.Readiness
	// asked are the questions since the last take, as "machine operation version mark".
	asked []string
}

func (p *preparer) CanUpdateMachine(
	_ context.Context, r *runtimehooksv1.CanUpdateMachineRequest,
) (cover.Patches, error) {
	data := fmt.Sprintf(`{"spec":{"version":%q}}`, r.Desired.Machine.Spec.Version)
	return cover.Patches{Machine: cover.Patch{Type: cover.JSONMergePatch, Data: []byte(data)}}, nil
}

func (p *preparer) CanBegin(_ context.Context, r *runtimehooksv1.UpdateMachineRequest) inplace.Readiness {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &r.Desired.Machine
	p.asked = append(p.asked, strings.Join([]string{
		m.Name, m.Annotations[v1alpha1.OperationIDAnnotation], m.Spec.Version, m.Annotations[v1alpha1.PrefetchAnnotation],
	}, " "))
	return p.answers[m.Name]
}

// aheadWorld is a Cluster that waits for its first step, with machines of MachineDeployment md.
type aheadWorld struct {
	*testing.T
	client   client.WithWatch
	engine   *Engine
	nodes    *porttest.Nodes
	events   *recorder
	preparer *preparer
	now      time.Time

	mu    sync.Mutex
	ids   int
	reads map[string]int
}

// newAheadWorld returns a world with a number of machines, after edits of its objects.
func newAheadWorld(t *testing.T, machines int, edits ...func(client.Object)) *aheadWorld {
	t.Helper()
	w := &aheadWorld{
		T: t, nodes: porttest.NewNodes(), events: &recorder{said: map[string][]string{}, notes: map[string]string{}},
		preparer: &preparer{answers: map[string]inplace.Readiness{}}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		reads: map[string]int{},
	}
	cluster := newCluster()
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: wanted}
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "workers"}}
	next := []clusterv1.StatusUpgradePlanVersion{{Version: wanted}}
	cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{UpgradePlan: next}
	cluster.Status.Workers = &clusterv1.WorkersStatus{UpgradePlan: next}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "md", UID: "md", Labels: map[string]string{
		clusterv1.ClusterNameLabel: "c", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "workers",
	}}}
	md.Spec.Template.Spec.Version = from
	md.Status.Versions = []clusterv1.StatusVersion{{Version: from, Replicas: int32(machines)}}
	p := inPlaceOnly(1)
	p.Spec.Prefetch.MaxInFlight = 3
	objects := []client.Object{
		cluster, md, p, newHosted(map[string]any{"version": from}, nil),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
			Name:   capicontract.CalculateCRDName(hostedKind.Group, hostedKind.Kind),
			Labels: map[string]string{clusterv1.GroupVersion.Group + "/v1beta2": hostedKind.Version},
		}},
		&v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "host"}, Spec: v1alpha1.UpdaterSpec{
			InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{}},
		}},
	}
	for i := range machines {
		m := newMachine(fmt.Sprintf("m%03d", i), "")
		objects = append(objects, m)
		w.nodes.Set(inCluster, m.Name, porttest.ReadyNode(from, w.now.Add(-time.Hour)))
	}
	for _, o := range objects {
		for _, edit := range edits {
			edit(o)
		}
	}
	w.client = w.fake(objects)
	w.restart()
	return w
}

// fake is the API server. A write fails the test.
func (w *aheadWorld) fake(objects []client.Object) client.WithWatch {
	w.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			w.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// restart makes an engine that knows nothing yet.
func (w *aheadWorld) restart() {
	wrote := func(o any) error {
		w.Errorf("a write of %T", o)
		return nil
	}
	cached := interceptor.NewClient(w.client, interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return wrote(o)
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return wrote(o)
		},
		Update: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			return wrote(o)
		},
		SubResourceApply: func(
			_ context.Context, _ client.Client, _ string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption,
		) error {
			return wrote(o)
		},
	})
	live := interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			w.count(fmt.Sprintf("get %T", o))
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			w.count(fmt.Sprintf("list %T", list))
			return c.List(ctx, list, opts...)
		},
	})
	w.engine = New(Options{
		Client: cached, Live: live, Nodes: w.nodes, Events: w.events, Prefix: v1alpha1.DefaultInPlaceUpgradePrefix,
		Now: func() time.Time { return w.now },
		NewID: func() string {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ids++
			return fmt.Sprintf("id%d", w.ids)
		},
		Open: func(context.Context, *v1alpha1.Updater) (port.Updater, error) { return w.preparer, nil },
	})
}

func (w *aheadWorld) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads[what]++
}

// sweep sweeps once, lets 15 s pass, and returns the machines that were asked about, sorted.
func (w *aheadWorld) sweep() []string {
	w.Helper()
	if err := w.engine.Prefetch(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.now = w.now.Add(15 * time.Second)
	var names []string
	for _, asked := range w.preparer.asked {
		name, _, _ := strings.Cut(asked, " ")
		names = append(names, name)
	}
	w.preparer.asked = nil
	slices.Sort(names)
	return names
}

// questions sweeps once, and returns the machines that were asked about, each with the version, sorted.
func (w *aheadWorld) questions() []string {
	w.Helper()
	if err := w.engine.Prefetch(w.Context()); err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, asked := range w.preparer.asked {
		words := strings.Fields(asked)
		got = append(got, words[0]+" "+words[2])
	}
	w.preparer.asked = nil
	slices.Sort(got)
	return got
}

func (w *aheadWorld) edit(object client.Object, edit func()) {
	w.Helper()
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		w.Fatal(err)
	}
	edit()
	if err := w.client.Update(w.Context(), object); err != nil {
		w.Fatal(err)
	}
}
