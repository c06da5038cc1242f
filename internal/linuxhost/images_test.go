package linuxhost

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The images of the sandbox's kubeadm.
const (
	serverImage = "registry.example/kube-apiserver:v1.36.3"
	proxyImage  = "registry.example/kube-proxy:v1.36.3"
	pauseImage  = "registry.example/pause:3.10"
)

// asked returns the images that crictl was asked to pull, or what a verb was asked for.
func (s *sandbox) asked(verb string) []string {
	var images []string
	for line := range strings.Lines(s.read("/crictl.log")) {
		if image, ok := strings.CutPrefix(line, verb+" "); ok {
			images = append(images, strings.TrimSpace(image))
		}
	}
	return images
}

// mustNotHaveBegun checks that nothing was changed on the host.
func (s *sandbox) mustNotHaveBegun(t *testing.T) {
	t.Helper()
	if ran := s.read("/kubeadm.log") + s.read("/etcdctl.log") + s.read("/systemctl.log"); ran != "" {
		t.Errorf("this has run on the host: %s", ran)
	}
}

// archive pins an archive of images in a goal, and has the host get it.
func (s *sandbox) archive(t *testing.T, g *Goal, content string) {
	t.Helper()
	name := "v1.36.3/linux/" + runtime.GOARCH + "/" + kubeadmArchive
	s.write(t, "/binaries/"+name, content)
	sum := sha256.Sum256([]byte(content))
	lines := hex.EncodeToString(sum[:]) + " " + name + "\n"
	for file, digest := range g.Digests.digests {
		lines += fmt.Sprintf("%s %s\n", digest, file)
	}
	var err error
	if g.Digests, err = ParseManifest(lines); err != nil {
		t.Fatal(err)
	}
	s.write(t, "/stand-in/ctr", `#!/bin/bash
cd `+s.root+`
echo "$*" >>ctr.log
[ ! -e ctr.does ] || . ./ctr.does
left=$(grep -vxF -f "${@: -1}" lacks); echo "$left" >lacks
`)
}

// TestImagesBeforeTheChange: what kubeadm lists and the host lacks is pulled, before etcd is saved.
// An image that is there needs no registry.
func TestImagesBeforeTheChange(t *testing.T) {
	t.Parallel()
	mirrored := "10.0.0.1:5000/k8s/etcd:3.6.0"
	for name, test := range map[string]struct {
		config string
		lacks  []string
	}{
		"all are there":  {},
		"some are there": {lacks: []string{serverImage, pauseImage}},
		"of the cluster's registry": {
			config: "v1.35.4\nimageRepository: 10.0.0.1:5000/k8s", lacks: []string{mirrored},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, "/lacks", strings.Join(test.lacks, "\n"))
			s.write(t, "/kubeadm.does", kubeadmSucceeds)
			if test.config != "" {
				s.write(t, "/cluster", test.config)
			}
			if len(test.lacks) == 0 {
				s.write(t, "/registry.error", "i/o timeout")
			}
			g := s.goal(t, "v1.36.3")
			for p := s.next(t, g, "1"); p.Step != EtcdSnapshot; p = s.next(t, g, "1") {
				s.do(t, g, p, "1")
			}
			if diff := cmp.Diff(test.lacks, s.asked("pull")); diff != "" {
				t.Errorf("pulled (-want +got):\n%s", diff)
			}
			s.mustNotHaveBegun(t)
			s.mustReach(t, g, "1")
			if got := s.asked("pull"); len(got) != len(test.lacks) {
				t.Errorf("pulled again: %q", got)
			}
		})
	}
}

// TestImagesThatCannotBePulled: the failure has the registry's answer, without secrets, and a way
// out. Only what may pass is tried again. Nothing was changed, and the next attempt continues.
func TestImagesThatCannotBePulled(t *testing.T) {
	t.Parallel()
	const (
		resolve = "rpc error: code = Unknown desc = failed to pull and unpack image: " +
			"failed to resolve reference: "
		head   = resolve + "failed to do request: Head https://r.example/v2/: "
		status = resolve + "unexpected status from HEAD request to https://r.example/v2/: "
	)
	s := newSandbox(t)
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	s.write(t, "/lacks", serverImage+"\n"+pauseImage)
	g := s.goal(t, "v1.36.3")
	last := ""
	for name, test := range map[string]struct {
		answer, want string
		reason       Reason
		tries        int
	}{
		"no login": {
			resolve + "failed to authorize: failed to fetch anonymous token: unexpected status from " +
				"GET request to https://auth.example/token?scope=k8s: 401 Unauthorized",
			"401 Unauthorized", RegistryRefused, 1,
		},
		"no rights": {
			resolve + "pull access denied, repository does not exist or may require authorization",
			"denied", RegistryRefused, 1,
		},
		"its certificate": {
			head + "tls: failed to verify certificate: x509: signed by unknown authority",
			"x509", RegistryRefused, 1,
		},
		"no such image": {
			"E1129 log.go:32] \"PullImage failed\"\n" +
				"FATA[0000] pulling image: rpc error: code = NotFound desc = x: not found",
			"x: not found", ImageMissing, 1,
		},
		"no such tag of CRI-O": {
			"rpc error: code = Unknown desc = reading manifest: manifest unknown",
			"manifest unknown", ImageMissing, 1,
		},
		"no answer": {
			head + "dial tcp 10.0.0.1:443: i/o timeout", "i/o timeout", RegistryUnreachable, 3,
		},
		"no name": {
			head + "dial tcp: lookup r.example on 10.0.0.1:53: no such host",
			"no such host", RegistryUnreachable, 3,
		},
		"busy":        {status + "429 Too Many Requests", "429", RegistryUnreachable, 3},
		"broken":      {status + "503 Service Unavailable", "503", RegistryUnreachable, 3},
		"a full disk": {resolve + "write /x: no space left on device", "no space", DiskFull, 1},
		"a dead runtime": {
			"dialing: dial unix /run/containerd/containerd.sock: connect: connection refused",
			"containerd.sock", RuntimeUnavailable, 3,
		},
		"another error": {"layers don't match", "don't match", ImagePullFailed, 3},
		"a secret": {
			resolve + "Get https://user:hunter2@x/blob?X-Amz-Signature=hunter2: 403 Forbidden",
			"403 Forbidden", RegistryRefused, 1,
		},
	} {
		last = name
		s.write(t, "/crictl.log", "")
		s.write(t, "/registry.error", test.answer)
		p := s.attempt(t, g, name)
		if p.Failure == nil || p.Failure.Reason != test.reason || p.Failure.Step != PullImages {
			t.Fatalf("%s: %+v, want %s", name, p, test.reason)
		}
		for _, want := range []string{
			serverImage, test.want, "Nothing was changed. Fix: ", "images.tar",
		} {
			if !strings.Contains(p.Failure.Message, want) {
				t.Errorf("%s: without %q: %s", name, want, p.Failure)
			}
		}
		if strings.ContainsAny(p.Failure.Message, "?") ||
			strings.Contains(p.Failure.Message, "hunter2") {
			t.Errorf("a secret is in %s", p.Failure)
		}
		if got := s.asked("pull"); len(got) != test.tries {
			t.Errorf("%s: it was tried as often: %q, want %d", name, got, test.tries)
		}
		s.mustNotHaveBegun(t)
	}
	if err := os.Remove(s.root + "/registry.error"); err != nil {
		t.Fatal(err)
	}
	if again := s.attempt(t, g, last); again.Failure == nil {
		t.Errorf("the same attempt continues: %+v", again)
	}
	s.mustReach(t, g, "the next")
}

// TestImagesWithoutARuntime: a runtime that does not answer is told before anything is changed.
func TestImagesWithoutARuntime(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, "/cri.down", "validate service connection: dial unix /run/x.sock: connect: refused\n")
	p := s.attempt(t, s.goal(t, "v1.36.3"), "1")
	if p.Failure == nil || p.Failure.Reason != RuntimeUnavailable ||
		!strings.Contains(p.Failure.Message, "/run/x.sock") {
		t.Fatalf("%+v", p)
	}
	s.mustNotHaveBegun(t)
}

// TestImagesOfTheKubeletsRuntime: the runtime that is asked is that of the kubelet.
func TestImagesOfTheKubeletsRuntime(t *testing.T) {
	t.Parallel()
	for file, line := range map[string]string{
		flags: "ARGS=\"--a=b --container-runtime-endpoint=unix:///run/x.sock --c\"\n",
		conf:  "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: \"unix:///run/x.sock\"\n",
	} {
		s := newSandbox(t)
		s.write(t, file, line)
		s.write(t, "/stand-in/crictl", "#!/bin/bash\necho \"$*\" >>"+s.root+"/crictl.log\n")
		s.attempt(t, s.goal(t, "v1.36.3"), "1")
		const want = "--runtime-endpoint unix:///run/x.sock " +
			"--image-endpoint unix:///run/x.sock inspecti "
		if got := s.read("/crictl.log"); !strings.Contains(got, want) {
			t.Errorf("crictl was run with %s", got)
		}
	}
}

// TestImagesWithoutCrictl: nobody can tell what is there, and kubeadm looks for itself.
func TestImagesWithoutCrictl(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	if err := os.Remove(s.root + "/stand-in/crictl"); err != nil {
		t.Fatal(err)
	}
	s.mustReach(t, s.goal(t, "v1.36.3"), "1")
}

// TestImagesThatDoNotCount: kubeadm is told to ignore them.
func TestImagesThatDoNotCount(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	s.write(t, "/cri.down", "down")
	g := s.goal(t, "v1.36.3")
	g.IgnorePreflight = []string{"imagepull"}
	s.mustReach(t, g, "1")
}

// TestImagesOfABegunUpgrade: once kubeadm has begun, the API server may be away, and kubeadm pulls.
func TestImagesOfABegunUpgrade(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	g := s.goal(t, "v1.36.3")
	s.write(t, "/kubeadm.does", "exit 1")
	s.mustFail(t, g, "1")
	s.write(t, "/cri.down", "down")
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	s.mustReach(t, g, "2")
}

// TestImageThatWasRemoved: one that the kubelet has removed since is pulled again.
func TestImageThatWasRemoved(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	g := s.goal(t, "v1.36.3")
	for p := s.next(t, g, "1"); p.Step != KubeadmUpgrade; p = s.next(t, g, "1") {
		s.do(t, g, p, "1")
	}
	// The first one that kubeadm lists, and the last one.
	removed := []string{serverImage, "registry.example/etcd:3.6.0"}
	s.write(t, "/lacks", strings.Join(removed, "\n"))
	s.mustReach(t, g, "1")
	if diff := cmp.Diff(removed, s.asked("pull")); diff != "" {
		t.Errorf("pulled (-want +got):\n%s", diff)
	}
}

// TestRoomForPulledImages: a disk that images would fill is told before they are pulled.
func TestRoomForPulledImages(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, flags, "ARGS=\"--endpoint=x --container-runtime-endpoint=unix:///run/crio/crio.sock\"\n")
	s.write(t, "/var/lib/containers/x", "x")
	s.write(t, "/lacks", serverImage+"\n"+pauseImage)
	s.write(t, "/free.kb", fmt.Sprintln(299<<10))
	p := s.attempt(t, s.goal(t, "v1.36.3"), "1")
	const want = "has room for 299 MiB above the 10 % below which the kubelet evicts pods, but 2 images need about 300 MiB"
	if p.Failure == nil || p.Failure.Reason != DiskFull || !strings.Contains(p.Failure.Message, want) {
		t.Fatalf("%+v", p)
	}
	if got := s.asked("pull"); len(got) != 0 {
		t.Errorf("pulled %q", got)
	}
}

// TestArchiveOfImages: images come from the archive of the manifest, whose registries need not be
// reached. What it lacks is pulled. One that is damaged on the host is fetched again.
func TestArchiveOfImages(t *testing.T) {
	t.Parallel()
	const whole = serverImage + "\n" + pauseImage
	for name, test := range map[string]struct {
		archive, does, spoil string
		imports              int
		pulled               []string
		reason               Reason
		want                 string
	}{
		"it has all":    {archive: whole, imports: 1},
		"it lacks one":  {archive: pauseImage, imports: 1, pulled: []string{serverImage}},
		"all are there": {archive: whole, spoil: "echo >lacks"},
		"killed in between": {
			archive: whole, imports: 2,
			does: "rm ctr.does; kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat) $PPID; exit 1",
		},
		"damaged on the host": {archive: whole, imports: 1, spoil: `
sed -i 's,^case,[ ! -e damage ] || { rm damage; echo x >>.` + StateFolder +
			`/binaries/v1.36.3/images.tar; }\n&,' stand-in/crictl
: >damage`},
		"it is no archive": {
			archive: "x", does: "echo 'ctr: archive/tar: invalid tar header' >&2; exit 1", imports: 1,
			reason: ArchiveUnusable, want: "invalid tar header",
		},
		"the disk fills": {
			archive: whole, does: "echo 'ctr: write x: no space left on device' >&2; exit 1", imports: 1,
			reason: DiskFull, want: "no space left",
		},
		"there is no program": {
			archive: whole, spoil: "rm stand-in/ctr", reason: ToolMissing, want: "no ctr",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, "/kubeadm.does", kubeadmSucceeds)
			s.write(t, "/lacks", whole)
			g := s.goal(t, "v1.36.3")
			s.archive(t, &g, test.archive)
			if test.does != "" {
				s.write(t, "/ctr.does", test.does)
			}
			if out, code := s.run(t, "set -e; cd "+s.root+"\n"+test.spoil); code != 0 {
				t.Fatal(out)
			}
			if test.pulled == nil {
				s.write(t, "/registry.error", "i/o timeout")
			}
			p := s.attempt(t, g, "1")
			if s.job.State == JobVanished {
				p = s.attempt(t, g, "1")
			}
			failed := p.Failure != nil
			if want := test.reason != ""; failed != want || !failed && p.Step != Restart ||
				failed && (p.Failure.Reason != test.reason ||
					!strings.Contains(p.Failure.Message, test.want)) {
				t.Fatalf("%+v, want %s", p, test.reason)
			}
			const imports = "--namespace k8s.io images import "
			if got := strings.Count(s.read("/ctr.log"), imports); got != test.imports {
				t.Errorf("imported %d times, want %d", got, test.imports)
			}
			if diff := cmp.Diff(test.pulled, s.asked("pull")); diff != "" {
				t.Errorf("pulled (-want +got):\n%s", diff)
			}
		})
	}
}

// TestArchiveIsNotFetchedAgain: an archive whose images are there is not missed, neither in the
// upgrade nor after it, when what waited to be installed is gone.
func TestArchiveIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	g := s.goal(t, "v1.36.3")
	s.archive(t, &g, "x")
	s.mustReach(t, g, "1")
	if err := os.RemoveAll(s.root + StateFolder + "/binaries"); err != nil {
		t.Fatal(err)
	}
	g.Before = []string{"another goal at the same version"}
	steps, seen, refused := s.look(t, g, "2")
	if refused != nil {
		t.Fatal(refused)
	}
	for _, name := range []Name{FetchPrefix + kubeadmArchive, PullImages} {
		if isLeft(steps, seen, name) {
			t.Errorf("%s is left", name)
		}
	}
}

// TestImagesOfAWorker: it needs the kube-proxy that it runs. Its runtime may have another pause
// image, so that kubeadm's alone keeps nothing from being done.
func TestImagesOfAWorker(t *testing.T) {
	t.Parallel()
	const runs = "registry.example/kube-proxy   v1.35.4   aec12dadf56dd   51.6MB\n"
	for name, test := range map[string]struct {
		images, lacks string
		fails         bool
	}{
		"it lacks what it needs":      {runs, proxyImage, true},
		"it runs no kube-proxy":       {"", proxyImage, false},
		"it lacks the pause image":    {runs, pauseImage, false},
		"it needs no control plane's": {runs, serverImage, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, "/images", test.images)
			s.write(t, "/lacks", test.lacks)
			s.write(t, "/registry.error", "no such host")
			for _, path := range []string{apiServer, "/etc/kubernetes/pki/apiserver.crt", etcdPod} {
				if err := os.Remove(s.root + path); err != nil {
					t.Fatal(err)
				}
			}
			s.write(t, "/bin/kubectl", "#!/bin/bash\n[[ \"$*\" != *kubelet.conf*kubeadm-config* ]] || "+
				"echo kubernetesVersion: v1.36.3\n")
			kubeadm := "/binaries/v1.36.3/linux/" + runtime.GOARCH + "/kubeadm"
			s.write(t, kubeadm, strings.Replace(
				s.read(kubeadm), "grep -q key", "exit 0; grep -q key", 1))
			p := s.attempt(t, s.goal(t, "v1.36.3"), "1")
			failed := p.Failure != nil && p.Failure.Reason == RegistryUnreachable
			if failed != test.fails {
				t.Errorf("%+v, want a failure: %t", p, test.fails)
			}
		})
	}
}
