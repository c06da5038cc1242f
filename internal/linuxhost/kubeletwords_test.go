package linuxhost

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/pkg/version"
)

// TestCgroupArguments: an argument of the kubelet counts more than its configuration, and the last
// one of them counts.
func TestCgroupArguments(t *testing.T) {
	t.Parallel()
	flagsFile := func(words string) string { return "KUBELET_KUBEADM_ARGS=\"" + words + "\"\n" }
	for name, test := range map[string]struct {
		edit    func(*Goal, *Facts)
		refused bool
	}{
		"nothing":       {func(*Goal, *Facts) {}, true},
		"in the file":   {func(_ *Goal, f *Facts) { f.Config.Kubelet = "failCgroupV1: false\n" }, false},
		"kubeadm's":     {func(_ *Goal, f *Facts) { f.KubeletFlags = flagsFile("--fail-cgroupv1=false") }, false},
		"the goal's":    {func(g *Goal, _ *Facts) { g.KubeletArgs = []Arg{{"fail-cgroupv1", "false"}} }, false},
		"Debian's":      {func(_ *Goal, f *Facts) { f.Config.Defaults = "KUBELET_EXTRA_ARGS=--fail-cgroupv1=0\n" }, false},
		"the unit's":    {func(_ *Goal, f *Facts) { f.Config.Units += "Environment=A=--fail-cgroupv1=f\n" }, false},
		"the process's": {func(_ *Goal, f *Facts) { f.Config.Command = "kubelet\n--fail-cgroupv1=false" }, false},
		"of another file": {func(_ *Goal, f *Facts) {
			f.Config.Environment = []HostFile{{"/etc/kubernetes/kubelet.env", "A=\"--v=2 \\\n  --fail-cgroupv1=false \\\n\"\n"}}
		}, false},
		"the argument counts more": {func(_ *Goal, f *Facts) {
			f.Config.Kubelet, f.KubeletFlags = "failCgroupV1: false\n", flagsFile("--fail-cgroupv1")
		}, true},
		"the last one counts": {func(_ *Goal, f *Facts) {
			f.KubeletFlags = flagsFile("--fail-cgroupv1=false")
			f.Config.Defaults = "KUBELET_EXTRA_ARGS=--fail-cgroupv1=true\n"
		}, true},
		"the last one of the process": {func(_ *Goal, f *Facts) {
			f.Config.Command = "kubelet\n--fail-cgroupv1=true\n--fail-cgroupv1=false"
			f.KubeletFlags = flagsFile("--fail-cgroupv1=true")
			f.Config.Defaults = "KUBELET_EXTRA_ARGS=--fail-cgroupv1=false\n"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := Goal{Distribution: Kubeadm, Version: version.MustParse("v1.35.5")}
			f := Facts{Installed: version.MustParse("v1.34.8")}
			f.Config.Units, f.Config.CgroupV1, f.Config.Kernel = kubeadmUnit, true, "6.8.0"
			test.edit(&g, &f)
			if got := refuseSettings(g, f); (got != nil) != test.refused {
				t.Errorf("refused with %v", got)
			}
		})
	}
}

// kubesprayUnit and kubesprayEnv are those of kubespray.
const (
	kubesprayUnit = "[Service]\nEnvironmentFile=-/etc/kubernetes/kubelet.env\n" +
		"ExecStart=/usr/local/bin/kubelet \\\n\t\t$KUBELET_LOG_LEVEL \\\n\t\t$KUBELET_ARGS\nRestart=always\n"
	kubesprayEnv = "KUBELET_LOG_LEVEL=\"--v=2\"\n\nKUBELET_ARGS=\"--kubeconfig=/etc/kubernetes/kubelet.conf \\\n" +
		"--config=/etc/kubernetes/kubelet-config.yaml \\\n%s \"\nPATH=/bin\n"
)

// TestFactsOfTheRealConfiguration: the configuration that is judged is the file that the kubelet
// reads, whatever names it, and so are arguments that a file of the unit has and the kubelet not
// yet.
func TestFactsOfTheRealConfiguration(t *testing.T) {
	t.Parallel()
	const (
		spray, own = "/etc/kubernetes/kubelet-config.yaml", "/var/lib/kubelet/config.yaml"
		env        = "/etc/kubernetes/kubelet.env"
		gate       = "featureGates: {NoSuchGate: true}\n"
		unknown    = ", featureGates: the feature gate NoSuchGate=true of kubelet is unknown to v1.36"
	)
	for name, test := range map[string]struct {
		files       map[string]string
		unit, words string
		want        string
	}{
		"kubespray's": {
			unit: kubesprayUnit, files: map[string]string{spray: gate, env: fmt.Sprintf(kubesprayEnv, "")},
			want: spray + unknown,
		},
		"a file that nobody reads": {
			unit:  kubesprayUnit,
			files: map[string]string{spray: "maxPods: 5\n", own: gate, env: fmt.Sprintf(kubesprayEnv, "")},
		},
		"an argument that is not in effect": {
			unit:  kubesprayUnit,
			files: map[string]string{spray: "maxPods: 5\n", env: fmt.Sprintf(kubesprayEnv, "--feature-gates=NoSuchGate=true")},
			want:  env + ": the feature gate NoSuchGate=true of kubelet is unknown",
		},
		"in the unit, in two words": {
			unit:  "[Service]\n#ExecStart=/x --config=/etc/other\nExecStart=/x --config " + spray + "\n",
			files: map[string]string{spray: gate}, want: spray + unknown,
		},
		"of the process": {
			words: "--v=2 --config=" + spray, files: map[string]string{spray: gate}, want: spray + unknown,
		},
		"kubeadm's, with a file that is not there": {
			unit: kubeadmUnit + "Environment=A=--config=/etc/kubernetes/none\n", files: map[string]string{own: gate},
			want: own + unknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFolderHost(t, nil, map[string]string{
				"kubelet": "echo Kubernetes v1.35.4\n", "uname": "echo 6.8.0 x86_64\n",
				"systemctl": "case \"$*\" in cat*) cat \"${0%/*}/unit\" ;; *MainPID*) cat \"${0%/*}/pid\" ;; esac\n",
			})
			rooted := func(text string) string {
				return strings.NewReplacer("/etc/", h.root+"/etc/", "/var/lib/", h.root+"/var/lib/").Replace(text)
			}
			h.write(t, "/bin/unit", rooted(test.unit), 0o600)
			h.write(t, "/bin/pid", "0\n", 0o600)
			for path, content := range test.files {
				h.write(t, path, rooted(content), 0o600)
			}
			if test.words != "" {
				h.write(t, "/bin/pid", fmt.Sprintln(startKubelet(t, strings.Fields(rooted(test.words)))), 0o600)
			}
			f := h.readFacts(t)
			f.Arch = "amd64"
			_, refused := ComputeSteps(h.goal, f)
			switch {
			case refused == nil && test.want != "":
				t.Errorf("it is not refused, want %q", test.want)
			case refused != nil && (test.want == "" ||
				!strings.Contains(strings.ReplaceAll(refused.Message, h.root, ""), test.want)):
				t.Errorf("refused with %s, want %q", refused, test.want)
			}
		})
	}
}

// startKubelet starts a process with these words, and returns its number.
func startKubelet(t *testing.T, words []string) int {
	t.Helper()
	kubelet := exec.CommandContext(t.Context(), "bash", append([]string{"-c", "read", "kubelet"}, words...)...)
	in, err := kubelet.StdinPipe()
	if err == nil {
		err = kubelet.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = kubelet.Wait()
	})
	return kubelet.Process.Pid
}

// TestFactsOfCutDocuments: a document that is too large to be judged is named, and what is judged
// in its place is not taken for it.
func TestFactsOfCutDocuments(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, map[string]string{
		"/var/lib/kubelet/config.yaml": "# " + strings.Repeat("x", 30_000) + "\n",
	}, map[string]string{
		"systemctl": "echo 0\n", "kubelet": "echo Kubernetes v1.35.4\n", "uname": "echo 6.8.0 x86_64\n",
		"kubectl": "printf '{\"data\": {\"kubelet\": \"%s\"}}' \"$(head -c 30000 /dev/zero | tr '\\0' x)\"\n",
	})
	got := strings.Join(Warnings(h.goal, h.readFacts(t)), "\n")
	for _, want := range []string{"the ConfigMap kube-system/kubelet-config has more than 24 KiB", "/var/lib/kubelet/config.yaml has more"} {
		if !strings.Contains(strings.ReplaceAll(got, h.root, ""), want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
