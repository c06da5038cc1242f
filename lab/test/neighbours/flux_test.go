package neighbours

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kustomizationAPI is the API version of what Flux applies a folder by.
const kustomizationAPI = "kustomize.toolkit.fluxcd.io/v1"

// flux is Flux's kustomize-controller. The test does what its source-controller would: it serves a
// repository as an archive, and names the archive in the status of a GitRepository.
type flux struct {
	*world

	// folder has the archives, which are served at url.
	folder, url string
	// revisions counts archives, and requests requests to reconcile.
	revisions, requests int
}

// startFlux starts the controller, with the kinds that it watches.
func (w *world) startFlux(t *testing.T) *flux {
	t.Helper()
	f := &flux{world: w, folder: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, filepath.Join(f.folder, "healthz"), "ok")
	files := w.RunInside(t, "artifacts", self, []string{
		serveCommand, "127.0.0.1:$(PORT_health)", f.folder,
	}, "/healthz")
	f.url = fmt.Sprintf("http://127.0.0.1:%d/", files.Ports["health"])
	w.sh(t, `kubectl create namespace flux-system; kubectl create namespace clusters
for kind in GitRepository:gitrepositories OCIRepository:ocirepositories Bucket:buckets; do
kubectl apply -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${kind#*:}.source.toolkit.fluxcd.io}
spec:
  group: source.toolkit.fluxcd.io
  scope: Namespaced
  names: {kind: ${kind%:*}, plural: ${kind#*:}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
END
done`)
	const module = "github.com/fluxcd/kustomize-controller"
	w.installCRDs(t, module, "config/crd/bases")
	w.RunInside(t, "flux", w.compile(t, "kustomize-controller", module), []string{
		"--health-addr=127.0.0.1:$(PORT_health)", "--metrics-addr=127.0.0.1:$(PORT_metrics)",
	}, "/healthz", "metrics")
	return f
}

func (f *flux) write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// without is a repository that Windlass is gone from.
var without = map[string]string{
	"kustomization.yaml": "resources: [other.yaml]",
	"other.yaml":         "{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: default}}",
}

// push makes a revision of the repository: config/ of the sources, and in the folder windlass, which
// the Kustomization applies, the files given. It waits until Flux has applied the revision.
func (f *flux) push(t *testing.T, files map[string]string) {
	t.Helper()
	repository := t.TempDir()
	folder := filepath.Join(repository, "windlass")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		f.write(t, filepath.Join(folder, name), content)
	}
	f.revisions++
	name := strconv.Itoa(f.revisions) + ".tar.gz"
	f.sh(t, strings.NewReplacer("SOURCE", f.source, "REPOSITORY", repository, "NAME", name,
		"FOLDER", f.folder, "URL", f.url, "REVISION", revision(f.revisions)).Replace(`
tar -czf 'FOLDER/NAME' -C 'SOURCE' config -C 'REPOSITORY' windlass
kubectl apply -f - <<END
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: fleet, namespace: flux-system}
spec: {interval: 1h, url: https://example.com/fleet}
status:
  artifact:
    digest: sha256:$(sha256sum <FOLDER/NAME | cut -d ' ' -f 1)
    lastUpdateTime: "2026-01-01T00:00:00Z"
    path: NAME
    revision: REVISION
    url: URLNAME
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: windlass, namespace: flux-system}
spec:
  interval: 1h
  path: ./windlass
  prune: true
  sourceRef: {kind: GitRepository, name: fleet}
  postBuild: {substitute: {WINDLASS_REPLICAS: "3"}}
END`))
	f.await(t, kustomizationAPI, "Kustomization", "flux-system", "windlass",
		func(fields map[string]any) bool {
			applied, _, _ := unstructured.NestedString(fields, "status", "lastAppliedRevision")
			return applied == revision(f.revisions)
		})
}

func revision(n int) string { return fmt.Sprintf("main@sha1:%040x", n) }

// reconcile has Flux apply the revision again, and waits for the end of that.
func (f *flux) reconcile(t *testing.T) {
	t.Helper()
	f.requests++
	request := "request-" + strconv.Itoa(f.requests)
	f.sh(t, "kubectl -n flux-system annotate --overwrite kustomization windlass "+
		"reconcile.fluxcd.io/requestedAt="+request)
	f.await(t, kustomizationAPI, "Kustomization", "flux-system", "windlass",
		func(fields map[string]any) bool {
			handled, _, _ := unstructured.NestedString(fields, "status", "lastHandledReconcileAt")
			return handled == request
		})
}

// remove deletes the Kustomization.
func (f *flux) remove(t *testing.T) {
	t.Helper()
	f.sh(t, "kubectl -n flux-system delete kustomization windlass --timeout=5m")
}

// awaitAll waits until the objects of all resources are those of the lists.
func (f *flux) awaitAll(t *testing.T, lists ...[]string) {
	t.Helper()
	all := slices.Concat(lists...)
	slices.Sort(all)
	var diff string
	f.poll(t, func() (string, bool) {
		diff = cmp.Diff(all, f.all(t))
		return "all objects (-want +got):\n" + diff, diff == ""
	})
}

// theKustomization is the name of the Kustomization among all objects.
const theKustomization = "kustomizations.kustomize.toolkit.fluxcd.io flux-system/windlass"

// applied are the Kustomization and what it applies of a repository without Windlass.
var applied = []string{theKustomization, "configmaps. default/other"}

// ownKinds are the CRDs of Windlass, and what the API server makes of them.
var ownKinds = []string{
	"apiservices.apiregistration.k8s.io /v1alpha1.windlass.dev",
	"customresourcedefinitions.apiextensions.k8s.io /updatepolicies.windlass.dev",
	"customresourcedefinitions.apiextensions.k8s.io /updaters.windlass.dev",
	"customresourcedefinitions.apiextensions.k8s.io /upgradegates.windlass.dev",
	"customresourcedefinitions.apiextensions.k8s.io /upgradegraphs.windlass.dev",
}

// testFlux has Flux install Windlass in each form that it can apply, and prune it. The CRDs survive,
// with all objects of Windlass. Then Windlass is removed, as the page does and against it.
func testFlux(t *testing.T, w *world, page page) {
	t.Helper()
	f := w.startFlux(t)
	f.push(t, without)
	before := slices.DeleteFunc(w.all(t), func(name string) bool {
		return slices.Contains(applied, name)
	})
	t.Run("folder", func(t *testing.T) {
		with := map[string]string{"kustomization.yaml": "resources: [../config/default]"}
		kept := f.install(t, with)
		f.push(t, without)
		f.awaitAll(t, before, applied, kept)
		f.push(t, with)
		w.checkCertificates(t)
		// As `flux suspend` does.
		w.sh(t, "kubectl -n flux-system patch kustomization windlass --field-manager=flux "+
			`--type=merge -p '{"spec":{"suspend":true}}'`)
		w.uninstall(t, page, page.flux+"\n"+page.commands["3"])
		w.sh(t, "kubectl delete namespace "+namespace+" --timeout=5m")
		f.awaitAll(t, before)
	})
	t.Run("release", func(t *testing.T) {
		released := components(t, filepath.Join(w.source, "config"))
		// Flux replaces the variables of the file, as clusterctl does.
		kept := f.install(t, map[string]string{"components.yaml": strings.Replace(released,
			"replicas: 2\n", "replicas: ${WINDLASS_REPLICAS:=2}\n", 1)})
		f.remove(t)
		f.awaitAll(t, before, kept)
		if code, out := w.check(t); code != 0 {
			t.Errorf("without the extension the check exits with %d:\n%s", code, out)
		}
		w.sh(t, page.commands["4"]+page.commands["5"]+
			"kubectl delete namespace "+namespace+" --timeout=5m")
		f.awaitAll(t, before)
	})
	t.Run("manager", func(t *testing.T) {
		w.sh(t, "kubectl -n capi-system delete deployment capi-controller-manager")
		// Without Cluster API, its manager is not created.
		w.sh(t, "! kubectl apply --server-side -f "+
			filepath.Join(w.source, "config", "manager", "deployment.yaml"))
		// kubectl applies Cluster API's Deployment, whose fields Flux would take over.
		w.sh(t, `kubectl apply -f - <<'END'
apiVersion: apps/v1
kind: Deployment
metadata: {name: capi-controller-manager, namespace: capi-system}
spec:
  selector:
    matchLabels: {cluster.x-k8s.io/provider: cluster-api, control-plane: controller-manager}
  template:
    metadata: {labels: {cluster.x-k8s.io/provider: cluster-api, control-plane: controller-manager}}
    spec:
      containers:
      - {name: manager, image: example.com/core, command: [/manager], args: [--leader-elect]}
END`)
		want := "windlass [/windlass manager] [--leader-elect]"
		container := func() string {
			return w.sh(t, "kubectl -n capi-system get deployment capi-controller-manager -o "+
				"go-template='{{with index .spec.template.spec.containers 0}}"+
				"{{.image}} {{.command}} {{.args}}{{end}}'")
		}
		f.push(t, map[string]string{"kustomization.yaml": "resources: [../config/manager]"})
		if got := container(); got != want {
			t.Errorf("Flux has made the manager %q, want %q", got, want)
		}
		f.remove(t)
		f.awaitAll(t, before, ownKinds)
		if got := container(); got != want {
			t.Errorf("after the removal of the Kustomization the manager is %q, want %q", got, want)
		}
		w.sh(t, page.commands["5"])
	})
}

// install has Flux apply a repository with Windlass, several times. It returns what Flux must keep.
func (f *flux) install(t *testing.T, with map[string]string) (kept []string) {
	t.Helper()
	f.push(t, with)
	f.checkCertificates(t)
	f.sh(t, "kubectl apply -k "+filepath.Join(f.source, "config", "samples"))
	versions := func() map[string]string {
		all := f.versions(t)
		delete(all, theKustomization)
		return all
	}
	f.poll(t, func() (string, bool) {
		before := versions()
		for range 3 {
			f.reconcile(t)
		}
		// cert-manager may still write at first.
		diff := cmp.Diff(before, versions())
		return "Flux changes nothing that it has applied (-before +after):\n" + diff, diff == ""
	})
	for name := range versions() {
		if strings.Contains(name, ".windlass.dev ") {
			kept = append(kept, name)
		}
	}
	if len(kept) == 0 {
		t.Fatal("there are no samples")
	}
	return slices.Concat(kept, ownKinds, []string{
		// The lab makes this in each namespace.
		"machinedrainrules.cluster.x-k8s.io " + namespace + "/simulated-static-pods",
		"namespaces. /" + namespace, "secrets. " + namespace + "/windlass-extension-ca",
		"secrets. " + namespace + "/windlass-extension-tls",
	})
}
