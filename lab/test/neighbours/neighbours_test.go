package neighbours

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestNeighbours installs Windlass in documented ways beside cert-manager, by kubectl, the Cluster API
// Operator and Flux, changes its version there and back, and removes it as docs/how-to/uninstall.md
// does. Nothing of it is left then.
func TestNeighbours(t *testing.T) {
	w := newWorld(t)
	w.installCore(t)
	before := w.all(t)
	page := readPage(t, w.source)
	gone := func(t *testing.T) {
		t.Helper()
		w.sh(t, "kubectl delete namespace "+namespace+" --timeout=5m")
		var diff string
		w.poll(t, func() (string, bool) {
			diff = cmp.Diff(before, w.all(t))
			return "nothing is left of Windlass (-before +after):\n" + diff, diff == ""
		})
	}

	t.Run("kubectl", func(t *testing.T) {
		w.sh(t, "kubectl apply --server-side -k "+filepath.Join(w.source, "config", "default"))
		w.checkCertificates(t)
		w.uninstall(t, page, page.commands["3"])
		gone(t)
	})
	t.Run("operator", func(t *testing.T) {
		w.sh(t, "kubectl create namespace "+namespace)
		w.release(t, "v0.1.0", w.previous(t))
		w.upgrade(t, "v0.1.0")
		w.checkCertificates(t)
		installed := w.all(t)
		graph := filepath.Join(w.source, "config", "samples", "upgradegraph.yaml")
		w.sh(t, "kubectl create -f "+graph)
		w.release(t, "v0.1.1", filepath.Join(w.source, "config"))
		w.upgrade(t, "v0.1.1")
		w.checkCertificates(t)
		w.upgrade(t, "v0.1.0")
		w.checkCertificates(t)
		// The objects of Windlass outlive a change of the version in both directions.
		w.sh(t, "kubectl delete -f "+graph)
		// The operator keeps what it has applied of each version.
		w.sh(t, "kubectl -n "+namespace+" delete configmap/v0.1.1 "+
			"secret/runtimeextension-windlass-v0.1.1-cache")
		if diff := cmp.Diff(stable(installed), stable(w.all(t))); diff != "" {
			t.Errorf("the way there and back changed (-before +after):\n%s", diff)
		}
		w.uninstall(t, page, page.operator)
		gone(t)
	})
	t.Run("operator in a wrong order", func(t *testing.T) {
		w.sh(t, "kubectl create namespace "+namespace)
		w.release(t, "v0.1.0", filepath.Join(w.source, "config"))
		w.upgrade(t, "v0.1.0")
		w.checkCertificates(t)
		w.sh(t, page.operator)
		code, out := w.check(t)
		if code != 1 || strings.Count(out, " does not exist") != 1 ||
			!strings.Contains(out, "ExtensionConfig windlass") {
			t.Errorf("without the Service the check exits with %d:\n%s", code, out)
		}
		const remove = "kubectl delete"
		w.sh(t, strings.ReplaceAll(page.commands["2"], remove, remove+" --ignore-not-found"))
		if code, out = w.check(t); code != 0 {
			t.Errorf("the check exits with %d without registrations:\n%s", code, out)
		}
		w.sh(t, page.commands["4"]+page.commands["5"])
		gone(t)
	})
	// What Flux needs stays.
	t.Run("flux", func(t *testing.T) { testFlux(t, w, page) })
}

// generated is the end of a name that the API server has chosen, and what cert-manager numbers.
var generated = regexp.MustCompile(`-([a-z0-9]{5}|[0-9]+)$`)

// stable omits addresses of Services, which change with each one, and generated parts of names.
func stable(names []string) []string {
	var out []string
	for _, name := range names {
		if !strings.HasPrefix(name, "ipaddresses.") {
			out = append(out, generated.ReplaceAllString(name, "-*"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// page is docs/how-to/uninstall.md.
type page struct {
	// commands are those of each step, by its number.
	commands map[string]string
	// operator and flux are the commands of step 3 for the Cluster API Operator and for Flux.
	operator, flux string
}

func readPage(t *testing.T, source string) page {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(source, "docs", "how-to", "uninstall.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := page{commands: map[string]string{}}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```")
	for _, section := range strings.Split(string(content), "\n## ")[1:] {
		number, _, _ := strings.Cut(section, ".")
		for _, block := range blocks.FindAllStringSubmatch(section, -1) {
			p.commands[number] += block[1]
		}
	}
	if len(p.commands) != 5 {
		t.Fatalf("commands for %d of 5 steps", len(p.commands))
	}
	for way, command := range map[string]*string{
		"the Cluster API Operator": &p.operator, "Flux, a Kustomization": &p.flux,
	} {
		row := regexp.MustCompile("\\| " + way + " \\| `(.*?)`").FindStringSubmatch(string(content))
		if row == nil {
			t.Fatalf("the table of step 3 has no command for %s", way)
		}
		*command = row[1]
	}
	return p
}

// uninstall runs the commands of the page. After each step nothing fails without Windlass.
func (w *world) uninstall(t *testing.T, p page, step3 string) {
	t.Helper()
	for _, number := range slices.Sorted(maps.Keys(p.commands)) {
		step := p.commands[number]
		if number == "3" {
			step = step3
		}
		w.sh(t, step)
		if code, out := w.check(t); code != 0 {
			t.Errorf("the check exits with %d after %s\n%s", code, step, out)
		}
	}
	if _, out := w.check(t); !strings.HasPrefix(out, "Nothing is left of Windlass.") {
		t.Errorf("after the last step of the page:\n%s", out)
	}
}

// checkCertificates waits until all Certificates are ready, and the guard has the CA of the serving
// certificate. A serving Secret that is deleted is written again.
func (w *world) checkCertificates(t *testing.T) {
	t.Helper()
	w.sh(t, "kubectl -n "+namespace+" wait --for=condition=Ready --timeout=5m certificates --all")
	uid := func(fields map[string]any) string {
		uid, _, _ := unstructured.NestedString(fields, "metadata", "uid")
		return uid
	}
	field := func(fields map[string]any, key string) string {
		value, _, _ := unstructured.NestedString(fields, "data", key)
		return value
	}
	get := func(not string) map[string]any {
		return w.await(t, "v1", "Secret", namespace, "windlass-extension-tls",
			func(fields map[string]any) bool {
				return field(fields, "tls.crt") != "" && uid(fields) != not
			})
	}
	old := uid(get(""))
	w.sh(t, "kubectl -n "+namespace+" delete secret windlass-extension-tls")
	ca := field(get(old), "ca.crt")
	w.await(t, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "",
		"windlass-guard", func(fields map[string]any) bool {
			webhooks, _, _ := unstructured.NestedSlice(fields, "webhooks")
			for _, webhook := range webhooks {
				webhook, _ := webhook.(map[string]any)
				bundle, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle")
				return ca != "" && bundle == ca
			}
			return false
		})
}

// installCore has the operator install a core provider, without which it installs no other one.
func (w *world) installCore(t *testing.T) {
	t.Helper()
	w.sh(t, `kubectl create namespace capi-system --dry-run=client -o yaml | kubectl apply -f -
cat >components <<'END'
apiVersion: apps/v1
kind: Deployment
metadata: {name: capi-controller-manager, namespace: capi-system}
spec:
  replicas: 1
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: manager, image: example.com/core}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: capi-system}
END
cat >metadata <<'END'
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries: [{major: 1, minor: 14, contract: v1beta2}]
END
kubectl -n capi-system create configmap v1.14.2 --from-file=components --from-file=metadata
kubectl -n capi-system label configmap v1.14.2 provider-components=core
kubectl apply -f - <<'END'
apiVersion: operator.cluster.x-k8s.io/v1alpha2
kind: CoreProvider
metadata: {name: cluster-api, namespace: capi-system}
spec: {version: v1.14.2, fetchConfig: {selector: {matchLabels: {provider-components: core}}}}
END`)
	w.awaitProvider(t, "CoreProvider", "capi-system", "cluster-api", "v1.14.2")
}

// awaitProvider waits until the operator has installed a version.
func (w *world) awaitProvider(t *testing.T, kind, in, name, version string) {
	t.Helper()
	w.await(t, "operator.cluster.x-k8s.io/v1alpha2", kind, in, name,
		func(fields map[string]any) bool {
			installed, _, _ := unstructured.NestedString(fields, "status", "installedVersion")
			conditions, _, _ := unstructured.NestedSlice(fields, "status", "conditions")
			ready := false
			for _, c := range conditions {
				c, _ := c.(map[string]any)
				ready = ready || c["type"] == "Ready" && c["status"] == "True"
			}
			return ready && installed == version
		})
}

// release creates the ConfigMap of a version, as the comment of the sample does.
func (w *world) release(t *testing.T, version, config string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "components")
	if err := os.WriteFile(file, []byte(components(t, config)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.sh(t, strings.NewReplacer("VERSION", version, "COMPONENTS", file, "METADATA",
		filepath.Join(config, "clusterctl", "metadata.yaml")).Replace(
		`kubectl -n windlass-system create configmap VERSION \
  --from-file=components=COMPONENTS --from-file=metadata=METADATA
kubectl -n windlass-system label configmap VERSION \
  provider-components=windlass provider.cluster.x-k8s.io/version=VERSION`))
}

// upgrade applies the sample for a version, and waits until the operator has installed it.
func (w *world) upgrade(t *testing.T, version string) {
	t.Helper()
	sample := filepath.Join(w.source, "config", "samples", "runtimeextensionprovider.yaml")
	content, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(content), "v0.1.0", version)
	w.sh(t, "kubectl apply -f - <<'END'\n"+text+"\nEND")
	w.awaitProvider(t, "RuntimeExtensionProvider", namespace, "windlass", version)
}

// previous is config/ of the previous commit.
func (w *world) previous(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	w.sh(t, "git -C '"+w.source+"' archive HEAD^ config | tar -x -C '"+dir+"'")
	return filepath.Join(dir, "config")
}
