package clustercheck_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/pkg/version"
)

// say is a finding in one line.
func say(f clustercheck.Finding) string { return string(f.Outcome) + ": " + f.Message }

func TestCheckAPI(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		api    clustercheck.API
		wanted version.Version
		want   string
	}{
		"as asked for":          {clustercheck.API{Version: "v1.33.1", Groups: 20}, version.MustParse("v1.33.1"), "Passed: the API server runs v1.33.1 and serves 20 API groups"},
		"by a distribution":     {clustercheck.API{Version: "v1.33.1-eks-1", Groups: 1}, version.MustParse("v1.33.1"), "Passed: the API server runs v1.33.1-eks-1 and serves 1 API group"},
		"nothing is asked for":  {clustercheck.API{Version: "custom", Groups: 2}, version.Version{}, "Passed: the API server runs custom and serves 2 API groups"},
		"an older one":          {clustercheck.API{Version: "v1.32.0"}, version.MustParse("v1.33.1"), "Failed: the API server runs v1.32.0, and the control plane object asks for v1.33.1"},
		"one without sense":     {clustercheck.API{Version: "custom"}, version.MustParse("v1.33.1"), "Failed: the API server runs custom, and the control plane object asks for v1.33.1"},
		"groups without server": {clustercheck.API{Version: "v1.33.1", Broken: []string{"b/v1 (down)", "a/v1 (down)"}}, version.Version{}, "Failed: API groups that cannot be discovered: a/v1 (down); b/v1 (down)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, say(clustercheck.CheckAPI(tt.api, tt.wanted))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func node(name, kubelet string, conditions ...corev1.NodeConditionType) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.NodeInfo.KubeletVersion = kubelet
	for _, c := range conditions {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionTrue})
	}
	return n
}

func machine(name, at, nodeName string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Spec.Version, m.Status.NodeRef.Name = at, nodeName
	return m
}

func TestCheckNodes(t *testing.T) {
	t.Parallel()
	const ready = corev1.NodeReady
	leaving := machine("old", "v1.32.0", "gone")
	leaving.DeletionTimestamp = new(metav1.Now())
	tests := map[string]struct {
		nodes    []corev1.Node
		machines []*clusterv1.Machine
		want     string
	}{
		"none": {want: "Failed: the cluster has no Nodes"},
		"as asked for": {
			nodes:    []corev1.Node{node("a", "v1.33.0", ready), node("b", "v1.32.0", ready), node("unmanaged", "custom", ready)},
			machines: []*clusterv1.Machine{machine("m-a", "v1.33.0", "a"), machine("m-b", "v1.32.0", "b"), leaving},
			want:     "Passed: 3 Nodes are Ready: 1 at custom; 1 at v1.32.0; 1 at v1.33.0",
		},
		"all that can be wrong": {
			nodes: []corev1.Node{node("a", "v1.32.0", ready), node("b", "v1.33.0", ready, corev1.NodeDiskPressure), node("c", "v1.33.0")},
			machines: []*clusterv1.Machine{
				machine("m-a", "v1.33.0", "a"), machine("m-b", "v1.33.0", "b"), machine("m-d", "v1.33.0", ""), machine("m-e", "v1.33.0", "e"),
			},
			want: "Failed: Machine m-d has no Node; Node e of Machine m-e does not exist; a runs v1.32.0, and its Machine asks for v1.33.0; b has DiskPressure; c is not Ready",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, say(clustercheck.CheckNodes(tt.nodes, tt.machines))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSimulated(t *testing.T) {
	t.Parallel()
	runs := node("runs", "v1.33.0")
	runs.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.0.0"
	kwok := runs
	kwok.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
	tests := map[string]struct {
		nodes []corev1.Node
		want  string
	}{
		"none":               {want: "the cluster has no Nodes"},
		"no runtime":         {nodes: []corev1.Node{node("a", "v1.33.0"), node("b", "v1.33.0")}, want: "no Pod can run, because the Nodes are simulated (2): they have no container runtime"},
		"kwok":               {nodes: []corev1.Node{kwok}, want: "no Pod can run, because the Nodes are simulated (1): they have no container runtime"},
		"one that runs":      {nodes: []corev1.Node{node("a", "v1.33.0"), runs}},
		"kwok and a kubelet": {nodes: []corev1.Node{kwok, runs}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if reason, simulated := clustercheck.Simulated(tt.nodes); reason != tt.want || simulated != (tt.want != "") {
				t.Errorf("got %q, %t, want %q", reason, simulated, tt.want)
			}
		})
	}
}

func TestCheckCertificates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	expires := func(name string, in time.Duration) clustercheck.Certificate {
		return clustercheck.Certificate{Name: name, NotAfter: now.Add(in)}
	}
	const day = 24 * time.Hour
	tests := map[string]struct {
		certificates []clustercheck.Certificate
		want         string
	}{
		"none":        {want: "NotChecked: no certificate was seen"},
		"enough left": {[]clustercheck.Certificate{expires("b", 365*day), expires("a", 14*day)}, "Passed: 2 certificates seen; the first to expire is that of a (14 days left)"},
		"one CA of several webhooks": {
			[]clustercheck.Certificate{
				expires("a", day), expires("a", 2*day), expires("b", day), expires("a", day),
			},
			"Failed: certificates with fewer than 14 days left: a (1 day left); a (2 days left); b (1 day left)",
		},
		"soon": {
			[]clustercheck.Certificate{expires("a", 14*day-1), expires("b", -day), expires("c", 30*day)},
			"Failed: certificates with fewer than 14 days left: a (13 days left); b (expired)",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, say(clustercheck.CheckCertificates(tt.certificates, 14, now))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for least, want := range map[int]clustercheck.Outcome{0: clustercheck.Passed, 1: clustercheck.Failed, 200_000: clustercheck.Failed} {
		if got := clustercheck.CheckCertificates([]clustercheck.Certificate{expires("a", day-1)}, least, now).Outcome; got != want {
			t.Errorf("with less than a day left, and %d wanted, it is %s, want %s", least, got, want)
		}
	}
	if got := clustercheck.CheckCertificates([]clustercheck.Certificate{expires("a", -1)}, 0, now).Outcome; got != clustercheck.Failed {
		t.Errorf("an expired certificate is %s", got)
	}
	m, leaving := machine("m", "v1.33.0", "n"), machine("leaving", "v1.33.0", "n")
	m.Status.CertificatesExpiryDate, leaving.Status.CertificatesExpiryDate = metav1.NewTime(now), metav1.NewTime(now)
	leaving.DeletionTimestamp = new(metav1.NewTime(now))
	want := []clustercheck.Certificate{{Name: "Machine m", NotAfter: now}}
	if diff := cmp.Diff(want, clustercheck.MachineCertificates([]*clusterv1.Machine{machine("worker", "v1.33.0", "w"), m, leaving})); diff != "" {
		t.Errorf("MachineCertificates (-want +got):\n%s", diff)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	passed, failed := clustercheck.Pass(clustercheck.Nodes, "a"), clustercheck.Fail(clustercheck.Job, "f", "b")
	skipped := clustercheck.Skip(clustercheck.Service, "c")
	tests := map[string]struct {
		findings []clustercheck.Finding
		worst    clustercheck.Outcome
		want     string
	}{
		"passed":      {[]clustercheck.Finding{passed}, clustercheck.Passed, "The cluster works: 1 check passed."},
		"not checked": {[]clustercheck.Finding{passed, skipped}, clustercheck.NotChecked, "The cluster works: 1 check passed; not checked: Service."},
		"failed": {
			[]clustercheck.Finding{failed, passed, skipped}, clustercheck.Failed, "The cluster does not work: 1 check failed (Job); not checked: Service.",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := clustercheck.Verdict(tt.findings); got != tt.want {
				t.Errorf("Verdict is %q, want %q", got, tt.want)
			}
			if got := clustercheck.Worst(tt.findings); got != tt.worst {
				t.Errorf("Worst is %s, want %s", got, tt.worst)
			}
		})
	}
}
