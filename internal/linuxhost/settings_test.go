package linuxhost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestRefuseSettings: a host whose files have what the version lacks is refused before anything is
// changed.
func TestRefuseSettings(t *testing.T) {
	t.Parallel()
	const flags = "/var/lib/kubelet/kubeadm-flags.env: the flag --"
	for name, test := range map[string]struct {
		edit func(*Goal, *Facts)
		want string
	}{
		"nothing": {},
		"a flag in the defaults": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Defaults = "# --old\nKUBELET_EXTRA_ARGS=--pod-infra-container-image=pause:3 --v=2\n"
			},
			want: "/etc/default/kubelet: the flag --pod-infra-container-image of kubelet is removed in v1.35",
		},
		"the same flag in kubeadm's file, from which kubeadm removes it": {
			edit: func(_ *Goal, f *Facts) {
				f.KubeletFlags = "KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=pause:3\"\n"
				f.Config.Command = "/usr/bin/kubelet\n--pod-infra-container-image=pause:3\n--v=2"
			},
		},
		"another flag in kubeadm's file": {
			edit: func(_ *Goal, f *Facts) { f.KubeletFlags = "KUBELET_KUBEADM_ARGS=\"--no-such-flag=1\"\n" },
			want: flags + "no-such-flag",
		},
		"two words in the defaults, and on the command line": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Defaults = "KUBELET_EXTRA_ARGS=\"--feature-gates NoSuchGate=true --v 2\"\n"
				f.Config.Command = "/usr/bin/kubelet\n--feature-gates\nNoSuchGate=true\n--v\n2"
			},
			want: "/etc/default/kubelet: the feature gate NoSuchGate=true of kubelet is unknown to v1.35",
		},
		"the same flag in the other file, which no unit reads": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Sysconfig = "KUBELET_EXTRA_ARGS=--pod-infra-container-image=pause:3\n"
			},
		},
		"the same flag in the other file, on a host of Red Hat": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Units = strings.ReplaceAll(f.Config.Units, defaultsFile, sysconfigFile)
				f.Config.Defaults = "KUBELET_EXTRA_ARGS=--no-such-flag\n"
				f.Config.Sysconfig = "KUBELET_EXTRA_ARGS='--pod-infra-container-image=pause:3'\n"
			},
			want: "/etc/sysconfig/kubelet: the flag --pod-infra-container-image of kubelet is removed in v1.35",
		},
		"no unit can be read": {
			edit: func(_ *Goal, f *Facts) { f.Config.Units, f.Config.Sysconfig = "", "A=--no-such-flag\n" },
			want: "/etc/sysconfig/kubelet: the flag --no-such-flag of kubelet is unknown to v1.35",
		},
		"flags that a drop-in takes back, and those of other programs": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Units = "[Unit]\nDescription=kubelet --not-a-flag\n[Service]\nEnvironment=A=--no-such-flag\n" +
					"ExecStart=/usr/bin/kubelet \\\n  --pod-infra-container-image=pause:3\n" +
					"# /etc/systemd/system/kubelet.service.d/20-more.conf\n[Service]\nExecStartPre=/bin/modprobe --quiet x\n" +
					"Environment=\nExecStart=\nExecStart=/usr/bin/kubelet $A --v=2\n"
			},
		},
		"a flag of the unit's command": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Units = "[Service]\nExecStart=/usr/bin/kubelet \\\n  --pod-infra-container-image=pause:3 \\\n --v=2\n"
			},
			want: "the unit of the kubelet: the flag --pod-infra-container-image of kubelet is removed in v1.35",
		},
		"a gate in a drop-in": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Units += "[Service]\nEnvironment=\"X=--feature-gates=UserNamespacesPodSecurityStandards=true\"\n"
			},
			want: "the unit of the kubelet: the feature gate UserNamespacesPodSecurityStandards=true",
		},
		"a gate on the command line, of a file that nobody knows": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Command = "/usr/bin/kubelet\n--feature-gates\nUserNamespacesPodSecurityStandards=true"
			},
			want: "the kubelet that runs: the feature gate UserNamespacesPodSecurityStandards=true",
		},
		"a flag that this build of the kubelet runs with": {
			edit: func(_ *Goal, f *Facts) { f.Config.Command = "/usr/bin/kubelet\n--no-such-flag" },
		},
		"a gate in the file that the ConfigMap replaces": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Kubelet, f.Config.KubeletMap = "featureGates: {NoSuchGate: true}\n", "maxPods: 110\n"
			},
		},
		"a gate in the ConfigMap": {
			edit: func(_ *Goal, f *Facts) { f.Config.KubeletMap = "featureGates: {NoSuchGate: true}\n" },
			want: "the ConfigMap kube-system/kubelet-config, featureGates: the feature gate NoSuchGate=true of kubelet",
		},
		"cgroups of version 1 that the ConfigMap allows": {
			edit: func(_ *Goal, f *Facts) { f.Config.CgroupV1, f.Config.KubeletMap = true, "failCgroupV1: false\n" },
		},
		"cgroups of version 1 that only the file allows": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.CgroupV1, f.Config.KubeletMap = true, "maxPods: 110\n"
				f.Config.Kubelet = "failCgroupV1: false\n"
			},
			want: "the machine has cgroups of version 1",
		},
		"a gate in the kubelet's configuration": {
			edit: func(_ *Goal, f *Facts) { f.Config.Kubelet = "featureGates: {NoSuchGate: true}\n" },
			want: "/var/lib/kubelet/config.yaml, featureGates: the feature gate NoSuchGate=true of kubelet " +
				"is unknown to v1.35",
		},
		"a field in it": {
			edit: func(_ *Goal, f *Facts) { f.Config.Kubelet = "noSuchField: 1\n" },
		},
		"a gate of the API server in kubeadm's configuration": {
			edit: func(_ *Goal, f *Facts) {
				f.ControlPlane = true
				f.Config.Cluster = "apiServer: {extraArgs: {feature-gates: NoSuchGate=true}}\n" +
					"featureGates: {OfKubeadm: true}\n"
			},
			want: "kubeadm's ClusterConfiguration, apiServer.extraArgs: the feature gate NoSuchGate=true of " +
				"kube-apiserver",
		},
		"accepted by name": {
			edit: func(g *Goal, f *Facts) {
				f.Config.Kubelet = "featureGates: {NoSuchGate: true}\n"
				g.Accepted = []string{"kubelet/NoSuchGate"}
			},
		},
		"after kubeadm has begun": {
			edit: func(_ *Goal, f *Facts) { f.Config.Kubelet, f.Begun = "featureGates: {NoSuchGate: true}\n", true },
		},
		"within a minor": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Kubelet = "featureGates: {NoSuchGate: true}\n"
				f.Installed = version.MustParse("v1.35.1")
			},
		},
		"what the goal itself sets, at any time": {
			edit: func(g *Goal, f *Facts) {
				g.KubeletArgs, f.Begun = []Arg{{Name: "feature-gates", Value: "NoSuchGate=true"}}, true
			},
			want: "the configuration of the machine, kubeletExtraArgs: the feature gate NoSuchGate=true",
		},
		"cgroups of version 1": {
			edit: func(_ *Goal, f *Facts) { f.Config.CgroupV1 = true },
			want: "the machine has cgroups of version 1, with which kubelets of v1.35 and later do not start",
		},
		"a kernel that kubeadm only warns of": {
			edit: func(_ *Goal, f *Facts) { f.Config.Kernel = "4.18.0-553.el8.x86_64" },
		},
		"a containerd that only a later version refuses": {
			edit: func(_ *Goal, f *Facts) { f.Config.Containerd = containerd16 },
		},
		"cgroups of version 1 that are allowed": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.CgroupV1, f.Config.Kubelet = true, "failCgroupV1: false\n"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := Goal{Distribution: Kubeadm, Version: version.MustParse("v1.35.5"), Digests: digestsOf135(t)}
			f := Facts{Arch: "amd64", Service: "kubelet", Installed: version.MustParse("v1.34.8")}
			f.Config.Units = kubeadmUnit
			f.Config.Kubelet = "kind: KubeletConfiguration\nmaxPods: 110\n"
			if test.edit != nil {
				test.edit(&g, &f)
			}
			_, refused := ComputeSteps(g, f)
			switch {
			case refused == nil && test.want != "":
				t.Errorf("it is not refused, want %q", test.want)
			case refused != nil && test.want == "":
				t.Errorf("it is refused: %s", refused)
			case refused != nil && (refused.Reason != RemovedSetting ||
				!strings.Contains(refused.Message, test.want) ||
				!strings.Contains(refused.Message, "Fix: ") ||
				!strings.HasSuffix(refused.Message, "Nothing was changed")):
				t.Errorf("refused with %s, want %q", refused, test.want)
			}
		})
	}
}

// containerd16 is what containerd --version prints for a package of Docker's.
const containerd16 = "containerd containerd.io 1.6.28 ae07eda36dd25f8a1b98dfbf587313b99c0190bb"

// kubeadmUnit is what systemctl cat kubelet prints on a host of Debian.
const kubeadmUnit = `# /usr/lib/systemd/system/kubelet.service
[Unit]
Description=kubelet: The Kubernetes Node Agent
[Service]
ExecStart=/usr/bin/kubelet
Restart=always

# /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf
# Note: This dropin only works with kubeadm and kubelet v1.11+
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`

// TestWarnings: what does not keep a host from its version is told all the same, with what to do.
func TestWarnings(t *testing.T) {
	t.Parallel()
	newer := settings.Newest().Next().String()
	for name, test := range map[string]struct {
		from, to string
		edit     func(*Goal, *Facts)
		want     []string
	}{
		"nothing": {from: "v1.34.8", to: "v1.35.5"},
		"containerd 1.6, before": {
			from: "v1.34.8", to: "v1.35.5", edit: func(_ *Goal, f *Facts) { f.Config.Containerd = containerd16 },
		},
		"containerd 1.6": {
			from: "v1.35.8", to: "v1.36.1", edit: func(_ *Goal, f *Facts) { f.Config.Containerd = containerd16 },
			want: []string{"the container runtime is containerd://1.6.28; kubelets of v1.38 are announced not to start"},
		},
		"containerd 1.7 of a distribution": {
			from: "v1.35.8", to: "v1.36.1", edit: func(_ *Goal, f *Facts) {
				f.Config.Containerd = "containerd github.com/containerd/containerd v1.7.24 "
			},
			want: []string{"the container runtime is containerd://1.7.24;"},
		},
		"containerd 2": {
			from: "v1.35.8", to: "v1.36.1", edit: func(_ *Goal, f *Facts) {
				f.Config.Containerd = "containerd github.com/containerd/containerd/v2 v2.1.5 fcd43222d6b07379a4be9786bda52438f0dd16a1"
			},
		},
		"containerd 1.6 beside CRI-O": {
			from: "v1.35.8", to: "v1.36.1", edit: func(_ *Goal, f *Facts) {
				f.Config.Containerd = containerd16
				f.KubeletFlags = "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///var/run/crio/crio.sock\"\n"
			},
		},
		"the same, in the configuration": {
			from: "v1.35.8", to: "v1.36.1", edit: func(_ *Goal, f *Facts) {
				f.Config.Containerd = containerd16
				f.Config.Kubelet = "containerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n"
			},
		},
		"accepted": {
			from: "v1.35.8", to: "v1.36.1", edit: func(g *Goal, f *Facts) {
				f.Config.Containerd, g.Accepted = containerd16, []string{settings.Containerd}
			},
		},
		"a kernel of RHEL 8": {
			from: "v1.34.8", to: "v1.35.5", edit: func(_ *Goal, f *Facts) { f.Config.Kernel = "4.18.0-553.el8.x86_64" },
			want: []string{"the kernel is 4.18.0-553.el8.x86_64; kubeadm of v1.35 supports 5.4 and later"},
		},
		"a field that the kubelet ignores": {
			from: "v1.34.8", to: "v1.35.5", edit: func(_ *Goal, f *Facts) { f.Config.Kubelet = "noSuchField: 1\n" },
			want: []string{"/var/lib/kubelet/config.yaml: the field noSuchField of kubelet is unknown to v1.35"},
		},
		"a newer version": {
			from: settings.Newest().String() + ".1", to: newer + ".0",
			want: []string{"the settings of " + newer + " are not known to this release"},
		},
		"a newer version, once kubeadm has begun": {
			from: settings.Newest().String() + ".1", to: newer + ".0", edit: func(_ *Goal, f *Facts) { f.Begun = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := Goal{Distribution: Kubeadm, Version: version.MustParse(test.to)}
			f := Facts{Installed: version.MustParse(test.from)}
			f.Config.Kernel, f.Config.Units = "6.8.0-79-generic", kubeadmUnit
			if test.edit != nil {
				test.edit(&g, &f)
			}
			got := Warnings(g, f)
			if len(got) != len(test.want) {
				t.Fatalf("warnings %q, want %q", got, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(got[i], want) || !strings.Contains(got[i], ". Fix: ") {
					t.Errorf("warning %q, want %q", got[i], want)
				}
			}
		})
	}
}

// TestKernelOfUpgrades: kubeadm upgrade v1.33 refuses a kernel that v1.32 does not look at. RKE2 has no
// kubeadm.
func TestKernelOfUpgrades(t *testing.T) {
	t.Parallel()
	for to, refused := range map[string]bool{"v1.32.1": false, "v1.33.1": true} {
		g := Goal{Distribution: Kubeadm, Version: version.MustParse(to)}
		f := Facts{Installed: version.Version{}}
		f.Config.Kernel = "4.18.0-553.el8.x86_64"
		if got := refuseSettings(g, f); (got != nil) != refused || (len(Warnings(g, f)) == 0) != refused {
			t.Errorf("%s: %v", to, got)
		}
		g.Distribution = RKE2
		if got := refuseSettings(g, f); got != nil || len(Warnings(g, f)) > 0 {
			t.Errorf("%s of RKE2: %v", to, got)
		}
		g.Distribution = Kubeadm
		for _, name := range []string{"SystemVerification", "systemverification", "all", "ALL"} {
			g.IgnorePreflight = []string{"Swap", name}
			if got := refuseSettings(g, f); got != nil || len(Warnings(g, f)) > 0 {
				t.Errorf("%s, %s is ignored: %v", to, name, got)
			}
		}
	}
}

// TestDropRemoved: an argument that the version lacks is removed from kubeadm's file if the goal has
// all that people want, and is not written.
func TestDropRemoved(t *testing.T) {
	t.Parallel()
	g := Goal{
		Distribution: Kubeadm, Version: version.MustParse("v1.35.5"), Digests: digestsOf135(t),
		DropRemoved: true, KubeletArgs: []Arg{{Name: "v", Value: "2"}},
	}
	f := Facts{Arch: "amd64", Service: "kubelet", Installed: version.MustParse("v1.34.8")}
	f.KubeletFlags = "KUBELET_KUBEADM_ARGS=\"--feature-gates=UserNamespacesPodSecurityStandards=true " +
		"--max-pods=50\"\n"
	if _, refused := ComputeSteps(g, f); refused != nil {
		t.Fatal(refused)
	}
	content, err := setKubeletFlags(g, f)
	if diff := cmp.Diff("KUBELET_KUBEADM_ARGS=\"--max-pods=50 --v=2\"\n", content); diff != "" || err != nil {
		t.Errorf("the file (-want +got):\n%s%v", diff, err)
	}
	g.KubeletArgs = nil
	steps, refused := ComputeSteps(g, f)
	if refused != nil {
		t.Fatal(refused)
	}
	for _, step := range steps {
		if step.Name == KubeletArguments {
			return
		}
	}
	t.Error("no step removes the argument")
}

// TestDropRemovedKeepsAccepted: a flag that a person has accepted by name stays in kubeadm's file.
func TestDropRemovedKeepsAccepted(t *testing.T) {
	t.Parallel()
	g := Goal{Distribution: Kubeadm, Version: version.MustParse("v1.35.5"), DropRemoved: true}
	var f Facts
	f.KubeletFlags = "KUBELET_KUBEADM_ARGS=\"--vendor-flag=x --other-vendors=y --max-pods=50\"\n"
	g.Accepted = []string{"kubelet/--vendor-flag"}
	content, err := setKubeletFlags(g, f)
	const want = "KUBELET_KUBEADM_ARGS=\"--vendor-flag=x --max-pods=50\"\n"
	if diff := cmp.Diff(want, content); diff != "" || err != nil {
		t.Errorf("the file (-want +got):\n%s%v", diff, err)
	}
	if diff := cmp.Diff([]string{"--other-vendors"}, dropped(g, f)); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}

// digestsOf135 are digests of v1.35.5.
func digestsOf135(t *testing.T) Manifest {
	t.Helper()
	digests := fmt.Sprintf("%064x  v1.35.5/linux/amd64/kubeadm\n%064x  v1.35.5/linux/amd64/kubelet\n", 1, 2)
	parsed, err := ParseManifest(digests)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
