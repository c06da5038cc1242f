package updatercmd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/cli"
)

// TestRunRefusesRemovedSettings: what a host gives to the kubelet and its new version lacks is told
// before the drain, and by a dry run.
func TestRunRefusesRemovedSettings(t *testing.T) {
	const (
		unit  = "[Service]\nEnvironmentFile=-/etc/default/kubelet\nExecStart=/usr/bin/kubelet $KUBELET_EXTRA_ARGS\n"
		pause = "KUBELET_EXTRA_ARGS=\"--pod-infra-container-image=registry.k8s.io/pause:3.9 --v=2\"\n"
		flag  = ": the flag --pod-infra-container-image of kubelet is removed in v1.35; the component would not start. " +
			"Fix: remove it before the upgrade; accept it by the name kubelet/--pod-infra-container-image if this build has it"
		gate = ": the feature gate NoSuchGate=true of kubelet is unknown to v1.36; the component would not start. " +
			"Fix: remove it, or correct its spelling, before the upgrade; accept it by the name kubelet/NoSuchGate"
	)
	for name, test := range map[string]struct {
		facts map[string]string
		want  string
		// accept is the name by which it is accepted.
		accept string
	}{
		"/etc/default/kubelet": {
			facts: map[string]string{"kubelet-defaults": pause, "kubelet-units": unit},
			want:  "/etc/default/kubelet" + flag, accept: "kubelet/--pod-infra-container-image",
		},
		"/etc/sysconfig/kubelet": {
			facts: map[string]string{
				"kubelet-sysconfig": pause, "kubelet-units": strings.ReplaceAll(unit, "default", "sysconfig"),
			},
			want: "/etc/sysconfig/kubelet" + flag, accept: "kubelet/--pod-infra-container-image",
		},
		"a drop-in": {
			facts: map[string]string{
				"kubelet-units": unit + "[Service]\nEnvironment=KUBELET_EXTRA_ARGS=--feature-gates=NoSuchGate=true\n",
			},
			want: "the unit of the kubelet" + gate, accept: "kubelet/NoSuchGate",
		},
		"the kubelet's configuration": {
			facts: map[string]string{"kubelet-config": "featureGates:\n  NoSuchGate: true\n"},
			want:  "/var/lib/kubelet/config.yaml, featureGates" + gate, accept: "kubelet/NoSuchGate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dryRun := range []bool{true, false} {
				h := &scriptedHost{facts: test.facts}
				var r scriptedRun
				args := []string{"--kubeconfig", serveNodes(t, newTestNode("w", "v1.35.4", false))}
				if dryRun {
					args = append(args, "--dry-run")
				}
				err := r.run(t, h, 100, args...)
				want := "host 10.0.0.7 cannot be upgraded to v1.36.3: RemovedSetting: " + test.want
				if said := fmt.Sprint(err); exitCodeOfRun(err) != cli.ExitRefused ||
					!strings.HasPrefix(said, want) || !strings.HasSuffix(said, "Nothing was changed") {
					t.Errorf("dry run %t: exit code %d: %s\nwant %s", dryRun, exitCodeOfRun(err), said, want)
				}
				if h.job != "" || r.out.Len() > 0 {
					t.Errorf("dry run %t: it began %q, and printed %s", dryRun, h.job, r.out.String())
				}
			}
			h := &scriptedHost{facts: test.facts}
			var r scriptedRun
			if err := r.run(t, h, 100, "--no-drain", "--dry-run", "--accept", test.accept); err != nil {
				t.Errorf("accepted by name: %v", err)
			}
		})
	}
}

// TestRunWarnsOfSettings: what the kubelet ignores, or only a later one refuses, is a note of a run and
// of a dry run.
func TestRunWarnsOfSettings(t *testing.T) {
	for _, args := range [][]string{{"--no-drain", "--dry-run"}, {"--no-drain"}} {
		h := &scriptedHost{facts: map[string]string{
			"kubelet-config": "noSuchField: 1\n",
			"containerd":     "containerd containerd.io 1.6.28 ae07eda36dd25f8a1b98dfbf587313b99c0190bb\n",
		}}
		var r scriptedRun
		if err := r.run(t, h, 1, args...); err != nil && exitCodeOfRun(err) != cli.ExitUnfinished {
			t.Fatal(err)
		}
		for _, want := range []string{
			"windlass: note: /var/lib/kubelet/config.yaml: the field noSuchField of kubelet is unknown to v1.36",
			"windlass: note: the container runtime is containerd://1.6.28; kubelets of v1.38 are announced not to " +
				"start without containerd 2. Fix: update containerd to version 2 in time",
		} {
			if !strings.Contains(r.notes.String(), want) {
				t.Errorf("%v: no note %q in\n%s", args, want, r.notes.String())
			}
		}
	}
}
