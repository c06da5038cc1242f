package linuxhost

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	mainFile = "/etc/rancher/k3s/config.yaml"
	dropIn   = mainFile + ".d/" + dropInName
)

// rancherGoal is a goal of K3s v1.36.3 that sets arguments of the kubelet, as NAME=VALUE.
func rancherGoal(tb testing.TB, words ...string) Goal {
	tb.Helper()
	g := Goal{
		Distribution: K3s, Version: version.MustParse("v1.36.3+k3s1"), Digests: digestsOfAll(tb),
		DropRemoved: true,
	}
	list := ComponentArguments{Key: settings.KubeletArgKey}
	for _, word := range words {
		list.Args = append(list.Args, Arg(settings.ArgOf(word)))
	}
	if len(words) > 0 {
		g.Arguments = []ComponentArguments{list}
	}
	return g
}

// rancherFacts are those of an agent with configuration files, as PATH, KEY and its words.
func rancherFacts(files ...[]string) Facts {
	f := Facts{Arch: "amd64", Service: "k3s-agent", Installed: version.MustParse("v1.36.3+k3s1")}
	f.Rancher.Path = mainFile
	for _, file := range files {
		var list []any
		for _, word := range file[2:] {
			list = append(list, word)
		}
		content := map[string]any{file[1]: list}
		f.Rancher.Files = append(f.Rancher.Files, settings.RancherFile{Path: file[0], Content: content})
	}
	return f
}

// writtenDropIn returns the content that a step writes; empty for no step.
func writtenDropIn(t *testing.T, steps []Step) (content, check string) {
	t.Helper()
	for _, step := range steps {
		if step.Name != ComponentArgs {
			continue
		}
		action, _ := step.Action.(Run)
		_, files, _ := strings.Cut(action.Script, "FILES='")
		line, _, _ := strings.Cut(files, "'")
		words := strings.Fields(line)
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(words[6], "="))
		if err != nil || words[3] != "0600" {
			t.Fatalf("it writes %s: %v", line, err)
		}
		return strings.TrimPrefix(string(decoded), dropInComment), step.Check
	}
	return "", ""
}

// TestDropIn: the drop-in has the lists of the main file with what the goal sets, and nothing if
// they are the same. It is refused if another value would count, or if it would take away what
// people wrote.
func TestDropIn(t *testing.T) {
	t.Parallel()
	const (
		kubelet = settings.KubeletArgKey
		gate    = "feature-gates=UserNamespacesPodSecurityStandards=true"
		nothing = "nothing"
	)
	for name, test := range map[string]struct {
		files     [][]string
		arguments []string
		goal      []string
		edit      func(*Goal, *Facts)
		// want is the content, or a part of the refusal.
		want string
	}{
		"no configuration":   {goal: []string{"max-pods=9"}, want: "kubelet-arg: [\"max-pods=9\"]\n"},
		"as it is":           {files: [][]string{{mainFile, kubelet, "max-pods=9", "cloud-provider=external"}}, goal: []string{"max-pods=9"}, want: nothing},
		"as it is, in words": {files: [][]string{{mainFile, kubelet, "--max-pods=9"}}, goal: []string{"max-pods=9"}, want: nothing},
		"another value": {
			files: [][]string{{mainFile, kubelet, "max-pods=1", "cloud-provider=external", "v=2"}}, goal: []string{"max-pods=9", "v=2"},
			want: "kubelet-arg: [\"cloud-provider=external\",\"v=2\",\"max-pods=9\"]\n",
		},
		"several of one name": {
			files: [][]string{{mainFile, kubelet, "v=1", "event-qps=1", "event-qps=2"}}, goal: []string{"event-qps=2", "event-qps=1"},
			want: "kubelet-arg: [\"v=1\",\"event-qps=2\",\"event-qps=1\"]\n",
		},
		"a value with a sign": {
			files: [][]string{{mainFile, kubelet, "kube-reserved+=cpu=1"}}, goal: []string{"kube-reserved=cpu=2"},
			want: "kubelet-arg: [\"kube-reserved=cpu=2\"]\n",
		},
		"what the version lacks": {
			files: [][]string{{mainFile, kubelet, "v=1", gate}}, goal: []string{"v=1"}, want: "kubelet-arg: [\"v=1\"]\n",
		},
		"what the version lacks was all": {files: [][]string{{mainFile, kubelet, gate}}, want: "kubelet-arg: []\n"},
		"what the version lacks is accepted": {
			files: [][]string{{mainFile, kubelet, gate}}, want: nothing,
			edit: func(g *Goal, _ *Facts) { g.Accepted = []string{"kubelet/UserNamespacesPodSecurityStandards"} },
		},
		"of a server, on an agent": {files: [][]string{{mainFile, "kube-apiserver-arg", "cloud-provider=external"}}, want: nothing},
		"of a server": {
			files: [][]string{{mainFile, "kube-apiserver-arg", "cloud-provider=external", "v=1"}}, want: "kube-apiserver-arg: [\"v=1\"]\n",
			edit: func(_ *Goal, f *Facts) { f.ControlPlane, f.Service = true, "k3s" },
		},
		"nobody knows what people want": {
			files: [][]string{{mainFile, kubelet, gate}, {dropIn, kubelet, "v=1"}}, want: nothing,
			edit: func(g *Goal, _ *Facts) { g.DropRemoved = false },
		},
		"it was written before": {
			files: [][]string{{mainFile, kubelet, "v=1"}, {dropIn, kubelet, "v=1", "max-pods=9"}}, goal: []string{"v=1"}, want: "",
		},
		"written again": {
			files: [][]string{{mainFile, kubelet, "v=1"}, {dropIn, kubelet, "v=1", "max-pods=9"}}, goal: []string{"v=1", "max-pods=9"},
			want: "kubelet-arg: [\"v=1\",\"max-pods=9\"]\n",
		},
		"beside a drop-in": {
			files: [][]string{{mainFile, kubelet, "v=1"}, {mainFile + ".d/50-x.yaml", kubelet + "+", "sync-frequency=1m"}}, goal: []string{"v=2"},
			want: "kubelet-arg: [\"v=2\"]\n",
		},
		"a drop-in sets it again": {
			files: [][]string{{mainFile, kubelet, "v=1"}, {mainFile + ".d/50-x.yaml", kubelet + "+", "v=3"}}, goal: []string{"v=2"},
			want: "FileRefused: step component-arguments: " + mainFile + ".d/50-x.yaml on the host decides the argument v of kubelet",
		},
		"a drop-in replaces all": {
			files: [][]string{{mainFile, kubelet, "v=1"}, {mainFile + ".d/50-x.yaml", kubelet, "max-pods=3"}}, goal: []string{"v=2"},
			want: "FileRefused: step component-arguments: " + mainFile + ".d/50-x.yaml on the host decides the argument v of kubelet",
		},
		"a drop-in decides what stays as it is": {
			files: [][]string{{mainFile, kubelet, "v=1"}, {mainFile + ".d/50-x.yaml", kubelet + "+", "v=3"}}, goal: []string{"v=1", "max-pods=9"},
			want: "kubelet-arg: [\"v=1\",\"max-pods=9\"]\n",
		},
		"a drop-in before it": {
			files: [][]string{{mainFile, kubelet, "v=1"}, {mainFile + ".d/00-a.yaml", kubelet + "+", "max-pods=3"}}, goal: []string{"v=2"},
			want: "FileRefused: step component-arguments: " + mainFile + ".d/00-a.yaml on the host has kubelet-arg+, which",
		},
		"a drop-in of another list before it": {
			files: [][]string{{mainFile, kubelet, "v=1"}, {mainFile + ".d/00-a.yaml", "kube-proxy-arg", "v=1"}}, goal: []string{"v=2"},
			want: "kubelet-arg: [\"v=2\"]\n",
		},
		"the command line": {
			files: [][]string{{mainFile, kubelet, "v=1"}}, arguments: []string{"kubelet-arg=v=4"}, goal: []string{"v=2"},
			want: "FileRefused: step component-arguments: the service k3s-agent on the host decides the argument v of kubelet",
		},
		"a file that nobody can read": {
			files: [][]string{{mainFile, kubelet, "v=1"}}, goal: []string{"v=2"}, want: "ConfigUnreadable: " + mainFile,
			edit: func(_ *Goal, f *Facts) { f.Rancher.Unread = mainFile },
		},
		"a file elsewhere": {
			goal: []string{"v=2"}, want: "FileRefused: step component-arguments: \"https://x/config.yaml.d/",
			edit: func(_ *Goal, f *Facts) { f.Rancher.Path = "https://x/config.yaml" },
		},
		"a file in a folder of its own": {
			goal: []string{"v=2"}, want: "kubelet-arg: [\"v=2\"]\n",
			edit: func(_ *Goal, f *Facts) { f.Rancher.Path = "/opt/k3s/my" },
		},
		"a file in a folder that does not outlive a boot": {
			goal: []string{"v=2"}, want: "FileRefused: step component-arguments: /run/k3s.yaml.d/00-windlass.yaml is never written",
			edit: func(_ *Goal, f *Facts) { f.Rancher.Path = "/run/k3s.yaml" },
		},
		"a setting that the goal's version lacks": {
			goal: []string{"no-such-flag=1"}, want: "RemovedSetting: the configuration of the machine, kubelet-arg: the flag --no-such-flag",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, f := rancherGoal(t, test.goal...), rancherFacts(test.files...)
			f.Rancher.Arguments = test.arguments
			if test.edit != nil {
				test.edit(&g, &f)
			}
			steps, refused := ComputeSteps(g, f)
			if refused != nil {
				if !strings.HasPrefix(refused.String(), test.want) || test.want == "" || !strings.Contains(refused.Message, "Fix: ") && refused.Step == "" {
					t.Errorf("refused with %s, want %q", refused, test.want)
				}
				return
			}
			content, check := writtenDropIn(t, steps)
			if check == "" {
				content = nothing
			}
			if diff := cmp.Diff(test.want, content); diff != "" {
				t.Errorf("the drop-in (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDropInStays: the step is the same one before and after it has run, and its result is what
// components then get.
func TestDropInStays(t *testing.T) {
	t.Parallel()
	g := rancherGoal(t, "max-pods=9")
	f := rancherFacts([]string{mainFile, settings.KubeletArgKey, "max-pods=1", "v=2"},
		[]string{mainFile + ".d/50-x.yaml", settings.KubeletArgKey + "+", "sync-frequency=1m"})
	before, refused := ComputeSteps(g, f)
	if refused != nil {
		t.Fatal(refused)
	}
	f.Rancher = withDropIn(g, f)
	after, refused := ComputeSteps(g, f)
	if refused != nil {
		t.Fatal(refused)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the steps (-before +after):\n%s", diff)
	}
	words := textsOfWords(f.Rancher.lists(f.Service)[settings.KubeletArgKey])
	if diff := cmp.Diff([]string{"v=2", "max-pods=9", "sync-frequency=1m"}, words); diff != "" {
		t.Errorf("the kubelet gets (-want +got):\n%s", diff)
	}
}

// TestRemovedSettingInMainFile: a host whose main file has what the version lacks is not refused if
// the drop-in takes it away, and is if nobody knows that people want that.
func TestRemovedSettingInMainFile(t *testing.T) {
	t.Parallel()
	for _, drops := range []bool{true, false} {
		g := rancherGoal(t, "v=1")
		g.DropRemoved = drops
		f := rancherFacts([]string{mainFile, settings.KubeletArgKey, "v=1", "feature-gates=UserNamespacesPodSecurityStandards=true"})
		f.Installed = version.MustParse("v1.35.4+k3s1")
		g.Version, g.Digests = version.MustParse("v1.36.3+k3s1"), digestsOfAll(t)
		_, refused := ComputeSteps(g, f)
		if (refused == nil) != drops {
			t.Errorf("if the goal has all arguments (%t), it is refused with %v", drops, refused)
		}
	}
}

// TestNoRollbackOfAServer: what a server of K3s runs with is kept only if an upgrade changes
// nothing but its configuration, also if a later step of that upgrade asks again.
func TestNoRollbackOfAServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unit, runs string
		kept       bool
	}{
		"an agent that gets another program":  {"k3s-agent", "v1.35.4+k3s1", true},
		"a server that gets another program":  {"k3s", "v1.35.4+k3s1", false},
		"a server with another configuration": {"k3s", "v1.36.3+k3s1", true},
		"a server of a similar version":       {"k3s", "v1.36.3+k3s10", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rancherHost(t, K3s, test.unit, "/x", map[string]string{mainFile: "token: x\n"})
			if !test.kept {
				h.write(t, keptNode+"/version", "k3s version v1.34.1+k3s1", 0o600)
			}
			h.goal.Version = version.MustParse("v1.36.3+k3s1")
			h.write(t, "/bin/k3s", "#!/bin/bash\necho 'k3s version "+test.runs+" (0123)'\n", 0o700)
			keep := h.goal.script("lib-job") + script("lib-kept").text() + "keep_node\n"
			if printed, exit := h.run(t, keep); exit != 0 {
				t.Fatal(exit, printed)
			}
			// The program was replaced meanwhile.
			h.write(t, "/bin/k3s", "#!/bin/bash\necho 'k3s version v1.36.3+k3s1 (0123)'\n", 0o700)
			if printed, exit := h.run(t, keep); exit != 0 {
				t.Fatal(exit, printed)
			}
			kept, err := os.ReadFile(h.root + StateFolder + "/keep/node/version")
			if test.kept != (strings.TrimSpace(string(kept)) == "k3s version "+test.runs+" (0123)") || test.kept != (err == nil) {
				t.Errorf("it keeps %q, %v", kept, err)
			}
		})
	}
}
