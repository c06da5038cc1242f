package settings_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

func upgrade(from, to string) settings.Upgrade {
	u := settings.Upgrade{To: version.MustParse(to)}
	if from != "" {
		u.From = version.MustParse(from)
	}
	return u
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var decoded map[string]any
	if err := yaml.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// brief is what a finding says, without where.
type brief struct {
	ID      string
	Problem settings.Problem
	Since   string
	Warning bool
}

func briefs(found []settings.Finding) []brief {
	var all []brief
	for _, f := range found {
		b := brief{ID: f.ID(), Problem: f.Problem, Warning: f.Warning}
		if f.Problem != settings.Unrecognized {
			b.Since = f.Since.String()
		}
		all = append(all, b)
	}
	return all
}

// TestReported: settings with which clusters of users did not start after an upgrade.
func TestReported(t *testing.T) {
	t.Parallel()
	const podSecurity = "UserNamespacesPodSecurityStandards"
	for name, test := range map[string]struct {
		from, to string
		object   settings.Object
		content  string
		want     []brief
	}{
		"a gate of the API server that v1.35 removes": {
			from: "v1.34.8", to: "v1.35.5", object: settings.Object{Kind: "KubeadmControlPlane"},
			content: `{spec: {kubeadmConfigSpec: {clusterConfiguration: {apiServer: {extraArgs: [
				{name: feature-gates, value: UserNamespacesPodSecurityStandards=true}]}}}}}`,
			want: []brief{{ID: "kube-apiserver/" + podSecurity, Problem: settings.Removed, Since: "v1.35"}},
		},
		"the same in the form of v1beta1, and of a template": {
			from: "v1.34.8", to: "v1.35.5", object: settings.Object{Kind: "KubeadmControlPlaneTemplate"},
			content: `{spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {apiServer: {
				extraArgs: {feature-gates: UserNamespacesPodSecurityStandards=true}}}}}}}}`,
			want: []brief{{ID: "kube-apiserver/" + podSecurity, Problem: settings.Removed, Since: "v1.35"}},
		},
		"the same before the minor that removes it": {
			from: "v1.33.4", to: "v1.34.8", object: settings.Object{Kind: "KubeadmControlPlane"},
			content: `{spec: {kubeadmConfigSpec: {clusterConfiguration: {apiServer: {extraArgs: [
				{name: feature-gates, value: UserNamespacesPodSecurityStandards=true}]}}}}}`,
		},
		"the kubelet's argument": {
			from: "v1.34.8", to: "v1.35.5", object: settings.Object{Kind: "KubeadmConfigTemplate"},
			content: `{spec: {template: {spec: {joinConfiguration: {nodeRegistration: {kubeletExtraArgs: [
				{name: feature-gates, value: "UserNamespacesPodSecurityStandards=true,NodeSwap=true"}]}}}}}}`,
			want: []brief{{ID: "kubelet/" + podSecurity, Problem: settings.Removed, Since: "v1.35"}},
		},
		"a gate that v1.28 has last": {
			from: "v1.28.15", to: "v1.29.14", object: settings.Object{Kind: "KubeadmControlPlane"},
			content: `{spec: {kubeadmConfigSpec: {clusterConfiguration: {
				apiServer: {extraArgs: [{name: feature-gates, value: "GRPCContainerProbe=true"}]}}}}}`,
			want: []brief{{ID: "kube-apiserver/GRPCContainerProbe", Problem: settings.Removed, Since: "v1.29"}},
		},
		"the cloud provider of an API server": {
			from: "v1.32.4", to: "v1.33.1", object: settings.Object{Kind: "KubeadmControlPlane"},
			content: `{spec: {kubeadmConfigSpec: {clusterConfiguration: {
				apiServer: {extraArgs: [{name: cloud-provider, value: external}]},
				controllerManager: {extraArgs: [{name: cloud-provider, value: external}]}}}}}`,
			// Controller managers have it up to the newest minor.
			want: []brief{{
				ID: "kube-apiserver/--cloud-provider", Problem: settings.Removed, Since: "v1.33",
			}},
		},
		"a gate of kubeadm": {
			from: "v1.35.2", to: "v1.36.1", object: settings.Object{Kind: "KubeadmControlPlane"},
			content: `{spec: {kubeadmConfigSpec: {clusterConfiguration: {featureGates: {
				ControlPlaneKubeletLocalMode: true}}}}}`,
			want: []brief{{
				ID: "kubeadm/ControlPlaneKubeletLocalMode", Problem: settings.Removed, Since: "v1.36",
				Warning: true,
			}},
		},
		"an argument of RKE2": {
			from: "v1.34.4+rke2r1", to: "v1.35.4+rke2r1", object: settings.Object{Kind: "RKE2ControlPlane"},
			content: `{spec: {agentConfig: {kubelet: {extraArgs: [
				"--feature-gates=UserNamespacesPodSecurityStandards=true", pod-infra-container-image=x]}}}}`,
			want: []brief{
				{ID: "kubelet/--pod-infra-container-image", Problem: settings.Removed, Since: "v1.35"},
				{ID: "kubelet/" + podSecurity, Problem: settings.Removed, Since: "v1.35"},
			},
		},
		"the datastore of Canonical Kubernetes": {
			from: "v1.35.4", to: "v1.36.1", object: settings.Object{Kind: "CK8sControlPlane"},
			content: `{spec: {spec: {channel: 1.35-classic/stable, controlPlane: {datastoreType: k8s-dqlite}}}}`,
			want:    []brief{{ID: "k8s/datastoreType=k8s-dqlite", Problem: settings.Removed, Since: "v1.36"}},
		},
		"the datastore of Canonical Kubernetes before": {
			from: "v1.34.8", to: "v1.35.4", object: settings.Object{Kind: "CK8sControlPlane"},
			content: `{spec: {spec: {controlPlane: {datastoreType: k8s-dqlite}}}}`,
		},
		"arguments of Canonical Kubernetes": {
			from: "v1.34.8", to: "v1.35.4", object: settings.Object{Kind: "CK8sControlPlane"},
			content: `{spec: {spec: {extraKubeletArgs: {--pod-infra-container-image: x, --v: "2", --address: null}, controlPlane: {
extraKubeAPIServerArgs: {--audit-log-maxage: "30", --feature-gates: UserNamespacesPodSecurityStandards=true}}}}}`,
			want: []brief{
				{ID: "kube-apiserver/" + podSecurity, Problem: settings.Removed, Since: "v1.35"},
				{ID: "kubelet/--pod-infra-container-image", Problem: settings.Removed, Since: "v1.35"},
			},
		},
		"arguments that Canonical Kubernetes removes": {
			from: "v1.34.8", to: "v1.35.4", object: settings.Object{Kind: "CK8sControlPlane"},
			content: `{spec: {spec: {extraKubeletArgs: {--pod-infra-container-image: null}}}}`,
		},
		"arguments of Canonical Kubernetes' workers": {
			from: "v1.34.8", to: "v1.35.4", object: settings.Object{Kind: "CK8sConfigTemplate"},
			content: `{spec: {template: {spec: {extraKubeletArgs: {--pod-infra-container-image: x}, controlPlane: {extraKubeSchedulerArgs: {--none: x}}}}}}`,
			want:    []brief{{ID: "kubelet/--pod-infra-container-image", Problem: settings.Removed, Since: "v1.35"}},
		},
		"etcd of Canonical Kubernetes": {
			from: "v1.35.4", to: "v1.36.1", object: settings.Object{Kind: "CK8sControlPlane"},
			content: `{spec: {spec: {controlPlane: {datastoreType: etcd}}}}`,
		},
		"the default datastore of Canonical Kubernetes": {
			from: "v1.35.4", to: "v1.36.1", object: settings.Object{Kind: "CK8sControlPlane"},
			content: `{spec: {spec: {controlPlane: {}}}}`,
		},
		"a profile of RKE2": {
			from: "v1.29.10+rke2r1", to: "v1.30.6+rke2r1", object: settings.Object{Kind: "RKE2ControlPlane"},
			content: `{spec: {agentConfig: {cisProfile: cis-1.23}}}`,
			want:    []brief{{ID: "rke2/profile=cis-1.23", Problem: settings.Removed, Since: "v1.30"}},
		},
		"a profile of RKE2's workers, on the way": {
			from: "v1.24.17+rke2r1", to: "v1.26.15+rke2r1", object: settings.Object{Kind: "RKE2ConfigTemplate"},
			content: `{spec: {template: {spec: {agentConfig: {cisProfile: cis-1.6}}}}}`,
			want:    []brief{{ID: "rke2/profile=cis-1.6", Problem: settings.Removed, Since: "v1.25"}},
		},
		"a profile of RKE2 before": {
			from: "v1.28.10+rke2r1", to: "v1.29.6+rke2r1", object: settings.Object{Kind: "RKE2ControlPlane"},
			content: `{spec: {agentConfig: {cisProfile: cis-1.23}}}`,
		},
		"the profile of RKE2 that stays": {
			from: "v1.29.10+rke2r1", to: "v1.36.1+rke2r1", object: settings.Object{Kind: "RKE2ControlPlane"},
			content: `{spec: {agentConfig: {cisProfile: cis}}}`,
		},
		"an argument of K3s, twice in the way": {
			from: "v1.33.4+k3s1", to: "v1.36.1+k3s1", object: settings.Object{Kind: "KThreesControlPlane"},
			content: `{spec: {kthreesConfigSpec: {serverConfig: {kubeAPIServerArg: [
				feature-gates=UserNamespacesPodSecurityStandards=true]}}}}`,
			want: []brief{{ID: "kube-apiserver/" + podSecurity, Problem: settings.Removed, Since: "v1.35"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.object.Name, test.object.Content = "prod", decode(t, test.content)
			found := settings.Check(upgrade(test.from, test.to), settings.FromObject(test.object))
			if diff := cmp.Diff(test.want, briefs(found)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProblems: what is wrong with single settings.
// TestKeptElsewhere: people are told which components keep a flag that another one loses.
func TestKeptElsewhere(t *testing.T) {
	t.Parallel()
	p := settings.Place{Object: "Node a"}
	for flag, want := range map[string]string{
		"cloud-provider":            "remove it before the upgrade, but keep it where it is set for kube-controller-manager or kubelet;",
		"pod-infra-container-image": "remove it before the upgrade;",
	} {
		component := settings.APIServer
		if flag != "cloud-provider" {
			component = settings.Kubelet
		}
		found := settings.Check(upgrade("v1.32.1", "v1.35.1"),
			settings.FromWords(p, component, []string{"--" + flag + "=external"}))
		if len(found) != 1 || !strings.HasPrefix(found[0].Fix(), want) {
			t.Errorf("%s: %q, want %q", flag, found[0].Fix(), want)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	p := settings.Place{Object: "Node a"}
	running := settings.Place{Object: "Node a", Running: true}
	gate := func(value string) []settings.Arg {
		return []settings.Arg{{Name: "--feature-gates", Value: value}}
	}
	for name, test := range map[string]struct {
		from, to string
		uses     []settings.Use
		want     []brief
	}{
		"a gate that is locked": {
			from: "v1.34.1", to: "v1.36.1",
			uses: settings.FromArgs(p, settings.Kubelet, gate("APIServerTracing=false")),
			want: []brief{{ID: "kubelet/APIServerTracing", Problem: settings.Locked, Since: "v1.34"}},
		},
		"a gate that is locked to the value that it has": {
			from: "v1.34.1", to: "v1.36.1",
			uses: settings.FromArgs(p, settings.Kubelet, gate("APIServerTracing=true")),
		},
		"a gate that nobody knows": {
			from: "v1.34.1", to: "v1.35.1",
			uses: settings.FromArgs(p, settings.Scheduler, gate("NoSuchGate=true")),
			want: []brief{{ID: "kube-scheduler/NoSuchGate", Problem: settings.Unrecognized}},
		},
		"a gate of later minors": {
			from: "v1.33.1", to: "v1.34.1",
			uses: settings.FromArgs(p, settings.Kubelet, gate("ConstrainedImpersonation=true")),
			want: []brief{{ID: "kubelet/ConstrainedImpersonation", Problem: settings.TooNew, Since: "v1.35"}},
		},
		"a KubeletConfiguration with metadata": {
			from: "v1.34.1", to: "v1.35.1",
			uses: settings.FromKubelet(p, map[string]any{
				"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "metadata": map[string]any{},
			}),
		},
		"what runs today although the catalog lacks it": {
			from: "v1.34.1", to: "v1.35.1",
			uses: settings.FromArgs(running, settings.Scheduler, gate("NoSuchGate=true")),
			want: []brief{{ID: "kube-scheduler/NoSuchGate", Problem: settings.Unrecognized, Warning: true}},
		},
		"the prefix of an API server's gates, blanks, underscores, and all alphas": {
			from: "v1.35.1", to: "v1.36.1",
			uses: settings.FromArgs(p, settings.APIServer, []settings.Arg{
				{Name: "feature_gates", Value: "kube:AllAlpha=false, NodeLogQuery=true,"},
				{Name: "profiling", Value: "false"}, {Name: "v", Value: "2"},
			}),
		},
		"fields of the kubelet are warnings, its gates are not": {
			from: "v1.35.1", to: "v1.36.1",
			uses: settings.FromKubelet(p, map[string]any{
				"kind": "KubeletConfiguration", "noSuchField": 1,
				"featureGates":   map[string]any{"NoSuchGate": true},
				"evictionHard":   map[string]any{"memory.available": "1Gi"},
				"authentication": map[string]any{"anonymous": map[string]any{"enabled": false, "other": 1}},
			}),
			want: []brief{
				{ID: "kubelet/NoSuchGate", Problem: settings.Unrecognized},
				{ID: "kubelet/.authentication.anonymous.other", Problem: settings.Unrecognized, Warning: true},
				{ID: "kubelet/.noSuchField", Problem: settings.Unrecognized, Warning: true},
			},
		},
		"a patch release": {
			from: "v1.35.1", to: "v1.35.2",
			uses: settings.FromWords(p, settings.Kubelet, []string{"pod-infra-container-image=x"}),
			want: []brief{{
				ID: "kubelet/--pod-infra-container-image", Problem: settings.Removed, Since: "v1.35",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := settings.Check(upgrade(test.from, test.to), test.uses)
			if diff := cmp.Diff(test.want, briefs(found)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGaps: a minor that the catalog does not have is unknown, never in order.
func TestGaps(t *testing.T) {
	t.Parallel()
	oldest, newest := settings.Oldest().String(), settings.Newest().String()
	newer := settings.Newest().Next().String()
	known := ", which knows " + oldest + " to " + newest
	gap := func(newer bool, minor string) settings.Gap {
		return settings.Gap{
			Newer: newer, Message: "the settings of " + minor + " are not known to this release" + known,
		}
	}
	for _, test := range []struct {
		from, to string
		want     []settings.Gap
	}{
		{newest + ".1", newer + ".0", []settings.Gap{gap(true, newer)}},
		{oldest + ".1", newest + ".0", nil},
		{"", newer + ".0", []settings.Gap{gap(true, newer)}},
		{"", "v1.20.0", []settings.Gap{gap(false, "v1.20")}},
		{"v1.20.0", newer + ".0", []settings.Gap{gap(false, "v1.21"), gap(true, newer)}},
		{"", "v2.1.0", []settings.Gap{gap(true, "v2.1")}},
	} {
		got := upgrade(test.from, test.to).Gaps()
		for i := range got {
			if !strings.HasPrefix(got[i].String(), got[i].Message+". Fix: compare the settings with ") {
				t.Errorf("from %q to %s: it reads %s", test.from, test.to, got[i])
			}
			got[i].Fix = ""
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("from %q to %s (-want +got):\n%s", test.from, test.to, diff)
		}
	}
}

// TestAccepted: a finding is accepted by its name, and only by that.
func TestAccepted(t *testing.T) {
	t.Parallel()
	uses := settings.FromWords(settings.Place{Object: "o", Path: "p"}, settings.Kubelet,
		[]string{"no-such-flag=s3cret", "feature-gates=NoSuchGate=true"})
	found := settings.Check(upgrade("", "v1.36.1"), uses)
	left := settings.Accepted(found, []string{"kubelet/--no-such-flag", "kube-apiserver/NoSuchGate"})
	want := []brief{{ID: "kubelet/NoSuchGate", Problem: settings.Unrecognized}}
	if diff := cmp.Diff(want, briefs(left)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	const described = "o, p: the flag --no-such-flag of kubelet is unknown to v1.36; the component would " +
		"not start; o, p: the feature gate NoSuchGate=true of kubelet is unknown to v1.36; the component " +
		"would not start. Fix: remove it, or correct its spelling, before the upgrade; accept it by the " +
		"name kubelet/--no-such-flag if this build has it"
	if diff := cmp.Diff(described, settings.Describe(found)); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
}

// TestArgsOf reads command lines.
func TestArgsOf(t *testing.T) {
	t.Parallel()
	got := settings.ArgsOf([]string{"/usr/bin/kubelet", "--a=b=c", "--d", "e", "--f", "--g", "-x", "--"})
	want := []settings.Arg{
		{Name: "--a", Value: "b=c"}, {Name: "--d", Value: "e"}, {Name: "--f"}, {Name: "--g"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

// TestKnownEverywhere: a setting that all minors of an upgrade list has no finding, and one that the
// target does not list has one.
func TestKnownEverywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		component := rapid.SampledFrom(settings.Components()).Draw(t, "component")
		oldest, newest := settings.Oldest().Minor, settings.Newest().Minor
		at := rapid.Uint32Range(oldest, newest).Draw(t, "minor of the setting")
		to := rapid.Uint32Range(oldest, newest).Draw(t, "target")
		lines := slices.DeleteFunc(settings.BuiltIn().Lines(component, at), func(line string) bool {
			return strings.HasPrefix(line, "needs ")
		})
		line := rapid.SampledFrom(lines).Draw(t, "setting")
		fields := strings.Fields(line)
		kind, rest := fields[0], fields[1:]
		use := settings.Use{Component: component, Kind: settings.Kind(kind), Name: rest[0]}
		use.Value = rapid.SampledFrom([]string{"true", "false"}).Draw(t, "value")
		locked := ""
		known, breaks := false, false
		for _, other := range settings.BuiltIn().Lines(component, to) {
			words := strings.Fields(other)
			if words[0] == "needs" && len(words) == 3 && kind == "gate" {
				gate, needed, _ := strings.Cut(words[1], "/")
				breaks = breaks || words[2] == "true" && needed == use.Name && use.Value == "false" ||
					words[2] == "false" && gate == use.Name && use.Value == "true"
			}
			if words[0] != kind || words[1] != rest[0] {
				continue
			}
			known = true
			if len(words) == 3 {
				locked = words[2]
			}
		}
		u := settings.Upgrade{To: version.MustParse(version.Minor{Major: 1, Minor: to}.String() + ".0")}
		found := settings.Check(u, []settings.Use{use})
		want := !known || breaks || use.Kind == settings.Gate && locked != "" && locked != use.Value
		if got := len(found) > 0; got != want {
			t.Fatalf("%s %s=%s of %s at v1.%d: found %v, want a finding: %t",
				kind, use.Name, use.Value, component, to, found, want)
		}
	})
}

// TestLongNames: what a finding says is bounded, however long the names are that a tenant gives.
func TestLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	var uses []settings.Use
	for i := range 100 {
		uses = append(uses, settings.FromArgs(settings.Place{Object: "Machine m"}, settings.Kubelet, []settings.Arg{
			{Name: long + strconv.Itoa(i), Value: long}, {Name: "feature-gates", Value: long + "=" + long},
		})...)
	}
	found := settings.Check(settings.Upgrade{To: version.MustParse("v1.36.0")}, uses)
	if said := settings.Describe(found); len(found) < 100 || len(said) > 2000 {
		t.Errorf("%d findings are described with %d bytes", len(found), len(said))
	}
	for _, f := range found {
		if n := len(f.Subject() + f.Message() + f.Fix() + f.ID()); n > 1000 {
			t.Fatalf("a finding has %d bytes", n)
		}
	}
}
