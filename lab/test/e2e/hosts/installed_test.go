//go:build linux

package hosts_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const (
	// classCluster is a Cluster of a ClusterClass, and annotatedCluster one without; each has a namespace
	// of its name.
	classCluster, annotatedCluster = "classy", "snaps"
	// The first goes from classFrom to classTo, the second one to annotatedTo.
	classFrom, classTo = "v1.31.0", "v1.32.0"
	annotatedFrom      = "v1.31.0"
	annotatedTo        = "channel=1.32-classic/stable"
	// aggregateToManager is the label by which Cluster API's core manager gets the rights on a provider.
	aggregateToManager = "cluster.x-k8s.io/aggregate-to-manager"
)

// listsFirst has clients list before they watch, as they do with API servers that cannot stream a list.
const listsFirst = "KUBE_FEATURE_WatchListClient=false"

// providerRoles grant the rights on the kinds of createProviderKinds to the extension, as far as upgrades of workers need those of
// config/samples/provider_role.yaml, and to the core manager, as every provider does.
func providerRoles(t *testing.T) (extension, manager []json.RawMessage) {
	t.Helper()
	role := func(name, label string, rules ...rbacv1.PolicyRule) []json.RawMessage {
		data, err := json.Marshal(rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}, Rules: rules,
		})
		if err != nil {
			t.Fatal(err)
		}
		return []json.RawMessage{data}
	}
	on := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{providerVersion.Group}, Resources: []string{resource}, Verbs: verbs}
	}
	return role("windlass-extension-hosts", contract.AggregationLabel,
			on("hostmachines", "get"), on("hostmachinetemplates", "get"), on("hostcontrolplanes", "list", "watch")),
		role("capi-hosts", aggregateToManager, on("*", "get", "list", "watch", "create", "update", "patch", "delete"))
}

// install installs both programs as config does: as the ServiceAccounts of the manifests, with the rights of their roles and
// those of a provider. The manager takes the place of Cluster API's.
func (p *plane) install(ctx context.Context, t *testing.T) {
	t.Helper()
	forExtension, forManager := providerRoles(t)
	pod := types.NamespacedName{Namespace: setup.ExtensionAccount.Namespace, Name: "windlass-extension-0"}
	p.create(ctx, t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "windlass"}}},
	})
	extension, err := setup.Extension(p.Windlass)
	if err != nil {
		t.Fatal(err)
	}
	extension.Args = append(extension.Args,
		"--leader-elect", "--namespace", pod.Namespace, "--pod", pod.String(),
		"--extension-config", setup.ExtensionName, "--insecure-diagnostics=false",
	)
	extension.Objects, extension.Env = slices.Concat(extension.Objects, forExtension), []string{listsFirst}
	if err := setup.RegisterAs(ctx, p.Plane, extension); err != nil {
		t.Fatal(err)
	}
	manager, err := setup.Manager(p.Windlass)
	if err != nil {
		t.Fatal(err)
	}
	manager.Objects, manager.Env = slices.Concat(manager.Objects, forManager), []string{listsFirst}
	if _, err := p.StopChild(ctx, devplane.CoreManager); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddChild(ctx, manager); err != nil {
		t.Fatal(err)
	}
	p.access = map[types.NamespacedName][]json.RawMessage{setup.ExtensionAccount: extension.Objects}
	if p.access[setup.ManagerAccount], err = setup.ManagerAccess(); err != nil {
		t.Fatal(err)
	}
}

// testRegistration has the extension write its own namespace where another one stands, after it was
// killed: it waits for its own lease then.
func (p *plane) testRegistration(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := p.KillChild(ctx, setup.ExtensionName); err != nil {
		t.Fatal(err)
	}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: setup.ExtensionName}}
	p.patch(ctx, t, config, map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{runtimev1.InjectCAFromSecretAnnotation: "elsewhere/ca"},
	}})
	await(ctx, t, p, "waiting for the extension's namespace", &runtimev1.ExtensionConfigList{},
		func(e *runtimev1.ExtensionConfig) string {
			want := setup.ExtensionAccount.Namespace + "/ca"
			if got := e.Annotations[runtimev1.InjectCAFromSecretAnnotation]; got != want {
				return fmt.Sprintf("the Secret is %q, want %q", got, want)
			}
			return ""
		}, client.MatchingFields{"metadata.name": setup.ExtensionName})
}

// testDiagnostics asks the extension for metrics with the token of an account that may not get them.
func (p *plane) testDiagnostics(ctx context.Context, t *testing.T) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: annotatedCluster, Name: "tenant"}}
	p.create(ctx, t, account)
	token := &authenticationv1.TokenRequest{}
	if err := p.client.SubResource("token").Create(ctx, account, token); err != nil {
		t.Fatal(err)
	}
	bundle, err := p.CABundle()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}}}
	status, err := p.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(status.Children, func(s devplane.ChildStatus) bool { return s.Name == setup.ExtensionName })
	url := fmt.Sprintf("https://127.0.0.1:%d/metrics", status.Children[at].Ports[setup.MetricsPort])
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token.Status.Token)
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("an account without the right gets %s", response.Status)
	}
}

// checkRights compares the roles of both programs with all that they asked the API server for.
func (p *plane) checkRights(t *testing.T) {
	t.Helper()
	for account, objects := range p.access {
		rig.CheckUnused(t, p.Plane, account, objects, withoutExtension...)
	}
}

// withoutExtension are rights that the manager needs only where no extension is registered. inplace.TestInProcess uses the first one.
var withoutExtension = []string{
	"ClusterRole windlass-manager: patch updaters/status.windlass.dev",
	"ClusterRole windlass-manager: create configmaps",
	"ClusterRole windlass-manager: patch configmaps",
}

// addUpdaters runs the updaters of the clusters with simulated machines. The hosts have one of their own.
func (p *plane) addUpdaters(ctx context.Context, t *testing.T) {
	t.Helper()
	in := func(namespaces ...string) map[string]any {
		return spec(map[string]any{"namespaceSelector": map[string]any{"matchExpressions": []any{map[string]any{
			"key": corev1.LabelMetadataName, "operator": "In", "values": namespaces,
		}}}})
	}
	if err := setup.AddUpdater(ctx, p.Plane, p.Lab, setup.SimulatedUpdater{Name: "kubelet"}); err != nil {
		t.Fatal(err)
	}
	if _, err := setup.AddK8sd(ctx, p.Plane, p.Lab, time.Second); err != nil {
		t.Fatal(err)
	}
	p.patch(ctx, t, &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "kubelet"}}, in(classCluster, annotatedCluster))
	p.patch(ctx, t, &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: setup.K8sdName}}, in(annotatedCluster))
}

// testClass upgrades a Cluster of a ClusterClass by a plan of an UpgradeGraph, and through a gate: its control plane machine is
// replaced, its worker updated in place.
func (p *plane) testClass(ctx context.Context, t *testing.T) {
	t.Helper()
	key := types.NamespacedName{Namespace: classCluster, Name: classCluster}
	plane := p.rig
	plane.Namespace(ctx, t, key.Namespace, nil)
	p.create(ctx, t,
		&v1alpha1.UpgradeGraph{
			ObjectMeta: metav1.ObjectMeta{Name: "e2e"},
			Spec: v1alpha1.UpgradeGraphSpec{
				Classes:  []v1alpha1.ClassReference{{Name: rig.ClassName, Namespace: key.Namespace}},
				Versions: []v1alpha1.Version{classFrom, classTo},
			},
		},
		&v1alpha1.UpgradeGate{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "approval"},
			Spec: v1alpha1.UpgradeGateSpec{
				ClusterName: key.Name, Steps: []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}},
				Requires: v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}, Checks: []v1alpha1.GateCheck{"NodesReady"}},
			},
		})
	plane.CreatePolicy(ctx, t, key.Namespace, "in-place", v1alpha1.UpdatePolicySpec{
		Targets:  []v1alpha1.UpdateTarget{{ClusterName: key.Name, MachineDeployments: []v1alpha1.MachineDeploymentName{workerGroup}}},
		Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, Drain: true,
	})
	plane.ApplyClass(ctx, t, key.Namespace, rig.Class{Extension: "generate-upgrade-plan." + setup.ExtensionName})
	cluster := rig.NewCluster(key, classFrom, 1, rig.Group{Name: workerGroup, Replicas: 1})
	zero, one := intstr.FromInt32(0), intstr.FromInt32(1)
	cluster.Spec.Topology.Workers.MachineDeployments[0].Rollout.Strategy = clusterv1.MachineDeploymentTopologyRolloutStrategy{
		Type:          clusterv1.RollingUpdateMachineDeploymentStrategyType,
		RollingUpdate: clusterv1.MachineDeploymentTopologyRolloutStrategyRollingUpdate{MaxSurge: &zero, MaxUnavailable: &one},
	}
	p.create(ctx, t, cluster)
	plane.AwaitArrived(ctx, t, key, classFrom)
	before := p.machineUIDs(ctx, t, key)

	plane.SetTarget(ctx, t, key, classTo)
	await(ctx, t, p, "waiting until the gate holds the upgrade", &v1alpha1.UpgradeGateList{}, func(g *v1alpha1.UpgradeGate) string {
		if len(g.Status.Waiting) == 0 {
			return "nobody waits"
		}
		return ""
	}, client.InNamespace(key.Namespace))
	p.windlass(ctx, t, "approve", key.Name, "-n", key.Namespace)
	plane.AwaitArrived(ctx, t, key, classTo)
	after := p.machineUIDs(ctx, t, key)
	if after[false] != before[false] || after[true] == before[true] || after[true] == "" {
		t.Errorf("of control plane (true) and workers the Machines were %v and are %v", before, after)
	}
	p.checkKept(ctx, t, key)
}

const workerGroup = "md-0"

// machineUIDs returns those of a Cluster's one control plane Machine and its one worker.
func (p *plane) machineUIDs(ctx context.Context, t *testing.T, key types.NamespacedName) map[bool]types.UID {
	t.Helper()
	machines := &clusterv1.MachineList{}
	if err := p.client.List(ctx, machines, client.InNamespace(key.Namespace)); err != nil {
		t.Fatal(err)
	}
	found := map[bool]types.UID{}
	for i := range machines.Items {
		_, controlPlane := machines.Items[i].Labels[clusterv1.MachineControlPlaneLabel]
		found[controlPlane] = machines.Items[i].UID
	}
	return found
}

// checkKept tries to delete the worker that a policy keeps, twice: the second refusal counts in the Event of the first.
func (p *plane) checkKept(ctx context.Context, t *testing.T, key types.NamespacedName) {
	t.Helper()
	machines := &clusterv1.MachineList{}
	err := p.client.List(ctx, machines, client.InNamespace(key.Namespace), client.HasLabels{clusterv1.MachineDeploymentNameLabel})
	if err != nil || len(machines.Items) != 1 {
		t.Fatalf("there are %d workers: %v", len(machines.Items), err)
	}
	for range 2 {
		if err := p.client.Delete(ctx, &machines.Items[0]); !apierrors.IsForbidden(err) {
			t.Fatalf("deleting a Machine that a policy keeps returns %v", err)
		}
	}
	await(ctx, t, p, "waiting for the Event of the second refusal", &eventsv1.EventList{}, func(e *eventsv1.Event) string {
		if e.Series == nil {
			return fmt.Sprintf("%s: %s is no series", e.Reason, e.Note)
		}
		return ""
	}, client.InNamespace(key.Namespace), client.MatchingFields{"reportingController": "windlass"})
}

// testAnnotated upgrades a cluster by annotation, through k8sd: its control plane, then its group.
func (p *plane) testAnnotated(ctx context.Context, t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(repository + "/config/samples/dev/annotated/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.rig.Namespace(ctx, t, annotatedCluster, nil)
	p.rig.Apply(ctx, t, annotatedCluster, string(content), func(object *unstructured.Unstructured) {
		switch object.GetKind() {
		case "MachineDeployment":
			err = unstructured.SetNestedField(object.Object, int64(1), "spec", "replicas")
		case "KubeadmControlPlane":
			err = unstructured.SetNestedField(object.Object, int64(1), "spec", "replicas")
			// Cluster API refuses maxSurge 0 for fewer than three machines.
			unstructured.RemoveNestedField(object.Object, "spec", "rollout")
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	p.awaitMachines(ctx, t)
	for _, args := range [][]string{{"controlplane", annotatedCluster}, {"machinedeployment", annotatedCluster + "-workers"}} {
		p.windlass(ctx, t, append([]string{"upgrade"}, append(args, "-n", annotatedCluster, "--to", annotatedTo)...)...)
	}
}

// awaitMachines waits until two Machines of the cluster are Ready.
func (p *plane) awaitMachines(ctx context.Context, t *testing.T) {
	t.Helper()
	missing := map[string]string{}
	await(ctx, t, p, "waiting for the Machines of "+annotatedCluster, &clusterv1.MachineList{}, func(m *clusterv1.Machine) string {
		missing[m.Name] = rig.NotAt(m, annotatedFrom)
		for _, why := range missing {
			if why != "" || len(missing) < 2 {
				return fmt.Sprintf("of 2 Machines this is missing: %v", missing)
			}
		}
		return ""
	}, client.InNamespace(annotatedCluster))
}

// windlass runs the command against the plane. It must succeed.
func (p *plane) windlass(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, p.Windlass, append(args, "--kubeconfig", p.KubeconfigPath())...)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("windlass %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}
