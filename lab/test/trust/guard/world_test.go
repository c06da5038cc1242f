package guard_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

func TestMain(m *testing.M) { wire.MainOnLoopback(m) }

// awaitTimeout bounds waits for the extension; they end by events.
const awaitTimeout = 2 * time.Minute

// manifest is config/webhook/guard.yaml, for the guard of a process.
func manifest(t *testing.T, e *wire.Process) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	data, err := os.ReadFile("../../../../config/webhook/guard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(data, config); err != nil {
		t.Fatal(err)
	}
	config.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new(e.Guard + "/guard-machine"), CABundle: e.Authority.PEM}
	return config
}

// register installs the guard of a process, until the test ends.
func register(t *testing.T, p *wire.Plane, e *wire.Process) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	config := manifest(t, e)
	p.Create(t, config)
	t.Cleanup(func() {
		err := p.Client.Delete(context.WithoutCancel(t.Context()), config)
		if client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	return config
}

// awaitRegistration waits until the guard's configuration is accepted.
func awaitRegistration(t *testing.T, p *wire.Plane, what string, accept func(conditions string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
	defer cancel()
	last := ""
	if err := wire.Await(ctx, p.Client, &admissionregistrationv1.ValidatingWebhookConfigurationList{},
		func(c *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
			if c.Name != v1alpha1.GuardConfigurationName {
				return false
			}
			last = conditions(c)
			return accept(last)
		}); err != nil {
		t.Fatalf("waiting until %s: %v; the match conditions are %s", what, err, last)
	}
}

// conditions are the match conditions of the guard, as text.
func conditions(c *admissionregistrationv1.ValidatingWebhookConfiguration) string {
	var all strings.Builder
	for _, condition := range c.Webhooks[0].MatchConditions {
		fmt.Fprintf(&all, "%s: %s\n", condition.Name, condition.Expression)
	}
	return all.String()
}

// awaitGuarding waits until a policy reports its condition Guarding with a status.
func awaitGuarding(t *testing.T, p *wire.Plane, policy *v1alpha1.UpdatePolicy, status metav1.ConditionStatus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
	defer cancel()
	if err := wire.Await(ctx, p.Client, &v1alpha1.UpdatePolicyList{}, func(seen *v1alpha1.UpdatePolicy) bool {
		return seen.UID == policy.UID && seen.Status.ObservedGeneration == seen.Generation &&
			meta.IsStatusConditionPresentAndEqual(seen.Status.Conditions, v1alpha1.GuardingCondition, status)
	}, client.InNamespace(policy.Namespace)); err != nil {
		t.Fatalf("waiting until UpdatePolicy %s reports Guarding=%s: %v", policy.Name, status, err)
	}
}

func policy(namespace, name string, target v1alpha1.UpdateTarget) *v1alpha1.UpdatePolicy {
	return &v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.UpdatePolicySpec{Targets: []v1alpha1.UpdateTarget{target}, Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone},
	}
}

// cluster creates a Cluster with a control plane of one Machine, CLUSTER-cp, and MachineDeployments CLUSTER-NAME of one Machine each, with
// the same name. No controller acts on them.
func cluster(t *testing.T, p *wire.Plane, namespace, name string, deployments ...string) {
	t.Helper()
	p.Create(t, &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: name + "-cp",
		}},
	})
	p.Create(t, machine(namespace, name, "cp", map[string]string{clusterv1.MachineControlPlaneLabel: ""}))
	for _, deployment := range deployments {
		createDeployment(t, p, namespace, name, name+"-"+deployment, 1)
		p.Create(t, machine(namespace, name, deployment, worker(name+"-"+deployment)))
	}
}

func createDeployment(t *testing.T, p *wire.Plane, namespace, cluster, name string, replicas int32) *clusterv1.MachineDeployment {
	t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: cluster}
	md := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: clusterv1.MachineDeploymentSpec{ClusterName: cluster, Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: machine(namespace, cluster, name, nil).Spec}},
	}
	p.Create(t, md)
	return md
}

func worker(deployment string) map[string]string {
	return map[string]string{clusterv1.MachineDeploymentNameLabel: deployment}
}

// pooled adds the label of a MachinePool.
func pooled(labels map[string]string) map[string]string {
	all := map[string]string{clusterv1.MachinePoolNameLabel: "pool"}
	maps.Copy(all, labels)
	return all
}

// machine is a Machine of a Cluster, with the Cluster's name in its own.
func machine(namespace, cluster, name string, labels map[string]string) *clusterv1.Machine {
	all := map[string]string{clusterv1.ClusterNameLabel: cluster}
	maps.Copy(all, labels)
	return &clusterv1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster + "-" + name, Labels: all},
		Spec: clusterv1.MachineSpec{
			ClusterName: cluster, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("none")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachine", Name: name},
		},
	}
}

// deletion reports whether a Machine could be deleted now, and the message where not.
func deletion(t *testing.T, p *wire.Plane, namespace, name string) (bool, string) {
	t.Helper()
	return outcome(t, p.Client.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, client.DryRunAll))
}

// creation reports whether another Machine like that could be created now.
func creation(t *testing.T, p *wire.Plane, namespace, name string) (bool, string) {
	t.Helper()
	var m clusterv1.Machine
	if err := p.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &m); err != nil {
		t.Fatal(err)
	}
	another := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-2", Labels: m.Labels, OwnerReferences: m.OwnerReferences}, Spec: m.Spec}
	return outcome(t, p.Client.Create(t.Context(), another, client.DryRunAll))
}

// outcome tells a refusal of the guard, or for its absence, from any other error.
func outcome(t *testing.T, err error) (bool, string) {
	t.Helper()
	switch {
	case err == nil:
		return true, ""
	case apierrors.IsForbidden(err), apierrors.IsInternalError(err):
		return false, err.Error()
	}
	t.Fatal(err)
	return false, ""
}
