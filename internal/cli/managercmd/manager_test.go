package managercmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/windlass-dev/windlass/internal/cli/extensioncmd"
)

// TestManagerFlags holds the flags against those in the source of Cluster API's core manager: who changes the image keeps the arguments.
func TestManagerFlags(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "core", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	flags := New("").Flags()
	// Those of packages that both add as they are, and what upstream has from the Go flags of controller-runtime.
	for _, name := range []string{"v", "logging-format", "diagnostics-address", "insecure-diagnostics", "tls-min-version", "feature-gates", "kubeconfig"} {
		if flags.Lookup(name) == nil {
			t.Errorf("there is no --%s", name)
		}
	}
	if got := flags.Lookup("v").DefValue; got != managerVerbosity {
		t.Errorf("the verbosity is %s", got)
	}
	found := regexp.MustCompile(`fs\.(\w+)Var\(&\w+, "([a-z-]+)",`).FindAllStringSubmatch(string(source), -1)
	if len(found) < 30 {
		t.Fatalf("only %d flags are found in the source", len(found))
	}
	types := map[string]string{"Bool": "bool", "Duration": "duration", "String": "string", "Float32": "float32", "Int": "int", "StringSlice": "stringSlice"}
	for _, f := range found {
		kind, name := f[1], f[2]
		if flag := flags.Lookup(name); flag == nil || flag.Value.Type() != types[kind] {
			t.Errorf("--%s is %v, Cluster API's is a %s", name, flag, kind)
		}
	}
}

// TestManagerFlagDefaults has the defaults of Cluster API v1.14, as its --help shows them.
func TestManagerFlagDefaults(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	New("").Flags().VisitAll(func(f *pflag.Flag) { got[f.Name] = f.DefValue })
	for name, want := range map[string]string{
		"leader-elect": "false", "leader-elect-lease-duration": "15s", "leader-elect-renew-deadline": "10s", "leader-elect-retry-period": "2s",
		"namespace": "", "watch-filter": "", "profiler-address": "", "contention-profiling": "false",
		"remote-connection-grace-period": "50s", "remote-conditions-grace-period": "5m0s",
		"clustertopology-concurrency": "50", "clusterclass-concurrency": "10", "cluster-concurrency": "50", "clustercache-concurrency": "100",
		"extensionconfig-concurrency": "10", "machine-concurrency": "100", "machineset-concurrency": "50", "machinedeployment-concurrency": "50",
		"machinepool-concurrency": "50", "clusterresourceset-concurrency": "10", "machinehealthcheck-concurrency": "50",
		"machineset-preflight-checks": "[All]", "skip-crd-migration-phases": "[]", "sync-period": "10m0s", "kube-api-qps": "100", "kube-api-burst": "200",
		"clustercache-client-qps": "20", "clustercache-client-burst": "30", "webhook-port": "9443", "webhook-cert-dir": "/tmp/k8s-webhook-server/serving-certs/",
		"webhook-cert-name": "tls.crt", "webhook-key-name": "tls.key", "runtime-extension-client-cert-file": "", "runtime-extension-client-key-file": "",
		"health-addr": ":9440", "additional-sync-machine-labels": "[]", "additional-sync-machine-annotations": "[]",
		"diagnostics-address": ":8443", "insecure-diagnostics": "false",
	} {
		if got[name] != want {
			t.Errorf("--%s is %q by default, Cluster API's is %q", name, got[name], want)
		}
	}
}

// TestManagerLeavesInPlaceUpgradesToTheExtension has one of two processes carry out what annotations ask for.
func TestManagerLeavesInPlaceUpgradesToTheExtension(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		port    int
		set, on bool
		want    bool
	}{
		"beside an extension": {port: 0, on: true}, "with the extension": {port: 9444, on: true, want: true},
		"without, asked for": {set: true, on: true, want: true}, "with, not wanted": {port: 9444, set: true},
	} {
		o := options{inPlace: extensioncmd.InPlaceFlags{On: tt.on}}
		o.manager.Extension.Port = tt.port
		if o.setInPlaceDefault(tt.set); o.inPlace.On != tt.want {
			t.Errorf("%s: %v", name, o.inPlace.On)
		}
	}
}
