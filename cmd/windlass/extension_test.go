package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/test/loopback"
)

// lockedBuffer is a buffer that a command writes to while a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// servingCertificate writes a certificate for 127.0.0.1 into a folder, and returns a client that trusts it.
func servingCertificate(t *testing.T) (dir string, client *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"tls.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return dir, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}

// fetch returns the status and body of a GET, or of a POST when there is a body; 0 when there was no answer.
func fetch(t *testing.T, client *http.Client, url, body string) (status int, content string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(read)
}

// windlassCommand returns a command that runs windlass in a process of its own, where it may set up the logs of the
// process and gets signals. TestMain makes the test binary behave as windlass when it is called by that name.
func windlassCommand(t *testing.T, log io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary)
	command.Args = append([]string{"windlass"}, args...)
	command.Stdout, command.Stderr = log, log
	return command
}

// TestExtension runs the command as a user would, against an API server that watches what it does.
func TestExtension(t *testing.T) {
	t.Parallel()
	api := newGraphAPI(t, true)
	spec := v1alpha1.UpgradeGraphSpec{
		Versions: []v1alpha1.Version{"v1.30.3", "v1.31.2", "v1.32.1"}, Classes: []v1alpha1.ClassReference{{Name: "standard"}},
	}
	api.put("stable", spec)
	certDir, client := servingCertificate(t)
	port := strconv.Itoa(loopback.FreePort(t))
	addresses := []string{net.JoinHostPort("127.0.0.1", port)}
	for range 2 {
		addresses = append(addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(loopback.FreePort(t))))
	}
	log, done := &lockedBuffer{}, make(chan error, 1)
	command := windlassCommand(t, log, "extension", "--kubeconfig", api.kubeconfig(t), "--bind-address", "127.0.0.1", "--port", port,
		"--cert-dir", certDir, "--health-addr", addresses[1], "--diagnostics-address", addresses[2], "--insecure-diagnostics", "--log-format", "json")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { done <- command.Wait() }()
	loopback.Eventually(t, "ready", func() bool {
		select {
		case err := <-done:
			t.Fatalf("the command ended with %v\n%s", err, log)
		default:
		}
		status, _ := fetch(t, client, "http://"+addresses[1]+"/readyz", "")
		return status == http.StatusOK
	})
	ask := func(to string) string {
		status, body := fetch(t, client, "https://"+addresses[0]+"/hooks.runtime.cluster.x-k8s.io/v1alpha1/generateupgradeplan/generate-upgrade-plan",
			`{"cluster":{"metadata":{"name":"c","namespace":"n"},"spec":{"topology":{"classRef":{"name":"standard"}}}},`+
				`"fromControlPlaneKubernetesVersion":"v1.30.3","toKubernetesVersion":"`+to+`"}`)
		return fmt.Sprint(status, " ", body)
	}
	const plan = `"status":"Success","controlPlaneUpgrades":[{"version":"v1.31.2"},{"version":"v1.32.1"}]`
	// Ready means that the cache holds the graphs: the first question must not fail.
	if got := ask("v1.32.1"); !strings.Contains(got, plan) {
		t.Fatalf("answer is %s", got)
	}
	if got := ask("v1.33.0"); !strings.Contains(got, `"status":"Failure","message":"UpgradeGraph \"stable\": target v1.33.0`) {
		t.Errorf("answer is %s", got)
	}
	loopback.Eventually(t, "the graph is ready", func() bool { state, _ := api.ready("stable"); return state == "True Valid" })

	// A conflict shows on both graphs, and lifts from both when one of them changes.
	api.put("twin", spec)
	for _, name := range []string{"stable", "twin"} {
		loopback.Eventually(t, "a conflict on "+name, func() bool {
			state, _ := api.ready(name)
			return strings.HasPrefix(state, "False ClassConflict ")
		})
	}
	loopback.Eventually(t, "the answer names both", func() bool { return strings.Contains(ask("v1.32.1"), `UpgradeGraphs \"stable\", \"twin\" all serve`) })
	spec.Classes = nil
	api.put("twin", spec)
	for _, name := range []string{"stable", "twin"} {
		loopback.Eventually(t, "no conflict on "+name, func() bool { state, _ := api.ready(name); return state == "True Valid" })
	}
	loopback.Eventually(t, "a plan again", func() bool { return strings.Contains(ask("v1.32.1"), plan) })
	// Cluster API asks often. The answers come from a cache.
	lists := api.listed()
	for range 5 {
		ask("v1.32.1")
	}
	if got := api.listed(); got != lists {
		t.Errorf("5 answers took %d requests, want none", got-lists)
	}
	// Each change of state was written once: twice for stable after the first, the same for twin.
	if _, patches := api.ready("stable"); patches != 5 {
		t.Errorf("the statuses were written %d times, want 5", patches)
	}

	if status, body := fetch(t, client, "http://"+addresses[2]+"/metrics", ""); status != http.StatusOK || !strings.Contains(body, "controller_runtime_webhook_requests_total") {
		t.Errorf("metrics answer %d", status)
	}
	if status, _ := fetch(t, client, "http://"+addresses[1]+"/healthz", ""); status != http.StatusOK {
		t.Errorf("healthz answers %d", status)
	}
	// A controller that is stopped while its cache fills says that as an error.
	loopback.Eventually(t, "all controllers work", func() bool {
		watching, working := startedControllers(log.String())
		return len(watching) > 0 && maps.Equal(watching, working)
	})
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after SIGTERM the command ended with %v", err)
	}
	checkLog(t, log.String())
	checkRole(t, api.done())
}

// startedControllers returns the names of controllers that have begun to watch, and of those whose
// caches are full.
func startedControllers(log string) (watching, working map[string]bool) {
	watching, working = map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(log) {
		var entry struct{ Msg, Controller string }
		if json.Unmarshal([]byte(line), &entry) != nil {
			continue // The line is still being written.
		}
		switch entry.Msg {
		case "Starting EventSource":
			watching[entry.Controller] = true
		case "Starting workers":
			working[entry.Controller] = true
		}
	}
	return watching, working
}

// checkLog checks that every line is JSON, that none is an error, and that a change of state is there once.
func checkLog(t *testing.T, log string) {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(log) {
		var entry struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("not a line of JSON: %s", line)
		}
		if entry.Level == "ERROR" {
			t.Errorf("an error was logged: %s", line)
		}
		counts[entry.Msg]++
	}
	if counts["UpgradeGraph changed its readiness"] != 5 {
		t.Errorf("readiness was logged %d times, want 5", counts["UpgradeGraph changed its readiness"])
	}
	if counts["Refused to plan an upgrade"] < 2 || counts["Planned an upgrade"] < 2 {
		t.Errorf("answers were not logged: %v", counts)
	}
}

// checkRole holds what the command did against the role in config/: all of it is allowed, and nothing else is.
func checkRole(t *testing.T, done []string) {
	t.Helper()
	manifest, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(manifest, &role); err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, rule := range role.Rules {
		// What updates in place need is tested where they happen.
		if !strings.HasPrefix(rule.Resources[0], "upgradegraphs") {
			continue
		}
		if !slices.Equal(rule.APIGroups, []string{"windlass.dev"}) || rule.ResourceNames != nil || rule.NonResourceURLs != nil {
			t.Errorf("rule %v is not about all objects of windlass.dev", rule)
		}
		for _, verb := range rule.Verbs {
			for _, resource := range rule.Resources {
				allowed = append(allowed, verb+" "+resource)
			}
		}
	}
	slices.Sort(allowed)
	if diff := cmp.Diff(allowed, done); diff != "" {
		t.Errorf("what the role allows and what was done differ (-allowed +done):\n%s", diff)
	}
}

func TestExtensionErrors(t *testing.T) {
	t.Parallel()
	certDir, _ := servingCertificate(t)
	empty, kubeconfig := t.TempDir(), newGraphAPI(t, true).kubeconfig(t)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	_, takenPort, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	common := []string{"--health-addr", "", "--bind-address", "127.0.0.1"}
	for name, tt := range map[string]struct {
		args []string
		// want are parts of the message.
		want []string
	}{
		"no certificate folder":    {args: []string{"--kubeconfig", kubeconfig}, want: []string{`required flag(s) "cert-dir" not set`}},
		"a folder without a pair":  {args: []string{"--kubeconfig", kubeconfig, "--cert-dir", empty}, want: []string{"reading the serving certificate", "tls.crt", "--cert-dir must hold"}},
		"no such kubeconfig":       {args: []string{"--kubeconfig", empty + "/none", "--cert-dir", certDir}, want: []string{"finding the management cluster", "none"}},
		"no such context":          {args: []string{"--kubeconfig", kubeconfig, "--context", "none", "--cert-dir", certDir}, want: []string{"finding the management cluster", `"none"`}},
		"an argument":              {args: []string{"--cert-dir", certDir, "more"}, want: []string{`unknown command "more"`}},
		"an unknown log format":    {args: []string{"--cert-dir", certDir, "--log-format", "xml"}, want: []string{`--log-format "xml" is unknown. Fix: use "text" or "json"`}},
		"a verbosity out of range": {args: []string{"--cert-dir", certDir, "-v", "11"}, want: []string{"--verbosity 11 is not between 0 and 10"}},
		"an empty prefix":          {args: []string{"--cert-dir", certDir, "--in-place-upgrade-prefix", ""}, want: []string{"--in-place-upgrade-prefix is empty", "v1beta2.k8sd.io/in-place-upgrade-"}},
		"a prefix of no domain":    {args: []string{"--cert-dir", certDir, "--in-place-upgrade-prefix", "foo"}, want: []string{"--in-place-upgrade-prefix: the prefix", "no domain"}},
		"a prefix of no key":       {args: []string{"--cert-dir", certDir, "--in-place-upgrade-prefix", "a b/"}, want: []string{"--in-place-upgrade-prefix: the prefix", "a b/"}},
		"a port out of range":      {args: []string{"--kubeconfig", kubeconfig, "--cert-dir", certDir, "--port", "70000"}, want: []string{"port 70000 is not between"}},
		"a port that is taken":     {args: []string{"--kubeconfig", kubeconfig, "--cert-dir", certDir, "--port", takenPort}, want: []string{"serving: ", "address already in use"}},
		"a client CA for the guard's callers too": {
			args: []string{"--kubeconfig", kubeconfig, "--cert-dir", certDir, "--client-ca-name", "tls.crt"},
			want: []string{"--client-ca-name asks every caller", "Fix: set --guard-port"},
		},
		"a port for the guard that is the hooks' own": {
			args: []string{"--kubeconfig", kubeconfig, "--cert-dir", certDir, "--client-ca-name", "tls.crt", "--port", "9443", "--guard-port", "9443"},
			want: []string{"--client-ca-name asks every caller", "Fix: set --guard-port"},
		},
		"a client CA that is not there": {
			args: []string{"--kubeconfig", kubeconfig, "--cert-dir", certDir, "--client-ca-name", "ca.crt"}, want: []string{"reading the client CA", "ca.crt", "--client-ca-name must name"},
		},
		"a client CA that is none": {
			args: []string{"--kubeconfig", kubeconfig, "--cert-dir", certDir, "--client-ca-name", "tls.key"}, want: []string{"reading the client CA", "tls.key holds no certificate"},
		},
		"a CA for the guard's callers without a port": {
			args: []string{"--kubeconfig", kubeconfig, "--cert-dir", certDir, "--guard-client-ca-name", "tls.crt"}, want: []string{"--guard-client-ca-name has no effect", "Fix: set --guard-port"},
		},
		"a CA for the guard's callers that is not there": {
			args: []string{"--kubeconfig", kubeconfig, "--cert-dir", certDir, "--guard-port", "9444", "--guard-client-ca-name", "ca.crt"},
			want: []string{"reading the client CA", "--guard-client-ca-name must name a file in --cert-dir"},
		},
		"no CRD": {
			args: []string{"--kubeconfig", newGraphAPI(t, false).kubeconfig(t), "--cert-dir", certDir},
			want: []string{"watching *v1alpha1.UpgradeGraph", "install the CRDs with kubectl apply -k config/crd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &lockedBuffer{}
			err := windlassCommand(t, log, append(append([]string{"extension"}, common...), tt.args...)...).Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != int(cli.ExitFailure) {
				t.Fatalf("the command ended with %v, want exit code %d\n%s", err, cli.ExitFailure, log)
			}
			// What a manager had started may log after the error, until the process ends.
			messages := slices.DeleteFunc(slices.Collect(strings.Lines(log.String())), func(line string) bool { return !strings.HasPrefix(line, "windlass: ") })
			if len(messages) != 1 {
				t.Fatalf("there are %d messages, want 1\n%s", len(messages), log)
			}
			for _, want := range tt.want {
				if !strings.Contains(messages[0], want) {
					t.Errorf("the message is %q, want %q in it", messages[0], want)
				}
			}
		})
	}
}

// TestDeploymentFlags checks that the Deployment in config/ starts the command with flags that it has, and that its
// ports are the ones that the flags set.
func TestDeploymentFlags(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile("../../config/extension/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(manifest, &deployment); err != nil {
		t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	command, flags, err := newRootCommand().Find(container.Args)
	if err != nil || command.Name() != "extension" {
		t.Fatalf("the arguments %q run %s, %v", container.Args, command.Name(), err)
	}
	if err := command.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"hooks": command.Flag("port").Value.String(), "health": strings.TrimPrefix(command.Flag("health-addr").Value.String(), ":")} {
		if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == name && fmt.Sprint(p.ContainerPort) == want }) {
			t.Errorf("no port %s is %s in %v", name, want, container.Ports)
		}
	}
	if got, want := container.VolumeMounts[0].MountPath, command.Flag("cert-dir").Value.String(); got != want {
		t.Errorf("the certificate is mounted at %s and read from %s", got, want)
	}
}
