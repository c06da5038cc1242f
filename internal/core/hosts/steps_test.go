package hosts_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/core/hosts"
	"github.com/windlass-dev/windlass/pkg/version"
)

// manifest has digests of all binaries at some versions.
func manifest(t *testing.T) hosts.Manifest {
	t.Helper()
	var text strings.Builder
	for i, v := range []string{"v1.35.4", "v1.36.3", "v1.36.3+rke2r1", "v1.36.3+k3s1"} {
		for j, name := range []string{"kubeadm", "kubelet", "kubectl", "rke2", "k3s"} {
			fmt.Fprintf(&text, "%064x  %s/linux/amd64/%s\n", 16*i+j+1, v, name)
		}
	}
	parsed, err := hosts.ParseManifest(text.String())
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestSteps(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/steps.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		g, f := scenario(t, d)
		steps, refused := hosts.ComputeSteps(g, f)
		if refused != nil {
			return refused.String() + "\n"
		}
		var out strings.Builder
		for _, step := range steps {
			fmt.Fprintf(&out, "%s: %s\n", step.Name, strings.ReplaceAll(step.Summary, g.Operation(), "OPERATION"))
		}
		return out.String()
	})
}

// scenario reads a goal and facts from the arguments of a test case.
func scenario(t *testing.T, d *datadriven.TestData) (hosts.Goal, hosts.Facts) {
	t.Helper()
	g := hosts.Goal{Distribution: hosts.Kubeadm, Digests: manifest(t), Snapshot: true, Source: hosts.Source{URL: "https://mirror.example/{version}/{arch}/{name}"}}
	f := hosts.Facts{Arch: "amd64", Service: "kubelet", Writable: true, LocalServer: "https://10.0.0.1:6443"}
	for _, arg := range d.CmdArgs {
		value := strings.Join(arg.Vals, ",")
		switch arg.Key {
		case "distribution":
			g.Distribution = hosts.Distribution(value)
		case "from":
			f.Installed = version.MustParse(value)
		case "to":
			g.Version = version.MustParse(value)
		case "api":
			f.APIServer = version.MustParse(value)
		case "cluster":
			f.Cluster = version.MustParse(value)
		case "arch":
			f.Arch = value
		case "verb":
			f.Verb = value
		case "service":
			f.Service = value
		case "folder":
			g.Source = hosts.Source{HostFolder: value}
		case "bundle":
			g.Source = hosts.Source{Bundle: true}
		case "server":
			f.ControlPlane = true
		case "member":
			f.Member = true
		case "skip-snapshot":
			g.Snapshot = false
		case "drain":
			g.Drain = true
		case "config":
			g.Files = []hosts.File{{Path: "/etc/b"}, {Path: "/etc/a", Content: []byte("it's")}}
			g.KubeletArgs = []hosts.Arg{{Name: "max-pods", Value: "50"}}
			g.Before, g.After, g.PatchesFolder = []string{"sysctl --system"}, []string{"echo 'done'"}, "/etc/patches"
		default:
			t.Fatalf("%s: unknown argument %s", d.Pos, arg.Key)
		}
	}
	return g, f
}

// TestScriptsAreBash has bash parse every script of every kind of host.
func TestScriptsAreBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash on this machine")
	}
	for _, d := range []hosts.Distribution{hosts.Kubeadm, hosts.RKE2, hosts.K3s} {
		for _, source := range []hosts.Source{{URL: "https://x/{version}/{name}"}, {HostFolder: "/opt/b"}, {Bundle: true}} {
			for _, f := range []hosts.Facts{{}, {ControlPlane: true, Member: true, LocalServer: "https://[fd00::1]:6443"}} {
				f.Arch, f.Service, f.Installed = "amd64", "kubelet", version.MustParse("v1.35.4")
				g := hosts.Goal{
					Distribution: d, Version: version.MustParse("v1.36.3"), Digests: manifest(t), Source: source, Snapshot: true, Drain: true,
					Files: []hosts.File{{Path: "/etc/it's"}}, Before: []string{"echo 'a' \"$b\""}, After: []string{"true"}, KubeletArgs: []hosts.Arg{{Name: "a", Value: "b"}},
				}
				steps, refused := hosts.ComputeSteps(g, f)
				if refused != nil {
					t.Fatal(refused)
				}
				scripts := map[string]string{"facts": hosts.FactsScript(g), "checks": hosts.ChecksScript(steps), "drained": hosts.DrainedScript(g)}
				for _, step := range steps {
					scripts["check of "+string(step.Name)] = step.Check
					switch action := step.Action.(type) {
					case hosts.Run:
						scripts[string(step.Name)] = action.Script
						scripts["start of "+string(step.Name)] = hosts.StartScript(g, step.Name, "1", action.Limit)
					case hosts.Send:
						scripts[string(step.Name)] = hosts.SendScript(g, action, 1, 2, true)
					case hosts.DrainNode, hosts.AwaitNode, hosts.UncordonNode:
					}
				}
				for name, script := range scripts {
					parse := exec.CommandContext(t.Context(), bash, "-n")
					parse.Stdin = strings.NewReader(script)
					if out, err := parse.CombinedOutput(); err != nil {
						t.Errorf("%s of %s: %v\n%s\n%s", name, d, err, out, script)
					}
				}
			}
		}
	}
}

func TestKubeletFlags(t *testing.T) {
	t.Parallel()
	const made = "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.1 --max-pods=110 --v=2\"\n# mine\n"
	got := hosts.ComputeKubeletFlags(made, []hosts.Arg{{Name: "max-pods", Value: "50"}, {Name: "node-labels", Value: "a=b,c=d"}})
	want := "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.1 --v=2 --max-pods=50 --node-labels=a=b,c=d\"\n# mine\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKubeletFlagsAgain: what was set once is set; steps are computed anew whenever somebody looks.
func TestKubeletFlagsAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,2}`)
		var content strings.Builder
		for _, name := range rapid.SliceOf(word).Draw(t, "flags") {
			content.WriteString(" --" + name + "=" + word.Draw(t, "value"))
		}
		var args []hosts.Arg
		for _, name := range rapid.SliceOf(word).Draw(t, "args") {
			args = append(args, hosts.Arg{Name: name, Value: word.Draw(t, "value")})
		}
		once := hosts.ComputeKubeletFlags("KUBELET_KUBEADM_ARGS=\""+content.String()+"\"\n", args)
		if twice := hosts.ComputeKubeletFlags(once, args); twice != once {
			t.Fatalf("%q, and then %q", once, twice)
		}
		for _, arg := range args {
			if !strings.Contains(once, "--"+arg.Name+"="+arg.Value) {
				t.Fatalf("%q lacks %v", once, arg)
			}
		}
	})
}

// TestOperation: the same goal has the same name whatever the order of its files, and another goal has another.
func TestOperation(t *testing.T) {
	t.Parallel()
	base := func() hosts.Goal {
		return hosts.Goal{
			Distribution: hosts.Kubeadm, Version: version.MustParse("v1.36.3+a"), Digests: manifest(t),
			Files: []hosts.File{{Path: "/a"}, {Path: "/b"}}, Before: []string{"x"},
		}
	}
	g := base()
	g.Files[0], g.Files[1] = g.Files[1], g.Files[0]
	if g.Operation() != base().Operation() {
		t.Error("the order of files counts")
	}
	if strings.ContainsAny(g.Operation(), "+/ ") {
		t.Errorf("%q is no name of a folder", g.Operation())
	}
	for name, edit := range map[string]func(*hosts.Goal){
		"version": func(g *hosts.Goal) { g.Version = version.MustParse("v1.36.4+a") },
		"content": func(g *hosts.Goal) { g.Files[0].Content = []byte("x") },
		"command": func(g *hosts.Goal) { g.Before, g.After = nil, g.Before },
		"arg":     func(g *hosts.Goal) { g.KubeletArgs = []hosts.Arg{{Name: "a", Value: "b"}} },
		"folder":  func(g *hosts.Goal) { g.Folder = "/opt/bin" },
	} {
		g := base()
		edit(&g)
		if g.Operation() == base().Operation() {
			t.Errorf("another %s, the same operation", name)
		}
	}
}
