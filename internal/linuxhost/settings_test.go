package linuxhost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		"a gate in a drop-in": {
			edit: func(_ *Goal, f *Facts) {
				f.Config.Units = "[Service]\nEnvironment=\"X=--feature-gates=UserNamespacesPodSecurityStandards=true\"\n"
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
			f.Config.Units = "[Service]\nExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml\n"
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
