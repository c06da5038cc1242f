//go:build linux

package processruntime_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// excluded are tests of critest that do not apply to the process runtime, with the reason.
var excluded = [][2]string{
	{"support attach", "Attach is not implemented"},
	{"support portforward", "they need the image nginx; TestStaticPods forwards ports"},
	{"Multiple Containers", "they need the image httpd"},
	{"AppArmor|SELinux|Seccomp", "processes are not confined"},
	{"capabilit|MaskedPaths|ReadonlyPaths", "processes are not confined"},
	{"NoNewPrivs", "they need the image nonewprivs; a unit test reads the flag"},
	{"ReadOnlyRootfs is true", "it expects the words of busybox; a unit test writes to the root"},
	{"Privileged is true", "it needs brctl"},
	{"RunAsUserName|Uid\\|Username", "images have no users"},
	{"NamespaceOption", "pods have the host's network, and no PID namespace that containers share"},
	{"DNS config|port mapping|set hostname", "pods have the host's network and names"},
	{"sysctls", "pods have the host's kernel settings"},
	{"'rshared'", "mounts do not propagate to the host"},
	{"OOMKilled", "containers have no control groups"},
	{"image with digest", "the store of images has tags"},
	{"should timeout if requested", "images are folders of the host; pulls have nothing to wait for"},
}

// criImages are the images that the remaining tests use.
func criImages() map[string][]byte {
	const (
		tools   = images + "gcr.io/k8s-staging-cri-tools/"
		busybox = images + "registry.k8s.io/e2e-test-images/busybox/1.29-2/"
		// Unlike a shell with a child, they end at SIGTERM. A first process does not see a signal that
		// comes before the trap, so top ends by itself before critest takes a stop for failed.
		sh  = "#!/bin/bash\nexec /bin/bash \"$@\"\n"
		top = "#!/bin/bash\ntrap exit TERM\ntimeout 30 tail -f /dev/null &\nwait\n"
	)
	files := map[string][]byte{
		busybox + "sh": []byte(sh), busybox + "top": []byte(top),
		busybox + "image.json": []byte(`{"cmd":["sh"]}`),
	}
	for name, content := range map[string]string{
		tools + "test-image-latest/latest": "latest", tools + "test-image-tag/test": "test",
		tools + "test-image-tag/all": "all", tools + "test-image-1/latest": "1",
		tools + "test-image-2/latest": "2", tools + "test-image-3/latest": "3",
		tools + "test-image-tags/1": "same", tools + "test-image-tags/2": "same",
		tools + "test-image-tags/3": "same", images + "registry.k8s.io/pause/3.9": "pause",
		images + "k8s.gcr.io/pause/3.9": "pause",
	} {
		files[name+"/content"] = []byte(content)
		files[name+"/image.json"] = []byte(`{"entrypoint":["sleep","infinity"]}`)
	}
	return files
}

// ran finds how many of critest's tests ran, of how many, and how many passed. Each other test was
// skipped.
var ran = regexp.MustCompile(`(?m)^Ran (\d+) of (\d+) Specs.*\n.*?(\d+) Passed \| 0 Failed `)

// documented finds how many tests run, as docs/limits.md says: of how many, and how many pass.
var documented = regexp.MustCompile(
	`Of critest's (\d+) tests for Linux (\d+) run, and pass\.`)

// checkRan sees that as many tests ran and passed as the documentation says.
func checkRan(t *testing.T, output string) {
	t.Helper()
	page := string(read(t, repository+"/docs/limits.md"))
	want := documented.FindStringSubmatch(page)
	if want == nil {
		t.Fatalf("docs/limits.md has no match of %s", documented)
	}
	all, some := want[1], want[2]
	got := ran.FindStringSubmatch(output)
	if len(got) == 0 || !slices.Equal(got[1:], []string{some, all, some}) {
		t.Errorf("critest reports %q, want %s of %s tests, which pass, as docs/limits.md says. "+
			"Fix: repair what fails, or correct the page", got, some, all)
	}
}

func TestCritest(t *testing.T) {
	t.Parallel()
	require(t)
	program := filepath.Join(t.TempDir(), "critest")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", program, "./critest")
	build.Dir = repository + "/lab/kube/crictl"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building critest: %v\n%s", err, out)
	}
	files := criImages()
	files["/usr/local/bin/critest"] = read(t, program)
	h := startHost(t, files)
	var patterns []string
	for _, e := range excluded {
		if _, err := regexp.Compile(e[0]); err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, e[0])
	}
	h.Write("/root/skip", []byte(strings.Join(append(patterns, "benchmark"), "|")))
	out, err := h.Run(t.Context(), `cd /root; critest -test.run TestRuntime -ginkgo.no-color \
		-runtime-endpoint unix:///run/containerd/containerd.sock -ginkgo.skip "$(cat skip)"`)
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, out, h.Journal("containerd"))
	}
	checkRan(t, out)
	if os.Getenv("WINDLASS_LONG") == "1" {
		t.Log(out)
	}
}
