package annotated_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/k8sdnodes"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

const (
	sample = "../../../../config/samples/dev/annotated/cluster.yaml"
	// sampleName is the name of everything in the sample, of workers with sampleWorkers behind it.
	sampleName    = "snaps"
	sampleWorkers = "-workers"
	// singleName is that of the cluster with one machine.
	singleName   = "single"
	firstVersion = "v1.31.0"
)

// cluster is a Cluster without a topology, in a namespace of its own name.
type cluster struct {
	*plane
	name string
	// workers is how many machines the MachineDeployment has.
	workers int
}

// createSnaps creates the sample, with 20 workers. It does not wait.
func (p *plane) createSnaps(ctx context.Context, t *testing.T) *cluster {
	t.Helper()
	c := &cluster{plane: p, name: sampleName, workers: 20}
	c.create(ctx, t, func(object *unstructured.Unstructured) {
		if object.GetKind() == kindGroup {
			set(t, object, int64(c.workers), "spec", "replicas")
		}
	})
	return c
}

// createSingle creates the sample with one control plane machine, and no worker. It does not wait.
func (p *plane) createSingle(ctx context.Context, t *testing.T) *cluster {
	t.Helper()
	c := &cluster{plane: p, name: singleName}
	c.create(ctx, t, func(object *unstructured.Unstructured) {
		switch object.GetKind() {
		case kindGroup:
			set(t, object, int64(0), "spec", "replicas")
		case kindControlPlane:
			set(t, object, int64(1), "spec", "replicas")
			// Cluster API refuses maxSurge 0 for fewer than three machines.
			unstructured.RemoveNestedField(object.Object, "spec", "rollout")
		}
	})
	return c
}

func set(t *testing.T, object *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) create(ctx context.Context, t *testing.T, change func(*unstructured.Unstructured)) {
	t.Helper()
	content, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(ctx, t, c.name, strings.ReplaceAll(string(content), sampleName, c.name), change)
}

func (c *cluster) key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.name, Name: c.name}
}

func (c *cluster) group() types.NamespacedName {
	return types.NamespacedName{Namespace: c.name, Name: c.name + sampleWorkers}
}

// notSettled says what is missing until the cluster has all its machines, ready, and both specs ask for a version.
func (c *cluster) notSettled(controlPlanes int, v string) string {
	owners := []state{c.story.one(kindControlPlane, c.key()), c.story.one(kindGroup, c.group())}
	for i, count := range []int{controlPlanes, c.workers} {
		if count == 0 {
			continue
		}
		if !owners[i].settled || owners[i].spec != v {
			return owners[i].String()
		}
		machines := c.story.machines(c.name, i == 0)
		if len(machines) != count {
			return fmt.Sprintf("there are %d machines of %d", len(machines), count)
		}
		for _, m := range machines {
			if !m.settled || m.spec != v {
				return m.String()
			}
		}
	}
	return ""
}

// nodes returns the nodes of the workload cluster, whose API server only the plane's own processes reach directly.
func (c *cluster) nodes(ctx context.Context, t *testing.T) map[string]corev1.Node {
	t.Helper()
	secret := &corev1.Secret{}
	if err := c.client.Get(ctx, types.NamespacedName{Namespace: c.name, Name: c.name + "-kubeconfig"}, secret); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return c.DialContext(ctx, network, address)
	}
	workload, err := client.New(config, client.Options{Scheme: c.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	list := &corev1.NodeList{}
	if err := workload.List(ctx, list); err != nil {
		t.Fatal(err)
	}
	found := map[string]corev1.Node{}
	for _, n := range list.Items {
		found[n.Name] = n
	}
	return found
}

// annotate sets annotations of a Machine; nil removes one.
func (c *cluster) annotate(ctx context.Context, t *testing.T, machine string, annotations map[string]any) {
	t.Helper()
	c.patch(ctx, t, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: c.name, Name: machine}}, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// patch applies a JSON merge patch. It carries no resource version: controllers write at the same time.
func (c *cluster) patch(ctx context.Context, t *testing.T, object client.Object, change any) {
	t.Helper()
	data, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, data)); err != nil {
		t.Fatalf("patching %T %s: %v", object, object.GetName(), err)
	}
}

// result is how a command ended.
type result struct {
	code   int
	output string
}

// run runs windlass against the plane, and returns once it has ended.
func (p *plane) run(ctx context.Context, t *testing.T, args ...string) result {
	t.Helper()
	return p.runProgram(ctx, t, p.Programs.Windlass, args)
}

// runProgram runs a program against the plane, and returns once it has ended.
func (p *plane) runProgram(ctx context.Context, t *testing.T, program string, args []string) result {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.KubeconfigPath())
	output, err := cmd.CombinedOutput()
	r := result{output: string(output)}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		r.code = exit.ExitCode()
	} else if err != nil {
		t.Errorf("%s %s: %v", program, strings.Join(args, " "), err)
		r.code = -1
	}
	return r
}

// mustRun is run for a command that must succeed.
func (p *plane) mustRun(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	r := p.run(ctx, t, args...)
	if r.code != 0 {
		t.Fatalf("windlass %s: exit status %d\n%s", strings.Join(args, " "), r.code, r.output)
	}
	return r.output
}

// mustRunLab runs windlass-lab, which must succeed.
func (p *plane) mustRunLab(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	if r := p.runProgram(ctx, t, p.Programs.Lab, args); r.code != 0 {
		t.Fatalf("windlass-lab %s: exit status %d\n%s", strings.Join(args, " "), r.code, r.output)
	}
}

// begin runs a command in the background. wait returns how it ended.
func (p *plane) begin(ctx context.Context, t *testing.T, args ...string) (wait func() result) {
	t.Helper()
	ended := make(chan result, 1)
	go func() { ended <- p.run(ctx, t, args...) }()
	return func() result { return <-ended }
}

// k8sd returns what the stand-in for k8sd says about the Machines of a cluster, by name.
func (c *cluster) k8sd(ctx context.Context, t *testing.T) map[string]k8sdnodes.Machine {
	t.Helper()
	status, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var stats k8sdnodes.Stats
	for _, child := range status.Children {
		if child.Name != "updater-"+setup.K8sdName {
			continue
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/stats", child.Ports[setup.StatsPort]), bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.HTTPClient().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close(), json.Unmarshal(content, &stats)); err != nil {
			t.Fatalf("%v\n%s", err, content)
		}
	}
	found := map[string]k8sdnodes.Machine{}
	for name, m := range stats.Machines {
		if machine, is := strings.CutPrefix(name, c.name+"/"); is {
			found[machine] = m
		}
	}
	return found
}
