//go:build linux

package kubeadm_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/kube"
)

// web is a Deployment of one pod, and a PodDisruptionBudget that permits no eviction.
type web struct {
	cluster *cluster
	pod     *corev1.Pod
	budget  *policyv1.PodDisruptionBudget
}

// createWeb waits until the pod is Ready, and its budget counts it.
func (c *cluster) createWeb(ctx context.Context, t *testing.T, release kube.Release) *web {
	t.Helper()
	at := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}
	labels := map[string]string{"app": "web"}
	image, ok := release.Image("pause")
	if !ok {
		t.Fatalf("%s has no image pause", release.Version)
	}
	container := corev1.Container{
		Name: "web", Image: image.Reference(),
		Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"},
	}
	w := &web{cluster: c, budget: &policyv1.PodDisruptionBudget{
		ObjectMeta: at,
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: labels},
		},
	}}
	deployment := &appsv1.Deployment{ObjectMeta: at, Spec: appsv1.DeploymentSpec{
		Selector: w.budget.Spec.Selector,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{container},
				Tolerations: []corev1.Toleration{{
					Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists,
				}},
			},
		},
	}}
	for _, object := range []client.Object{deployment, w.budget} {
		if err := c.client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	w.pod = w.awaitReady(ctx, t)
	counted := func(b *policyv1.PodDisruptionBudget) string {
		if b.Status.CurrentHealthy != 1 {
			return fmt.Sprintf("PodDisruptionBudget: %+v", b.Status)
		}
		return ""
	}
	await(ctx, t, c, &policyv1.PodDisruptionBudgetList{}, counted, client.InNamespace(at.Namespace))
	return w
}

// awaitReady waits until a pod of the Deployment is Ready, and returns it.
func (w *web) awaitReady(ctx context.Context, t *testing.T) *corev1.Pod {
	t.Helper()
	var ready *corev1.Pod
	await(ctx, t, w.cluster, &corev1.PodList{}, func(pod *corev1.Pod) string {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue &&
				pod.DeletionTimestamp.IsZero() {
				ready = pod
				return ""
			}
		}
		return fmt.Sprintf("pod %s: %+v", pod.Name, pod.Status)
	}, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": "web"})
	return ready
}

// checkDrain runs an upgrade of the pod's host to its end. It sees that the budget holds the drain
// before anything is installed, and that the command names the budget and the pod. Then it deletes
// the budget.
func (w *web) checkDrain(ctx context.Context, t *testing.T, m *machine, u *update) {
	t.Helper()
	held := false
	u.see = func(line updateLine) {
		const budget = "The disruption budget web needs 1 healthy pods and has 1 currently"
		if held || line.Step != "drain" || !strings.Contains(line.Message, budget) {
			return
		}
		held = true
		if !strings.Contains(line.Message, "draining the node: ") ||
			!strings.Contains(line.Message, "Pod default/"+w.pod.Name) {
			t.Errorf("the drain is held, and the command prints %q", line.Message)
		}
		pod := w.pod.DeepCopy()
		w.cluster.get(ctx, t, pod)
		installed := m.run(ctx, t, "kubeadm version --output short && kubelet --version")
		from := m.world.from.Version.String()
		if want := from + "\nKubernetes " + from + "\n"; installed != want || pod.UID != w.pod.UID {
			t.Errorf("while the drain is held the pod is %s, and there are %s", pod.UID, installed)
		}
		if err := w.cluster.client.Delete(ctx, w.budget); err != nil {
			t.Fatal(err)
		}
	}
	u.run(ctx, t, 0)
	if !held {
		t.Error("the budget did not hold the drain")
	}
	err := w.cluster.client.Get(ctx, client.ObjectKeyFromObject(w.pod), &corev1.Pod{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the node was drained, and pod %s is still there: %v", w.pod.Name, err)
	}
	w.awaitReady(ctx, t)
}
