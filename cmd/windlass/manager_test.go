package main

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/cli"
)

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
