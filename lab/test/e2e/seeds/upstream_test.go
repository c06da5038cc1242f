package seeds_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const (
	// upstreamName is the namespace and the Cluster that Cluster API's test extension plans for, its ExtensionConfig, and its process.
	upstreamName = "upstream-hooks"
	// extensionsLabel of a namespace says whose hooks are called for its Clusters: Windlass' without the label, and upstream's
	// with it; with the value exclusive, upstream's alone.
	extensionsLabel = "example.com/extensions"
	shared          = "shared"
	exclusive       = "exclusive"
	// The test extension plans with the versions for which kind has images.
	upstreamFrom = "v1.31.14"
	upstreamTo   = "v1.33.12"
)

// upstreamFlags are the arguments of Cluster API's test extension on a plane.
func upstreamFlags() []string {
	return []string{
		"--kubeconfig", "$(KUBECONFIG)", "--webhook-cert-dir", "$(CERT_DIR)", "--webhook-port", "$(PORT_hooks)",
		"--health-addr", "127.0.0.1:0", "--diagnostics-address", "0",
	}
}

// buildUpstream builds Cluster API's test extension, from its module without a change.
func buildUpstream(ctx context.Context, t *testing.T) (program string) {
	t.Helper()
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(t.TempDir(), "test-extension")
	if err := programs.Compile(ctx, filepath.Join(source, programs.TestExtensionModule), program, programs.TestExtension); err != nil {
		t.Fatal(err)
	}
	return program
}

// createUpstream runs Cluster API's test extension, registers it for one namespace, and creates a Cluster there whose class asks
// it for plans.
func (p *plane) createUpstream(ctx context.Context, t *testing.T, program string) {
	t.Helper()
	child, err := p.AddChild(ctx, devplane.Child{
		Name: upstreamName, Path: program, Args: upstreamFlags(), Ports: []string{"hooks"}, ServingCertificate: true,
		Ready: devplane.Readiness{TCP: "127.0.0.1:$(PORT_hooks)"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := p.CABundle()
	if err != nil {
		t.Fatal(err)
	}
	rig.Patch(ctx, t, p.Client, &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: setup.ExtensionName}}, map[string]any{
		"spec": map[string]any{"namespaceSelector": metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: extensionsLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{exclusive}},
		}}},
	})
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: upstreamName}, Spec: runtimev1.ExtensionConfigSpec{
		ClientConfig: runtimev1.ClientConfig{URL: fmt.Sprintf("https://127.0.0.1:%d", child.Ports["hooks"]), CABundle: ca},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: extensionsLabel, Operator: metav1.LabelSelectorOpExists},
		}},
		Settings: map[string]string{"extensionConfigName": upstreamName, "disableInPlaceUpdates": "true"},
	}}
	if err := p.Client.Create(ctx, config); err != nil {
		t.Fatal(err)
	}
	if err := setup.AwaitDiscovered(ctx, p.Client, upstreamName); err != nil {
		t.Fatal(err)
	}
	p.Namespace(ctx, t, upstreamName, map[string]string{extensionsLabel: shared})
	p.ApplyClass(ctx, t, upstreamName, rig.Class{Extension: "generate-upgrade-plan." + upstreamName})
	if err := p.Client.Create(ctx, rig.NewCluster(upstreamKey(), upstreamFrom, 1, rig.Group{Name: "md-0", Replicas: 1})); err != nil {
		t.Fatal(err)
	}
}

func upstreamKey() types.NamespacedName {
	return types.NamespacedName{Namespace: upstreamName, Name: upstreamName}
}

// testUpstreamHooks upgrades a Cluster over two minors with Cluster API's own test extension: it makes the plan, and answers
// lifecycle hooks. At the beginning Windlass' extension is called beside it. Both hold the upgrade, and it goes on when both have
// let it; but two extensions for updates in place are one too many, which both ExtensionConfigs say.
func (p *plane) testUpstreamHooks(ctx context.Context, t *testing.T) {
	t.Helper()
	p.History.AwaitArrived(ctx, t, upstreamKey(), upstreamFrom)
	gate := &v1alpha1.UpgradeGate{ObjectMeta: metav1.ObjectMeta{Namespace: upstreamName, Name: "approval"}, Spec: v1alpha1.UpgradeGateSpec{
		Steps:    []v1alpha1.GateStep{{At: "BeforeClusterUpgrade"}},
		Requires: v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}},
	}}
	if err := p.Client.Create(ctx, gate); err != nil {
		t.Fatal(err)
	}
	const held = "BeforeClusterUpgrade-" + upstreamFrom + "-" + upstreamTo
	p.answer(ctx, t, held, `{"Status": "Success", "RetryAfterSeconds": 1, "Message": "held by a test"}`)
	p.SetTarget(ctx, t, upstreamKey(), upstreamTo)
	blocked := func(what string, names ...string) {
		t.Helper()
		p.History.Await(ctx, t, what, func() string {
			message := p.History.Now(upstreamKey()).Cluster.Reconciled().Message
			for _, name := range names {
				if !strings.Contains(message, name) {
					return fmt.Sprintf("the Cluster says %q", message)
				}
			}
			return ""
		})
	}
	blocked("waiting until both extensions hold the upgrade", "approval", "held by a test")
	p.awaitConflict(ctx, t, true)
	if err := p.Client.Delete(ctx, gate); err != nil {
		t.Fatal(err)
	}
	// From here on the test extension is alone, and no update in place is ambiguous.
	rig.Patch(ctx, t, p.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: upstreamName}}, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{extensionsLabel: exclusive}},
	})
	p.awaitConflict(ctx, t, false)
	if moved := p.History.Changes(upstreamKey()); len(moved) > 0 {
		t.Errorf("the upgrade was held, but it moved: %+v", moved)
	}
	p.answer(ctx, t, held, `{"Status": "Success"}`)
	p.History.AwaitArrived(ctx, t, upstreamKey(), upstreamTo)

	var controlPlane, workers []string
	for _, c := range p.History.Changes(upstreamKey()) {
		if c.Group == "" {
			controlPlane = append(controlPlane, c.To.Minor().String())
		} else {
			workers = append(workers, c.To.String())
		}
	}
	if diff := cmp.Diff([]string{"v1.32", "v1.33"}, controlPlane); diff != "" {
		t.Errorf("minors of the control plane (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{upstreamTo}, workers); diff != "" {
		t.Errorf("versions of the workers (-want +got):\n%s", diff)
	}
	p.checkCalls(ctx, t)
}

// checkCalls compares the hooks that the test extension has answered with those of an upgrade over two minors.
func (p *plane) checkCalls(ctx context.Context, t *testing.T) {
	t.Helper()
	calls := func() (hooks []string) {
		responses := &corev1.ConfigMap{}
		if err := p.Client.Get(ctx, responsesKey(), responses); err != nil {
			t.Fatal(err)
		}
		for key := range responses.Data {
			if call, found := strings.CutSuffix(key, "-actualResponseStatus"); found {
				hooks = append(hooks, call)
			}
		}
		slices.Sort(hooks)
		return hooks
	}
	// The control plane's version in between is the planner's choice.
	between := ""
	for _, c := range p.History.Changes(upstreamKey()) {
		if c.Group == "" && between == "" {
			between = c.To.String()
		}
	}
	want := []string{
		"AfterClusterUpgrade-" + upstreamTo,
		"AfterControlPlaneInitialized",
		"AfterControlPlaneUpgrade-" + between,
		"AfterControlPlaneUpgrade-" + upstreamTo,
		"AfterWorkersUpgrade-" + upstreamTo,
		"BeforeClusterCreate",
		"BeforeClusterUpgrade-" + upstreamFrom + "-" + upstreamTo,
		"BeforeControlPlaneUpgrade-" + upstreamFrom + "-" + between,
		"BeforeControlPlaneUpgrade-" + between + "-" + upstreamTo,
		"BeforeWorkersUpgrade-" + upstreamFrom + "-" + upstreamTo,
	}
	if diff := cmp.Diff(want, calls()); diff != "" {
		t.Errorf("hooks that the test extension answered (-want +got):\n%s", diff)
	}
}

func responsesKey() types.NamespacedName {
	return types.NamespacedName{Namespace: upstreamName, Name: upstreamName + "-" + upstreamName + "-test-extension-hookresponses"}
}

// answer says how the test extension answers a call.
func (p *plane) answer(ctx context.Context, t *testing.T, call, response string) {
	t.Helper()
	key := responsesKey()
	rig.Patch(ctx, t, p.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, map[string]any{
		"data": map[string]any{call + "-preloadedResponse": response},
	})
}

// awaitConflict waits until the ExtensionConfigs say that they register the same hooks for updates in place, or do not say so any more.
func (p *plane) awaitConflict(ctx context.Context, t *testing.T, want bool) {
	t.Helper()
	for _, name := range []string{setup.ExtensionName, upstreamName} {
		_, err := setup.Await(ctx, p.Client, &runtimev1.ExtensionConfigList{}, func(e *runtimev1.ExtensionConfig) string {
			c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.UpdateExtensionsConflictCondition)
			is := c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.SeveralExtensionsReason
			if is != want {
				return fmt.Sprintf("ExtensionConfig %s has the condition %+v", name, c)
			}
			return ""
		}, setup.Named(name))
		if err != nil {
			t.Fatal(err)
		}
	}
}
