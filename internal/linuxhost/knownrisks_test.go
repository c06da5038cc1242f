package linuxhost

import (
	"slices"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestKnownRisks: a host tells the known risks that it has, and no other.
func TestKnownRisks(t *testing.T) {
	t.Parallel()
	const emptyFlags = "kubeadm-135-empty-flags"
	for name, test := range map[string]struct {
		d        Distribution
		from, to string
		edit     func(*Facts)
		drains   bool
		risk     string
		want     bool
	}{
		"an old kernel": {
			from: "v1.32.9", to: "v1.33.5", edit: func(f *Facts) { f.Config.Kernel = "4.18.0-553.el8" },
			risk: "kubeadm-133-kernel", want: true,
		},
		"a newer one": {from: "v1.32.9", to: "v1.33.5", risk: "kubeadm-133-kernel"},
		"an unknown kernel": {
			from: "v1.32.9", to: "v1.33.5", edit: func(f *Facts) { f.Config.Kernel = "" }, risk: "kubeadm-133-kernel",
		},
		"once kubeadm has begun": {
			from: "v1.32.9", to: "v1.33.5", risk: "kubeadm-133-kernel",
			edit: func(f *Facts) { f.Begun, f.Config.Kernel = true, "4.18.0-553.el8" },
		},
		"of a control plane": {
			from: "v1.28.9", to: "v1.29.0", edit: controlPlane, risk: "kubelet-129-init-containers", want: true,
		},
		"what is refused": {
			from: "v1.28.9", to: "v1.29.4", edit: controlPlane, risk: "kubeadm-129-external-ca",
		},
		"a pinned etcd": {
			from: "v1.35.4", to: "v1.36.3", risk: "kubeadm-136-etcd-35", want: true, edit: func(f *Facts) {
				controlPlane(f)
				f.Config.Cluster = "etcd:\n  local:\n    imageTag: v3.5.21\n"
			},
		},
		"kubeadm's etcd":             {from: "v1.35.4", to: "v1.36.3", edit: controlPlane, risk: "kubeadm-136-etcd-35"},
		"cgroups, which are refused": {from: "v1.34.6", to: "v1.35.4", risk: "kubelet-135-cgroup-v1"},
		"no drain":                   {from: "v1.30.6", to: "v1.31.4", risk: "kubelet-131-container-restart", want: true},
		"a drain":                    {from: "v1.30.6", to: "v1.31.4", drains: true, risk: "kubelet-131-container-restart"},
		"no flags": {
			from: "v1.34.6", to: "v1.35.0", risk: emptyFlags, want: true,
			edit: func(f *Facts) { f.KubeletFlags = "KUBELET_KUBEADM_ARGS=\"\"\n" },
		},
		"only flags that kubeadm removes": {
			from: "v1.34.6", to: "v1.35.0", risk: emptyFlags, want: true,
			edit: func(f *Facts) { f.KubeletFlags = "KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=x\"\n" },
		},
		"a flag": {
			from: "v1.34.6", to: "v1.35.0", risk: emptyFlags,
			edit: func(f *Facts) { f.KubeletFlags = "KUBELET_KUBEADM_ARGS=\"--node-ip=10.10.0.21\"\n" },
		},
		"of more machines than one": {
			d: K3s, from: "v1.33.7+k3s1", to: "v1.34.3+k3s1", edit: controlPlane, risk: "etcd-36-too-many-learners",
		},
		"etcd of K3s": {
			d: K3s, from: "v1.33.7+k3s1", to: "v1.34.3+k3s1", edit: controlPlane, risk: "etcd-36-zombie-members", want: true,
		},
		"K3s without etcd": {
			d: K3s, from: "v1.33.7+k3s1", to: "v1.34.3+k3s1", risk: "etcd-36-zombie-members",
			edit: func(f *Facts) { f.ControlPlane = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.d == "" {
				test.d = Kubeadm
			}
			g := Goal{Distribution: test.d, Version: version.MustParse(test.to)}
			f := Facts{Installed: version.MustParse(test.from)}
			f.Config.Kernel = "6.8.0-79-generic"
			f.Config.Containerd = "containerd github.com/containerd/containerd/v2 v2.1.5 fcd"
			if test.edit != nil {
				test.edit(&f)
			}
			got := false
			for _, note := range KnownRisks(g, f, test.drains) {
				got = got || strings.HasPrefix(note, "known risk "+test.risk+": ")
				if !strings.Contains(note, ". Fix: ") || !strings.Contains(note, "(https://") {
					t.Errorf("the note is %q", note)
				}
			}
			if got != test.want {
				t.Errorf("%s is told: %t, want %t", test.risk, got, test.want)
			}
		})
	}
}

// controlPlane makes a host one of a control plane with etcd.
func controlPlane(f *Facts) { f.ControlPlane, f.Member = true, true }

// TestConcerns: the risks that the host answers for are in the list.
func TestConcerns(t *testing.T) {
	t.Parallel()
	for id := range concerns {
		if !slices.ContainsFunc(risks.BuiltIn().Risks, func(r risks.Risk) bool { return r.ID == id }) {
			t.Errorf("%s is no known risk", id)
		}
	}
}
