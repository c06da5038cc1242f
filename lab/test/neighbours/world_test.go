// Package neighbours runs the real cert-manager, the real Cluster API Operator and Flux's real
// kustomize-controller beside a real API server with the manifests of this repository.
package neighbours

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// patience is far beyond what a busy machine needs.
const patience = 5 * time.Minute

// namespace is that of the extension.
const namespace = "windlass-system"

// serveCommand is the first argument of this test binary where it serves files in the plane's
// network, which the tests themselves are not in.
const serveCommand = "serve"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == serveCommand {
		server := http.Server{
			Addr: os.Args[2], Handler: http.FileServer(http.Dir(os.Args[3])),
			ReadHeaderTimeout: patience,
		}
		fmt.Fprintln(os.Stderr, server.ListenAndServe())
		os.Exit(1)
	}
	wire.Main(m)
}

// world is a plane with neighbours.
type world struct {
	*wire.Plane

	// source is the folder of the repository.
	source string
}

// newWorld starts a plane without the CRDs of Windlass, and beside it cert-manager, the operator,
// and what reports that each Deployment runs.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Plane: wire.Start(t)}
	var err error
	if w.source, err = devplane.FindSource("."); err != nil {
		t.Fatal(err)
	}
	// The API server ends the deletion of a CRD only if it could list the objects at the first try.
	w.sh(t, "for crd in "+crds+"; do kubectl get $crd -A; done; kubectl delete crd "+crds)
	w.installCRDs(t, "github.com/cert-manager/cert-manager", "deploy/crds")
	w.installCRDs(t, "sigs.k8s.io/cluster-api-operator", "config/crd/bases")
	w.RunInside(t, "certmanager", w.compile(t, "certmanager", "./certmanager"), []string{
		"--kubeconfig=$(KUBECONFIG)", "--health-addr=127.0.0.1:$(PORT_health)",
	}, "/healthz")
	operator := w.compile(t, "capi-operator", "sigs.k8s.io/cluster-api-operator/cmd")
	w.RunInside(t, "capi-operator", operator, []string{
		"--kubeconfig=$(KUBECONFIG)", "--health-addr=127.0.0.1:$(PORT_health)",
		"--webhook-port=$(PORT_webhook)", "--webhook-cert-dir=$(CERT_DIR)",
		"--diagnostics-address=127.0.0.1:$(PORT_metrics)", "--insecure-diagnostics",
		"--profiler-address=",
	}, "/healthz", "webhook", "metrics")
	w.runDeployments(t)
	return w
}

// installCRDs creates the CRDs in a folder of a module, and waits until all are served.
func (w *world) installCRDs(t *testing.T, module, folder string) {
	t.Helper()
	dir := w.command(t, w.module(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	w.sh(t, "kubectl apply --server-side -f "+filepath.Join(strings.TrimSpace(dir), folder)+
		"; kubectl wait --for=condition=Established --timeout=2m crd --all")
}

// compile builds a package and returns the program.
func (w *world) compile(t *testing.T, name, pkg string) string {
	t.Helper()
	program := filepath.Join(w.source, "bin", "neighbours", name)
	if err := programs.Compile(t.Context(), w.module(), program, pkg); err != nil {
		t.Fatal(err)
	}
	return program
}

// module is the folder of the module that pins the neighbours.
func (w *world) module() string { return filepath.Join(w.source, "lab", "neighbours") }

// crds are the names of Windlass' CRDs.
const crds = "updatepolicies.windlass.dev upgradegates.windlass.dev updaters.windlass.dev " +
	"upgradegraphs.windlass.dev"

// command runs a program, which must succeed.
func (w *world) command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, failed.Stderr)
		}
		t.Fatal(err)
	}
	return string(out)
}

// sh runs commands of a page with kubectl in the root of the repository. They must succeed.
func (w *world) sh(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = t.TempDir()
	kubectl := filepath.Join(devplane.DefaultOutDir(w.source), "bin")
	path := kubectl + ":" + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig, "PATH="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return string(out)
}

// check is windlass uninstall --check.
func (w *world) check(t *testing.T) (code int, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), w.Executable, "uninstall", "--check",
		"--kubeconfig", w.Kubeconfig)
	output, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(output)
}

// runDeployments reports, instead of a kubelet, that as many replicas run as each Deployment has.
func (w *world) runDeployments(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := w.Client.Watch(ctx, &appsv1.DeploymentList{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); watch.Stop(); <-done })
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			d, ok := event.Object.(*appsv1.Deployment)
			if !ok || d.DeletionTimestamp != nil {
				continue
			}
			n := *d.Spec.Replicas
			want := appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n,
				AvailableReplicas: n, Conditions: []appsv1.DeploymentCondition{{
					Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "Test",
				}},
			}
			if d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == n {
				continue
			}
			d.Status = want
			// A conflict is followed by another event.
			_ = w.Client.Status().Update(ctx, d)
		}
	}()
}

// await waits until an object exists and is as accept requires.
func (w *world) await(
	t *testing.T, apiVersion, kind, in, name string, accept func(map[string]any) bool,
) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind)
	var last map[string]any
	err := wire.Await(ctx, w.Client, list, func(o *unstructured.Unstructured) bool {
		last = o.Object
		return accept(last)
	}, client.InNamespace(in), client.MatchingFields{"metadata.name": name})
	if err != nil {
		text, _ := yaml.Marshal(last)
		t.Fatalf("waiting for the %s %s/%s: %v\n%s", kind, in, name, err, text)
	}
	return last
}

// poll waits for a state of all objects, which no watch reports.
func (w *world) poll(t *testing.T, look func() (string, bool)) {
	t.Helper()
	late := time.After(patience)
	looks := time.NewTicker(100 * time.Millisecond)
	defer looks.Stop()
	for {
		state, ok := look()
		if ok {
			return
		}
		select {
		case <-late:
			t.Fatalf("this did not happen in %s: %s", patience, state)
		case <-looks.C:
		}
	}
}

// all returns the names of all objects of all resources in discovery but Events and Leases, sorted.
func (w *world) all(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(w.versions(t)))
}

// versions returns the resourceVersion of each object of all.
func (w *world) versions(t *testing.T) map[string]string {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := d.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	c, err := metadata.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{
		Verbs: []string{"list", "delete"},
	}, lists) {
		for _, r := range list.APIResources {
			if r.Name == "events" || r.Name == "leases" {
				continue
			}
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			of := c.Resource(gv.WithResource(r.Name))
			objects, err := of.List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // Its CRD has just been deleted.
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects.Items {
				name := r.Name + "." + gv.Group + " " + o.Namespace + "/" + o.Name
				if o.DeletionTimestamp != nil {
					name += " is being deleted"
				}
				out[name] = o.ResourceVersion
			}
		}
	}
	return out
}

// image is that of a release, which names a registry and a digest.
const image = "registry.example.com/windlass:v0.0.0@sha256:" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// components is what kustomize builds of a config folder, as the file of a release.
func components(t *testing.T, config string) string {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(config, "default"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	named := strings.Replace(string(content), "image: windlass\n", "image: "+image+"\n", 1)
	if named == string(content) {
		t.Fatal("the Deployment has no image windlass")
	}
	return named
}
