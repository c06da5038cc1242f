package app

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
)

var k8sdMachine = types.NamespacedName{Namespace: "default", Name: "m"}

func k8sdObjects() []client.Object {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m", Annotations: map[string]string{"kept": "as it is"}}}
	machine.Spec.ClusterName = porttest.UpdaterCluster
	machine.Status.NodeRef.Name = "node-m"
	return []client.Object{machine, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: porttest.UpdaterCluster + "-token"}, Data: map[string][]byte{"node-token-m": []byte("token")},
	}}
}

func newLive(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(k8sdObjects()...).Build()
}

func k8sdUpdater(config *v1alpha1.K8sdConfig) *v1alpha1.Updater {
	return &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: "k8sd", UID: "u", Generation: 1},
		Spec:       v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.K8sdUpdater, K8sd: config}},
	}
}

// An Updater as it is registered refreshes a machine, and what it has asked for stands on the Machine.
func TestK8sdFromThePool(t *testing.T) {
	t.Parallel()
	server, err := k8sdtest.New(k8sdtest.Options{Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	if err := server.AddMachine("m", "token", k8sdtest.Option{}); err != nil {
		t.Fatal(err)
	}
	live := newLive(t)
	u := k8sdUpdater(&v1alpha1.K8sdConfig{
		Port: server.Port(), Reach: v1alpha1.K8sdDirect, DirectHost: "127.0.0.1",
		TLS: v1alpha1.K8sdTLS{Fingerprints: []string{server.Fingerprint()}}, Channel: "{minor}/stable",
	})
	opened, err := newUpdaterPool(live, "example.com/upgrade-").Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"change 1 has begun", "change 1 is Doing"} {
		got := opened.UpdateMachine(t.Context(), porttest.UpdateMachine(k8sdMachine, porttest.UpdaterTo, "a"))
		if got.Outcome != inplace.InProgress || !strings.Contains(got.Message, want) {
			t.Errorf("the answer is %+v, want %q", got, want)
		}
	}
	var machine clusterv1.Machine
	if err := live.Get(t.Context(), k8sdMachine, &machine); err != nil {
		t.Fatal(err)
	}
	if a := machine.Annotations; a["kept"] == "" || a["example.com/upgrade-change-id"] != "1" || !strings.Contains(a[v1alpha1.RefreshAnnotation], `"channel=1.32/stable"`) {
		t.Errorf("annotations are %v", a)
	}
}

func TestAnnotateMachine(t *testing.T) {
	t.Parallel()
	machines := liveMachines{newLive(t)}
	before, err := machines.Machine(t.Context(), k8sdMachine)
	if err != nil || before.Cluster != porttest.UpdaterCluster || before.Node != "node-m" {
		t.Fatalf("the Machine is %+v, %v", before, err)
	}
	if err := machines.Annotate(t.Context(), k8sdMachine, before.ResourceVersion, map[string]*string{"kept": nil, "new": new("x")}); err != nil {
		t.Fatal(err)
	}
	if err := machines.Annotate(t.Context(), k8sdMachine, before.ResourceVersion, map[string]*string{"newer": new("x")}); !apierrors.IsConflict(err) {
		t.Errorf("the error about a Machine that has changed is %v", err)
	}
	after, err := machines.Machine(t.Context(), k8sdMachine)
	if err != nil || len(after.Annotations) != 1 || after.Annotations["new"] != "x" {
		t.Errorf("the Machine is %+v, %v", after, err)
	}
	if _, err := machines.Machine(t.Context(), types.NamespacedName{Namespace: "default", Name: "x"}); !apierrors.IsNotFound(err) {
		t.Errorf("the error about a Machine that is not there is %v", err)
	}
}

// Where the workload cluster cannot be asked, the answer says so; an Updater that cannot be used is not opened.
func TestK8sdFails(t *testing.T) {
	t.Parallel()
	pool := newUpdaterPool(newLive(t), "")
	opened, err := pool.Open(t.Context(), k8sdUpdater(&v1alpha1.K8sdConfig{TLS: v1alpha1.K8sdTLS{InsecureSkipVerify: true}, Channel: "{minor}"}))
	if err != nil {
		t.Fatal(err)
	}
	request := porttest.UpdateMachine(k8sdMachine, porttest.UpdaterTo, "a")
	const want = "reaching k8sd of node node-m: Cluster default/cluster cannot be asked: reading Secret default/cluster-kubeconfig"
	if got := opened.UpdateMachine(t.Context(), request); got.Outcome != inplace.Unknown || !strings.Contains(got.Message, want) {
		t.Errorf("the answer is %+v", got)
	}
	request.Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation] = "localPath=/k8s.snap"
	if got := opened.UpdateMachine(t.Context(), request); got.Outcome != inplace.Unknown || !strings.Contains(got.Message, "reading the kubelet version of node node-m") {
		t.Errorf("the answer is %+v", got)
	}
	for _, bad := range []*v1alpha1.K8sdConfig{nil, {}} {
		u := k8sdUpdater(bad)
		u.UID = "bad"
		if opened, err := pool.Open(t.Context(), u); err == nil {
			t.Errorf("%+v was opened as %T", bad, opened)
		}
	}
}
