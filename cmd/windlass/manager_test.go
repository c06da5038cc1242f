package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/cli"
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
	flags := newManagerCommand().Flags()
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
	newManagerCommand().Flags().VisitAll(func(f *pflag.Flag) { got[f.Name] = f.DefValue })
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

// TestManagerDeployment checks that what config/ puts into Cluster API's Deployment is this command. Its arguments stay that Deployment's.
func TestManagerDeployment(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile("../../config/manager/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(manifest, &deployment); err != nil {
		t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	if command, rest, err := newRootCommand().Find(container.Command[1:]); err != nil || command.Name() != "manager" || len(rest)+len(container.Args) > 0 {
		t.Errorf("%q %q runs %s, %v", container.Command, container.Args, command.Name(), err)
	}
}

func TestManagerErrors(t *testing.T) {
	t.Parallel()
	certDir, _ := servingCertificate(t)
	empty, kubeconfig := t.TempDir(), newGraphAPI(t, true).kubeconfig(t)
	for name, tt := range map[string]struct {
		args []string
		// want are parts of the message.
		want []string
	}{
		"no such kubeconfig":      {args: []string{"--kubeconfig", empty + "/none"}, want: []string{"finding the management cluster", "none"}},
		"an argument":             {args: []string{"more"}, want: []string{`unknown command "more"`}},
		"an unknown feature gate": {args: []string{"--feature-gates=Nonsense=true"}, want: []string{"--feature-gates", "Nonsense"}},
		"an unknown log format":   {args: []string{"--logging-format=xml"}, want: []string{"setting up the log", "xml"}},
		"grace periods that contradict": {
			args: []string{"--kubeconfig", kubeconfig, "--remote-conditions-grace-period=40s"}, want: []string{"--remote-conditions-grace-period 40s is not longer than --remote-connection-grace-period 50s"},
		},
		"a feature gate that is needed": {
			args: []string{"--kubeconfig", kubeconfig, "--feature-gates=ClusterTopology=true,ReconcilerRateLimiting=false"}, want: []string{"--feature-gates has ReconcilerRateLimiting=false"},
		},
		"a preflight check": {args: []string{"--kubeconfig", kubeconfig, "--machineset-preflight-checks=Most"}, want: []string{`--machineset-preflight-checks "Most" is unknown: use All`}},
		"a client certificate without key": {
			args: []string{"--kubeconfig", kubeconfig, "--runtime-extension-client-cert-file=a"}, want: []string{"--runtime-extension-client-key-file", "give both or none"},
		},
		"leader election outside a pod":    {args: []string{"--kubeconfig", kubeconfig, "--leader-elect"}, want: []string{"--leader-elect works in a pod only"}},
		"a regular expression":             {args: []string{"--kubeconfig", kubeconfig, "--additional-sync-machine-labels=("}, want: []string{"--additional-sync-machine-labels", "missing closing"}},
		"an extension without certificate": {args: []string{"--kubeconfig", kubeconfig, "--extension-port=9444"}, want: []string{"reading the serving certificate", "--extension-cert-dir must hold"}},
		"a client CA that is not there": {
			args: []string{"--kubeconfig", kubeconfig, "--extension-port=9444", "--extension-cert-dir", certDir, "--extension-client-ca-name=ca.crt"},
			want: []string{"reading the client CA", "--extension-client-ca-name must name a file in --extension-cert-dir"},
		},
		"a CA for the guard's callers without a port": {
			args: []string{"--kubeconfig", kubeconfig, "--extension-port=9444", "--extension-cert-dir", certDir, "--extension-guard-client-ca-name=tls.crt"},
			want: []string{"--extension-guard-client-ca-name has no effect", "Fix: set --extension-guard-port"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &lockedBuffer{}
			err := windlassCommand(t, log, append([]string{"manager", "--health-addr=0", "--insecure-diagnostics", "--diagnostics-address=0"}, tt.args...)...).Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != int(cli.ExitFailure) {
				t.Fatalf("the command ended with %v, want exit code %d\n%s", err, cli.ExitFailure, log)
			}
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
		o := managerCommandOptions{inPlace: inPlaceFlags{on: tt.on}}
		o.manager.Extension.Port = tt.port
		if o.setInPlaceDefault(tt.set); o.inPlace.on != tt.want {
			t.Errorf("%s: %v", name, o.inPlace.on)
		}
	}
}
