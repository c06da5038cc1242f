//go:build linux

package linuxhost_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/pkg/version"
)

// configFile is the configuration file of RKE2 or K3s on the host, and dropIn the one that an
// update writes beside it.
func (w *world) configFile() string {
	return "/etc/rancher/" + string(w.upgrade.Goal.Distribution) + "/config.yaml"
}

func (w *world) dropIn() string { return w.configFile() + ".d/00-windlass.yaml" }

// mustHaveDropIn checks that the drop-in has the arguments of the goal beside those of the main
// file, for root only, and that the main file is as it was. The token is in no record of the
// update.
func (w *world) mustHaveDropIn(t *testing.T) {
	t.Helper()
	const want = `kubelet-arg: ["cloud-provider=external","max-pods=50"]`
	if got := w.host.MustRun("grep -v '^#' " + w.dropIn()); strings.TrimSpace(got) != want {
		t.Errorf("the drop-in has %q, want %s", got, want)
	}
	if mode := w.host.MustRun("stat -c %U:%G:%a " + w.dropIn()); strings.TrimSpace(mode) != "root:root:600" {
		t.Errorf("the drop-in is %s", mode)
	}
	if main := w.host.MustRun("cat " + w.configFile()); !strings.Contains(main, hostToken) || !strings.Contains(main, "max-pods=110") {
		t.Errorf("the main file has %q", main)
	}
	found := w.host.MustRun("grep -rlF '" + hostToken + "' " + linuxhost.StateFolder + " || true")
	for file := range strings.FieldsSeq(found) {
		if !strings.HasPrefix(file, linuxhost.StateFolder+"/keep/node/files/") {
			t.Errorf("the token is in %s", file)
		}
	}
}

// startsBy has the service run a program only if its configuration does not have 51 pods, as a
// kubelet refuses an argument.
func (w *world) startsBy(verb string) {
	program := w.upgrade.Goal.Distribution.Folder() + "/" + w.program()
	w.host.Write("/etc/stand-in/start", fmt.Appendf(nil, `#!/bin/bash
if grep -rqs max-pods=51 /etc/rancher; then echo 'error: invalid max-pods' >&2; exit 1; fi
exec %s %s
`, program, verb))
	unit := w.upgrade.Goal.Distribution
	name := string(unit)
	if verb == "agent" || unit == linuxhost.RKE2 {
		name += "-" + verb
	}
	w.host.MustRun("chmod 700 /etc/stand-in/start && sed -i 's,^ExecStart=.*,ExecStart=/etc/stand-in/start,' " +
		"/etc/systemd/system/" + name + ".service && systemctl daemon-reload && systemctl restart " + name)
}

// TestConfigurationAlone: an update changes the arguments of components on a host that has the
// version already. One with which the service does not stay up is put back, also on a server, whose
// program stays the same. The next attempt, with another one, ends; once it has, nothing is left to
// do.
func TestConfigurationAlone(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	for name, test := range map[string]struct {
		d      linuxhost.Distribution
		server bool
	}{
		"an agent of RKE2": {linuxhost.RKE2, false},
		"a server of K3s":  {linuxhost.K3s, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.d, test.server)
			w.startsBy(map[bool]string{true: "server", false: "agent"}[test.server])
			from := versions[test.d][0]
			g := &w.upgrade.Goal
			g.Version, g.Digests, g.Snapshot = version.MustParse(from), linuxhost.Manifest{}, false
			before := w.configuration()

			g.Arguments[0].Args[0].Value = "51"
			p := w.until(t, false, nil)
			for _, want := range []string{
				"ServiceNotStarted: step put-back: ", "error: invalid max-pods", "were put back, and the service runs",
			} {
				if p.Failure == nil || !strings.Contains(p.Failure.String(), want) {
					t.Fatalf("%v, want %q\n%s", p.Failure, want, p.Job.Output)
				}
			}
			if after := w.configuration(); after != before {
				t.Errorf("the node is started with\n%s\nwant\n%s", after, before)
			}
			if node := w.node.Look(t.Context()); !node.Ready {
				t.Errorf("the node is %+v", node)
			}

			g.Arguments[0].Args[0].Value, w.upgrade.Attempt = "50", "second"
			w.mustFinish(t)
			w.mustHaveDropIn(t)
			report, err := linuxhost.Look(t.Context(), w.upgrade)
			if err != nil || !report.Next.Done {
				t.Errorf("afterwards, it is not done: %+v, %v", report.Next, err)
			}
		})
	}
}
