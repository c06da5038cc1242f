package linuxhost

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/pkg/version"
)

// podFile is a manifest as kubeadm writes it.
func podFile(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    x/name: |\n      name: none\n" +
		"  labels:\n    name: none\n  name: " + name + "\n  namespace: kube-system\n" +
		"spec:\n  containers:\n  - name: none\n"
}

// TestStaticPodFiles: the facts have the Pods that the kubelet reads from files, and no others.
func TestStaticPodFiles(t *testing.T) {
	t.Parallel()
	const folder = "/etc/kubernetes/static/"
	h := newFolderHost(t, map[string]string{
		folder + "a.yaml":       podFile("a"),
		folder + "a.yaml.bak-1": podFile("a"),
		folder + ".a.yaml":      podFile("hidden"),
		folder + "default": "# kind: None\r\n---\r\nmetadata:\r\n    name: \"b\" # Mine.\r\n" +
			"kind: Pod\r\n---\r\nkind: None\r\n",
		folder + "node.yaml":                 strings.Replace(podFile("n"), "Pod", "Node", 1),
		folder + "nothing":                   "\x00\n{}\n",
		folder + "sub/c.yaml":                podFile("c"),
		"/etc/kubernetes/manifests/d.yaml":   podFile("d"),
		"/etc/kubernetes/elsewhere.yaml":     podFile("linked"),
		"/etc/kubernetes/manifests/e.yaml":   podFile("e"),
		"/var/lib/kubelet/config.yaml":       "staticPodPath: '/etc/kubernetes/static' # Ours.\n",
		"/etc/kubernetes/kubelet.conf":       "",
		"/etc/kubernetes/manifests/.f.yaml~": podFile("f"),
	}, map[string]string{"systemctl": "echo 0\n", "kubelet": "echo Kubernetes v1.35.4\n"})
	h.write(t, "/var/lib/kubelet/config.yaml",
		"staticPodPath: '"+h.root+"/etc/kubernetes/static' # Ours.\n", 0o600)
	err := os.Symlink("../elsewhere.yaml", h.root+folder+"linked")
	if err != nil {
		t.Fatal(err)
	}
	want := []StaticPod{
		{"kube-system/a", h.root + folder + "a.yaml"},
		{"kube-system/a", h.root + folder + "a.yaml.bak-1"},
		{"default/b", h.root + folder + "default"},
		{"kube-system/linked", h.root + folder + "linked"},
	}
	if diff := cmp.Diff(want, h.readFacts(t).StaticPods); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h.write(t, "/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n", 0o600)
	if got := h.readFacts(t).StaticPods; len(got) != 2 || got[1].Pod != "kube-system/e" {
		t.Errorf("by default: %v", got)
	}
}

// TestCopiedManifest: a control plane host with a backup among its manifests is refused before
// anything is done. Hidden files and other Pods are none.
func TestCopiedManifest(t *testing.T) {
	t.Parallel()
	const folder = "/etc/kubernetes/manifests/"
	for name, refused := range map[string]bool{
		folder + "kube-apiserver.yaml.bak-20260911": true,
		folder + "0-copy": true,
		folder + ".kube-apiserver.yaml.bak-20260911": false,
		"/etc/kubernetes/backup/kube-apiserver.yaml": false,
	} {
		s := newSandbox(t)
		s.write(t, apiServer, s.read(apiServer)+podFile("kube-apiserver"))
		s.write(t, folder+"kube-vip.yaml", podFile("kube-vip"))
		s.write(t, name, podFile("kube-apiserver"))
		g := s.goal(t, "v1.36.3")
		if !refused {
			s.mustComeTo(t, g, "first", FetchPrefix+"kubeadm")
			continue
		}
		p := s.next(t, g, "first")
		if p.Failure == nil || p.Failure.Reason != ConfigUnsupported {
			t.Fatalf("%s: %+v", name, p)
		}
		for _, want := range []string{
			s.root + name, s.root + apiServer, "kube-system/kube-apiserver", "Nothing was changed",
			"Fix: move the copy out of " + s.root + strings.TrimSuffix(folder, "/"),
		} {
			if !strings.Contains(p.Failure.Message, want) {
				t.Errorf("%q lacks %q", p.Failure.Message, want)
			}
		}
	}
}

// TestRefusedStaticPods: two files of one static Pod refuse a control plane that is to get another version,
// and no other host.
func TestRefusedStaticPods(t *testing.T) {
	t.Parallel()
	pods := func(lines ...string) []StaticPod {
		return parseStaticPods(strings.Join(lines, "\n"))
	}
	twice := pods("kube-system/etcd /m/etcd.yaml", "kube-system/etcd /m/etcd.yaml.bak")
	for name, test := range map[string]struct {
		pods []StaticPod
		edit func(*Facts)
		want bool
	}{
		"two files of one Pod": {pods: twice, want: true},
		"names with spaces":    {pods: pods("a/b /m/b.yaml", "a/b /m/b (copy).yaml"), want: true},
		"two namespaces":       {pods: pods("a/b /m/b.yaml", "c/b /m/c.yaml")},
		"two names":            {pods: pods("a/b /m/b.yaml", "a/c /m/c.yaml")},
		"no files":             {},
		"a worker":             {pods: twice, edit: func(f *Facts) { f.ControlPlane = false }},
		"kubeadm has begun":    {pods: twice, edit: func(f *Facts) { f.Begun = true }},
		"it is at the version": {pods: twice, edit: func(f *Facts) { f.Installed = version.MustParse("v1.35.9") }},
	} {
		f := Facts{ControlPlane: true, Installed: version.MustParse("v1.34.11"), StaticPods: test.pods}
		if test.edit != nil {
			test.edit(&f)
		}
		refused := refuseStaticPods(Goal{Version: version.MustParse("v1.35.9")}, f)
		if (refused != nil) != test.want {
			t.Errorf("%s: %v", name, refused)
		}
	}
}
