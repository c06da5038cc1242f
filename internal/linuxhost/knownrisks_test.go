package linuxhost

import (
	"slices"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/version"
)

// nodeNamed returns a host Worker1 whose Node has a name.
func nodeNamed(node string) func(*Facts) {
	return func(f *Facts) {
		f.HostName, f.KubeletFlags = "Worker1", "KUBELET_KUBEADM_ARGS=\"--hostname-override="+node+"\"\n"
	}
}

// TestKnownRisks: a host tells the known risks that it has, and no other.
func TestKnownRisks(t *testing.T) {
	t.Parallel()
	const (
		emptyFlags, oldAgents = "kubeadm-135-empty-flags", "k3s-132-old-agents"
		nodeName, nginx       = "kubeadm-134-node-name", "rke2-136-ingress-nginx-images"
	)
	for name, test := range map[string]struct {
		d        Distribution
		from, to string
		edit     func(*Facts)
		drains   bool
		brings   string
		oldest   string
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
		"a Node of another name": {
			from: "v1.33.5", to: "v1.34.1", edit: nodeNamed("worker1.example.com"), risk: nodeName, want: true,
		},
		"with the fix":            {from: "v1.33.5", to: "v1.34.2", edit: nodeNamed("worker1.example.com"), risk: nodeName},
		"a Node of the same name": {from: "v1.33.5", to: "v1.34.1", edit: nodeNamed("worker1"), risk: nodeName},
		"a Node of the host's name by default": {
			from: "v1.33.5", to: "v1.34.1", risk: nodeName,
			edit: func(f *Facts) { f.KubeletFlags = "KUBELET_KUBEADM_ARGS=\"--node-ip=10.10.0.21\"\n" },
		},
		"a control plane of another name": {
			from: "v1.33.5", to: "v1.34.1", risk: nodeName,
			edit: func(f *Facts) { nodeNamed("cp1.example.com")(f); controlPlane(f) },
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
		"flannel of an old K3s": {
			d: K3s, from: "v1.31.3+k3s1", to: "v1.32.10+k3s1", edit: controlPlane, risk: oldAgents, want: true,
		},
		"an agent of it": {d: K3s, from: "v1.31.3+k3s1", to: "v1.32.10+k3s1", risk: oldAgents},
		"no flannel": {
			d: K3s, from: "v1.31.3+k3s1", to: "v1.32.10+k3s1", risk: oldAgents, edit: func(f *Facts) {
				controlPlane(f)
				f.Rancher.Arguments = []string{"flannel-backend=none"}
			},
		},
		"a K3s whose API servers allow it": {
			d: K3s, from: "v1.31.3+k3s1", to: "v1.32.10+k3s1", risk: oldAgents, edit: func(f *Facts) {
				controlPlane(f)
				f.Rancher.Arguments = []string{"kube-apiserver-arg=feature-gates=AuthorizeNodeWithSelectors=false"}
			},
		},
		"a K3s with the fix": {d: K3s, from: "v1.31.14+k3s1", to: "v1.32.10+k3s1", edit: controlPlane, risk: oldAgents},
		"a K3s with the fix, agents without": {
			d: K3s, from: "v1.31.14+k3s1", to: "v1.32.10+k3s1", edit: controlPlane, oldest: "v1.31.3+k3s1",
			risk: oldAgents, want: true,
		},
		"ingress-nginx without its images": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", edit: offline(""), risk: nginx, want: true,
		},
		"within v1.35": {d: RKE2, from: "v1.35.2+rke2r1", to: "v1.35.8+rke2r1", edit: offline(""), risk: nginx},
		"both controllers": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", risk: nginx, want: true,
			edit: offline("ingress-controller: [traefik, ingress-nginx]"),
		},
		"Traefik": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", edit: offline("ingress-controller: traefik"), risk: nginx,
		},
		"ingress-nginx is disabled": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", edit: offline("disable: [rke2-ingress-nginx]"), risk: nginx,
		},
		"another default registry": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", edit: offline("system-default-registry: r.example"), risk: nginx,
		},
		"registries.yaml": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", risk: nginx,
			edit: func(f *Facts) { offline("")(f); f.Rancher.Registries = true },
		},
		"the archive of ingress-nginx": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", risk: nginx,
			edit: func(f *Facts) { offline("")(f); f.Archives += " rke2-images-ingress-nginx.linux-amd64.tar.zst" },
		},
		"the archive is brought along": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", edit: offline(""), risk: nginx,
			brings: "v1.36.5+rke2r1/linux/amd64/rke2-images-ingress-nginx.linux-amd64.tar.zst",
		},
		"no archives": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", risk: nginx,
			edit: func(f *Facts) { offline("")(f); f.Archives = "" },
		},
		"a configuration that is not read": {
			d: RKE2, from: "v1.35.2+rke2r1", to: "v1.36.5+rke2r1", risk: nginx,
			edit: func(f *Facts) { offline("")(f); f.Rancher.Unread = "/x" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.d == "" {
				test.d = Kubeadm
			}
			g := Goal{Distribution: test.d, Version: version.MustParse(test.to)}
			if test.brings != "" {
				manifest, err := ParseManifest(strings.Repeat("0", 64) + "  " + test.brings + "\n")
				if err != nil {
					t.Fatal(err)
				}
				g.Digests = manifest
			}
			f := Facts{Installed: version.MustParse(test.from)}
			f.Config.Kernel = "6.8.0-79-generic"
			f.Config.Containerd = "containerd github.com/containerd/containerd/v2 v2.1.5 fcd"
			if test.edit != nil {
				test.edit(&f)
			}
			got := false
			for _, note := range KnownRisks(g, f, test.drains, parsed(test.oldest)) {
				got = got || strings.HasPrefix(note, "known risk "+test.risk+": ")
				if strings.HasPrefix(note, "known risk "+nodeName) && !strings.Contains(note, "named \"Worker1\", and its Node \"worker1.example.com\". Fix") ||
					!strings.Contains(note, ". Fix: ") || !strings.Contains(note, "(https://") {
					t.Errorf("the note is %q", note)
				}
			}
			if got != test.want {
				t.Errorf("%s is told: %t, want %t", test.risk, got, test.want)
			}
		})
	}
}

func parsed(text string) version.Version {
	if text == "" {
		return version.Version{}
	}
	return version.MustParse(text)
}

// offline makes a host a server of RKE2 with archives of images and a configuration.
func offline(config string) func(*Facts) {
	return func(f *Facts) {
		controlPlane(f)
		f.Arch = "amd64"
		f.Archives = "rke2-images-canal.linux-amd64.tar.zst rke2-images-core.linux-amd64.tar.zst"
		f.Rancher = parseRancherConfig(map[string]string{"config-file-1": "/config.yaml\n" + config})
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
