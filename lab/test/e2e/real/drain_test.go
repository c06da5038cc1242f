//go:build linux

package real_test

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
)

//go:embed testdata/web.yaml
var webManifest string

// web is a Deployment in a Cluster, with a PodDisruptionBudget that permits no eviction at first.
// Each machine of a MachineDeployment has one of its pods.
type web struct {
	*realCluster
	workload client.WithWatch
	watch    *podWatch
	// pods are those on machines that are replaced, then those on machines that are kept.
	pods []webPod
}

// webPod is a pod as it is at first.
type webPod struct {
	*corev1.Pod
	machine clusterv1.Machine
	host    v1alpha1.HostMachine
	kept    bool
}

// startWeb creates the Deployment, and waits until its pods are Ready.
func (c *realCluster) startWeb(ctx context.Context, t *testing.T, release kube.Release) *web {
	t.Helper()
	w := &web{realCluster: c, workload: c.connect(ctx, t), watch: c.watchPods(ctx, t, "web")}
	image, ok := release.Image("pause")
	if !ok {
		t.Fatalf("%s has no image pause", release.Version)
	}
	objects := decode(t, webManifest, struct {
		Image    string
		Replicas int
	}{image.Reference(), c.Workers + c.Kept})
	err := setup.ApplyAll(ctx, w.workload, metav1.NamespaceDefault, objects)
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]clusterv1.Machine{}
	for _, machine := range c.machines(ctx, t) {
		if machine.Labels[clusterv1.MachineDeploymentNameLabel] != "" {
			machines[machine.Status.NodeRef.Name] = machine
		}
	}
	pods, _ := w.watch.awaitReady(ctx, t, len(machines))
	for _, pod := range pods {
		machine, found := machines[pod.Spec.NodeName]
		if !found {
			t.Fatalf("pod %s is on %s", pod.Name, pod.Spec.NodeName)
		}
		delete(machines, pod.Spec.NodeName)
		p := webPod{Pod: pod, machine: machine}
		p.kept = machine.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] == keptGroup
		key := client.ObjectKey{Namespace: c.Name, Name: machine.Spec.InfrastructureRef.Name}
		if err := c.client.Get(ctx, key, &p.host); err != nil {
			t.Fatal(err)
		}
		if p.kept {
			w.pods = append(w.pods, p)
		} else {
			w.pods = slices.Insert(w.pods, 0, p)
		}
	}
	return w
}

// testDrains sees two drains while the machines of the MachineDeployments are upgraded: Cluster
// API's of a machine that it deletes, and Windlass' of one that it keeps. The budget holds both, and
// then permits one eviction at a time.
func (w *web) testDrains(ctx context.Context, t *testing.T) {
	t.Helper()
	defer w.watch.stop()
	for _, pod := range w.pods {
		w.awaitHeld(ctx, t, pod)
	}
	w.permit(ctx, t)
	for _, pod := range w.pods {
		w.awaitEnded(ctx, t, pod)
	}
	_, fewest := w.watch.awaitReady(ctx, t, len(w.pods))
	if want := len(w.pods) - 1; fewest != want {
		t.Errorf("%d pods were Ready while the machines were drained, want %d", fewest, want)
	}
	for _, pod := range w.pods {
		w.watch.checkMoved(t, pod.UID)
	}
}

// awaitHeld waits until the drain of a pod's machine is held, and sees that a condition of the
// machine and "windlass status" name the pod and the budget, and that nothing was changed on the
// host.
func (w *web) awaitHeld(ctx context.Context, t *testing.T, pod webPod) {
	t.Helper()
	began := time.Now()
	const budget = "The disruption budget web needs %d healthy pods and has %[1]d currently"
	words := []string{"Pod default/" + pod.Name, fmt.Sprintf(budget, len(w.pods))}
	kind := clusterv1.MachineDeletingCondition
	if pod.kept {
		kind = clusterv1.MachineUpdatingCondition
	}
	check := func(machine *clusterv1.Machine) string {
		condition := meta.FindStatusCondition(machine.Status.Conditions, kind)
		if condition == nil || !containsAll(condition.Message, words...) {
			return fmt.Sprintf("%s is %+v", kind, condition)
		}
		return ""
	}
	await(ctx, t, w.plane, &clusterv1.MachineList{}, w.Name, pod.machine.Name, check)
	took := time.Since(began).Round(time.Second)
	t.Logf("the drain of %s is held after %s", pod.machine.Name, took)
	status := strings.Join(strings.Fields(w.windlass(ctx, t, "status", w.Name, "-n", w.Name)), " ")
	if !containsAll(status, append(words, pod.machine.Name)...) {
		t.Errorf("windlass status does not name Machine %s, pod %s and the budget",
			pod.machine.Name, pod.Name)
	}
	if n := w.processes(ctx, t, pod); n == "0" {
		t.Errorf("pod %s has no process on %s", pod.Name, pod.host.Name)
	}
	want := pod.machine.Status.NodeInfo.KubeletVersion
	version := w.run(ctx, t, &pod.host, "kubelet --version")
	if at := strings.TrimPrefix(strings.TrimSpace(version), "Kubernetes "); at != want {
		t.Errorf("before it is drained host %s has kubelet %s, want %s", pod.host.Name, at, want)
	}
	// The binaries of a machine that is kept are fetched before its drain.
	prepared := ""
	if pod.kept {
		prepared = w.Version
	}
	binaries := "find /var/lib/windlass -path '*/binaries/*' -prune -printf '%f\\n' 2>/dev/null || true"
	if got := strings.TrimSpace(w.run(ctx, t, &pod.host, binaries)); got != prepared {
		t.Errorf("before it is drained host %s has binaries of %q, want %q", pod.host.Name, got, prepared)
	}
	if fewest := w.watch.fewestReady(); fewest != len(w.pods) {
		t.Errorf("%d pods were Ready while the drain was held, want %d", fewest, len(w.pods))
	}
}

// processes counts the processes of a pod on its host.
func (w *web) processes(ctx context.Context, t *testing.T, pod webPod) string {
	t.Helper()
	// The brackets keep the pattern from matching the shell's own arguments.
	script := fmt.Sprintf("pgrep -c -f '[%s]%s' || true", pod.Name[:1], pod.Name[1:])
	return strings.TrimSpace(w.run(ctx, t, &pod.host, script))
}

// permit changes the budget to permit one eviction at a time.
func (w *web) permit(ctx context.Context, t *testing.T) {
	t.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"},
	}
	patch := fmt.Appendf(nil, `{"spec":{"minAvailable":%d}}`, len(w.pods)-1)
	err := w.workload.Patch(ctx, budget, client.RawPatch(types.MergePatchType, patch))
	if err != nil {
		t.Fatal(err)
	}
}

// awaitEnded waits until a pod is gone, and sees that it was stopped on its host, and not killed.
func (w *web) awaitEnded(ctx context.Context, t *testing.T, pod webPod) {
	t.Helper()
	w.watch.awaitGone(ctx, t, pod.UID)
	log := w.run(ctx, t, &pod.host, "cat /var/lib/"+pod.Name)
	if log != "began\nended\n" {
		t.Errorf("pod %s wrote to its host: %q", pod.Name, log)
	}
	if n := w.processes(ctx, t, pod); n != "0" {
		t.Errorf("pod %s was evicted, and has %s processes on %s", pod.Name, n, pod.host.Name)
	}
}

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
