package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

var updateLogName = types.NamespacedName{Namespace: "default", Name: "m-update-log"}

func hostEntry(step linuxhost.Name, output string) linuxhost.LogEntry {
	return linuxhost.LogEntry{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Operation: "a-1", Step: step, State: linuxhost.LogDone, Output: output}
}

// readLog reads the log of k8sdMachine.
func readLog(t *testing.T, live client.Client) *corev1.ConfigMap {
	t.Helper()
	found := &corev1.ConfigMap{}
	if err := live.Get(t.Context(), updateLogName, found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestUpdateLog(t *testing.T) {
	t.Parallel()
	live := newLive(t)
	l := updateLog{live}
	l.Record(t.Context(), k8sdMachine, []linuxhost.LogEntry{hostEntry(linuxhost.Drain, strings.Repeat("drained\n", 1000))}, false)
	l.Record(t.Context(), k8sdMachine, []linuxhost.LogEntry{hostEntry(linuxhost.Restart, "restarted"), hostEntry(linuxhost.NodeReady, "waits")}, false)
	found := readLog(t, live)
	owner := found.OwnerReferences
	if found.Labels[v1alpha1.UpdateLogLabel] != "true" || len(owner) != 1 || owner[0].Kind != "Machine" || owner[0].Name != "m" || owner[0].APIVersion != clusterv1.GroupVersion.String() {
		t.Errorf("labels %v, owners %v", found.Labels, owner)
	}
	var steps []linuxhost.Name
	for _, entry := range linuxhost.ParseLog(found.Data[v1alpha1.UpdateLogKey]) {
		steps = append(steps, entry.Step)
	}
	if diff := cmp.Diff([]linuxhost.Name{linuxhost.Drain, linuxhost.Restart, linuxhost.NodeReady}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	l.Record(t.Context(), k8sdMachine, []linuxhost.LogEntry{hostEntry("", "all is done")}, true)
	if text := readLog(t, live).Data[v1alpha1.UpdateLogKey]; len(text) > linuxhost.LogEntryLimit || !strings.Contains(text, "all is done") || !strings.Contains(text, "restarted") {
		t.Errorf("at the end the log is\n%s", text)
	}
}

// TestUpdateLogLeavesOthersAlone has a ConfigMap of that name that is no log, and a Machine that is gone.
func TestUpdateLogLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	live := newLive(t)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: updateLogName.Namespace, Name: updateLogName.Name}, Data: map[string]string{"log": "mine"}}
	if err := live.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	l := updateLog{live}
	l.Record(t.Context(), k8sdMachine, []linuxhost.LogEntry{hostEntry(linuxhost.Drain, "x")}, false)
	if diff := cmp.Diff(map[string]string{"log": "mine"}, readLog(t, live).Data); diff != "" {
		t.Errorf("somebody's ConfigMap (-want +got):\n%s", diff)
	}
	l.Record(t.Context(), types.NamespacedName{Namespace: "default", Name: "nobody"}, []linuxhost.LogEntry{hostEntry(linuxhost.Drain, "x")}, false)
	var all corev1.ConfigMapList
	if err := live.List(t.Context(), &all); err != nil || len(all.Items) != 1 {
		t.Errorf("there are %d ConfigMaps, %v", len(all.Items), err)
	}
}

func hostUpdater(kind v1alpha1.InProcessKind, config *v1alpha1.HostConfig) *v1alpha1.Updater {
	config.Binaries = v1alpha1.HostBinaries{Bundle: "/bundle.tar", Digests: v1alpha1.HostDigests{Manifest: strings.Repeat("ab", 32) + " v1.32.1/linux/amd64/kubelet"}}
	return &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: "hosts", UID: "h", Generation: 1},
		Spec:       v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{Kind: kind, Host: config}},
	}
}

// TestHostsFromThePool opens Updaters as they are registered; what reaches the host says why it does not.
func TestHostsFromThePool(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		updater *v1alpha1.Updater
		want    inplace.Answer
	}{
		"by SSH, with a key that is none": {
			updater: hostUpdater(v1alpha1.KubeadmUpdater, &v1alpha1.HostConfig{SSH: &v1alpha1.HostSSH{SecretName: "{cluster}-ssh", KnownHosts: "m ssh-ed25519 AAAA", Bastion: &v1alpha1.HostBastion{Host: "b"}}}),
			want:    inplace.Answer{Outcome: inplace.Fails, Message: "HostSetupInvalid: host 10.0.0.1:22: private key 1: it is not a private key in PEM or OpenSSH form"},
		},
		"by SSH, without a Secret": {
			updater: hostUpdater(v1alpha1.RKE2Updater, &v1alpha1.HostConfig{SSH: &v1alpha1.HostSSH{SecretName: "ssh"}}),
			want:    inplace.Answer{Outcome: inplace.Fails, Message: "HostSetupInvalid: there is no Secret default/ssh with the key for SSH"},
		},
		"by a Pod, in a cluster that is not reached": {
			updater: hostUpdater(v1alpha1.K3sUpdater, &v1alpha1.HostConfig{Pod: &v1alpha1.HostPod{Image: "i"}}),
			want: inplace.Answer{Outcome: inplace.Unknown, Message: "HostUnreachable: host node-m: " +
				`Cluster default/cluster cannot be asked: reading Secret default/cluster-kubeconfig: secrets "cluster-kubeconfig" not found`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := newLive(t)
			m := &clusterv1.Machine{}
			if err := live.Get(t.Context(), k8sdMachine, m); err != nil {
				t.Fatal(err)
			}
			m.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}}
			if err := live.Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: porttest.UpdaterCluster + "-ssh"}, Data: map[string][]byte{"ssh-privatekey": []byte("planted")}}
			if err := live.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			opened, err := newUpdaterPool(live, "").Open(t.Context(), tt.updater)
			if err != nil {
				t.Fatal(err)
			}
			got := opened.UpdateMachine(t.Context(), porttest.UpdateMachine(k8sdMachine, porttest.UpdaterTo, "a-1"))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}
