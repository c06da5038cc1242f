package hosts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

// rancherObjects are a machine's with a config of RKE2 or K3s, or those of a MachineSet.
func rancherObjects(
	t interface{ Fatal(...any) }, scope cover.Scope, kind, version string, worker bool, spec fields,
) cover.Objects {
	o := objects(t, scope, version, spec)
	o.Bootstrap = bytes.Replace(o.Bootstrap, []byte("KubeadmConfig"), []byte(kind), 1)
	if worker {
		o.Machine = bytes.Replace(o.Machine, []byte(clusterv1.MachineControlPlaneLabel), []byte("a"), 1)
	}
	return o
}

// words is a spec with one field below agentConfig or serverConfig.
func words(path string, args ...any) fields {
	names := strings.Split(path, "/")
	var value any = args
	for _, name := range slices.Backward(names) {
		value = fields{name: value}
	}
	spec, _ := value.(fields)
	return spec
}

// TestRancherCoverage: what a restart of RKE2 or K3s applies is covered. What counts only when a
// node is registered, what names files, and what the host could not tell from the provider's own
// arguments is not, and the notes say why.
func TestRancherCoverage(t *testing.T) {
	t.Parallel()
	const (
		rke2 = "agentConfig/kubelet/extraArgs"
		k3s  = "agentConfig/kubeletArgs"
		api  = "serverConfig/kubeAPIServerArg"
		gate = "feature-gates=UserNamespacesPodSecurityStandards=true"
	)
	for name, test := range map[string]struct {
		d        linuxhost.Distribution
		from, to fields
		worker   bool
		// version is the desired one; the current one is v1.34.8.
		version string
		// left is what is not covered, below the spec of the config; a dot stands for the Machine's
		// version.
		left, note string
	}{
		"nothing":                 {d: linuxhost.RKE2, from: fields{}, to: fields{}},
		"an argument is added":    {d: linuxhost.RKE2, from: words(rke2, "v=1"), to: words(rke2, "v=1", "max-pods=9"), worker: true},
		"the first argument":      {d: linuxhost.RKE2, from: fields{}, to: words(rke2, "max-pods=9")},
		"an argument with dashes": {d: linuxhost.RKE2, from: words(rke2, "v=1"), to: words(rke2, "--v=2")},
		"an argument of K3s":      {d: linuxhost.K3s, from: words(k3s, "v=1"), to: words(k3s, "v=2"), worker: true},
		"a field of the other kind": {
			d: linuxhost.K3s, from: words(rke2, "v=1"), to: words(rke2, "v=2"), left: "/" + rke2,
		},
		"the order of arguments": {d: linuxhost.RKE2, from: words(rke2, "v=1", "max-pods=9"), to: words(rke2, "max-pods=9", "v=1")},
		"an argument twice":      {d: linuxhost.RKE2, from: words(rke2, "event-qps=1"), to: words(rke2, "event-qps=1", "event-qps=2")},
		"an argument is removed": {
			d: linuxhost.RKE2, from: words(rke2, "v=1", "max-pods=9"), to: words(rke2, "v=1"), left: "/" + rke2,
			note: "agentConfig.kubelet.extraArgs: the argument max-pods is removed",
		},
		"one that the version lacks is removed": {
			d: linuxhost.RKE2, from: words(rke2, "v=1", gate), to: words(rke2, "v=1"), version: "v1.35.5",
		},
		"all that the version lacks is removed": {
			d: linuxhost.RKE2, from: words(rke2, gate), to: fields{}, version: "v1.35.5",
		},
		"all that the version lacks is removed, with what is around it": {
			d: linuxhost.RKE2, to: fields{}, version: "v1.35.5",
			from: fields{"agentConfig": fields{"kubelet": fields{"extraArgs": list{gate}, "extraEnv": fields{"A": "b"}}}},
			left: "/" + rke2 + " /agentConfig/kubelet/extraEnv/A", note: "the list is removed with what is around it",
		},
		"one that the version lacks stays": {
			d: linuxhost.RKE2, from: words(rke2, gate), to: words(rke2, gate), version: "v1.35.5", left: ".",
			note: "the feature gate UserNamespacesPodSecurityStandards=true of kubelet is removed in v1.35",
		},
		"the API server's cloud provider stays": {
			d: linuxhost.K3s, from: words(api, "cloud-provider=external"), to: words(api, "cloud-provider=external"),
			version: "v1.35.5", left: ".", note: "kube-apiserver/--cloud-provider",
		},
		"of an API server, on a worker": {
			d: linuxhost.K3s, from: words(api, "cloud-provider=external"), to: words(api, "cloud-provider=external"),
			version: "v1.35.5", worker: true,
		},
		"an argument that names a file": {
			d: linuxhost.RKE2, from: words(rke2, "v=1"), to: words(rke2, "v=1", "config=/x"), left: "/" + rke2,
			note: "is not given the argument config: it names a file",
		},
		"one that names a file stays": {d: linuxhost.RKE2, from: words(rke2, "config=/x"), to: words(rke2, "config=/x", "v=1")},
		"a template":                  {d: linuxhost.RKE2, from: words(rke2, "v=1"), to: words(rke2, "v={{ x }}"), left: "/" + rke2},
		"a quote":                     {d: linuxhost.RKE2, from: words(rke2, "v=1"), to: words(rke2, "v=\""), left: "/" + rke2},
		"a sign":                      {d: linuxhost.K3s, from: words(k3s, "v=1"), to: words(k3s, "v=1", "kube-reserved+=cpu=1"), left: "/" + k3s},
		"a flag without a value":      {d: linuxhost.K3s, from: words(k3s, "v=1"), to: words(k3s, "v=1", "fail-swap-on"), left: "/" + k3s},
		"no list":                     {d: linuxhost.K3s, from: words(k3s, "v=1"), to: fields{"agentConfig": fields{"kubeletArgs": "v=2"}}, left: "/" + k3s},
		"of the proxy":                {d: linuxhost.RKE2, from: words("agentConfig/kubeProxy/extraArgs", "v=1"), to: words("agentConfig/kubeProxy/extraArgs", "v=2"), worker: true},
		"the proxy's mode": {
			d: linuxhost.RKE2, from: words("agentConfig/kubeProxy/extraArgs", "v=1"),
			to: words("agentConfig/kubeProxy/extraArgs", "v=1", "proxy-mode=ipvs"), left: "/agentConfig/kubeProxy/extraArgs",
		},
		"of an API server": {d: linuxhost.K3s, from: words(api, "v=1"), to: words(api, "v=2", "max-requests-inflight=9")},
		"of an API server that a worker does not run": {
			d: linuxhost.K3s, from: words(api, "v=1"), to: words(api, "v=2"), worker: true, left: "/" + api,
			note: "serverConfig.kubeAPIServerArg: workers do not use it",
		},
		"how an API server authenticates": {
			d: linuxhost.K3s, from: words(api, "v=1"), to: words(api, "v=1", "anonymous-auth=true"), left: "/" + api,
		},
		"labels": {
			d: linuxhost.RKE2, from: words("agentConfig/nodeLabels", "a=b"), to: words("agentConfig/nodeLabels", "a=c"),
			left: "/agentConfig/nodeLabels", note: "agentConfig.nodeLabels counts only when a node is registered",
		},
		"taints": {
			d: linuxhost.K3s, from: words("agentConfig/nodeTaints", "a=b"), to: words("agentConfig/nodeTaints", "a=c"),
			left: "/agentConfig/nodeTaints", note: "agentConfig.nodeTaints counts only when a node is registered",
		},
		"files": {
			d: linuxhost.RKE2, from: fields{}, to: withFiles(file("/etc/rancher/rke2/config.yaml.d/a.yaml", "x: 1")),
			left: "/files",
		},
		"registries": {
			d: linuxhost.RKE2, from: fields{}, to: fields{"privateRegistriesConfig": fields{"mirrors": fields{}}},
			left: "/privateRegistriesConfig/mirrors",
		},
		"the version that the config of K3s names": {
			d: linuxhost.K3s, from: fields{"version": "v1.34.8+k3s1"}, to: fields{"version": "v1.35.5+k3s1"}, version: "v1.35.5",
		},
		"another version": {
			d: linuxhost.K3s, from: fields{"version": "v1.34.8+k3s1"}, to: fields{"version": "v1.36.0+k3s1"}, version: "v1.35.5",
			left: "/version",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, kind, build := coverage{distribution: test.d, folder: "/usr/local/bin"}, "RKE2Config", "+rke2r1"
			if test.d == linuxhost.K3s {
				kind, build = "KThreesConfig", "+k3s1"
			}
			if test.version == "" {
				test.version = "v1.34.8"
			}
			for _, scope := range []cover.Scope{cover.Machine, cover.MachineSet} {
				from := rancherObjects(t, scope, kind, "v1.34.8"+build, test.worker, test.from)
				to := rancherObjects(t, scope, kind, test.version+build, test.worker, test.to)
				var left []string
				for _, pointer := range uncovered(t, c, scope, from, to) {
					path := strings.TrimPrefix(strings.TrimPrefix(pointer.Path, "/spec/template"), "/spec")
					if pointer.Part == cover.PartMachine {
						path = "."
					}
					left = append(left, path)
				}
				if diff := cmp.Diff(test.left, strings.Join(left, " ")); diff != "" {
					t.Errorf("scope %d: left (-want +got):\n%s", scope, diff)
				}
				patches, err := (&Updater{coverage: c}).patches(testContext, scope, from, to)
				if err != nil || !strings.Contains(strings.Join(patches.Notes, "; "), test.note) {
					t.Errorf("scope %d: notes %q, want %q; %v", scope, patches.Notes, test.note, err)
				}
			}
		})
	}
}

// TestRancherGoal: an update sets the arguments that a running host can be given, and no others.
func TestRancherGoal(t *testing.T) {
	t.Parallel()
	spec := fields{
		"agentConfig": fields{
			"kubeletArgs":   list{"max-pods=9", "--v=2", "config=/x", "kube-reserved+=cpu=1", "kube-reserved=memory=1Gi", "sync-frequency={{ x }}"},
			"kubeProxyArgs": list{"proxy-mode=ipvs"}, "nodeLabels": list{"a=b"},
		},
		"serverConfig": fields{"kubeAPIServerArg": list{"goaway-chance=0.1", "anonymous-auth=true"}},
	}
	kubelet := linuxhost.ComponentArguments{Key: "kubelet-arg", Args: []linuxhost.Arg{
		{Name: "max-pods", Value: "9"}, {Name: "v", Value: "2"},
	}}
	server := linuxhost.ComponentArguments{Key: "kube-apiserver-arg", Args: []linuxhost.Arg{
		{Name: "goaway-chance", Value: "0.1"},
	}}
	for name, test := range map[string]struct {
		kind    string
		worker  bool
		want    []linuxhost.ComponentArguments
		unknown bool
	}{
		"a server":            {kind: "KThreesConfig", want: []linuxhost.ComponentArguments{kubelet, server}},
		"an agent":            {kind: "KThreesConfig", worker: true, want: []linuxhost.ComponentArguments{kubelet}},
		"a config of no kind": {kind: "OtherConfig", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &Updater{coverage: coverage{distribution: linuxhost.K3s}}
			v := version.MustParse("v1.35.5+k3s1")
			o := rancherObjects(t, cover.Machine, test.kind, v.String(), test.worker, spec)
			a := attempt{to: v, bootstrap: o.Bootstrap, worker: test.worker}
			goal, err := u.computeGoal(testContext, a, linuxhost.Manifest{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, goal.Arguments); diff != "" || goal.DropRemoved == test.unknown {
				t.Errorf("(-want +got):\n%s\nit has all arguments: %t", diff, goal.DropRemoved)
			}
		})
	}
}

// TestRancherGoalRefusesSettings: UpdateMachine refuses what is not covered, too.
func TestRancherGoalRefusesSettings(t *testing.T) {
	t.Parallel()
	c := coverage{distribution: linuxhost.RKE2}
	o := rancherObjects(t, cover.Machine, "RKE2Config", "v1.35.5+rke2r1", true,
		words("agentConfig/kubelet/extraArgs", "no-such-flag=1"))
	_, err := c.withRancherConfig(linuxhost.Goal{Version: version.MustParse("v1.35.5+rke2r1")}, o.Bootstrap)
	if err == nil || !strings.Contains(err.Error(), "RKE2Config m, spec.agentConfig.kubelet.extraArgs: the flag --no-such-flag") {
		t.Errorf("%v", err)
	}
	// Agents end with a profile that they do not know, too.
	c.worker = true
	o = rancherObjects(t, cover.Machine, "RKE2Config", "v1.30.6+rke2r1", true,
		fields{"agentConfig": fields{"cisProfile": "cis-1.23"}})
	_, err = c.withRancherConfig(linuxhost.Goal{Version: version.MustParse("v1.30.6+rke2r1")}, o.Bootstrap)
	if err == nil || !strings.Contains(err.Error(), "RKE2Config m, spec.agentConfig.cisProfile: the value profile=cis-1.23") {
		t.Errorf("%v", err)
	}
	if _, err := c.withRancherConfig(linuxhost.Goal{}, json.RawMessage("[")); err == nil {
		t.Error("a config that is no JSON is no error")
	}
}

// TestWhatIsCoveredOfRancherIsDone makes a host by one config, as the provider does, and has the
// update to another one done to it: if the change is covered, the kubelet gets what it would get on a
// host that was made by the other one.
func TestWhatIsCoveredOfRancherIsDone(t *testing.T) {
	t.Parallel()
	const mainFile, own = "/etc/rancher/rke2/config.yaml", "cloud-provider=external"
	file := func(at string, words []any) settings.RancherFile {
		return settings.RancherFile{Path: at, Content: fields{"kubelet-arg": words}}
	}
	gets := func(files ...settings.RancherFile) map[string][]string {
		var words []string
		for _, word := range settings.MergeRancher(files)["kubelet-arg"] {
			words = append(words, word.Text)
		}
		return byName(words)
	}
	anyWords := rapid.SliceOfN(rapid.SampledFrom([]any{
		"v=1", "v=2", "--v=1", "max-pods=1", "max-pods=2", "config=/x", "node-labels=a=b", "fail-swap-on",
		"kube-reserved+=cpu=1", "kube-reserved=cpu=2", "feature-gates=UserNamespacesPodSecurityStandards=true",
		"feature-gates=NodeSwap=true", "v={{ x }}",
	}), 0, 5)
	c := coverage{distribution: linuxhost.RKE2, worker: true}
	v := version.MustParse("v1.35.5+rke2r1")
	covered := 0
	rapid.Check(t, func(t *rapid.T) {
		before, after := anyWords.Draw(t, "before"), anyWords.Draw(t, "after")
		spec := func(words []any) fields { return fields{"agentConfig": fields{"kubelet": fields{"extraArgs": words}}} }
		from := rancherObjects(t, cover.Machine, "RKE2Config", v.String(), true, spec(before))
		to := rancherObjects(t, cover.Machine, "RKE2Config", v.String(), true, spec(after))
		paths, _, ok, err := c.rancherClaims(cover.Machine, from, to)
		if err != nil || !ok || len(paths) == 0 {
			return
		}
		covered++
		goal, err := c.withRancherConfig(linuxhost.Goal{Distribution: linuxhost.RKE2, Version: v}, to.Bootstrap)
		if err != nil {
			t.Fatal(err)
		}
		files := []settings.RancherFile{file(mainFile, append(slices.Clip(before), own))}
		facts := linuxhost.Facts{Arch: "amd64", Service: "rke2-agent", Installed: v}
		facts.Rancher = linuxhost.RancherConfig{Path: mainFile, Files: files}
		steps, refused := linuxhost.ComputeSteps(goal, facts)
		if refused != nil {
			t.Fatalf("%v to %v is covered, and the host is refused: %s", before, after, refused)
		}
		for _, step := range steps {
			if step.Name == linuxhost.ComponentArgs {
				files = append(files, file(mainFile+".d/00-windlass.yaml", writtenList(t, step)))
			}
		}
		want := gets(file(mainFile, append(slices.Clip(after), own)))
		if diff := cmp.Diff(want, gets(files...)); diff != "" {
			t.Errorf("%v to %v: the kubelet gets (-want +got):\n%s", before, after, diff)
		}
	})
	if covered == 0 {
		t.Error("no change was covered")
	}
}

// writtenList returns the kubelet's arguments in the file that a step writes.
func writtenList(t *rapid.T, step linuxhost.Step) []any {
	action, _ := step.Action.(linuxhost.Run)
	_, rest, _ := strings.Cut(action.Script, "FILES='")
	line, _, _ := strings.Cut(rest, "'")
	fields := strings.Fields(line)
	content, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(fields[len(fields)-1], "="))
	var parsed struct {
		Kubelet []any `json:"kubelet-arg"`
	}
	if err == nil {
		err = yaml.Unmarshal(content, &parsed)
	}
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Kubelet
}

// TestSafeArgumentsExist: each argument that a running component can be given is one that the
// component has in a version of the catalog.
func TestSafeArgumentsExist(t *testing.T) {
	t.Parallel()
	for _, kind := range []rancherKind{rke2Kind, k3sKind} {
		for _, field := range kind.fields {
			component := settings.RancherComponent(field.key)
			known := map[string]bool{}
			for minor := settings.Oldest(); !settings.Newest().Before(minor); minor = minor.Next() {
				for _, line := range settings.BuiltIn().Lines(component, minor.Minor) {
					known[line] = true
				}
			}
			for _, name := range field.safe {
				if name != "feature-gates" && !known["flag "+name] {
					t.Errorf("%s: %s has no flag --%s", kind.kind, component, name)
				}
			}
		}
	}
}

// FuzzRancherCoverage looks for panics, and for arguments that are covered and not given to the
// host.
func FuzzRancherCoverage(f *testing.F) {
	f.Add("v=1", "v=2", true)
	f.Add("feature-gates+=A=true", "--feature-gates=A=true", false)
	f.Add("=", "+-=", false)
	f.Fuzz(func(t *testing.T, before, after string, worker bool) {
		c := coverage{distribution: linuxhost.RKE2}
		from := rancherObjects(t, cover.Machine, "RKE2Config", "v1.35.5+rke2r1", worker, words("agentConfig/kubelet/extraArgs", before))
		to := rancherObjects(t, cover.Machine, "RKE2Config", "v1.35.5+rke2r1", worker, words("agentConfig/kubelet/extraArgs", after))
		paths, _, ok, err := c.rancherClaims(cover.Machine, from, to)
		if err != nil || !ok || len(paths) == 0 {
			return
		}
		goal, err := c.withRancherConfig(linuxhost.Goal{Version: version.MustParse("v1.35.5+rke2r1")}, to.Bootstrap)
		if err != nil || len(goal.Arguments) != 1 || len(goal.Arguments[0].Args) != 1 {
			t.Errorf("%q to %q is covered, and the host gets %v, %v", before, after, goal.Arguments, err)
		}
	})
}
