package linuxhost_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/pkg/version"
)

// manifest has digests of all binaries at some versions.
func manifest(t *testing.T) linuxhost.Manifest {
	t.Helper()
	var text strings.Builder
	for i, v := range []string{"v1.35.4", "v1.36.3", "v1.36.3+rke2r1", "v1.36.3+k3s1"} {
		for j, name := range []string{"kubeadm", "kubelet", "kubectl", "rke2", "k3s"} {
			fmt.Fprintf(&text, "%064x  %s/linux/amd64/%s\n", 16*i+j+1, v, name)
		}
	}
	parsed, err := linuxhost.ParseManifest(text.String())
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
		steps, refused := linuxhost.ComputeSteps(g, f)
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
func scenario(t *testing.T, d *datadriven.TestData) (linuxhost.Goal, linuxhost.Facts) {
	t.Helper()
	g := linuxhost.Goal{Distribution: linuxhost.Kubeadm, Digests: manifest(t), Snapshot: true, Source: linuxhost.Source{URL: "https://mirror.example/{version}/{arch}/{name}"}}
	f := linuxhost.Facts{Arch: "amd64", Service: "kubelet", Writable: true, LocalServer: "https://10.0.0.1:6443"}
	for _, arg := range d.CmdArgs {
		value := strings.Join(arg.Vals, ",")
		switch arg.Key {
		case "distribution":
			g.Distribution = linuxhost.Distribution(value)
		case "from":
			f.Installed = version.MustParse(value)
		case "to":
			g.Version = version.MustParse(value)
		case "api":
			f.APIServer = version.MustParse(value)
		case "oldest":
			f.Oldest = linuxhost.ControlPlaneNode{Name: "cp-2", Kubelet: version.MustParse(value)}
		case "manifest":
			f.OwnAPIServer = version.MustParse(value)
		case "cluster":
			f.Cluster = version.MustParse(value)
		case "arch":
			f.Arch = value
		case "verb":
			f.Verb = value
		case "service":
			f.Service = value
		case "folder":
			g.Source = linuxhost.Source{HostFolder: value}
		case "bundle":
			g.Source = linuxhost.Source{Bundle: true}
		case "found":
			f.Patches = arg.Vals
		case "server":
			f.ControlPlane = true
		case "member":
			f.Member = true
		case "skip-snapshot":
			g.Snapshot = false
		case "drain":
			g.Drain = true
		case "config":
			g.Prefixes = []string{"/etc"}
			g.Files = []linuxhost.File{{Path: "/etc/b"}, {Path: "/etc/patches/etcd.json"}, {Path: "/etc/a", Content: []byte("it's")}}
			g.KubeletArgs = []linuxhost.Arg{{Name: "max-pods", Value: "50"}}
			g.Before, g.After, g.PatchesFolder = []string{"sysctl --system"}, []string{"echo 'done'"}, "/etc/patches"
		default:
			t.Fatalf("%s: unknown argument %s", d.Pos, arg.Key)
		}
	}
	return g, f
}

// TestOperation: the same goal has the same name whatever the order of its files, and another goal has another.
func TestOperation(t *testing.T) {
	t.Parallel()
	base := func() linuxhost.Goal {
		return linuxhost.Goal{
			Distribution: linuxhost.Kubeadm, Version: version.MustParse("v1.36.3+a"), Digests: manifest(t),
			Files: []linuxhost.File{{Path: "/a"}, {Path: "/b"}}, Before: []string{"x"},
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
	others, err := linuxhost.ParseManifest(strings.Repeat("f", 64) + " v1.36.3+a/linux/amd64/kubeadm")
	if err != nil {
		t.Fatal(err)
	}
	g = base()
	if g.Digests = others; g.Operation() != base().Operation() || g.Manifest() == base().Manifest() {
		t.Error("other digests are another operation, or the same digests")
	}
	for name, edit := range map[string]func(*linuxhost.Goal){
		"version": func(g *linuxhost.Goal) { g.Version = version.MustParse("v1.36.4+a") },
		"content": func(g *linuxhost.Goal) { g.Files[0].Content = []byte("x") },
		"command": func(g *linuxhost.Goal) { g.Before, g.After = nil, g.Before },
		"arg":     func(g *linuxhost.Goal) { g.KubeletArgs = []linuxhost.Arg{{Name: "a", Value: "b"}} },
		"folder":  func(g *linuxhost.Goal) { g.Folder = "/opt/bin" },
	} {
		g := base()
		edit(&g)
		if g.Operation() == base().Operation() {
			t.Errorf("another %s, the same operation", name)
		}
	}
}
