package preflight_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/preflight"
)

func TestCheckReady(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer string
		want   []string
	}{
		"good":    {"[+]ping ok\n[+]etcd ok\nreadyz check passed\n", []string{"Passed: 2 checks of /readyz pass"}},
		"failing": {"[+]ping ok\n[-]poststarthook/b failed: reason withheld\n[-]poststarthook/a failed: reason withheld\nreadyz check failed\n", []string{"Failed: checks of /readyz that fail: poststarthook/a, poststarthook/b"}},
		"etcd":    {"[+]ping ok\n[-]etcd failed: reason withheld\n", []string{"Passed: 2 checks of /readyz pass"}},
		"garbled": {"<html>\n", []string{"NotChecked: /readyz?verbose names no checks; is this an API server of Kubernetes?"}},
		"empty":   {"", []string{"NotChecked: /readyz?verbose names no checks; is this an API server of Kubernetes?"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, tt.want, sayBriefly(preflight.CheckReady(preflight.ParseReady(tt.answer))))
		})
	}
}

func TestCheckEtcd(t *testing.T) {
	t.Parallel()
	good := preflight.Ready{"ping": true, "etcd": true, "etcd-readiness": true}
	tests := map[string]struct {
		etcd preflight.Etcd
		want []string
	}{
		"good":          {preflight.Etcd{Ready: good, Pods: []preflight.EtcdPod{{Name: "etcd-a", Ready: true}}}, []string{"Passed: the API server reaches etcd; 1 Pod of etcd Ready"}},
		"external":      {preflight.Etcd{Ready: good}, []string{"Passed: the API server reaches etcd; its Pods are not visible here"}},
		"nothing known": {preflight.Etcd{Ready: preflight.Ready{"ping": true}}, []string{"NotChecked: neither /readyz nor a Pod in kube-system shows etcd"}},
		"unread":        {preflight.Etcd{Ready: good, PodsUnread: errors.New("no")}, []string{"NotChecked: Pods of etcd: no"}},
		"all that can be wrong": {
			preflight.Etcd{Ready: preflight.Ready{"etcd": false, "etcd-readiness": false}, Pods: []preflight.EtcdPod{{Name: "etcd-b", Ready: false}, {Name: "etcd-a", Ready: true}}, Problem: "KubeadmControlPlane cp reports NotHealthy: m"},
			[]string{
				"Failed: Pod kube-system/etcd-b: it is not Ready",
				"Failed: the API server: it cannot use etcd: etcd, etcd-readiness",
				"Failed: the control plane object: KubeadmControlPlane cp reports NotHealthy: m",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, tt.want, sayBriefly(preflight.CheckEtcd(tt.etcd)))
		})
	}
}

func kubelet(name, v string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: v}}}
}

func TestCheckSkew(t *testing.T) {
	t.Parallel()
	nodes := []corev1.Node{kubelet("a", "v1.31.0"), kubelet("b", "v1.28.3")}
	tests := map[string]struct {
		upgrade preflight.Upgrade
		nodes   []corev1.Node
		want    []string
	}{
		"supported":          {upgrade("v1.31.0", "v1.32.0"), nodes[:1], []string{"Passed: 1 Node is within the version skew policy"}},
		"at the limit":       {upgrade("v1.31.0", "v1.33.0"), nodes, []string{"Warned: Node b: its kubelet runs v1.28.3, which is not supported beside a control plane at v1.32, its next minor"}},
		"a patch":            {upgrade("v1.31.0", "v1.31.9"), nodes, []string{"Passed: 2 Nodes are within the version skew policy"}},
		"beyond and newer":   {upgrade("v1.30.0", "v1.31.0"), append(nodes, kubelet("c", "v1.26.0")), []string{"Failed: Node a: its kubelet runs v1.31.0, which is not supported beside a control plane at v1.30.0", "Failed: Node c: its kubelet runs v1.26.0, which is not supported beside a control plane at v1.30.0"}},
		"an invalid version": {upgrade("v1.31.0", "v1.32.0"), []corev1.Node{kubelet("x", "fake")}, []string{`NotChecked: Node x: its kubelet reports the version "fake", which cannot be read`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, tt.want, sayBriefly(preflight.CheckSkew(tt.upgrade, tt.nodes)))
		})
	}
}

// TestTopology: an error of the topology's controller warns, because a new target may be what corrects it.
func TestTopology(t *testing.T) {
	t.Parallel()
	expect(t, []string{"Passed: the condition TopologyReconciled has no error"},
		sayBriefly(preflight.CheckTopology(preflight.Topology{Cluster: "prod"})))
	standing := preflight.CheckTopology(preflight.Topology{Cluster: "prod", Failure: "it waits", Fix: "announce it", Stands: true})
	if len(standing) != 1 || standing[0].Outcome != clustercheck.Failed || standing[0].Fix != "announce it" {
		t.Errorf("an upgrade that stands still: %+v", standing)
	}
	failing := preflight.CheckTopology(preflight.Topology{Cluster: "prod", Failure: "it is immutable", Fix: "rotate it"})
	expect(t, []string{"Warned: Cluster prod: the controller of the topology takes no step: it is immutable"},
		sayBriefly(failing))
	if failing[0].Fix != "rotate it" || !preflight.Passed(failing) {
		t.Errorf("%+v", failing)
	}
}

// TestScaled: a cluster autoscaler that acts in a rollout warns.
func TestScaled(t *testing.T) {
	t.Parallel()
	expect(t, []string{"Passed: no cluster autoscaler acts on machines that are replaced"}, sayBriefly(preflight.CheckScaled(nil)))
	found := preflight.CheckScaled([]doctor.Scaled{{Subject: "MachineDeployment md-0", Message: "it is scaled", Fix: "stop it"}})
	expect(t, []string{"Warned: MachineDeployment md-0: it is scaled"}, sayBriefly(found))
	if !preflight.Passed(found) || found[0].Fix != "stop it" {
		t.Errorf("%+v", found)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	passed, failed := clustercheck.Pass(clustercheck.Nodes, "a"), clustercheck.Fail(preflight.EtcdHealthy, "f", "b")
	warned := clustercheck.Finding{ID: preflight.StoredVersions, Outcome: clustercheck.Warned}
	skipped := clustercheck.Skip(preflight.RoomForDrains, "c")
	tests := map[string]struct {
		findings []clustercheck.Finding
		omitted  []string
		passed   bool
		want     string
	}{
		"passed":      {[]clustercheck.Finding{passed}, nil, true, "Nothing found that stops the upgrade from v1.31.0 to v1.33.0."},
		"skipped":     {[]clustercheck.Finding{passed}, []string{"Nodes", "EtcdHealthy", "Nodes"}, true, "Nothing found that stops the upgrade from v1.31.0 to v1.33.0; skipped: EtcdHealthy, Nodes."},
		"warned":      {[]clustercheck.Finding{passed, warned, warned}, nil, true, "Nothing found that stops the upgrade from v1.31.0 to v1.33.0; warnings: StoredVersions."},
		"not checked": {[]clustercheck.Finding{passed, skipped}, nil, false, "Not everything could be checked for the upgrade from v1.31.0 to v1.33.0; not checked: RoomForDrains."},
		"failed":      {[]clustercheck.Finding{failed, failed, warned, skipped}, nil, false, "Fix what was found before the upgrade from v1.31.0 to v1.33.0: 1 check failed (EtcdHealthy); warnings: StoredVersions; not checked: RoomForDrains."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := preflight.Verdict(upgrade("v1.31.0", "v1.33.0"), tt.findings, tt.omitted); got != tt.want || preflight.Passed(tt.findings) != tt.passed {
				t.Errorf("got %q, %t", got, preflight.Passed(tt.findings))
			}
		})
	}
}

// TestCheckManagementWebhooks: a certificate that has expired stops an upgrade, and one that will is a warning.
func TestCheckManagementWebhooks(t *testing.T) {
	t.Parallel()
	expect(t, []string{
		"Passed: 3 objects checked that call webhooks of Cluster API: no certificate has expired, or will without a renewal",
	}, sayBriefly(preflight.CheckManagementWebhooks(preflight.ManagementWebhookFacts{Seen: 3})))
	found := preflight.CheckManagementWebhooks(preflight.ManagementWebhookFacts{
		Faults: []preflight.Obstacle{
			{Subject: "Certificate a/b", Message: "it expires", Later: true},
			{Subject: "Certificate c/d", Message: "it has expired", Fix: "renew it"},
		},
		Unread: errors.New("forbidden"),
	})
	expect(t, []string{"Failed: Certificate c/d: it has expired", "NotChecked: forbidden", "Warned: Certificate a/b: it expires"}, sayBriefly(found))
	if found[0].Fix != "renew it" {
		t.Errorf("Fix: %s", found[0].Fix)
	}
}
