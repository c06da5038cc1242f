package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters/hosts"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	servertest.TestUpdater(t, func(t *testing.T) servertest.World {
		t.Helper()
		w := newWorld(t)
		return servertest.World{Updater: w.updater(t), Machine: machine, Advance: w.advance, Works: func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.works
		}}
	})
}

func request(operation string) *runtimehooksv1.UpdateMachineRequest {
	return porttest.UpdateMachine(machine, porttest.UpdaterTo, operation)
}

// checkAnswer also holds that no answer has a secret in it.
func checkAnswer(t *testing.T, got, want inplace.Answer) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if strings.Contains(got.Message, "cGxhbnRlZA") || strings.Contains(got.Message, "PRIVATE KEY") {
		t.Errorf("the answer has a key in it: %s", got.Message)
	}
}

// TestAnUpdateFromItsStartToItsEnd looks at what is said on the way.
func TestAnUpdateFromItsStartToItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.updater(t)
	checkAnswer(t, u.UpdateMachine(t.Context(), request("a-1")), inplace.Answer{
		Outcome: inplace.InProgress, Message: "step 1 of 8, fetch-kubeadm: runs since 4s", RetryAfter: 5 * time.Second,
	})
	// What runs is looked at once; that another process began it changes nothing but that its place is not known.
	w.pass(time.Minute)
	checkAnswer(t, u.UpdateMachine(t.Context(), request("a-1")), inplace.Answer{
		Outcome: inplace.InProgress, Message: "step 1 of 8, fetch-kubeadm: runs since 1m4s", RetryAfter: 5 * time.Second,
	})
	checkAnswer(t, w.updater(t).UpdateMachine(t.Context(), request("a-1")), inplace.Answer{
		Outcome: inplace.InProgress, Message: "step fetch-kubeadm: runs since 1m4s", RetryAfter: 5 * time.Second,
	})
	w.node.Ready, w.node.NotReady = false, "container runtime is down"
	w.advance()
	checkAnswer(t, u.UpdateMachine(t.Context(), request("a-1")), inplace.Answer{
		Outcome: inplace.InProgress, Message: "step 8 of 8, node-ready: the node is not Ready: container runtime is down", RetryAfter: 5 * time.Second,
	})
	w.node.Ready = true
	checkAnswer(t, u.UpdateMachine(t.Context(), request("a-1")), inplace.Answer{Outcome: inplace.Finishes, Message: "the host is at " + porttest.UpdaterTo})
	if w.closed != 5 {
		t.Errorf("%d of 5 connections were closed", w.closed)
	}
}

func TestAnswersToWhatIsWrong(t *testing.T) {
	t.Parallel()
	fails := func(message string) inplace.Answer { return inplace.Answer{Outcome: inplace.Fails, Message: message} }
	unknown := func(message string) inplace.Answer {
		return inplace.Answer{Outcome: inplace.Unknown, Message: message}
	}
	hostError := func(reason port.HostReason, words string) error {
		return &port.HostError{Reason: reason, Host: "10.0.0.1:22", Err: errors.New(words)}
	}
	annotate := func(key, value string) func(*world, *runtimehooksv1.UpdateMachineRequest) {
		return func(_ *world, r *runtimehooksv1.UpdateMachineRequest) { r.Desired.Machine.Annotations[key] = value }
	}
	change := func(edit func(*world)) func(*world, *runtimehooksv1.UpdateMachineRequest) {
		return func(w *world, _ *runtimehooksv1.UpdateMachineRequest) { edit(w) }
	}
	inConfigMap := func(data map[string]string, digests v1alpha1.HostDigests) func(*world, *runtimehooksv1.UpdateMachineRequest) {
		return change(func(w *world) {
			digests.ConfigMapName = "digests"
			w.config.Binaries.Digests = digests
			if data != nil {
				w.maps["digests"] = data
			}
		})
	}
	for name, tt := range map[string]struct {
		edit func(*world, *runtimehooksv1.UpdateMachineRequest)
		want inplace.Answer
	}{
		"the host's key is another": {
			edit: change(func(w *world) { w.execErr = hostError(port.HostNotTrusted, "another key") }),
			want: fails("HostKeyNotTrusted: reading the host's facts: host 10.0.0.1:22: another key"),
		},
		"nobody is let in": {
			edit: change(func(w *world) { w.execErr = hostError(port.HostLoginRefused, "no") }),
			want: fails("HostLoginRefused: reading the host's facts: host 10.0.0.1:22: no"),
		},
		"no root": {
			edit: change(func(w *world) { w.execErr = hostError(port.HostNotRoot, "sudo asks") }),
			want: fails("HostNotRoot: reading the host's facts: host 10.0.0.1:22: sudo asks"),
		},
		"a key that cannot be used": {
			edit: change(func(w *world) { w.connectErr = hostError(port.HostSetup, "no key: "+planted) }),
			want: fails("HostSetupInvalid: host 10.0.0.1:22: no key: [private key]"),
		},
		"a connection that is being made": {
			edit: change(func(w *world) {
				w.connectErr = &port.HostError{Reason: port.HostConnecting, Host: "h", Err: errors.New("wait"), RetryAfter: time.Second}
			}),
			want: inplace.Answer{Outcome: inplace.Unknown, Message: "HostConnecting: host h: wait", RetryAfter: time.Second},
		},
		"no connection": {
			edit: change(func(w *world) { w.execErr = hostError(port.HostUnreachable, "refused") }),
			want: unknown("HostUnreachable: reading the host's facts: host 10.0.0.1:22: refused"),
		},
		"a connection that ends": {
			edit: change(func(w *world) { w.execErr = hostError(port.HostLost, "gone") }),
			want: unknown("HostConnectionLost: reading the host's facts: host 10.0.0.1:22: gone"),
		},
		"another error": {edit: change(func(w *world) { w.execErr = errors.New("strange") }), want: unknown("reading the host's facts: strange")},
		"a host that greets": {
			edit: change(func(w *world) { w.garbage = "Welcome to the host!\n" }),
			want: unknown(`the host's answer has a line "Welcome" that cannot be read: is something printed at login?`),
		},
		"no address": {
			edit: change(func(w *world) { w.machine.Addresses = w.machine.Addresses[:1] }),
			want: fails("HostSetupInvalid: the Machine default/m has no address of type InternalIP in its status; set spec.inProcess.host.ssh.addressType of the Updater to one that it has: ExternalIP"),
		},
		"no addresses at all": {
			edit: change(func(w *world) { w.machine.Addresses = nil }),
			want: fails("HostSetupInvalid: the Machine default/m has no address of type InternalIP in its status; set spec.inProcess.host.ssh.addressType of the Updater to one that it has: none so far"),
		},
		"no node": {
			edit: change(func(w *world) { w.machine.Node = "" }),
			want: fails("HostSetupInvalid: the Machine default/m has no node (status.nodeRef), so that nobody could see the upgrade's end"),
		},
		"no Secret": {
			edit: change(func(w *world) { w.secrets = nil }), want: fails("HostSetupInvalid: there is no Secret default/cluster-ssh with the key for SSH"),
		},
		"no key in the Secret": {
			edit: change(func(w *world) { w.secrets["cluster-ssh"] = map[string][]byte{"id_rsa": []byte(planted)} }),
			want: fails("HostSetupInvalid: the Secret default/cluster-ssh has no key ssh-privatekey"),
		},
		"no host keys": {
			edit: change(func(w *world) { delete(w.secrets["cluster-ssh"], "known_hosts") }),
			want: fails("HostSetupInvalid: the Secret default/cluster-ssh has no key known_hosts, and spec.inProcess.host.ssh.knownHosts of the Updater is not set: without the hosts' keys nobody can tell who answers"),
		},
		"an API server that is away": {
			edit: change(func(w *world) { w.readError = errors.New("no API server") }), want: unknown("reading Machine default/m: no API server"),
		},
		"no ConfigMap": {
			edit: inConfigMap(nil, v1alpha1.HostDigests{SHA256: strings.Repeat("0", 64)}),
			want: fails("HostSetupInvalid: there is no ConfigMap default/digests with the manifest of digests"),
		},
		"no manifest in the ConfigMap": {
			edit: inConfigMap(map[string]string{"a": "b"}, v1alpha1.HostDigests{SHA256: strings.Repeat("0", 64)}),
			want: fails("HostSetupInvalid: the ConfigMap default/digests has no key SHA256SUMS with the manifest of digests"),
		},
		"no signature": {
			edit: inConfigMap(map[string]string{"SHA256SUMS": "x"}, v1alpha1.HostDigests{PublicKey: "-----BEGIN PUBLIC KEY-----"}),
			want: fails("HostSetupInvalid: the ConfigMap default/digests has no key SHA256SUMS.sig with the manifest's signature"),
		},
		"neither pinned nor signed": {
			edit: inConfigMap(map[string]string{"SHA256SUMS": manifest()}, v1alpha1.HostDigests{}),
			want: fails("HostSetupInvalid: with configMapName, one of sha256 and publicKey must be set"),
		},
		"another manifest than the pinned one": {
			edit: inConfigMap(map[string]string{"SHA256SUMS": "x"}, v1alpha1.HostDigests{SHA256: strings.Repeat("0", 64)}),
			want: fails("HostSetupInvalid: the manifest of digests has the SHA-256 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, but " +
				strings.Repeat("0", 64) + " is pinned: somebody changed it, or the pin must follow"),
		},
		"no digest": {
			edit: change(func(w *world) { w.config.Binaries.Digests.Manifest = digestLine(porttest.UpdaterFrom, "kubelet") }),
			want: inplace.Answer{Outcome: inplace.Fails, Message: "NoDigest: the manifest of digests has no line for v1.32.1/linux/amd64/kubeadm", NotBegun: true},
		},
		"no room": {
			edit: change(func(w *world) { w.freeKB = "3000" }),
			want: inplace.Answer{
				Outcome: inplace.Fails, NotBegun: true,
				Message: "DiskFull: step install-kubeadm: /usr/bin has 2 MiB left, but a binary needs 58 MiB beside the old one",
			},
		},
		"a version back": {
			edit: change(func(w *world) { w.installs = porttest.UpdaterNext }),
			want: inplace.Answer{Outcome: inplace.Fails, Message: "VersionRefused: the host is at v1.33.0; going back to v1.32.1 is not supported", NotBegun: true},
		},
		"no operation": {
			edit: annotate(v1alpha1.OperationIDAnnotation, ""),
			want: fails("the desired Machine must have a name, a namespace and the annotation windlass.dev/operation-id"),
		},
		"an operation of two words": {edit: annotate(v1alpha1.OperationIDAnnotation, "a b"), want: fails("the annotation windlass.dev/operation-id must have no blanks")},
		"a channel": {
			edit: annotate(v1alpha1.InPlaceUpgradeOptionAnnotation, "channel=1.32/stable"),
			want: fails("channel=1.32/stable is for snaps; on a Linux host ask for a version, such as version=v1.36.3"),
		},
		"no option": {
			edit: annotate(v1alpha1.InPlaceUpgradeOptionAnnotation, "latest"),
			want: fails(`the annotation windlass.dev/in-place-upgrade-option: "latest" is not an option: write channel=, revision=, localPath= or version= and a value, such as version=v1.31.2`),
		},
		"no version": {
			edit: func(_ *world, r *runtimehooksv1.UpdateMachineRequest) { r.Desired.Machine.Spec.Version = "" },
			want: fails(`the desired Machine's spec.version: "" is not a Kubernetes version: it is empty. Fix: write all three numbers, such as v1.31.2`),
		},
		"patches nowhere": {
			edit: func(_ *world, r *runtimehooksv1.UpdateMachineRequest) {
				r.Desired.BootstrapConfig.Object = kubeadmConfig(map[string]any{"joinConfiguration": map[string]any{"patches": map[string]any{"directory": "patches"}}})
			},
			want: fails(`HostSetupInvalid: joinConfiguration.patches.directory is "patches"; kubeadm upgrade needs the absolute path of a folder, or it would take the patches away`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), request("a-1")
			tt.edit(w, r)
			// The same is said before the node is drained.
			ready := inplace.Readiness{Refused: tt.want.Message}
			if tt.want.Outcome == inplace.Unknown {
				ready = inplace.Readiness{Unknown: tt.want.Message, RetryAfter: tt.want.RetryAfter}
			}
			if diff := cmp.Diff(ready, w.updater(t).CanBegin(t.Context(), r)); diff != "" {
				t.Errorf("readiness (-want +got):\n%s", diff)
			}
			checkAnswer(t, w.updater(t).UpdateMachine(t.Context(), r), tt.want)
			if w.works > 0 || w.job.state != "" {
				t.Errorf("the host was changed, by %+v", w.job)
			}
		})
	}
}

func kubeadmConfig(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig", "spec": spec}}
}

// TestAnAnnotationSetsTheVersion upgrades to what was asked for, whatever the spec says.
func TestAnAnnotationSetsTheVersion(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), request("a-1")
	r.Desired.Machine.Spec.Version = porttest.UpdaterFrom
	r.Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation] = "version=" + porttest.UpdaterTo
	u := w.updater(t)
	u.UpdateMachine(t.Context(), r)
	w.advance()
	checkAnswer(t, u.UpdateMachine(t.Context(), r), inplace.Answer{Outcome: inplace.Finishes, Message: "the host is at " + porttest.UpdaterTo})
}

// TestAStepThatFails fails once for each attempt, with the step's own reason and without its secrets.
func TestAStepThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.updater(t)
	w.exit[string(linuxhost.KubeadmUpgrade)] = 1
	w.output = "reading\n" + planted + "windlass-reason DiskFull: no space is left for abcdef.0123456789abcdef\n"
	want := inplace.Answer{Outcome: inplace.Fails, Message: "DiskFull: step kubeadm-upgrade: no space is left for [bootstrap token]"}
	u.UpdateMachine(t.Context(), request("a-1"))
	w.advance()
	got := u.UpdateMachine(t.Context(), request("a-1"))
	if strings.Contains(got.Message, "0123456789abcdef") {
		t.Errorf("the answer has a token: %s", got.Message)
	}
	checkAnswer(t, got, want)
	checkAnswer(t, u.UpdateMachine(t.Context(), request("a-1")), want)
	for _, r := range w.records {
		if text := fmt.Sprint(r.entries); strings.Contains(text, "cGxhbnRlZA") || strings.Contains(text, "0123456789abcdef") {
			t.Errorf("the log has a secret: %s", text)
		}
	}
	w.exit = map[string]int{}
	u.UpdateMachine(t.Context(), request("a-2"))
	w.advance()
	checkAnswer(t, u.UpdateMachine(t.Context(), request("a-2")), inplace.Answer{Outcome: inplace.Finishes, Message: "the host is at " + porttest.UpdaterTo})
}

// TestFollow begins nothing, whatever is on the host.
func TestFollow(t *testing.T) {
	t.Parallel()
	begin := func(operation string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			t.Helper()
			w.updater(t).UpdateMachine(t.Context(), request(operation))
		}
	}
	for name, tt := range map[string]struct {
		before func(*testing.T, *world)
		want   inplace.Answer
	}{
		"nothing was begun": {
			before: func(*testing.T, *world) {},
			want:   inplace.Answer{Outcome: inplace.Fails, Message: "nothing more is begun: 0 of 8 steps are done on the host", NotBegun: true},
		},
		"a step runs": {
			before: begin("a-1"), want: inplace.Answer{Outcome: inplace.InProgress, Message: "step 1 of 8, fetch-kubeadm: runs since 4s", RetryAfter: 5 * time.Second},
		},
		"a step of another attempt runs": {
			before: begin("a-0"), want: inplace.Answer{Outcome: inplace.InProgress, Message: "step 1 of 8, fetch-kubeadm: runs since 4s", RetryAfter: 5 * time.Second},
		},
		"a step has ended": {
			before: func(t *testing.T, w *world) {
				t.Helper()
				begin("a-1")(t, w)
				w.advance()
			},
			want: inplace.Answer{Outcome: inplace.Fails, Message: "nothing more is begun: 1 of 8 steps are done on the host"},
		},
		"a step of another attempt has ended": {
			before: func(t *testing.T, w *world) {
				t.Helper()
				begin("a-0")(t, w)
				w.advance()
			},
			want: inplace.Answer{Outcome: inplace.Fails, Message: "nothing more is begun: 1 of 8 steps are done on the host", NotBegun: true},
		},
		"a step has failed": {
			before: func(t *testing.T, w *world) {
				t.Helper()
				w.exit["fetch-kubeadm"], w.output = 1, "no route"
				begin("a-1")(t, w)
				w.advance()
			},
			want: inplace.Answer{Outcome: inplace.Fails, Message: "StepFailed: step fetch-kubeadm: exit code 1: no route"},
		},
		"it waits for the node": {
			before: func(t *testing.T, w *world) {
				t.Helper()
				w.node.Ready = false
				begin("a-1")(t, w)
				w.advance()
				begin("a-1")(t, w)
			},
			want: inplace.Answer{Outcome: inplace.InProgress, Message: "step 8 of 8, node-ready: the node is not Ready", RetryAfter: 5 * time.Second},
		},
		"all is done": {
			before: func(t *testing.T, w *world) {
				t.Helper()
				begin("a-1")(t, w)
				w.advance()
				begin("a-1")(t, w)
			},
			want: inplace.Answer{Outcome: inplace.Finishes, Message: "the host is at " + porttest.UpdaterTo},
		},
		"it cannot be": {
			before: func(_ *testing.T, w *world) { w.installs = porttest.UpdaterNext },
			want:   inplace.Answer{Outcome: inplace.Fails, Message: "VersionRefused: the host is at v1.33.0; going back to v1.32.1 is not supported", NotBegun: true},
		},
		"nobody is let in": {
			before: func(_ *testing.T, w *world) {
				w.connectErr = &port.HostError{Reason: port.HostLoginRefused, Host: "h", Err: errors.New("no")}
			},
			want: inplace.Answer{Outcome: inplace.Unknown, Message: "HostLoginRefused: host h: no"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.before(t, w)
			job, r := w.job, request("a-1")
			r.Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation] = "true"
			checkAnswer(t, w.updater(t).UpdateMachine(t.Context(), r), tt.want)
			if w.job != job {
				t.Errorf("the job was %+v and is %+v", job, w.job)
			}
		})
	}
}

// TestTarget looks at what is connected to.
func TestTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.SSH.Bastion = &v1alpha1.HostBastion{Host: "2001:db8::1", Port: 2222, User: "jump"}
	w.config.SSH.User, w.config.SSH.AddressType, w.config.SSH.KnownHosts = "ops", "ExternalIP", "pinned"
	w.secrets["cluster-ssh"]["bastion-ssh-privatekey"] = []byte("other")
	w.updater(t).UpdateMachine(t.Context(), request("a-1"))
	want := &hosts.SSHTarget{
		Login:      hosts.Login{Address: "203.0.113.1:22", User: "ops", PrivateKey: []byte(planted)},
		KnownHosts: []byte("pinned"), Names: []string{"m", "node-m"},
		Bastion: &hosts.Login{Address: "[2001:db8::1]:2222", User: "jump", PrivateKey: []byte("other")},
	}
	if diff := cmp.Diff(want, w.target.SSH); diff != "" {
		t.Errorf("target (-want +got):\n%s", diff)
	}
	for _, printed := range []string{fmt.Sprint(w.target), fmt.Sprintf("%+v", w.target), fmt.Sprintf("%#v", w.target)} {
		if printed != "host of Machine default/m" {
			t.Errorf("a target prints as %s", printed)
		}
	}
}

// TestLogOfAnUpdate holds what is logged, and how often.
func TestLogOfAnUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.updater(t)
	ask := func() { u.UpdateMachine(t.Context(), request("a-1")) }
	// A step that runs and prints nothing new is logged once.
	ask()
	w.pass(time.Hour / 2)
	ask()
	count := len(w.records)
	last := w.records[count-1]
	if len(last.entries) != 1 || last.entries[0].Step != "fetch-kubeadm" || last.entries[0].State != linuxhost.LogRunning {
		t.Errorf("at first, %+v is logged", last)
	}
	w.pass(15 * time.Second)
	w.output = "one\ntwo"
	ask()
	if len(w.records) != count+1 || w.records[count].entries[0].Output != "one\ntwo" {
		t.Errorf("after a while the records are %+v", w.records[count:])
	}
	w.output = "one\ntwo\nthree"
	w.pass(14 * time.Second)
	ask()
	if len(w.records) != count+1 {
		t.Errorf("%+v is logged too soon", w.records[count+1:])
	}
	w.advance()
	ask()
	end := w.records[len(w.records)-1]
	if !end.ended || end.entries[len(end.entries)-1].State != linuxhost.LogDone || end.entries[len(end.entries)-1].Step != "" {
		t.Errorf("at the end, %+v is logged", end)
	}
	done := make(map[linuxhost.Name]bool)
	for _, r := range w.records {
		for _, entry := range r.entries {
			done[entry.Step] = done[entry.Step] || entry.State == linuxhost.LogDone
		}
	}
	for _, step := range []linuxhost.Name{"fetch-kubeadm", "fetch-kubelet", linuxhost.PullImages, "install-kubeadm", linuxhost.KubeadmUpgrade, "install-kubelet", linuxhost.Restart} {
		if !done[step] {
			t.Errorf("the end of step %s is not logged", step)
		}
	}
	count = len(w.records)
	ask()
	if len(w.records) != count {
		t.Error("an end that was asked about again was logged again")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*hosts.Options){
		"a kind":           func(o *hosts.Options) { o.Kind = v1alpha1.K8sdUpdater },
		"no Machine":       func(o *hosts.Options) { o.Machine = nil },
		"no Connect":       func(o *hosts.Options) { o.Connect = nil },
		"no transport":     func(o *hosts.Options) { o.Config.SSH = nil },
		"two transports":   func(o *hosts.Options) { o.Config.Pod = &v1alpha1.HostPod{} },
		"no bundle at all": func(o *hosts.Options) { o.Config.Binaries.Bundle = "/bundle.tar" },
	} {
		o := newWorld(t).options()
		edit(&o)
		if _, err := hosts.New(o); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

// TestARealPauseEndsWithItsContext is about the default pause. The clock stands still, so only the
// context's end ends the request.
func TestARealPauseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.options()
		o.Pause = nil
		o.Now = func() time.Time { return start }
		u, err := hosts.New(o)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if got := u.UpdateMachine(ctx, request("a-1")); got.Outcome != inplace.InProgress {
			t.Errorf("the answer is %+v", got)
		}
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("the request took %s", took)
		}
	})
}
