package hookclient_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/internal/hookclient"
	"github.com/windlass-dev/windlass/test/loopback"
)

// witness keeps the requests that its handlers see, whoever asks. It keeps the objects themselves:
// JSON does not show whether a RawExtension holds Raw or Object.
type witness struct {
	mu   sync.Mutex
	seen []runtime.Object
}

// noting is a handler that keeps its request and answers Success.
func noting[Request runtime.Object, Response runtimehooksv1.ResponseObject](
	w *witness,
) func(context.Context, Request, Response) {
	return func(_ context.Context, request Request, response Response) {
		w.note(request)
		response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	}
}

func (w *witness) note(request runtime.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, request.DeepCopyObject())
}

func (w *witness) take() []runtime.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

// handlers are what Windlass serves, in kind: a gate, an update and a plan, with answers that differ.
func (w *witness) handlers() []server.ExtensionHandler {
	short, long, policy := int32(1), int32(30), runtimehooksv1.FailurePolicyIgnore
	return []server.ExtensionHandler{
		{Hook: runtimehooksv1.UpdateMachine, Name: "update", TimeoutSeconds: &long,
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.UpdateMachineRequest, response *runtimehooksv1.UpdateMachineResponse) {
				w.note(request)
				response.Status, response.Message, response.RetryAfterSeconds = runtimehooksv1.ResponseStatusSuccess, "<&>\u2028 half", 15
			}},
		{Hook: runtimehooksv1.CanUpdateMachine, Name: "machine",
			HandlerFunc: noting[*runtimehooksv1.CanUpdateMachineRequest, *runtimehooksv1.CanUpdateMachineResponse](w)},
		{Hook: runtimehooksv1.CanUpdateMachineSet, Name: "set",
			HandlerFunc: noting[*runtimehooksv1.CanUpdateMachineSetRequest, *runtimehooksv1.CanUpdateMachineSetResponse](w)},
		{Hook: runtimehooksv1.GeneratePatches, Name: "patches",
			HandlerFunc: noting[*runtimehooksv1.GeneratePatchesRequest, *runtimehooksv1.GeneratePatchesResponse](w)},
		{Hook: runtimehooksv1.ValidateTopology, Name: "topology",
			HandlerFunc: noting[*runtimehooksv1.ValidateTopologyRequest, *runtimehooksv1.ValidateTopologyResponse](w)},
		{Hook: runtimehooksv1.GenerateUpgradePlan, Name: "plan",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest, response *runtimehooksv1.GenerateUpgradePlanResponse) {
				w.note(request)
				response.Status = runtimehooksv1.ResponseStatusSuccess
				response.ControlPlaneUpgrades, response.WorkersUpgrades = []runtimehooksv1.UpgradeStep{{Version: "v1.31.0"}}, []runtimehooksv1.UpgradeStep{}
				request.ToKubernetesVersion = "changed by the handler"
			}},
		{Hook: runtimehooksv1.BeforeClusterUpgrade, Name: "refuse",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.BeforeClusterUpgradeRequest, response *runtimehooksv1.BeforeClusterUpgradeResponse) {
				w.note(request)
				response.Status, response.Message = runtimehooksv1.ResponseStatusFailure, "not on "+request.Cluster.Name
			}},
		{Hook: runtimehooksv1.AfterClusterUpgrade, Name: "hang", TimeoutSeconds: &short,
			HandlerFunc: func(ctx context.Context, _ *runtimehooksv1.AfterClusterUpgradeRequest, _ *runtimehooksv1.AfterClusterUpgradeResponse) {
				<-ctx.Done()
			}},
		{Hook: runtimehooksv1.BeforeClusterCreate, Name: "silent", FailurePolicy: &policy,
			HandlerFunc: func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest, *runtimehooksv1.BeforeClusterCreateResponse) {
			}},
	}
}

// Handlers in this process and the same ones served over TLS by upstream's server: discovery, what the handlers see, what the caller gets and what it is told
// are the same bytes.
func TestLocalIsLikeHTTP(t *testing.T) {
	t.Parallel()
	w, ca, dir := &witness{}, newAuthority(t), t.TempDir()
	ca.install(t, dir, 2)
	config := extensionConfig("windlass")
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: serveUpstream(t, dir, w.handlers()), CABundle: ca.PEM}
	config.Spec.Settings = map[string]string{"graph": "stable"}
	remote := newClient(t)
	local := newClient(t, func(o *hookclient.Options) { o.Local = map[string][]server.ExtensionHandler{"windlass": w.handlers()} })
	var discovered [2]*runtimev1.ExtensionConfig
	for i, c := range []*hookclient.Client{remote, local} {
		got, err := c.Discover(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		discovered[i] = got
		// One that the status names and nobody serves.
		got = got.DeepCopy()
		got.Status.Handlers = append(got.Status.Handlers, runtimev1.ExtensionHandler{
			Name: "missing.windlass", RequestHook: runtimev1.GroupVersionHook{APIVersion: hooksV1, Hook: "AfterWorkersUpgrade"},
		})
		warm(t, c, got)
	}
	if diff := cmp.Diff(discovered[0], discovered[1]); diff != "" {
		t.Error(diff)
	}
	object := clusterv1.Cluster{}
	object.Name, object.Annotations = "c<1>", map[string]string{"é": "\u2028"}
	for _, tt := range []struct {
		hook    runtimecatalog.Hook
		name    string
		request runtimehooksv1.RequestObject
		asked   bool
	}{
		{hook: runtimehooksv1.UpdateMachine, name: "update", asked: true, request: updateMachine()},
		{hook: runtimehooksv1.UpdateMachine, name: "update", asked: true, request: &runtimehooksv1.UpdateMachineRequest{}},
		{hook: runtimehooksv1.CanUpdateMachine, name: "machine", asked: true, request: canUpdateMachine(t)},
		{hook: runtimehooksv1.CanUpdateMachineSet, name: "set", asked: true, request: canUpdateMachineSet(t)},
		{hook: runtimehooksv1.GeneratePatches, name: "patches", asked: true, request: &runtimehooksv1.GeneratePatchesRequest{
			Items: []runtimehooksv1.GeneratePatchesRequestItem{
				{UID: "raw", Object: rawAndObject(t, infrastructure("DevMachineTemplate"))}, {UID: "none"},
			},
		}},
		{hook: runtimehooksv1.ValidateTopology, name: "topology", asked: true, request: &runtimehooksv1.ValidateTopologyRequest{
			Items: []*runtimehooksv1.ValidateTopologyRequestItem{{Object: runtime.RawExtension{Object: bootstrap()}}},
		}},
		{hook: runtimehooksv1.GenerateUpgradePlan, name: "plan", asked: true, request: &runtimehooksv1.GenerateUpgradePlanRequest{Cluster: object, ToKubernetesVersion: "v1.31.0"}},
		{hook: runtimehooksv1.BeforeClusterUpgrade, name: "refuse", asked: true, request: &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: object}},
		{hook: runtimehooksv1.AfterClusterUpgrade, name: "hang", request: &runtimehooksv1.AfterClusterUpgradeRequest{}},
		{hook: runtimehooksv1.BeforeClusterCreate, name: "silent", request: &runtimehooksv1.BeforeClusterCreateRequest{}},
		{hook: runtimehooksv1.AfterWorkersUpgrade, name: "missing", request: &runtimehooksv1.AfterWorkersUpgradeRequest{}},
	} {
		before := tt.request.DeepCopyObject()
		var outcomes [2]string
		var seen [2][]runtime.Object
		for i, c := range []*hookclient.Client{remote, local} {
			gvh, err := newCatalog(t).GroupVersionHook(tt.hook)
			if err != nil {
				t.Fatal(err)
			}
			out, err := newCatalog(t).NewResponse(gvh)
			if err != nil {
				t.Fatal(err)
			}
			response := as[runtimehooksv1.ResponseObject](t, out)
			failure := c.CallExtension(t.Context(), tt.hook, cluster("default"), tt.name+".windlass", tt.request, response)
			body, err := json.Marshal(response)
			if err != nil {
				t.Fatal(err)
			}
			seen[i] = w.take()
			if tt.asked != (len(seen[i]) == 1) {
				t.Errorf("%s: the handler saw %d requests", tt.name, len(seen[i]))
			}
			outcomes[i] = fmt.Sprintf("%s\n%v", body, failure)
		}
		outcomes[0] = strings.ReplaceAll(outcomes[0], strings.TrimPrefix(config.Spec.ClientConfig.URL, "https://"), "in-process")
		if diff := cmp.Diff(outcomes[0], outcomes[1]) + cmp.Diff(seen[0], seen[1]) + cmp.Diff(before, tt.request); diff != "" {
			t.Errorf("%s (-HTTP +local, -before +after):\n%s", tt.name, diff)
		}
	}
}

// updateMachine is a request as Cluster API's Machine controller builds it: RawExtensions have an
// Object and no Raw. One of the Objects has a Go type of its own.
func updateMachine() *runtimehooksv1.UpdateMachineRequest {
	return &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{
		Machine:               machine(),
		InfrastructureMachine: runtime.RawExtension{Object: infrastructure("DevMachine")},
		BootstrapConfig:       runtime.RawExtension{Object: bootstrap()},
	}}
}

// canUpdateMachine is a request as the controller of KubeadmControlPlanes builds it: RawExtensions
// have both Raw and an Object.
func canUpdateMachine(t *testing.T) *runtimehooksv1.CanUpdateMachineRequest {
	t.Helper()
	objects := runtimehooksv1.CanUpdateMachineRequestObjects{
		Machine:               machine(),
		InfrastructureMachine: rawAndObject(t, infrastructure("DevMachine")),
		BootstrapConfig:       rawAndObject(t, bootstrap()),
	}
	return &runtimehooksv1.CanUpdateMachineRequest{Current: objects, Desired: objects}
}

// canUpdateMachineSet is a request as the MachineDeployment controller builds it for a pool without
// bootstrap templates.
func canUpdateMachineSet(t *testing.T) *runtimehooksv1.CanUpdateMachineSetRequest {
	t.Helper()
	objects := runtimehooksv1.CanUpdateMachineSetRequestObjects{
		MachineSet:                    clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}},
		InfrastructureMachineTemplate: rawAndObject(t, infrastructure("DevMachineTemplate")),
	}
	return &runtimehooksv1.CanUpdateMachineSetRequest{Current: objects, Desired: objects}
}

func machine() clusterv1.Machine {
	return clusterv1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{Name: "m", Annotations: map[string]string{}},
		Spec:       clusterv1.MachineSpec{Version: "v1.31.0"},
	}
}

func infrastructure(kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
		"metadata": map[string]any{"name": "m"}, "spec": map[string]any{"backend": "<in memory>"},
	}}
}

func bootstrap() *bootstrapv1.KubeadmConfig {
	return &bootstrapv1.KubeadmConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "KubeadmConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: "m"},
		Spec:       bootstrapv1.KubeadmConfigSpec{PreKubeadmCommands: []string{"true"}},
	}
}

// rawAndObject does what Cluster API's ConvertToRawExtension does.
func rawAndObject(t *testing.T, object runtime.Object) runtime.RawExtension {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	decoded := &unstructured.Unstructured{}
	if err := decoded.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: data, Object: decoded}
}

// A handler that panics, or does not look at its context, is an extension that does not answer.
func TestLocalHandlersThatMisbehave(t *testing.T) {
	t.Parallel()
	seconds, release := int32(1), make(chan struct{})
	t.Cleanup(func() { close(release) })
	c := newClient(t, func(o *hookclient.Options) {
		o.Local = map[string][]server.ExtensionHandler{"x": {
			{Hook: runtimehooksv1.BeforeClusterUpgrade, Name: "panic",
				HandlerFunc: func(context.Context, *runtimehooksv1.BeforeClusterUpgradeRequest, *runtimehooksv1.BeforeClusterUpgradeResponse) {
					panic("oh")
				}},
			{Hook: runtimehooksv1.BeforeClusterUpgrade, Name: "stuck", TimeoutSeconds: &seconds,
				HandlerFunc: func(context.Context, *runtimehooksv1.BeforeClusterUpgradeRequest, *runtimehooksv1.BeforeClusterUpgradeResponse) {
					<-release
				}},
		}}
	})
	config, err := c.Discover(t.Context(), extensionConfig("x"))
	if err != nil {
		t.Fatal(err)
	}
	warm(t, c, config)
	for name, want := range map[string]hookclient.Fault{"panic.x": hookclient.FaultConnection, "stuck.x": hookclient.FaultTimeout} {
		_, err := call(t.Context(), t, c, runtimehooksv1.BeforeClusterUpgrade, name)
		if unreachable, ok := errors.AsType[*hookclient.UnreachableError](err); !ok || unreachable.Fault != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A panic is logged with its stack, once for the calls that Cluster API repeats. The error has the
// value as one bounded line.
func TestLocalHandlersThatPanic(t *testing.T) {
	t.Parallel()
	value := "first"
	c := newClient(t, func(o *hookclient.Options) {
		o.Local = map[string][]server.ExtensionHandler{"x": {{
			Hook: runtimehooksv1.BeforeClusterUpgrade, Name: "panic",
			HandlerFunc: func(context.Context, *runtimehooksv1.BeforeClusterUpgradeRequest, *runtimehooksv1.BeforeClusterUpgradeResponse) {
				panicWith(value)
			},
		}}}
	})
	config, err := c.Discover(t.Context(), extensionConfig("x"))
	if err != nil {
		t.Fatal(err)
	}
	warm(t, c, config)
	var lines []string
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, line string) {
		if strings.Contains(line, "panicked\"") {
			lines = append(lines, line)
		}
	}, funcr.Options{}))
	for i, tt := range []struct {
		value, detail string
		logged        int
	}{
		{value: "first", detail: "the handler in this process panicked: first", logged: 1},
		{value: "first", detail: "the handler in this process panicked: first"},
		{value: "a\nb", detail: "the handler in this process panicked: a b", logged: 1},
		{
			value: strings.Repeat("x", 10_000), logged: 1,
			detail: "the handler in this process panicked: " + strings.Repeat("x", 509) + "...",
		},
	} {
		value, lines = tt.value, nil
		_, err := call(ctx, t, c, runtimehooksv1.BeforeClusterUpgrade, "panic.x")
		unreachable, ok := errors.AsType[*hookclient.UnreachableError](err)
		if !ok || unreachable.Detail != tt.detail || !strings.Contains(err.Error(), "the stack from the log") {
			t.Errorf("call %d: %v", i, err)
		}
		if len(lines) != tt.logged {
			t.Errorf("call %d: logged %d times, want %d: %q", i, len(lines), tt.logged, lines)
		}
		for _, line := range lines {
			if !strings.Contains(line, "panicWith") || !strings.Contains(line, "panic.x") {
				t.Errorf("call %d: the log has no stack or no name: %s", i, line)
			}
		}
	}
}

func panicWith(value string) { panic(value) }

func TestLocalHandlersThatAreNone(t *testing.T) {
	t.Parallel()
	good := func(context.Context, *runtimehooksv1.BeforeClusterUpgradeRequest, *runtimehooksv1.BeforeClusterUpgradeResponse) {
	}
	for name, handlers := range map[string][]server.ExtensionHandler{
		"of another hook": {{Hook: runtimehooksv1.AfterClusterUpgrade, Name: "a", HandlerFunc: good}},
		"of no hook":      {{Hook: func() {}, Name: "a", HandlerFunc: good}},
		"twice":           {{Hook: runtimehooksv1.BeforeClusterUpgrade, Name: "a", HandlerFunc: good}, {Hook: runtimehooksv1.BeforeClusterUpgrade, Name: "a", HandlerFunc: good}},
	} {
		_, err := hookclient.New(hookclient.Options{Catalog: newCatalog(t), Local: map[string][]server.ExtensionHandler{"x": handlers}})
		if err == nil || !strings.Contains(err.Error(), `ExtensionConfig "x"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// serveUpstream serves handlers with upstream's server and returns its URL once it answers.
func serveUpstream(t *testing.T, certDir string, handlers []server.ExtensionHandler) string {
	t.Helper()
	port := loopback.FreePort(t)
	s, err := server.New(server.Options{Catalog: newCatalog(t), Host: "127.0.0.1", Port: port, CertDir: certDir})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range handlers {
		if err := s.AddExtensionHandler(h); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	loopback.Eventually(t, "the server is ready", func() bool {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	return "https://" + address
}
