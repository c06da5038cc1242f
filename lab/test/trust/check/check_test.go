// Package check holds tests of `windlass check cluster` beside a real API server. It has no kubelets and no controllers, so
// Nodes are simulated, or the test does what the controllers do.
package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

func TestMain(m *testing.M) { wire.Main(m) }

const label = "windlass.dev/check"

// world is a Cluster whose workload cluster is the management cluster itself.
type world struct {
	plane     *wire.Plane
	namespace string
	version   string
	node      *corev1.Node
}

func newWorld(t *testing.T, runtime string) *world {
	t.Helper()
	w := &world{plane: wire.Start(t)}
	w.namespace = w.plane.Namespace(t)
	found, err := discovery.NewDiscoveryClientForConfig(w.plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := found.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	w.version = server.GitVersion
	w.node = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: w.version, ContainerRuntimeVersion: runtime},
		},
	}
	w.plane.CreateForTest(t, w.node)
	w.node.Status.NodeInfo.KubeletVersion, w.node.Status.NodeInfo.ContainerRuntimeVersion = w.version, runtime
	w.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := w.plane.Client.Status().Update(t.Context(), w.node); err != nil {
		t.Fatal(err)
	}
	infrastructure := clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachineTemplate", Name: "m"}
	w.plane.Create(t,
		&controlplanev1.KubeadmControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cp"},
			Spec: controlplanev1.KubeadmControlPlaneSpec{
				Version: w.version,
				MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{
					Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{InfrastructureRef: infrastructure},
				},
			},
		},
		&clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "my-cluster"},
			Spec: clusterv1.ClusterSpec{
				ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "cp"},
				Topology:        clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: w.version},
			},
		},
		&clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: "m",
				Labels: map[string]string{clusterv1.ClusterNameLabel: "my-cluster", clusterv1.MachineControlPlaneLabel: ""},
			},
			Spec: clusterv1.MachineSpec{
				ClusterName: "my-cluster", Version: w.version, InfrastructureRef: infrastructure,
				Bootstrap: clusterv1.Bootstrap{DataSecretName: new("none")},
			},
			Status: clusterv1.MachineStatus{
				NodeRef:                clusterv1.MachineNodeReference{Name: w.node.Name},
				CertificatesExpiryDate: metav1.NewTime(time.Now().Add(300 * 24 * time.Hour)),
			},
		},
		w.secret(t),
	)
	return w
}

// secret is the kubeconfig of the Cluster: that of the plane, with its files in it.
func (w *world) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	config, err := clientcmd.LoadFromFile(w.plane.Kubeconfig)
	if err == nil {
		err = clientcmdapi.FlattenConfig(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "my-cluster-kubeconfig"}, Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": data},
	}
}

// report is the JSON of `windlass check cluster`.
type report struct {
	Verdict, Worst string
	Findings       []struct{ ID, Outcome, Message, Fix string }
}

func (r report) outcomes() map[string]string {
	found := map[string]string{}
	for _, f := range r.Findings {
		found[f.ID] = f.Outcome
	}
	return found
}

func (r report) message(id string) string {
	for _, f := range r.Findings {
		if f.ID == id {
			return f.Message
		}
	}
	return ""
}

func (w *world) command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.plane.Kubeconfig, "PATH="+filepath.Dir(w.plane.Executable)+":"+os.Getenv("PATH"))
	return command
}

// check runs the command and returns its report and exit code.
func (w *world) check(t *testing.T, flags ...string) (report, int) {
	t.Helper()
	arguments := append([]string{"check", "cluster", "my-cluster", "-n", w.namespace, "-o", "json"}, flags...)
	command := w.command(t.Context(), w.plane.Executable, arguments...)
	var errors bytes.Buffer
	command.Stderr = &errors
	output, err := command.Output()
	var got report
	if decoding := json.Unmarshal(output, &got); decoding != nil {
		t.Fatalf("%v, %v: %s%s", err, decoding, output, errors.String())
	}
	return got, command.ProcessState.ExitCode()
}

// assertClean holds that nothing that a check created is left.
func (w *world) assertClean(t *testing.T) {
	t.Helper()
	namespaces := &corev1.NamespaceList{}
	if err := w.plane.Client.List(t.Context(), namespaces, client.HasLabels{label}); err != nil {
		t.Fatal(err)
	}
	for _, n := range namespaces.Items {
		if n.DeletionTimestamp == nil {
			t.Errorf("Namespace %s is left", n.Name)
		}
	}
}

// TestSimulatedNodes holds what is checked where no Pod can run, and what is reported as not checked.
func TestSimulatedNodes(t *testing.T) {
	w := newWorld(t, "")
	got, code := w.check(t)
	want := map[string]string{
		"APIDiscovery": "Passed", "Nodes": "Passed", "Certificates": "Passed", "ConfigMapWatch": "Passed",
		"Deployment": "NotChecked", "Service": "NotChecked", "Job": "NotChecked",
	}
	if diff := cmp.Diff(want, got.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s\n%+v", diff, got)
	}
	if code != 0 || got.Worst != "NotChecked" {
		t.Errorf("exit code %d and %s, want 0 and NotChecked", code, got.Worst)
	}
	if message := got.message("Job"); !strings.Contains(message, "simulated (1)") {
		t.Errorf("the Job is not checked because %q", message)
	}
	w.assertClean(t)
	configMaps := &corev1.ConfigMapList{}
	if err := w.plane.Client.List(t.Context(), configMaps, client.HasLabels{label}); err != nil || len(configMaps.Items) > 0 {
		t.Errorf("ConfigMaps are left: %v, %v", configMaps.Items, err)
	}
}

// TestGate runs the recipe of the documentation: the step is approved only if the cluster works.
func TestGate(t *testing.T) {
	w := newWorld(t, "")
	document, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "how-to", "check-a-cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	gate := &v1alpha1.UpgradeGate{}
	if err := yaml.UnmarshalStrict([]byte(block(t, string(document), "yaml")), gate); err != nil {
		t.Fatal(err)
	}
	gate.Namespace = w.namespace
	w.plane.Create(t, gate)
	// No engine runs that would wait at the gate, so the step is approved in advance.
	recipe := strings.ReplaceAll(block(t, string(document), "sh"), "my-namespace", w.namespace)
	recipe = strings.ReplaceAll(recipe, "--gate checked", `--gate checked --step "before workers `+w.version+`"`)
	approved := func() int {
		w.plane.Get(t, gate)
		return len(gate.Status.Approvals)
	}

	w.setKubelet(t, "v1.2.3")
	output, err := w.command(t.Context(), "sh", "-c", recipe).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || approved() != 0 {
		t.Fatalf("with a Node at another version: %v, %d approvals\n%s", err, approved(), output)
	}
	w.setKubelet(t, w.version)
	if output, err := w.command(t.Context(), "sh", "-c", recipe).CombinedOutput(); err != nil || approved() != 1 {
		t.Fatalf("with a cluster that works: %v, %d approvals\n%s", err, approved(), output)
	}
	w.assertClean(t)
}

// block returns the last code block of a language.
func block(t *testing.T, document, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(document[max(strings.LastIndex(document, "```"+language+"\n"), 0):], "\n")
	code, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("the document has no block of %s", language)
	}
	return code
}

func (w *world) setKubelet(t *testing.T, version string) {
	t.Helper()
	w.plane.Get(t, w.node)
	w.node.Status.NodeInfo.KubeletVersion = version
	if err := w.plane.Client.Status().Update(t.Context(), w.node); err != nil {
		t.Fatal(err)
	}
}

// TestWorkloads does what controllers and kubelets do, and holds what is tried in a cluster that runs Pods.
func TestWorkloads(t *testing.T) {
	w := newWorld(t, "containerd://2.0.0")
	go w.control(t.Context(), t)
	got, code := w.check(t, "--image", "registry.example.com/agnhost:1")
	for _, f := range got.Findings {
		if f.Outcome != "Passed" {
			t.Errorf("%s: %s: %s", f.ID, f.Outcome, f.Message)
		}
	}
	if len(got.Findings) != 7 || code != 0 {
		t.Errorf("%d findings and exit code %d, want 7 and 0", len(got.Findings), code)
	}
	w.assertClean(t)
	pods := []corev1.PodSpec{}
	deployments, jobs := &appsv1.DeploymentList{}, &batchv1.JobList{}
	if err := errors.Join(w.plane.Client.List(t.Context(), deployments), w.plane.Client.List(t.Context(), jobs)); err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		pods = append(pods, d.Spec.Template.Spec)
	}
	for _, j := range jobs.Items {
		pods = append(pods, j.Spec.Template.Spec)
	}
	// The namespace is being deleted, which nothing does here, so that what was in it can be seen.
	if len(pods) < 3 {
		t.Errorf("%d Pods were tried, want 3", len(pods))
	}
	for _, pod := range pods {
		if image := pod.Containers[0].Image; image != "registry.example.com/agnhost:1" {
			t.Errorf("a Pod has the image %s", image)
		}
	}
}

// control makes every Deployment available and every Job complete, until the test ends.
func (w *world) control(ctx context.Context, t *testing.T) {
	t.Helper()
	deployments, err := w.plane.Client.Watch(ctx, &appsv1.DeploymentList{}, client.HasLabels{label})
	if err != nil {
		t.Error(err)
		return
	}
	jobs, err := w.plane.Client.Watch(ctx, &batchv1.JobList{}, client.HasLabels{label})
	if err != nil {
		t.Error(err)
		return
	}
	for {
		var object client.Object
		select {
		case event := <-deployments.ResultChan():
			d, ok := event.Object.(*appsv1.Deployment)
			if !ok || d.Status.ObservedGeneration == d.Generation {
				continue
			}
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
			object = d
		case event := <-jobs.ResultChan():
			j, ok := event.Object.(*batchv1.Job)
			if !ok || j.Status.Succeeded > 0 {
				continue
			}
			now := metav1.Now()
			j.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Ready: new(int32(0)), Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
			}}
			object = j
		case <-ctx.Done():
			return
		}
		if err := w.plane.Client.Status().Update(ctx, object); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
			t.Errorf("being the controller of %s: %v", object.GetName(), err)
		}
	}
}

// TestInterrupted ends the command while it waits for Pods that never run.
func TestInterrupted(t *testing.T) {
	w := newWorld(t, "containerd://2.0.0")
	command := w.command(t.Context(), w.plane.Executable, "check", "cluster", "my-cluster", "-n", w.namespace)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if err := wire.Await(t.Context(), w.plane.Client, &corev1.NamespaceList{}, func(n *corev1.Namespace) bool {
		return n.DeletionTimestamp == nil
	}, client.HasLabels{label}); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); command.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", err)
	}
	w.assertClean(t)
}

// TestTimeout holds that a Deployment whose Pods never run is a failure with a fix, and that the Job is tried all the same.
func TestTimeout(t *testing.T) {
	w := newWorld(t, "containerd://2.0.0")
	got, code := w.check(t, "--timeout", "10s")
	want := map[string]string{
		"APIDiscovery": "Passed", "Nodes": "Passed", "Certificates": "Passed", "ConfigMapWatch": "Passed",
		"Deployment": "Failed", "Service": "NotChecked", "Job": "Failed",
	}
	if diff := cmp.Diff(want, got.outcomes()); diff != "" || code != 1 {
		t.Errorf("exit code %d, outcomes (-want +got):\n%s", code, diff)
	}
	if message := got.message("Deployment"); message != "a Deployment did not become available within 10s: it has no Pods" {
		t.Errorf("the Deployment failed: %s", message)
	}
	w.assertClean(t)
}
