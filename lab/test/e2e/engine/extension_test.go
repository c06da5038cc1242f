package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// The extension of these tests is this test's binary as a process of the plane, whose network the test is not in. It writes down what it is
// asked, and reads what to answer, in files.
const (
	extensionRole = "extension"
	extensionName = "witness"
	extensionPort = "hooks"
	callsFile     = "calls.jsonl"
	rulesFile     = "rules.json"
)

// hooksLabel marks the namespaces whose Clusters the extension is asked about.
const hooksLabel = "hooks"

const generateUpgradePlan = "GenerateUpgradePlan"

func hookNames() []string {
	return []string{
		"BeforeClusterCreate", "AfterControlPlaneInitialized", "BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
		"BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade", "BeforeClusterDelete", generateUpgradePlan,
	}
}

// rule makes the hooks of a Cluster answer with something else than success. An empty Step means every one.
type rule struct {
	Cluster, Hook, Step string
	RetryAfterSeconds   int32
	Failure             bool
	Message             string
}

// call is one request to the extension.
type call struct {
	Hook, Cluster, From, Step string
	ControlPlane, Workers     []string
	// Passed is false where the answer was not to go on.
	Passed bool
}

func (c call) String() string {
	return strings.TrimSpace(c.Hook + " " + c.Step)
}

// hookRequest has the fields of all requests.
type hookRequest struct {
	Cluster                           clusterv1.Cluster                `json:"cluster"`
	FromKubernetesVersion             string                           `json:"fromKubernetesVersion"`
	ToKubernetesVersion               string                           `json:"toKubernetesVersion"`
	KubernetesVersion                 string                           `json:"kubernetesVersion"`
	FromControlPlaneKubernetesVersion string                           `json:"fromControlPlaneKubernetesVersion"`
	FromWorkersKubernetesVersion      string                           `json:"fromWorkersKubernetesVersion"`
	ControlPlaneUpgrades              []runtimehooksv1.UpgradeStepInfo `json:"controlPlaneUpgrades"`
	WorkersUpgrades                   []runtimehooksv1.UpgradeStepInfo `json:"workersUpgrades"`
}

func (r hookRequest) call(hook string) call {
	c := call{Hook: hook, Cluster: r.Cluster.Name, From: r.FromKubernetesVersion + r.FromControlPlaneKubernetesVersion, Step: r.ToKubernetesVersion + r.KubernetesVersion}
	for _, s := range r.ControlPlaneUpgrades {
		c.ControlPlane = append(c.ControlPlane, s.Version)
	}
	for _, s := range r.WorkersUpgrades {
		c.Workers = append(c.Workers, s.Version)
	}
	return c
}

// witness is the extension's process.
type witness struct {
	dir string
	mu  sync.Mutex
}

// serveExtension serves until the process is ended.
func serveExtension(port, certDir, dir string) error {
	w := &witness{dir: dir}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery", w.discover)
	for _, hook := range hookNames() {
		mux.HandleFunc(fmt.Sprintf("POST /hooks.runtime.cluster.x-k8s.io/v1alpha1/%s/%s", strings.ToLower(hook), strings.ToLower(hook)), w.handle(hook))
	}
	server := &http.Server{Addr: "127.0.0.1:" + port, Handler: mux, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServeTLS(filepath.Join(certDir, "tls.crt"), filepath.Join(certDir, "tls.key"))
}

func (w *witness) discover(out http.ResponseWriter, _ *http.Request) {
	response := runtimehooksv1.DiscoveryResponse{TypeMeta: typeMeta("Discovery")}
	response.Status = runtimehooksv1.ResponseStatusSuccess
	for _, hook := range hookNames() {
		response.Handlers = append(response.Handlers, runtimehooksv1.ExtensionHandler{
			Name: strings.ToLower(hook), RequestHook: runtimehooksv1.GroupVersionHook{APIVersion: runtimehooksv1.GroupVersion.String(), Hook: hook},
		})
	}
	answer(out, response)
}

func typeMeta(hook string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: runtimehooksv1.GroupVersion.String(), Kind: hook + "Response"}
}

func answer(out http.ResponseWriter, response any) {
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(response) // the other side has gone
}

func (w *witness) handle(hook string) http.HandlerFunc {
	return func(out http.ResponseWriter, in *http.Request) {
		var request hookRequest
		if err := json.NewDecoder(in.Body).Decode(&request); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		c := request.call(hook)
		found, err := w.rule(c)
		c.Passed = found == rule{}
		if err = errors.Join(err, w.write(c)); err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		if hook == generateUpgradePlan {
			answer(out, planResponse(request, found))
			return
		}
		// All other responses are of this form; those of hooks that cannot block have no retryAfterSeconds.
		response := runtimehooksv1.BeforeClusterUpgradeResponse{TypeMeta: typeMeta(hook)}
		response.Status, response.Message, response.RetryAfterSeconds = runtimehooksv1.ResponseStatusSuccess, found.Message, found.RetryAfterSeconds
		if found.Failure {
			response.Status = runtimehooksv1.ResponseStatusFailure
		}
		answer(out, response)
	}
}

// planResponse sends the workers through every minor.
func planResponse(request hookRequest, found rule) runtimehooksv1.GenerateUpgradePlanResponse {
	response := runtimehooksv1.GenerateUpgradePlanResponse{TypeMeta: typeMeta(generateUpgradePlan)}
	response.Status, response.Message = runtimehooksv1.ResponseStatusSuccess, found.Message
	if found.Failure {
		response.Status = runtimehooksv1.ResponseStatusFailure
	}
	between := func(from string) (steps []runtimehooksv1.UpgradeStep) {
		for _, v := range versions() {
			// These versions are ordered as texts are.
			if v > from && v <= request.ToKubernetesVersion {
				steps = append(steps, runtimehooksv1.UpgradeStep{Version: v})
			}
		}
		return steps
	}
	response.ControlPlaneUpgrades = between(request.FromControlPlaneKubernetesVersion)
	if request.FromWorkersKubernetesVersion != "" {
		response.WorkersUpgrades = between(request.FromWorkersKubernetesVersion)
	}
	return response
}

func (w *witness) rule(c call) (rule, error) {
	data, err := os.ReadFile(filepath.Join(w.dir, rulesFile))
	if err != nil {
		return rule{}, err
	}
	var rules []rule
	if err := json.Unmarshal(data, &rules); err != nil {
		return rule{}, err
	}
	for _, r := range rules {
		if r.Cluster == c.Cluster && r.Hook == c.Hook && (r.Step == "" || r.Step == c.Step) {
			return r, nil
		}
	}
	return rule{}, nil
}

func (w *witness) write(c call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	file, err := os.OpenFile(filepath.Join(w.dir, callsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(file).Encode(c), file.Close())
}

// extension is the test's side of it.
type extension struct {
	plane *rig.Plane
	dir   string

	mu    sync.Mutex
	rules []rule
}

// startExtension starts the extension and registers it for the namespaces that have the label.
func startExtension(ctx context.Context, t *testing.T, p *rig.Plane) *extension {
	t.Helper()
	e := &extension{plane: p, dir: t.TempDir()}
	e.write(t)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child, err := p.AddChild(ctx, devplane.Child{
		Name: extensionName, Path: executable, Args: []string{extensionRole, "$(PORT_" + extensionPort + ")", "$(CERT_DIR)", e.dir},
		Ports: []string{extensionPort}, ServingCertificate: true, Ready: devplane.Readiness{TCP: "127.0.0.1:$(PORT_" + extensionPort + ")"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := p.CABundle()
	if err != nil {
		t.Fatal(err)
	}
	config := hookserver.ExtensionConfig(extensionName, fmt.Sprintf("https://127.0.0.1:%d", child.Ports[extensionPort]), ca, nil)
	config.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{hooksLabel: extensionName}}
	if err := p.Client.Create(ctx, config); err != nil {
		t.Fatal(err)
	}
	if err := setup.AwaitDiscovered(ctx, p.Client, extensionName); err != nil {
		t.Fatal(err)
	}
	return e
}

// set adds a rule, or removes the one about the same hook and step where the rule lets pass.
func (e *extension) set(t *testing.T, r rule) {
	t.Helper()
	e.mu.Lock()
	e.rules = slices.DeleteFunc(e.rules, func(o rule) bool { return o.Cluster == r.Cluster && o.Hook == r.Hook && o.Step == r.Step })
	if r.Failure || r.RetryAfterSeconds > 0 {
		e.rules = append(e.rules, r)
	}
	e.mu.Unlock()
	e.write(t)
}

func (e *extension) write(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	data, err := json.Marshal(append([]rule{}, e.rules...))
	if err != nil {
		t.Fatal(err)
	}
	// Renamed into its place, so that it is never half there.
	next := filepath.Join(e.dir, "next")
	if err := errors.Join(os.WriteFile(next, data, 0o600), os.Rename(next, filepath.Join(e.dir, rulesFile))); err != nil {
		t.Fatal(err)
	}
}

// calls returns what the extension was asked about a Cluster, in order.
func (e *extension) calls(t *testing.T, key types.NamespacedName) []call {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(e.dir, callsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var calls []call
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var c call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if c.Cluster == key.Name {
			calls = append(calls, c)
		}
	}
	return calls
}

// count is how often the hook of a rule was called.
func (e *extension) count(t *testing.T, key types.NamespacedName, r rule) int {
	t.Helper()
	n := 0
	for _, c := range e.calls(t, key) {
		if c.Hook == r.Hook && c.Step == r.Step {
			n++
		}
	}
	return n
}

// completed are the calls that let a Cluster pass, without questions for plans. Calls that repeat the one before are given once, and apart.
func completed(calls []call) (order, repeated []string) {
	for _, c := range calls {
		switch {
		case c.Hook == generateUpgradePlan || !c.Passed:
		case len(order) > 0 && order[len(order)-1] == c.String():
			repeated = append(repeated, c.String())
		default:
			order = append(order, c.String())
		}
	}
	return order, repeated
}

// creationHooks are the first that a Cluster meets.
func creationHooks() []string { return []string{"BeforeClusterCreate", "AfterControlPlaneInitialized"} }

// upgradeHooks are those of a chain whose workers follow at every step.
func upgradeHooks(steps ...string) []string {
	hooks := []string{"BeforeClusterUpgrade " + steps[len(steps)-1]}
	for _, step := range steps {
		for _, hook := range []string{"BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade", "BeforeWorkersUpgrade", "AfterWorkersUpgrade"} {
			hooks = append(hooks, hook+" "+step)
		}
	}
	return append(hooks, "AfterClusterUpgrade "+steps[len(steps)-1])
}
