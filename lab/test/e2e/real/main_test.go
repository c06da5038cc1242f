//go:build linux

// Package real_test runs real clusters on hosts of this machine: stock Cluster API, with the lab's infrastructure provider.
package real_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/provider/site"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const (
	repository = "../../../.."
	// timeout is for everything after the builds; far beyond what a busy machine needs.
	timeout = 20 * time.Minute
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

// plane is a management cluster with the infrastructure provider. Its site has the hosts.
type plane struct {
	*devplane.Plane
	programs.Paths
	client client.WithWatch
	site   *site.Client
}

// start starts a plane that ends with the test. Its context ends with the test's time.
func start(t *testing.T, without []string, siteArguments ...string) (context.Context, *plane) {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	hosts.Require(t)
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := devplane.Build(t.Context(), devplane.BuildOptions{SourceDir: repository}); err != nil {
		t.Fatal(err)
	}
	limit := timeout
	if long() {
		limit = longTimeout
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("it took longer than %s", limit))
	t.Cleanup(cancel)
	state := filepath.Join(t.TempDir(), "state")
	p := &plane{Paths: paths}
	p.Plane, err = devplane.Start(ctx, devplane.Config{
		StateDir: state, AssetsDir: devplane.DefaultOutDir(repository), SupervisorPath: paths.Lab,
		// The managers connect to the hosts, to which this machine's network leads, and not a plane's own.
		Isolation: devplane.IsolationNone,
		Without:   append(without, devplane.InMemoryManager),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rig.Stop(t, p.Plane, state) })
	rig.LogFailure(t, state, setup.SiteName, setup.HostProviderName, setup.ExtensionName, setup.ManagerName)
	if p.client, err = setup.Connect(p.Plane); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(p.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	if p.site, err = setup.AddHostProvider(ctx, p.Plane, state, paths.Lab, siteArguments...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.logFailure(context.WithoutCancel(ctx), t) })
	return ctx, p
}

// logFailure shows what happened in the hosts of a test that has failed.
func (p *plane) logFailure(ctx context.Context, t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	all, err := p.site.Hosts(ctx)
	if err != nil {
		t.Log(err)
	}
	for _, host := range all {
		t.Logf("host %+v", host)
		if host.Condition.PowerOff {
			continue
		}
		const script = "tail -n 30 /var/log/cloud-init-output.log; journalctl -u kubelet | tail -n 20; crictl ps --all"
		result, err := p.site.Run(ctx, host.ID, script)
		t.Logf("%v\n%s", err, result.Output)
	}
}

func (p *plane) create(ctx context.Context, t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := p.client.Create(ctx, object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

func (p *plane) createNamespace(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	p.create(ctx, t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// patch applies a merge patch.
func (p *plane) patch(ctx context.Context, t *testing.T, object client.Object, text string, args ...any) {
	t.Helper()
	if err := p.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, text, args...))); err != nil {
		t.Fatalf("patching %T %s: %v", object, object.GetName(), err)
	}
}

// await waits until check returns nothing for an object of the list.
func await[T client.Object](
	ctx context.Context, t *testing.T, p *plane, list client.ObjectList, namespace, name string, check func(T) string,
) T {
	t.Helper()
	found, err := setup.Await(ctx, p.client, list, check, client.InNamespace(namespace), setup.Named(name))
	if err != nil {
		t.Fatal(errors.Join(err, context.Cause(ctx)))
	}
	return found
}

func (p *plane) awaitCluster(ctx context.Context, t *testing.T, name string, check func(*clusterv1.Cluster) string) *clusterv1.Cluster {
	t.Helper()
	return await(ctx, t, p, &clusterv1.ClusterList{}, name, name, check)
}

// awaitReason waits until the condition Ready of a HostMachine has a reason.
func (p *plane) awaitReason(ctx context.Context, t *testing.T, namespace, name, reason string) *v1alpha1.HostMachine {
	t.Helper()
	return await(ctx, t, p, &v1alpha1.HostMachineList{}, namespace, name, func(m *v1alpha1.HostMachine) string {
		ready := meta.FindStatusCondition(m.Status.Conditions, clusterv1.ReadyCondition)
		if ready == nil || ready.Reason != reason {
			return fmt.Sprintf("Ready is %+v, want reason %s", ready, reason)
		}
		return ""
	})
}

// awaitGone waits until an object does not exist.
func (p *plane) awaitGone(ctx context.Context, t *testing.T, list client.ObjectList, object client.Object) {
	t.Helper()
	w, err := p.client.Watch(ctx, list, client.InNamespace(object.GetNamespace()), setup.Named(object.GetName()))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for {
		if err := p.client.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		} else if err != nil {
			return
		}
		if _, ok := <-w.ResultChan(); !ok {
			t.Fatalf("%T %s is still there: %v", object, object.GetName(), context.Cause(ctx))
		}
	}
}

// run runs a script in a machine's host. It must succeed.
func (p *plane) run(ctx context.Context, t *testing.T, m *v1alpha1.HostMachine, script string) string {
	t.Helper()
	result, err := p.site.Run(ctx, string(m.UID), script)
	if err != nil || result.Code != 0 {
		t.Fatalf("%s: %s: %v, exit status %d: %s", m.Name, script, err, result.Code, result.Output)
	}
	return result.Output
}
