//go:build linux

// Package processruntime_test runs static pods of real kubelets in the process runtime, without an
// API server, and validates the runtime with critest, the suite of cri-tools.
package processruntime_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

const repository = "../../../.."

// serverName is the name under which the test's program is the server in the pod.
const serverName = "server"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == serverName {
		serve()
		return
	}
	status := m.Run()
	programs.Remove()
	os.Exit(status)
}

// serve is the program of the pod: it serves at port 8080 until SIGTERM.
func serve() {
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat("/data/unready"); err == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/greeting", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, os.Getenv("GREETING"))
	})
	mux.HandleFunc("/flood", func(http.ResponseWriter, *http.Request) {
		for range 1000 {
			fmt.Fprintln(os.Stdout, strings.Repeat("x", 100))
		}
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: ":8080", Handler: mux}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	fmt.Fprintln(os.Stdout, "serving as process", os.Getpid())
	if err := server.ListenAndServe(); ctx.Err() == nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1) //nolint:gocritic // Nothing is left to stop.
	}
	fmt.Fprintln(os.Stdout, "stopping")
}

const (
	manifest = "/etc/kubernetes/manifests/web.yaml"

	// pod has each kind of probe, and volumes of two kinds.
	pod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 30
  containers:
  - name: server
    image: registry.k8s.io/server:v1
    command: [/usr/local/bin/server]
    env: [{name: GREETING, value: hello}]
    startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 60}
    readinessProbe: {httpGet: {port: 8080, path: /ready}, periodSeconds: 1}
    livenessProbe: {exec: {command: [bash, -c, "! test -e /data/dead"]}, periodSeconds: 1, failureThreshold: 1}
    volumeMounts: [{name: data, mountPath: /data}, {name: empty, mountPath: /empty}]
  volumes:
  - {name: data, hostPath: {path: /var/lib/web, type: DirectoryOrCreate}}
  - {name: empty, emptyDir: {}}
`
	runtimeUnit = `[Service]
Type=notify
ExecStart=/usr/local/bin/windlass-cri
KillMode=process
Restart=always
`
	kubeletUnit = `[Service]
Environment=WINDLASS_KUBELET_PODS=real
ExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml --hostname-override=node
Restart=always
RestartSec=1
`
	kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/kubernetes/manifests
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerLogMaxSize: 64Ki
containerLogMonitorInterval: 3s
`
)

func require(t *testing.T) {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run pods of real kubelets, and critest")
	}
	hosts.Require(t)
}

// start boots a host with a kubelet of a minor.
func start(t *testing.T, minor version.Minor) *hosts.Host {
	t.Helper()
	require(t)
	binaries, err := kube.Build(t.Context(), repository, minor)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		manifest: []byte(pod), "/var/lib/kubelet/config.yaml": []byte(kubeletConfig),
		"/etc/systemd/system/kubelet.service":              []byte(kubeletUnit),
		"/usr/bin/kubelet":                                 read(t, binaries.Kubelet),
		images + "registry.k8s.io/server/v1/" + serverName: read(t, self),
	}
	return startHost(t, files, "kubelet")
}

const images = "/srv/windlass-images/"

// startHost boots a host with the runtime and more units.
func startHost(t *testing.T, files map[string][]byte, units ...string) *hosts.Host {
	t.Helper()
	runtime, err := programs.BuildRuntime()
	if err != nil {
		t.Fatal(err)
	}
	files["/usr/local/bin/windlass-cri"] = read(t, runtime)
	files["/etc/systemd/system/containerd.service"] = []byte(runtimeUnit)
	return hosts.Start(t, hosts.Options{
		Name: "node", Size: 1 << 30, Enable: append(units, "containerd"), Files: files,
	})
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
