package upgradecmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/test/apiserver"
)

const upgradeObjectsYAML = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: team-a}
spec: {controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CK8sControlPlane, name: prod-cp}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CK8sControlPlane
metadata: {name: prod-cp, namespace: team-a}
spec: {version: v1.32.1}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md-0, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod}}
spec: {clusterName: prod, replicas: 2, template: {spec: {version: v1.32.1}}}
---
` + upgradeMachineYAML + `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m-2, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod, cluster.x-k8s.io/deployment-name: md-0}}
spec: {clusterName: prod, version: v1.32.1}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: other, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod, cluster.x-k8s.io/deployment-name: md-1},
  annotations: {v1beta2.k8sd.io/in-place-upgrade-to: revision=1}}
spec: {clusterName: prod, version: v1.32.1}
`

const upgradeMachineYAML = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m-1, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod, cluster.x-k8s.io/deployment-name: md-0}}
spec: {clusterName: prod, version: v1.32.1}
`

// What the controllers write.
const (
	upgradePrefix  = "v1beta2.k8sd.io/in-place-upgrade-"
	upgradeRecord  = "windlass.dev/in-place-upgrade"
	upgradePatch   = "version=v1.32.4"
	upgradeChannel = "channel=1.32-classic/stable"
	upgradeRunning = `{"option":"version=v1.32.4","progress":{"id":"u","decision":"","to":"v1.32.4","steps":[{"updater":"kubeadm"}],"phase":"%s","attempt":1,` +
		`"operations":1,"operation":"u-1","began":"2026-01-01T00:00:00Z","stepBegan":"2026-01-01T00:00:00Z","started":"2026-01-01T00:00:00Z","lastError":"the disk is full"}}`
)

// fakeClock has one channel for each time that is waited for. The test sends on it what the clock would.
type fakeClock struct {
	mu    sync.Mutex
	waits map[time.Duration]chan time.Time
}

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (c *fakeClock) wait(d time.Duration) chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == nil {
		c.waits = make(map[time.Duration]chan time.Time)
	}
	if c.waits[d] == nil {
		c.waits[d] = make(chan time.Time)
	}
	return c.waits[d]
}

func (c *fakeClock) clock() cli.Clock {
	return cli.Clock{Now: func() time.Time { return midnight }, After: func(d time.Duration) <-chan time.Time { return c.wait(d) }}
}

// run is a run of windlass upgrade.
type run struct {
	t      *testing.T
	api    *apiserver.Server
	clock  fakeClock
	lines  *bufio.Scanner
	notes  notes
	ended  chan error
	cancel context.CancelFunc
}

// notes closes first when something was noted.
type notes struct {
	bytes.Buffer
	once  sync.Once
	first chan struct{}
}

func (n *notes) Write(p []byte) (int, error) {
	defer n.once.Do(func() { close(n.first) })
	return n.Buffer.Write(p) //nolint:wrapcheck // A buffer returns no error.
}

func startUpgrade(t *testing.T, args ...string) *run {
	t.Helper()
	return startUpgradeOn(t, args, func(*run) {})
}

// startUpgradeOn starts the command once prepare has changed the objects.
func startUpgradeOn(t *testing.T, args []string, prepare func(*run)) *run {
	t.Helper()
	api, kubeconfig := apiserver.Start(t, upgradeObjectsYAML)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	reader, writer := io.Pipe()
	r := &run{t: t, api: api, lines: bufio.NewScanner(reader), ended: make(chan error, 1), cancel: cancel}
	r.notes.first = make(chan struct{})
	prepare(r)
	go func() {
		cmd := New(r.clock.clock()) //nolint:contextcheck // A command gets its context when it runs.
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(args, "--kubeconfig", kubeconfig))
		cmd.SetOut(writer)
		cmd.SetErr(&r.notes)
		err := cmd.ExecuteContext(ctx)
		r.ended <- err
		_ = writer.Close() // A pipe's writer returns no error here.
	}()
	return r
}

// next checks that the next lines are these.
func (r *run) next(lines ...string) {
	r.t.Helper()
	for _, want := range lines {
		if !r.lines.Scan() {
			r.t.Fatalf("the output ends before %q: %v", want, <-r.ended)
		}
		if got := strings.TrimPrefix(r.lines.Text(), "00:00:00 "); got != want {
			r.t.Errorf("the next line is\n%q, want\n%q", got, want)
		}
	}
}

// ends checks that nothing more is printed, and with which status and message the command ends.
func (r *run) ends(code cli.ExitCode, message string) {
	r.t.Helper()
	for r.lines.Scan() {
		r.t.Errorf("there is another line: %q", r.lines.Text())
	}
	err, got, said := <-r.ended, cli.ExitOK, ""
	if err != nil {
		got, said = cli.ExitFailure, err.Error()
	}
	if coded, ok := errors.AsType[*cli.ExitError](err); ok {
		got = coded.Code
	}
	if got != code || said != message {
		r.t.Errorf("it ends with %d and %q, want %d and %q", got, said, code, message)
	}
}

// annotate sets annotations of an object, as pairs of key and value; an empty value removes it.
func (r *run) annotate(kind, name string, pairs ...string) {
	r.t.Helper()
	r.change(kind, name, func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			if annotations[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
				delete(annotations, pairs[i])
			}
		}
		o.SetAnnotations(annotations)
	})
}

func (r *run) change(kind, name string, change func(*unstructured.Unstructured)) {
	r.t.Helper()
	version := "cluster.x-k8s.io/v1beta2"
	if strings.HasSuffix(kind, "ControlPlane") {
		version = "controlplane.cluster.x-k8s.io/v1beta2"
	}
	matches := func(o *unstructured.Unstructured) bool { return o.GetName() == name }
	changed := r.api.ChangeOne(matches, version, apiserver.PluralOf(kind), func(o *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
		after := o.DeepCopy()
		change(after)
		return after, true
	})
	r.api.Put(changed)
}

func (r *run) remove(kind, name string) {
	r.t.Helper()
	matches := func(o *unstructured.Unstructured) bool { return o.GetName() == name }
	r.api.Remove("cluster.x-k8s.io/v1beta2", apiserver.PluralOf(kind), matches)
}

func (r *run) machine(name string, pairs ...string) {
	r.t.Helper()
	r.annotate("Machine", name, pairs...)
}

const (
	to        = upgradePrefix + "to"
	state     = upgradePrefix + "status"
	release   = upgradePrefix + "release"
	groupGoes = `{"option":"version=v1.32.4","began":"2026-01-01T00:00:00Z"}`
)

func phase(name string) string { return fmt.Sprintf(upgradeRunning, name) }

// TestUpgradeMachine follows a machine to the end, and through what it waits for.
func TestUpgradeMachine(t *testing.T) {
	r := startUpgrade(t, "machine", "m-1", "--to", upgradePatch, "--drain=false")
	r.next("Asked Machine team-a/m-1 to upgrade to version=v1.32.4")
	r.change("Machine", "m-1", func(o *unstructured.Unstructured) {
		if got := o.GetAnnotations()["windlass.dev/in-place-upgrade-drain"]; got != "false" {
			t.Errorf("the annotation for drains is %q, want false", got)
		}
		condition := map[string]any{"type": "windlass.dev/InPlaceUpgrade", "status": "True", "reason": "ControlPlaneFirst", "message": "not started: the control plane"}
		if err := unstructured.SetNestedSlice(o.Object, []any{condition}, "status", "conditions"); err != nil {
			t.Error(err)
		}
	})
	r.next("Machine m-1: Held (ControlPlaneFirst), version=v1.32.4: not started: the control plane")
	r.change("Machine", "m-1", func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "status") })
	r.machine("m-1", state, "in-progress", upgradeRecord, phase("Draining"))
	r.next("Machine m-1: Upgrading (Draining), version=v1.32.4, by kubeadm (1 of 1), attempt 1")
	r.machine("m-1", upgradeRecord, phase("BackingOff"))
	r.next("Machine m-1: Upgrading (BackingOff), version=v1.32.4, by kubeadm (1 of 1), attempt 1: the disk is full")
	r.machine("m-1", to, "", upgradeRecord, "", state, "done", release, upgradePatch)
	r.next("Upgraded Machine team-a/m-1 to version=v1.32.4")
	r.ends(cli.ExitOK, "")
}

// TestUpgradeEnds has one case for each way in which an upgrade of a machine does not end well.
func TestUpgradeEnds(t *testing.T) {
	for _, test := range []struct {
		name    string
		args    []string
		do      func(*run)
		code    cli.ExitCode
		message string
	}{
		{"failed", nil, func(r *run) { r.machine("m-1", state, "failed", upgradeRecord, phase("Failed")) },
			cli.ExitRefused,
			"Machine team-a/m-1 has not reached version=v1.32.4: the disk is full. Fix: remove the cause, then run windlass upgrade machine m-1 -n team-a --retry"},
		{"refused", nil, func(r *run) {
			r.machine("m-1", state, "failed", upgradeRecord, `{"option":"version=v1.32.4","reason":"Skew","message":"too far"}`)
		}, cli.ExitRefused,
			"Machine team-a/m-1 has not reached version=v1.32.4: too far. Fix: remove the cause, then run windlass upgrade machine m-1 -n team-a --retry"},
		{"refused with a fix", nil, func(r *run) {
			r.machine("m-1", state, "failed", upgradeRecord, `{"option":"version=v1.32.4","reason":"Skew","message":"too far. Fix: upgrade cp-1"}`)
		}, cli.ExitRefused,
			"Machine team-a/m-1 has not reached version=v1.32.4: too far. Fix: upgrade cp-1, then run windlass upgrade machine m-1 -n team-a --retry"},
		{"failed with a long message", nil, func(r *run) {
			record := fmt.Sprintf(`{"option":"version=v1.32.4","reason":"UpgradeFailed","message":%q}`, strings.Repeat("1234567. ", 30))
			r.machine("m-1", state, "failed", upgradeRecord, record)
		}, cli.ExitRefused,
			"Machine team-a/m-1 has not reached version=v1.32.4: " + strings.Repeat("1234567. ", 21) + "1234567.... " +
				"Fix: remove the cause (windlass status prod -n team-a shows the whole message), " +
				"then run windlass upgrade machine m-1 -n team-a --retry"},
		{"cancelled", nil, func(r *run) { r.machine("m-1", to, "") },
			cli.ExitRefused, "version=v1.32.4 was cancelled on Machine team-a/m-1"},
		{"replaced", nil, func(r *run) { r.machine("m-1", to, "revision=7") },
			cli.ExitRefused, "Machine team-a/m-1 now has another request: revision=7"},
		{"unreadable", nil, func(r *run) { r.machine("m-1", upgradeRecord, "{") },
			cli.ExitRefused, "the upgrade record of Machine team-a/m-1 cannot be read. Fix: see windlass status prod -n team-a"},
		{"gone", nil, func(r *run) { r.remove("Machine", "m-1") }, cli.ExitRefused, "Machine team-a/m-1 is gone"},
		{"interrupted", nil, func(r *run) { r.cancel() }, cli.ExitUnfinished,
			"interrupted; the upgrade continues. Fix: to follow it, run windlass status prod -n team-a -w"},
		{"too late", []string{"--timeout", "1h"}, func(r *run) { r.clock.wait(time.Hour) <- midnight }, cli.ExitUnfinished,
			"--timeout has passed: it has not ended within 1h0m0s; the upgrade continues. Fix: to follow it, run windlass status prod -n team-a -w"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := startUpgrade(t, append([]string{"machine", "m-1", "--to", upgradePatch}, test.args...)...)
			r.next("Asked Machine team-a/m-1 to upgrade to version=v1.32.4")
			test.do(r)
			r.ends(test.code, test.message)
		})
	}
}

// TestUpgradePatience checks that it is said, once, that nothing begins.
func TestUpgradePatience(t *testing.T) {
	r := startUpgrade(t, "machine", "m-1", "--to", upgradePatch)
	r.next("Asked Machine team-a/m-1 to upgrade to version=v1.32.4")
	r.clock.wait(patience) <- midnight
	r.machine("m-1", to, "", state, "done", release, upgradePatch)
	r.next("Upgraded Machine team-a/m-1 to version=v1.32.4")
	r.ends(cli.ExitOK, "")
	if got, want := r.notes.String(), "windlass: note: "+nothingBegun+"\n"; got != want {
		t.Errorf("the notes are %q, want %q", got, want)
	}
}

// TestUpgradeGroup follows the machines of a group, and no others.
func TestUpgradeGroup(t *testing.T) {
	for _, test := range []struct{ command, kind, name, object string }{
		{"machinedeployment", "MachineDeployment", "md-0", "md-0"},
		{"controlplane", "CK8sControlPlane", "prod", "prod-cp"},
		{"controlplane", "CK8sControlPlane", "prod-cp", "prod-cp"},
	} {
		t.Run(test.command+" "+test.name, func(t *testing.T) {
			r := startUpgrade(t, test.command, test.name, "--to", upgradePatch, "--all")
			group := test.kind + " " + test.object + ": "
			machines := "2"
			if test.kind != "MachineDeployment" {
				machines = "0"
			}
			r.next("Asked "+test.kind+" team-a/"+test.object+" to upgrade to version=v1.32.4", group+"Asked, version=v1.32.4, machines 0 of "+machines)
			if test.kind != "MachineDeployment" {
				for _, name := range []string{"m-1", "m-2"} {
					r.change("Machine", name, func(o *unstructured.Unstructured) {
						o.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "prod", "cluster.x-k8s.io/control-plane": ""})
					})
				}
			}
			r.annotate(test.kind, test.object, state, "in-progress", upgradeRecord, groupGoes)
			r.finish(test.kind == "MachineDeployment", group)
			r.annotate(test.kind, test.object, to, "", state, "done", release, upgradePatch,
				upgradeRecord, `{"option":"version=v1.32.4","began":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:00:00Z"}`)
			r.next(group+"Done, version=v1.32.4, machines 2 of 2",
				"Upgraded "+test.kind+" team-a/"+test.object+" to version=v1.32.4: 2 of 2 machines")
			r.ends(cli.ExitOK, "")
		})
	}
}

// finish brings the machines of a group that has begun to the end, one after the other.
func (r *run) finish(counted bool, group string) {
	r.t.Helper()
	if counted {
		r.next(group + "Upgrading, version=v1.32.4, machines 0 of 2")
	} else {
		r.until(group + "Upgrading, version=v1.32.4, machines 0 of 2")
	}
	for i, name := range []string{"m-1", "m-2"} {
		r.machine(name, to, upgradePatch)
		r.next("Machine "+name+": Asked, version=v1.32.4", fmt.Sprintf("%sUpgrading, version=v1.32.4, machines %d of 2, 1 in flight", group, i))
		r.machine(name, to, "", state, "done", release, upgradePatch)
		r.next("Machine "+name+": Done, version=v1.32.4", fmt.Sprintf("%sUpgrading, version=v1.32.4, machines %d of 2", group, i+1))
	}
}

// until skips lines up to this one: several objects change at once.
func (r *run) until(line string) {
	r.t.Helper()
	for r.lines.Scan() {
		if strings.HasSuffix(r.lines.Text(), line) {
			return
		}
	}
	r.t.Fatalf("the output ends before %q: %v", line, <-r.ended)
}

// TestUpgradeRetry tries again what has failed: what is left of the failure does not count.
func TestUpgradeRetry(t *testing.T) {
	failed := `{"option":"version=v1.32.4","began":"2026-01-01T00:00:00Z","reason":"UpgradeFailed","message":"Machine m-1: the disk is full"}`
	r := startUpgradeOn(t, []string{"machinedeployment", "md-0", "--retry", "--all"}, func(r *run) {
		r.annotate("MachineDeployment", "md-0", to, upgradePatch, state, "failed", upgradeRecord, failed)
	})
	r.next("Asked MachineDeployment team-a/md-0 to try version=v1.32.4 again", "MachineDeployment md-0: Asked, version=v1.32.4, machines 0 of 2")
	r.annotate("MachineDeployment", "md-0", state, "in-progress", upgradeRecord, groupGoes, "windlass.dev/update-retry", "")
	r.next("MachineDeployment md-0: Upgrading, version=v1.32.4, machines 0 of 2")
	r.annotate("MachineDeployment", "md-0", state, "failed", upgradeRecord, failed)
	r.next("MachineDeployment md-0: Failed, version=v1.32.4, machines 0 of 2: Machine m-1: the disk is full")
	r.ends(cli.ExitRefused, "MachineDeployment team-a/md-0 has not reached version=v1.32.4 (0 of 2 machines upgraded): Machine m-1: the disk is full. "+
		"Fix: remove the cause, then run windlass upgrade machinedeployment md-0 -n team-a --retry")
}

// TestUpgradeGroupFails checks what a person reads when the same error fails every machine.
func TestUpgradeGroupFails(t *testing.T) {
	r := startUpgrade(t, "machinedeployment", "md-0", "--to", upgradePatch)
	r.next("Asked MachineDeployment team-a/md-0 to upgrade to version=v1.32.4")
	r.annotate("MachineDeployment", "md-0", state, "in-progress", upgradeRecord, groupGoes)
	r.next("MachineDeployment md-0: Upgrading, version=v1.32.4, machines 0 of 2")
	for _, name := range []string{"m-1", "m-2"} {
		r.machine(name, to, upgradePatch, state, "in-progress", upgradeRecord, phase("Updating"))
		r.next("Machine " + name + ": Upgrading")
	}
	r.machine("m-1", upgradeRecord, phase("BackingOff"))
	r.next("Machine m-1: an attempt failed and is tried again: the disk is full")
	r.machine("m-2", upgradeRecord, phase("BackingOff"))
	r.machine("m-2", state, "failed", upgradeRecord, phase("Failed"))
	r.next("Machine m-2: Failed: no attempt is left; the same error as above")
	r.annotate("MachineDeployment", "md-0", state, "failed", upgradeRecord,
		`{"option":"version=v1.32.4","began":"2026-01-01T00:00:00Z","reason":"UpgradeFailed","message":"Machine m-2: the disk is full"}`)
	r.ends(cli.ExitRefused, "MachineDeployment team-a/md-0 has not reached version=v1.32.4 "+
		"(0 of 2 machines upgraded, 1 failed, 1 still in flight): Machine m-2: the disk is full. "+
		"Fix: remove the cause, then run windlass upgrade machinedeployment md-0 -n team-a --retry")
}

// TestUpgradeCancel follows what runs to its end.
func TestUpgradeCancel(t *testing.T) {
	r := startUpgradeOn(t, []string{"machinedeployment", "md-0", "--cancel", "--all"}, func(r *run) {
		r.annotate("MachineDeployment", "md-0", to, upgradePatch, state, "in-progress", upgradeRecord, groupGoes)
		r.machine("m-1", to, upgradePatch, state, "in-progress", upgradeRecord, phase("Updating"))
	})
	r.next("Cancelled version=v1.32.4 of MachineDeployment team-a/md-0", "Machine m-1: Upgrading, version=v1.32.4, by kubeadm (1 of 1), attempt 1",
		"MachineDeployment md-0: Cancelling, version=v1.32.4, machines 0 of 2, 1 in flight")
	r.machine("m-1", to, "")
	r.next("Machine m-1: Cancelling, version=v1.32.4, by kubeadm (1 of 1), attempt 1")
	r.annotate("MachineDeployment", "md-0", state, "", upgradeRecord, "")
	r.next("MachineDeployment md-0: nothing is asked for any more")
	r.machine("m-1", upgradeRecord, "", state, "done", release, upgradePatch)
	r.next("Machine m-1: Done, version=v1.32.4", "Nothing of MachineDeployment team-a/md-0 is being upgraded any longer")
	r.ends(cli.ExitOK, "")
}

// TestUpgradeCancelAbandoned withdraws what another controller began, of which nobody can tell then how it ends.
func TestUpgradeCancelAbandoned(t *testing.T) {
	r := startUpgradeOn(t, []string{"machine", "m-1", "--cancel"}, func(r *run) {
		r.machine("m-1", to, upgradePatch, state, "in-progress", upgradePrefix+"change-id", "12")
	})
	const why = "change 12 may run on the node, but the annotation with its target is gone. Fix: " +
		"set the annotation again to have the change followed, or remove the status after the change has ended"
	r.next("Cancelled version=v1.32.4 of Machine team-a/m-1", "Machine m-1: Held (RecordUnreadable): "+strings.TrimSuffix(why, "ave the change followed, or remove the status after the change has ended")+"...")
	r.ends(cli.ExitRefused, "Machine team-a/m-1 is not asked any longer, but "+why)
}
