package linuxhost

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

// TestRefuseRancherSettings: a host of RKE2 or K3s that gives a component what the version lacks is
// refused before anything is changed, wherever it gives it.
func TestRefuseRancherSettings(t *testing.T) {
	t.Parallel()
	const (
		config  = "/etc/rancher/rke2/config.yaml"
		gate    = "UserNamespacesPodSecurityStandards=true"
		removed = "the feature gate UserNamespacesPodSecurityStandards=true of kubelet is removed in v1.35"
	)
	for name, test := range map[string]struct {
		files    map[string]string
		line     string
		server   bool
		from     string
		accepted []string
		// want is part of the message; empty for a host that is not refused.
		want   string
		reason Reason
	}{
		"healthy": {files: map[string]string{
			config: "token: abc\nserver: https://x:9345\nkubelet-arg:\n- max-pods=200\n- cloud-provider=external\n" +
				"node-label: [a=b]\nkube-proxy-arg: proxy-mode=nftables\n",
			config + ".d/50-rancher.yaml": `{"a": 1}` + "\n",
		}, from: "v1.35.1"},
		"in the file": {
			files: map[string]string{config: "token: abc\nkubelet-arg:\n- v=2\n- feature-gates=" + gate + "\n"},
			want:  config + ", kubelet-arg: " + removed,
		},
		"in a list of one line": {
			files: map[string]string{config: "---\n# x\n\"kubelet-arg\" : [\"v=2\",\n  \"feature-gates=" + gate + "\"\n]\ntoken: a\n"},
			want:  config + ", kubelet-arg: " + removed,
		},
		"in a drop-in that adds": {
			files: map[string]string{config: "kubelet-arg: [v=2]\n", config + ".d/a.yml": "kubelet-arg+: [feature-gates=" + gate + "]\n"},
			want:  config + ".d/a.yml, kubelet-arg: " + removed,
		},
		"in a file whose list a drop-in replaces": {
			files: map[string]string{config: "kubelet-arg: [feature-gates=" + gate + "]\n", config + ".d/a.yaml": "kubelet-arg: [v=2]\n"},
		},
		"on the command line": {
			line: "--data-dir /x --kubelet-arg=v=2 --kubelet-arg feature-gates=" + gate,
			want: "the service rke2-agent, kubelet-arg: " + removed,
		},
		"in a variable": {
			files: map[string]string{"/etc/default/rke2-agent": "# --kubelet-arg=old=1\nRKE2_TOKEN=abc\nARGS=\"--kubelet-arg=feature-gates=" + gate + " --debug\"\n"},
			want:  "the service rke2-agent, kubelet-arg: " + removed,
		},
		"in a drop-in of the kubelet": {
			files: map[string]string{"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/50-x.conf": "featureGates: {NoSuchGate: true}\n"},
			want:  "50-x.conf, featureGates: the feature gate NoSuchGate=true of kubelet is unknown to v1.35",
		},
		"in the kubelet's file that RKE2 writes": {
			files: map[string]string{"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf": "featureGates: {NoSuchGate: true}\n"},
		},
		"of an API server": {
			files: map[string]string{config: "kube-apiserver-arg: cloud-provider=external\n"}, server: true,
			want: config + ", kube-apiserver-arg: the flag --cloud-provider of kube-apiserver is removed in v1.33",
		},
		"of an API server, on an agent": {
			files: map[string]string{config: "kube-apiserver-arg: cloud-provider=external\n"},
		},
		"a profile, on an agent": {
			files: map[string]string{config: "profile: \"cis-1.23\" # old\n"},
			want:  config + ", profile: the value profile=cis-1.23 of rke2 is removed in v1.30",
		},
		"a profile that a drop-in replaces": {
			files: map[string]string{config: "profile: cis-1.23\n", config + ".d/a.yaml": "profile: cis\n"},
		},
		"a profile on the command line": {
			files: map[string]string{config: "profile: cis\n"}, line: "--profile=cis-1.6", server: true,
			want: "the service rke2-server, profile: the value profile=cis-1.6 of rke2 is removed in v1.25",
		},
		"accepted by name": {
			files:    map[string]string{config: "kubelet-arg: feature-gates=" + gate + "\n"},
			accepted: []string{"kubelet/UserNamespacesPodSecurityStandards"},
		},
		"within a minor": {
			files: map[string]string{config: "kubelet-arg: feature-gates=" + gate + "\n"}, from: "v1.35.1",
		},
		"flow style": {
			files:  map[string]string{config: `{"token": "abc", "kubelet-arg": ["feature-gates=` + gate + `"]}` + "\n"},
			reason: ConfigUnreadable, want: config + " on the host has a form that Windlass does not read",
		},
		"flow style behind the mark of a document": {
			files:  map[string]string{config: "--- {kubelet-arg: [v=2]}\n"},
			reason: ConfigUnreadable, want: config,
		},
		"a list": {
			files:  map[string]string{config: "- kubelet-arg\n"},
			reason: ConfigUnreadable, want: config,
		},
		"an alias": {
			files:  map[string]string{config: "x: &a [v=2]\nkubelet-arg: *a\n"},
			reason: ConfigUnreadable, want: config,
		},
		"a merge": {
			files:  map[string]string{config: "x: &a {kubelet-arg: [v=2]}\n<<: *a\n"},
			reason: ConfigUnreadable, want: config,
		},
		"too large": {
			files:  map[string]string{config: "kubelet-arg:\n" + strings.Repeat("- v=2\n", 12_000)},
			reason: ConfigUnreadable, want: config,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unit, verb := "rke2-agent", "agent"
			if test.server {
				unit, verb = "rke2-server", "server"
			}
			h := rancherHost(t, RKE2, unit, "/x "+verb+" "+test.line, test.files)
			facts := h.facts(t)
			facts.Installed = version.MustParse("v1.34.8+rke2r1")
			if test.from != "" {
				facts.Installed = version.MustParse(test.from + "+rke2r1")
			}
			facts.Arch, h.goal.Version = "amd64", version.MustParse("v1.35.5+rke2r1")
			h.goal.Digests, h.goal.Accepted = rancherDigests(t, h.goal.Version), test.accepted
			_, refused := ComputeSteps(h.goal, facts)
			if test.reason == "" {
				test.reason = RemovedSetting
			}
			switch {
			case refused == nil && test.want != "":
				t.Errorf("it is not refused, want %q", test.want)
			case refused != nil && test.want == "":
				t.Errorf("it is refused: %s", refused)
			case refused != nil && (refused.Reason != test.reason ||
				!strings.Contains(strings.ReplaceAll(refused.Message, h.root, ""), test.want) ||
				!strings.Contains(refused.Message, "Fix: ")):
				t.Errorf("refused with %s, want %q", refused, test.want)
			}
		})
	}
}

// rancherDigests are digests of RKE2 and K3s at a version.
func rancherDigests(t *testing.T, v version.Version) Manifest {
	t.Helper()
	var lines strings.Builder
	for i, name := range []string{"rke2", "k3s"} {
		fmt.Fprintf(&lines, "%064x  %s/linux/amd64/%s\n", i+1, v, name)
	}
	parsed, err := ParseManifest(lines.String())
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestRancherCgroups: a kubelet of RKE2 or K3s refuses cgroups of version 1, too, unless a drop-in
// allows them.
func TestRancherCgroups(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		drop, config, line string
		refused            bool
	}{
		"not allowed":                 {drop: "maxPods: 1\n", refused: true},
		"allowed":                     {drop: "failCgroupV1: false\n"},
		"allowed by an argument":      {config: "kubelet-arg: [fail-cgroupv1=false]\n"},
		"allowed on the command line": {line: "--kubelet-arg=fail-cgroupv1=false"},
		"the last one counts": {
			config: "kubelet-arg: [fail-cgroupv1=false, fail-cgroupv1=true]\n", refused: true,
		},
		"the argument counts more": {
			drop: "failCgroupV1: false\n", config: "kubelet-arg: fail_cgroupv1=true\n", refused: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rancherHost(t, K3s, "k3s", "/x server "+test.line, map[string]string{
				"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/50-x.conf": test.drop,
				"/etc/rancher/k3s/config.yaml":                            test.config,
			})
			h.write(t, "/bin/stat", "#!/bin/bash\ncase $* in *cgroup) echo tmpfs ;; *) exec /usr/bin/stat \"$@\" ;; esac\n", 0o700)
			facts := h.facts(t)
			h.goal.Version = version.MustParse("v1.35.5+k3s1")
			h.goal.Digests = rancherDigests(t, h.goal.Version)
			facts.Arch, facts.Installed = "amd64", version.MustParse("v1.34.8+k3s1")
			_, refused := ComputeSteps(h.goal, facts)
			if got := refused != nil && refused.Reason == RemovedSetting; got != test.refused {
				t.Errorf("refused with %v", refused)
			}
			if refused != nil && !strings.Contains(refused.Message, "or set kubelet-arg: [fail-cgroupv1=false]") {
				t.Errorf("the way out is kubeadm's: %s", refused)
			}
		})
	}
}

// TestTokensStayOnTheHost: facts have nothing of a configuration but arguments for components.
func TestTokensStayOnTheHost(t *testing.T) {
	t.Parallel()
	const config = "/etc/rancher/k3s/config.yaml"
	h := rancherHost(t, K3s, "k3s", "/x server --token s3cr3t --kubelet-arg=v=2", map[string]string{
		config: "token: s3cr3t\nkubelet-arg:\n  - v=3\netcd-s3-secret-key: |\n  s3cr3t\n  kubelet-arg: s3cr3t\n" +
			"datastore-endpoint: s3cr3t\nkube-proxy-arg: [v=4]\nagent-token: s3cr3t\n",
		config + ".d/a.yaml": `{"token": "s3cr3t"}` + "\n",
		config + ".d/b.yaml": "- s3cr3t\n",
		"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/50-x.conf": kubeletWithHeader,
		"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/60-x.conf": `{"staticPodURLHeader": {"A": ["s3cr3t"]}}` + "\n",
		"/etc/default/k3s":    "K3S_TOKEN=s3cr3t\nA='--token s3cr3t --kube-apiserver-arg v=5'\n",
		config + ".d/c.yaml":  "token: \"x\ns3cr3t: 1\"\n",
		"/etc/sysconfig/k3s":  "K3S_AGENT_TOKEN=s3cr3t\n",
		config + ".d/no.json": "s3cr3t",
	})
	printed, exit := h.run(t, FactsScript(h.goal))
	values, err := parseValues(printed)
	if err != nil || exit != 0 {
		t.Fatal(exit, err)
	}
	for key, value := range values {
		if strings.Contains(value, "s3cr3t") {
			t.Errorf("%s has %q", key, value)
		}
	}
	c := parseRancherConfig(values)
	if got := c.Kubelet[0].Content; got != "maxPods: 5\nfeatureGates: {A: true}" || c.Kubelet[1].Content != unreadContent {
		t.Errorf("it reads %q", c.Kubelet)
	}
	if got := fmt.Sprint(c.Arguments, c.Files[0].Content); got != "[kubelet-arg=v=2 kube-apiserver-arg=v=5] "+
		"map[kube-proxy-arg:[v=4] kubelet-arg:[v=3]]" {
		t.Errorf("it reads %s", got)
	}
}

// kubeletWithHeader is a KubeletConfiguration that has a password.
const kubeletWithHeader = "maxPods: 5\nstaticPodURLHeader:\n  Authorization:\n  - s3cr3t\n\n  # s3cr3t\nfeatureGates: {A: true}\n"

// TestHeadersStayOnTheHost: the kubelet's configuration on a host of kubeadm is read without it.
func TestHeadersStayOnTheHost(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, map[string]string{"/var/lib/kubelet/config.yaml": kubeletWithHeader}, map[string]string{
		"systemctl": "echo 0\n", "kubelet": "echo Kubernetes v1.35.4\n",
	})
	if got := h.readFacts(t).Config.Kubelet; got != "maxPods: 5\nfeatureGates: {A: true}" {
		t.Errorf("it reads %q", got)
	}
}

// TestImagesOfIngressNginx: what a host's configuration and files say about its ingress controller and
// its registries reaches the known risk.
func TestImagesOfIngressNginx(t *testing.T) {
	t.Parallel()
	const config = "/etc/rancher/rke2/config.yaml"
	const images = "/var/lib/rancher/rke2/agent/images/rke2-images-"
	for name, test := range map[string]struct {
		line  string
		files map[string]string
		want  bool
	}{
		"archives only":                 {want: true},
		"an empty registries.yaml":      {files: map[string]string{"/etc/rancher/rke2/registries.yaml": ""}, want: true},
		"registries.yaml":               {files: map[string]string{"/etc/rancher/rke2/registries.yaml": "mirrors: {}\n"}},
		"Traefik":                       {files: map[string]string{config: "ingress-controller: traefik\n"}},
		"it is disabled in a list":      {files: map[string]string{config + ".d/a.yaml": "disable:\n- rke2-metrics-server\n- rke2-ingress-nginx\n"}},
		"something else is disabled":    {files: map[string]string{config: "disable: rke2-metrics-server\n"}, want: true},
		"it is disabled by an argument": {line: " --disable rke2-metrics-server,rke2-ingress-nginx"},
		"another default registry":      {files: map[string]string{config: "system-default-registry: r.example\n"}},
		"its archive":                   {files: map[string]string{images + "ingress-nginx.linux-amd64.tar.zst": "x"}},
	} {
		h := rancherHost(t, RKE2, "rke2-server", "/x server"+test.line, test.files)
		h.goal.Version = version.MustParse("v1.36.3+rke2r1")
		h.write(t, images+"core.linux-amd64.tar.zst", "x", 0o600)
		got := ""
		for _, note := range KnownRisks(h.goal, h.facts(t), true, version.Version{}) {
			if strings.HasPrefix(note, "known risk rke2-136-ingress-nginx-images: ") {
				got = note
			}
		}
		const seen = " It concerns this host: it has archives of images (rke2-images-core.linux-amd64.tar.zst), "
		if (got != "") != test.want || test.want && !strings.Contains(got, seen) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestOtherToken: a server with a token that is not the cluster's is refused, and nothing tells a token.
func TestOtherToken(t *testing.T) {
	t.Parallel()
	const (
		config = "/etc/rancher/rke2/config.yaml"
		file   = "/var/lib/rancher/rke2/server/token"
		kept   = "K10a1a925b1::server:n3w\n"
	)
	for name, test := range map[string]struct {
		line, unit string
		files      map[string]string
		// newer is a file that was written after the others.
		newer string
		want  bool
	}{
		"the old token":                       {files: map[string]string{config: "token: 0ld\n", file: kept}, want: true},
		"the new token":                       {files: map[string]string{config: "token: \"n3w\" # rotated\n", file: kept}},
		"the new token, long":                 {files: map[string]string{config: "token: K10ffff::server:n3w\n", file: kept}},
		"the old token, long":                 {files: map[string]string{config: "token: K10a1a925b1::server:0ld\n", file: kept}, want: true},
		"no token":                            {files: map[string]string{config: "cni: canal\n", file: kept}},
		"a cluster without a file":            {files: map[string]string{config: "token: 0ld\n"}},
		"a drop-in that corrects":             {files: map[string]string{config: "token: 0ld\n", config + ".d/a.yaml": "token: n3w\n", file: kept}},
		"on the command line, without a time": {line: " --token 0ld", files: map[string]string{config: "cni: canal\n", file: kept}},
		"in a file of its own":                {files: map[string]string{config: "token-file: ROOT/secret\n", "/secret": "0ld\r\n", file: kept}, want: true},
		"the new one in a file beside an old one": {files: map[string]string{
			config: "token: 0ld\ntoken-file: ROOT/secret\n", "/secret": "n3w", file: kept,
		}},
		"a file that does not exist": {files: map[string]string{config: "token-file: ROOT/none\n", file: kept}},
		"in a variable":              {files: map[string]string{"/etc/default/rke2-server": "RKE2_TOKEN=0ld\n", file: kept}, want: true},
		"a file in a variable": {files: map[string]string{
			"/etc/default/rke2-server": "RKE2_TOKEN_FILE=ROOT/secret\n", "/secret": "0ld\n", file: kept,
		}, want: true},
		"in a block":          {files: map[string]string{config: "token: >-\n  0ld\n", file: kept}},
		"of more than a word": {files: map[string]string{config: "token: \"it's #1\"\n", file: kept}},
		"none by a tilde":     {files: map[string]string{config: "token: ~\n", file: kept}},
		"what another server has rotated to": {
			files: map[string]string{config: "token: 0ld\n", file: kept}, newer: config,
		},
		"an agent, which has none": {unit: "rke2-agent", files: map[string]string{config: "token: 0ld\n", file: kept}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unit := cmp.Or(test.unit, "rke2-server")
			h := rancherHost(t, RKE2, unit, "/x server"+test.line, nil)
			h.addConfig(t, test.files)
			for path := range test.files {
				at := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
				if path == test.newer {
					at = at.Add(time.Hour)
				}
				if err := os.Chtimes(filepath.Join(h.root, path), at, at); err != nil {
					t.Fatal(err)
				}
			}
			h.goal.Version = version.MustParse("v1.35.8+rke2r1")
			printed, _ := h.run(t, FactsScript(h.goal))
			if strings.Contains(printed, "0ld") || strings.Contains(printed, "n3w") {
				t.Errorf("it prints %s", printed)
			}
			refused := refuseSettings(h.goal, h.facts(t))
			if (refused != nil) != test.want || test.want && refused.Reason != ConfigUnsupported {
				t.Errorf("%v", refused)
			}
		})
	}
}
