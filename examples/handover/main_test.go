package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/conformance"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
	"github.com/windlass-dev/windlass/test/loopback"
)

// apiServer keeps the annotations of Machines, and what was written of the specs of objects.
type apiServer struct {
	mu          sync.Mutex
	annotations map[string]map[string]string
	specs       []string
	patched     chan struct{}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	parts := strings.Split(r.URL.Path, "/")
	if err == nil && r.Method == http.MethodGet && len(parts) == 8 && parts[6] == "machines" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":%[1]q},"spec":{`+
			`"infrastructureRef":{"name":"i-%[1]s"},"bootstrap":{"configRef":{"name":"b-%[1]s"}}}}`, parts[7])
		return
	}
	var patch struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	if err == nil {
		err = json.Unmarshal(body, &patch)
	}
	if err != nil || r.Method != http.MethodPatch || len(parts) != 8 || parts[6] != "machines" && patch.Spec == nil {
		http.Error(w, fmt.Sprint(r.Method, r.URL, err), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if patch.Spec != nil {
		s.specs = append(s.specs, fmt.Sprintf("%s %s %s", parts[6], parts[7], patch.Spec))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Any"}`) // The caller may be gone.
		return
	}
	name := parts[5] + "/" + parts[7]
	if s.annotations[name] == nil {
		s.annotations[name] = map[string]string{}
	}
	maps.Copy(s.annotations[name], patch.Metadata.Annotations)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata"}`) // The caller may be gone.
	select {
	case s.patched <- struct{}{}:
	default:
	}
}

func (s *apiServer) of(name string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.annotations[name])
}

// await waits until a Machine's annotation has a value.
func (s *apiServer) await(t *testing.T, name, key, value string) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for s.of(name)[key] != value {
		select {
		case <-s.patched:
		case <-deadline:
			t.Fatalf("Machine %s has %v, want %s: %s", name, s.of(name), key, value)
		}
	}
}

// running is the example as it runs in a test. It can be restarted.
type running struct {
	options options
	ca      []byte
	api     *apiServer
	stop    func()
}

func start(t *testing.T, script string) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{api: &apiServer{annotations: map[string]map[string]string{}, patched: make(chan struct{}, 1)}, options: options{
		bindAddress: "127.0.0.1", port: loopback.FreePort(t), certDir: dir, stateDir: filepath.Join(dir, "state"),
		inventory: filepath.Join(dir, "inventory.json"), command: filepath.Join(dir, "update.sh"),
		kubeconfig: filepath.Join(dir, "kubeconfig"), holdFile: filepath.Join(dir, "hold"),
	}}
	r.ca = servertest.WriteCertificate(t, dir)
	server := httptest.NewServer(r.api)
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, r.options.kubeconfig); err != nil {
		t.Fatal(err)
	}
	const inventory = `[{"machine": "default/worker-1", "host": "10.0.0.8"}, {"machine": "default/worker-0", "host": "10.0.0.7"}]`
	if err := os.WriteFile(r.options.inventory, []byte(inventory), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.options.command, []byte("#!/bin/sh\ncd "+dir+"\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *running) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx, r.options) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.ca)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: pool}}
	loopback.Eventually(t, "the example listens", func() bool {
		connection, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.options.port)))
		return err == nil && connection.Close() == nil
	})
}

// awaitRun waits until the command has begun.
func (r *running) awaitRun(t *testing.T) {
	t.Helper()
	loopback.Eventually(t, "the command runs", func() bool { return len(r.runs(t)) > 0 })
}

// runs are the arguments of the command so far.
func (r *running) runs(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.options.certDir, "runs"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(content))
}

// The tests of this package do not run in parallel: a script cannot be run while a child that another test forks has it open for writing.

// TestConformance verifies the example as its author would.
func TestConformance(t *testing.T) {
	// The first run waits to be killed by the restart; the second does the work.
	r := start(t, "echo $1/$2 >>runs\nif test $(wc -l <runs) = 1; then exec sleep 600; fi\n")
	content, err := os.ReadFile("fixture.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fixture, err := conformance.ParseFixture(content)
	if err != nil {
		t.Fatal(err)
	}
	report, err := conformance.RunHandOver(t.Context(), conformance.Options{
		URL: "https://127.0.0.1:" + strconv.Itoa(r.options.port), CABundle: r.ca, Fixture: fixture, AllowUpdates: true,
		Restart: func(context.Context) error {
			r.awaitRun(t)
			r.stop()
			r.start(t) //nolint:contextcheck // It lives as long as the test, not as the request to restart it.
			return nil
		},
	}, func(_ context.Context, name types.NamespacedName) (map[string]string, error) {
		return r.api.of(name.String()), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range report.Points {
		if point.Status != conformance.Pass {
			t.Errorf("%s: %s: %s", point.ID, point.Status, point.Reason)
		}
	}
	if diff := cmp.Diff([]string{"10.0.0.7/v1.32.1", "10.0.0.7/v1.32.1"}, r.runs(t)); diff != "" {
		t.Errorf("the command was run (-want +got)\n%s", diff)
	}
}

// of is a request about machines of the namespace default.
func of(phase updatesv1.Phase, operation string, machines ...string) *updatesv1.HandOverRequest {
	request := &updatesv1.HandOverRequest{Phase: phase, OperationID: operation, Free: 1, Desired: &updatesv1.Objects{
		Machine: runtime.RawExtension{Raw: []byte(`{"spec":{"version":"v1.32.1"}}`)},
	}}
	for _, name := range machines {
		request.Machines = append(request.Machines, updatesv1.ObjectName{Namespace: "default", Name: name})
	}
	return request
}

// newUpdater makes an updater with a state of its own, in this process.
func (r *running) newUpdater(t *testing.T) *updater {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.options.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	r.options.stateDir = t.TempDir()
	u, err := newUpdater(t.Context(), r.options, config)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestCancelEndsTheCommand cancels an attempt, and hands the machine over again.
func TestCancelEndsTheCommand(t *testing.T) {
	r := start(t, "echo $2 >>runs\nif test $(wc -l <runs) = 1; then exec sleep 600; fi\n")
	u := r.newUpdater(t)
	answer := func(request *updatesv1.HandOverRequest) {
		t.Helper()
		if _, declined := u.answer(request); declined != "" {
			t.Errorf("%s was declined: %s", request.Phase, declined)
		}
	}
	const name = "default/worker-0"
	answer(of(updatesv1.Start, "one", "worker-0"))
	r.awaitRun(t)
	r.api.await(t, name, v1alpha1.UpdateMessageAnnotation, "one: updating 10.0.0.7 to v1.32.1")
	cancel := of(updatesv1.Cancel, "one", "worker-0")
	cancel.Reason = "too late"
	answer(cancel)
	r.api.await(t, name, v1alpha1.UpdateFailedAnnotation, "one: cancelled: too late")
	answer(of(updatesv1.Cancel, "one", "worker-0"))
	answer(of(updatesv1.Cancel, "late", "worker-0"))
	if _, declined := u.answer(of(updatesv1.Start, "late", "worker-0")); declined == "" {
		t.Error("a Start that arrives after its Cancel was accepted")
	}
	answer(of(updatesv1.Start, "two", "worker-0"))
	r.api.await(t, name, v1alpha1.UpdatedAnnotation, "two")
	u.running.Wait()
	if got := r.runs(t); len(got) != 2 {
		t.Errorf("the command was run %q", got)
	}
}

// TestCancelEndsChildrenOfTheCommand cancels an attempt whose command waits for a child. The child must end with it: it would
// keep changing the host, and its output keep Cancel from returning.
func TestCancelEndsChildrenOfTheCommand(t *testing.T) {
	r := start(t, "sleep 600 &\necho $! >>runs\nwait\n")
	u := r.newUpdater(t)
	if _, declined := u.answer(of(updatesv1.Start, "one", "worker-0")); declined != "" {
		t.Fatal(declined)
	}
	r.awaitRun(t)
	child, err := strconv.Atoi(r.runs(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) }) // It is there only if the test failed.
	cancelled := make(chan string, 1)
	go func() {
		_, declined := u.answer(of(updatesv1.Cancel, "one", "worker-0"))
		cancelled <- declined
	}()
	select {
	case declined := <-cancelled:
		if declined != "" {
			t.Error(declined)
		}
	case <-time.After(2 * time.Minute):
		t.Error("Cancel waits for the child of the command")
	}
	loopback.Eventually(t, "the child ends", func() bool { return !isAlive(child) })
}

// isAlive reports whether a process runs. One that has ended may still be listed until its parent has read that.
func isAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// TestVersions holds that what is not a version does not reach the command.
func TestVersions(t *testing.T) {
	u := &updater{inventory: []entry{{Machine: "default/a"}}}
	for _, version := range []string{"", "latest", "--help", "v1.32.1; reboot", "v1.32.1\nv1.32.2"} {
		request := of(updatesv1.Start, "one", "a")
		spec, err := json.Marshal(map[string]any{"spec": map[string]any{"version": version}})
		if err != nil {
			t.Fatal(err)
		}
		request.Desired.Machine.Raw = spec
		if _, declined := u.answer(request); !strings.Contains(declined, "version") {
			t.Errorf("%q: it says %q", version, declined)
		}
	}
}

// TestReasonIsBounded holds that the mark of a command that prints much is taken by the API server.
func TestReasonIsBounded(t *testing.T) {
	r := start(t, "head -c 300000 /dev/zero | tr '\\0' x\nexit 1\n")
	u := r.newUpdater(t)
	if _, declined := u.answer(of(updatesv1.Start, "one", "worker-0")); declined != "" {
		t.Fatal(declined)
	}
	u.running.Wait()
	if mark := r.api.of("default/worker-0")[v1alpha1.UpdateFailedAnnotation]; len(mark) < maxReasonBytes || len(mark) > 2*maxReasonBytes {
		t.Errorf("the mark has %d bytes: %.200s", len(mark), mark)
	}
}

func TestChoosesByInventory(t *testing.T) {
	dir := t.TempDir()
	u := &updater{options: options{holdFile: filepath.Join(dir, "hold")}, inventory: []entry{
		{Machine: "default/b"}, {Machine: "default/a"}, {Machine: "default/c"},
	}}
	chosen, declined := u.answer(of(updatesv1.Choose, "", "a", "b", "unknown"))
	if want := of(updatesv1.Choose, "", "b").Machines; !slices.Equal(chosen, want) || declined != "" {
		t.Errorf("it chooses %v, %q, want %v", chosen, declined, want)
	}
	if _, declined := u.answer(of(updatesv1.Choose, "", "unknown")); !strings.Contains(declined, "inventory") {
		t.Errorf("of an unknown machine it says %q", declined)
	}
	if err := os.WriteFile(u.options.holdFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, declined := u.answer(of(updatesv1.Choose, "", "a")); !strings.Contains(declined, "hold exists") {
		t.Errorf("while it is held it says %q", declined)
	}
}

func TestOffers(t *testing.T) {
	objects := func(machine, infrastructure string) *updatesv1.Objects {
		return &updatesv1.Objects{
			Machine:               runtime.RawExtension{Raw: []byte(`{"spec":` + machine + `}`)},
			InfrastructureMachine: runtime.RawExtension{Raw: []byte(`{"spec":` + infrastructure + `}`)},
		}
	}
	u := &updater{inventory: []entry{{Machine: "default/a"}}}
	for name, tt := range map[string]struct {
		machine          string
		current, desired *updatesv1.Objects
		want             string
	}{
		"the version":  {"a", objects(`{"version":"1"}`, `{"size":1}`), objects(`{"version":"2"}`, `{"size":1}`), ""},
		"a size":       {"a", objects(`{"version":"1"}`, `{"size":1}`), objects(`{"version":"2"}`, `{"size":2}`), "the spec of the infrastructure machine differs"},
		"another one":  {"b", objects(`{"version":"1"}`, `{}`), objects(`{"version":"2"}`, `{}`), "not in the inventory"},
		"no object":    {"a", objects(`3`, `{}`), objects(`{}`, `{}`), "reading an object"},
		"a new domain": {"a", objects(`{"failureDomain":"1"}`, `{}`), objects(`{"failureDomain":"2"}`, `{}`), "the spec of the Machine differs"},
	} {
		request := of(updatesv1.Offer, "", tt.machine)
		request.Current, request.Desired = tt.current, tt.desired
		if _, declined := u.answer(request); tt.want == "" && declined != "" || !strings.Contains(declined, tt.want) {
			t.Errorf("%s: it says %q, want %q", name, declined, tt.want)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	if err := run(t.Context(), options{kubeconfig: filepath.Join(t.TempDir(), "none")}); err == nil || !strings.Contains(err.Error(), "kubeconfig") {
		t.Errorf("without a kubeconfig the error is %v", err)
	}
	r := start(t, "")
	for change, want := range map[string]func(*options){
		"inventory": func(o *options) { o.inventory = "/none" }, "state folder": func(o *options) { o.stateDir = "/proc/none" },
		"certificate": func(o *options) { o.certDir = "/none" },
	} {
		o := r.options
		want(&o)
		if err := run(t.Context(), o); err == nil || !strings.Contains(err.Error(), change) {
			t.Errorf("with a bad %s the error is %v", change, err)
		}
	}
}
