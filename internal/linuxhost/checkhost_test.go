package linuxhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/pkg/version"
)

// folderHost is a folder that scripts take for the root of a host, with stand-ins for its commands.
type folderHost struct {
	root string
	goal Goal
}

// newFolderHost makes a host with files and commands, by their paths and names.
func newFolderHost(t *testing.T, files, commands map[string]string) *folderHost {
	t.Helper()
	needs(t, "bash", "bash")
	h := &folderHost{root: t.TempDir()}
	h.goal = Goal{
		Distribution: Kubeadm, Version: version.MustParse("v1.36.3"), Digests: digestsOfAll(t),
		Folder: filepath.Join(h.root, "bin"),
	}
	for path, content := range files {
		h.write(t, path, content, 0o600)
	}
	for name, content := range commands {
		h.write(t, "/bin/"+name, "#!/bin/bash\n"+content, 0o700)
	}
	return h
}

func (h *folderHost) write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(h.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// run runs a script with the host's folders in the place of this machine's. It may take as much of
// a processor as a request to an updater may take time.
func (h *folderHost) run(t *testing.T, script string) (printed string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	folders := strings.NewReplacer(
		"/etc/kubernetes", h.root+"/etc/kubernetes", "/var/lib/kubelet", h.root+"/var/lib/kubelet",
		"/var/lib/containe", h.root+"/var/lib/containe", StateFolder, h.root+StateFolder,
		"/etc/rancher", h.root+"/etc/rancher", "/var/lib/rancher", h.root+"/var/lib/rancher",
		"/sys/fs/cgroup", h.root+"/sys/fs/cgroup", "/etc/default", h.root+"/etc/default",
		"/etc/sysconfig", h.root+"/etc/sysconfig", "/etc/systemd", h.root+"/etc/systemd",
	)
	command := exec.CommandContext(ctx, "bash")
	command.Env = append(os.Environ(), "PATH="+h.goal.Folder+":"+os.Getenv("PATH"))
	// A stand-in for systemctl may take this bash for the kubelet.
	prologue := "export RUNNING=$$\nulimit -t 15\n"
	command.Stdin = strings.NewReader(prologue + folders.Replace(script))
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited ||
		!command.ProcessState.Exited() {
		t.Fatalf("%v: %v\n%s", err, ctx.Err(), out)
	}
	return string(out), command.ProcessState.ExitCode()
}

// restartedKubelet makes a control plane host whose kubelet was restarted by the upgrade. It lists
// what kubelet.pods holds; the API server shows what api.pods holds.
func restartedKubelet(t *testing.T, kubelet, api string) *folderHost {
	t.Helper()
	h := newFolderHost(t, map[string]string{
		"/etc/kubernetes/manifests/etcd.yaml":           "spec: {}\n",
		"/etc/kubernetes/manifests/kube-apiserver.yaml": "spec: {}\n",
		"/kubelet.pods": kubelet, "/api.pods": api,
	}, map[string]string{
		"systemctl": "echo $RUNNING\n",
		"kubectl": `cd "${0%/*}/.."
case "$*" in
  *whoami*) echo system:node:a.b ;;
  *proxy/pods) [ ! -e proxy.fail ] || { cat proxy.fail >&2; exit 1; }; cat kubelet.pods ;;
  *) cat api.pods ;;
esac
`,
	})
	h.runKubeletAsBash(t)
	digest, exit := h.run(t, h.goal.script("lib-check")+script("lib-running").text()+"running\n")
	if exit != 0 {
		t.Fatal(digest)
	}
	h.write(t, StateFolder+"/op/"+h.goal.Operation()+"/restart", strings.TrimSpace(digest), 0o600)
	return h
}

// podJSON is a pod as the kubelet prints it, on one line with all others.
func podJSON(name, namespace, uid string, size int) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"uid":%q,"labels":{"x":%q}},`+
		`"spec":{},"status":{}},`, name, namespace, uid, strings.Repeat("x", size))
}

// TestControlPlaneCheck looks at the static pods of a node with a megabyte of pods. The kubelet
// lists them in any order.
func TestControlPlaneCheck(t *testing.T) {
	t.Parallel()
	var others strings.Builder
	for i := range 100 {
		others.WriteString(podJSON(fmt.Sprintf("agent-%d", i), "kube-system", fmt.Sprint(i), 10_000))
	}
	own := podJSON("etcd-a.b", "kube-system", "e1", 10) +
		podJSON("kube-apiserver-a.b", "kube-system", "k1", 10)
	const ready = "etcd-a.b e1 True\nkube-apiserver-a.b k1 True\n"
	const old = "the static pod etcd-a.b is not Ready since the kubelet was restarted\n"
	for name, test := range map[string]struct{ kubelet, api, want string }{
		"all are Ready":            {others.String() + own, ready, ""},
		"the first ones":           {own + others.String(), ready, ""},
		"not known to the kubelet": {others.String(), ready, old},
		"from before the restart":  {own, strings.Replace(ready, "e1", "e0", 1), old},
		"not Ready":                {own, strings.Replace(ready, "e1 True", "e1 False", 1), old},
		"not in the API server":    {own, "", old},
		"of another namespace": {
			strings.Replace(own, "kube-system", "default", 1), ready, old,
		},
		"without a UID": {strings.Replace(own, "e1", "", 1), strings.Replace(ready, "e1", "", 1), old},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := restartedKubelet(t, `{"kind":"PodList","items":[`+test.kubelet+"{}]}\n", test.api)
			printed, exit := h.run(t, controlPlaneStep(h.goal, Facts{}).Check)
			if printed != test.want || (exit == 0) != (test.want == "") {
				t.Errorf("it exits with %d and %q, want %q", exit, printed, test.want)
			}
		})
	}
}

// TestControlPlaneCheckNamesTheProxy: a kubelet that the API server cannot reach is not taken for
// an API server that is down.
func TestControlPlaneCheckNamesTheProxy(t *testing.T) {
	t.Parallel()
	for failure, want := range map[string]string{
		"Error from server: tls: internal error": "cannot ask the kubelet for its pods (nodes/proxy): ",
		"Unable to connect to the server: EOF":   "does not answer: ",
	} {
		h := restartedKubelet(t, "", "")
		h.write(t, "/proxy.fail", "a warning\n"+failure+"\n", 0o600)
		printed, exit := h.run(t, controlPlaneStep(h.goal, Facts{}).Check)
		if want = "the API server of the host " + want + failure + "\n"; printed != want || exit != 1 {
			t.Errorf("it exits with %d and %q, want %q", exit, printed, want)
		}
	}
}

// TestKubeletEndpointKeepsSecrets: kubelet.conf may hold a key. No copy is readable for others at
// any moment, also not the rest of a run that was cut short.
func TestKubeletEndpointKeepsSecrets(t *testing.T) {
	t.Parallel()
	const conf = "/etc/kubernetes/kubelet.conf"
	awk, err := exec.LookPath("awk")
	if err != nil {
		t.Fatal(err)
	}
	h := newFolderHost(t, map[string]string{
		conf: "    server: https://balancer.example:6443\n    client-key-data: secret\n",
	}, map[string]string{
		"sync": "",
		"awk":  `stat -c %a "${!#}.new" >"${0%/*}/mode"; exec ` + awk + ` "$@"` + "\n",
	})
	h.write(t, conf+".new", "cut short\n", 0o644)
	action, _ := endpointStep(h.goal, Facts{LocalServer: "https://10.0.0.1:6443"}).Action.(Run)
	if printed, exit := h.run(t, action.Script); exit != 0 {
		t.Fatal(exit, printed)
	}
	for path, want := range map[string]string{
		"/bin/mode": "600\n",
		conf:        "    server: https://10.0.0.1:6443\n    client-key-data: secret\n",
	} {
		if got, err := os.ReadFile(h.root + path); string(got) != want {
			t.Errorf("%s has %q, want %q; %v", path, got, want, err)
		}
	}
	info, err := os.Stat(h.root + conf)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestCommandsAreNoArguments: see TestChecksOfFiles. A command still runs as one script.
func TestCommandsAreNoArguments(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, nil, map[string]string{"sync": ""})
	h.goal.After = []string{
		"secret=1\ntr '\\0' ' ' </proc/$$/cmdline\ncat\n[ $secret = 1 ] && echo ran && exit\nfalse",
		"exit 3", "echo never",
	}
	action, _ := commandsStep(h.goal, AfterCommands, h.goal.After).Action.(Run)
	if printed, exit := h.run(t, action.Script); exit != 3 || printed != "bash /dev/fd/7 ran\n" {
		t.Errorf("it exits with %d and %q", exit, printed)
	}
}

// readFacts reads the facts of a host by the script.
func (h *folderHost) readFacts(t *testing.T) Facts {
	t.Helper()
	printed, exit := h.run(t, FactsScript(h.goal))
	facts, err := ParseFacts(printed)
	if exit != 0 || err != nil {
		t.Fatalf("exit code %d, %v:\n%s", exit, err, printed)
	}
	return facts
}

// TestFactsOfLargeFiles: however large the files of a host are, its facts are whole within the bytes
// that are kept of what a script prints.
func TestFactsOfLargeFiles(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("# a comment\n", 20_000)
	h := newFolderHost(t, map[string]string{
		"/var/lib/kubelet/config.yaml": large, "/etc/default/kubelet": large,
		"/etc/sysconfig/kubelet":                        large,
		"/etc/kubernetes/manifests/kube-apiserver.yaml": "spec: {}\n",
	}, map[string]string{
		"systemctl": "[ \"$1\" != cat ] && echo $RUNNING || cat \"${0%/*}/large\"\n",
		"kubelet":   "echo Kubernetes v1.35.4\n", "kubectl": "cat \"${0%/*}/large\"\n",
	})
	names := "EnvironmentFile=" + h.root + "/etc/kubernetes/kubelet.env\n"
	h.write(t, "/etc/kubernetes/kubelet.env", large, 0o600)
	h.write(t, "/bin/large", names+large, 0o600)
	printed, exit := h.run(t, FactsScript(h.goal))
	if exit != 0 || len(printed) > port.DefaultOutputLimit {
		t.Errorf("exit code %d, %d bytes, %d are kept", exit, len(printed), port.DefaultOutputLimit)
	}
	if f, err := ParseFacts(printed); err != nil || f.Config.Defaults == "" || f.Config.Sysconfig == "" ||
		f.Config.Cluster == "" || len(f.Config.Environment) != 1 {
		t.Errorf("%v: %d bytes of defaults", err, len(f.Config.Defaults))
	}
}

// TestFactsOfTheKubeletsMap: the ConfigMap that kubeadm writes the kubelet's configuration from is read
// with kubectl, or else with curl.
func TestFactsOfTheKubeletsMap(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
	const prints = `case "$*" in *` + path + `) echo '{"data": {"kubelet": "maxPods: 5\n"}}' ;; *) exit 1 ;; esac` + "\n"
	for _, program := range []string{"kubectl", "curl"} {
		h := newFolderHost(t, map[string]string{"/etc/kubernetes/kubelet.conf": "    server: https://x:6443\n"},
			map[string]string{"systemctl": "echo 0\n", "kubelet": "echo Kubernetes v1.35.4\n", program: prints})
		if got := h.readFacts(t).Config.KubeletMap; got != "maxPods: 5\n" {
			t.Errorf("%s: %q", program, got)
		}
	}
}

// TestFactsOfSettings: what a host gives to its components in files, units and the configuration is
// read, and refused before the upgrade begins.
func TestFactsOfSettings(t *testing.T) {
	t.Parallel()
	const pause = "KUBELET_EXTRA_ARGS=--pod-infra-container-image=registry.k8s.io/pause:3.9\n"
	const unit = "[Service]\nEnvironmentFile=-/etc/default/kubelet\nExecStart=/usr/bin/kubelet $KUBELET_EXTRA_ARGS\n"
	for name, test := range map[string]struct {
		files map[string]string
		unit  string
		want  string
	}{
		"nothing": {unit: unit},
		"the defaults of Debian": {
			files: map[string]string{"/etc/default/kubelet": pause}, unit: unit,
			want: "/etc/default/kubelet: the flag --pod-infra-container-image of kubelet is removed in v1.35",
		},
		"those of Red Hat": {
			files: map[string]string{"/etc/sysconfig/kubelet": pause},
			unit:  strings.ReplaceAll(unit, "default", "sysconfig"),
			want:  "/etc/sysconfig/kubelet: the flag --pod-infra-container-image of kubelet is removed in v1.35",
		},
		"a drop-in": {
			unit: unit + "# 20-gates.conf\n[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--feature-gates=NoSuchGate=true\"\n",
			want: "the unit of the kubelet: the feature gate NoSuchGate=true of kubelet is unknown to v1.36",
		},
		"the configuration": {
			files: map[string]string{"/var/lib/kubelet/config.yaml": "featureGates: {NoSuchGate: true}\n"}, unit: unit,
			want: "/var/lib/kubelet/config.yaml, featureGates: the feature gate NoSuchGate=true of kubelet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFolderHost(t, test.files, map[string]string{
				"systemctl":  "[ \"$1\" = cat ] && cat \"${0%/*}/unit\" || echo 0\n",
				"kubelet":    "echo Kubernetes v1.35.4\n",
				"containerd": "echo " + containerd16 + "\n",
				"uname":      "echo 5.15.0-139-generic x86_64\n",
			})
			// The script reads files of this folder in the place of the host's.
			h.write(t, "/bin/unit", strings.ReplaceAll(test.unit, "/etc/", h.root+"/etc/"), 0o600)
			f := h.readFacts(t)
			f.Config.Units = strings.ReplaceAll(f.Config.Units, h.root, "")
			f.Service = "kubelet"
			_, refused := ComputeSteps(h.goal, f)
			switch {
			case refused == nil && test.want != "":
				t.Errorf("it is not refused, want %q", test.want)
			case refused != nil && (test.want == "" || !strings.Contains(refused.Message, test.want)):
				t.Errorf("refused with %s, want %q", refused, test.want)
			}
			got := Warnings(h.goal, f)
			if len(got) != 1 || !strings.HasPrefix(got[0], "the container runtime is containerd://1.6.28;") {
				t.Errorf("warnings %q, want one of containerd", got)
			}
			if f.Config.Kernel != "5.15.0-139-generic" {
				t.Errorf("the kernel is %q", f.Config.Kernel)
			}
		})
	}
}

// TestFactsOfTheCluster: a host that cannot read the version of its cluster tells why.
func TestFactsOfTheCluster(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, map[string]string{
		"/etc/kubernetes/manifests/kube-apiserver.yaml": "spec: {}\n",
	}, map[string]string{
		"systemctl": "echo 0\n", "kubelet": "echo Kubernetes v1.35.4\n",
		"kubectl": "cat \"${0%/*}/config\"; echo a warning >&2; [ ! -e \"${0%/*}/problem\" ] ||\n" +
			"{ cat \"${0%/*}/problem\" >&2; exit 1; }\n",
	})
	h.write(t, "/bin/config", "apiServer: {}\nkubernetesVersion: v1.35.4\n", 0o600)
	if f := h.readFacts(t); f.Cluster != version.MustParse("v1.35.4") || f.ClusterProblem != "" {
		t.Errorf("%s, %q", f.Cluster, f.ClusterProblem)
	}
	h.write(t, "/bin/config", "", 0o600)
	h.write(t, "/bin/problem", "error: Unauthorized\n", 0o600)
	if f := h.readFacts(t); !f.Cluster.IsZero() || f.ClusterProblem != "error: Unauthorized" {
		t.Errorf("%s, %q", f.Cluster, f.ClusterProblem)
	}
}

// TestFactsOfTheBoot: the boot of a host is known by its own clock.
func TestFactsOfTheBoot(t *testing.T) {
	t.Parallel()
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Skip(err)
	}
	var want float64
	if _, err := fmt.Sscan(string(uptime), &want); err != nil {
		t.Fatal(err)
	}
	h := newFolderHost(t, nil, map[string]string{"systemctl": "echo 0\n"})
	f := h.readFacts(t)
	if got := f.Now.Sub(f.Boot).Seconds(); got < want-1 || got > want+60 {
		t.Errorf("the host runs since %.0f s, want %.0f", got, want)
	}
}

// TestFactsOfPeers: a host whose kubelet is replaced and not restarted tells which other member of
// etcd is not healthy.
func TestFactsOfPeers(t *testing.T) {
	t.Parallel()
	const own = "https://10.0.0.1:2379 is unhealthy: no space"
	const peer = "https://10.0.0.9:2379 is unhealthy: refused"
	const broken = "Error: unhealthy cluster"
	for name, test := range map[string]struct {
		health, status string
		same           bool
		want           string
	}{
		"a dead member":             {health: peer + "\n" + broken, want: peer},
		"both":                      {health: own + "\n" + peer + "\n" + broken, want: peer},
		"only its own":              {health: own + "\n" + broken},
		"no quorum":                 {health: "{}\nError: no leader", want: "Error: no leader"},
		"its own does not answer":   {health: "Error: refused", status: "Error: refused"},
		"all are healthy":           {},
		"the kubelet was restarted": {health: peer + "\n" + broken, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFolderHost(t, map[string]string{
				"/etc/kubernetes/manifests/etcd.yaml": "    - --advertise-client-urls=https://10.0.0.1:2379\n",
			}, map[string]string{
				"systemctl": "echo $RUNNING\n", "kubelet": "echo Kubernetes v1.36.3\n",
				"etcdctl": `cd "${0%/*}/.."
case "$*" in *" status") answer=status ;; *" --cluster health") answer=health ;; *) exit 1 ;; esac
cat $answer >&2; [ ! -s $answer ]
`,
			})
			h.write(t, "/health", test.health, 0o600)
			h.write(t, "/status", test.status, 0o600)
			if test.same {
				h.runKubeletAsBash(t)
			}
			f := h.readFacts(t)
			if f.EtcdPeerProblem != test.want || !f.EtcdClient {
				t.Errorf("%q, want %q", f.EtcdPeerProblem, test.want)
			}
		})
	}
}

// runKubeletAsBash makes bash the kubelet's binary: a stand-in for systemctl prints that bash runs.
func (h *folderHost) runKubeletAsBash(t *testing.T) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := filepath.Join(h.goal.Folder, "kubelet")
	if err := os.RemoveAll(kubelet); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bash, kubelet); err != nil {
		t.Fatal(err)
	}
}

// TestKubeadmIsSyncedBeforeItCounts: what kubeadm wrote is on the disk before the host records that
// kubeadm has run. No host of the lab loses what is not synced.
func TestKubeadmIsSyncedBeforeItCounts(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, map[string]string{
		"/var/lib/kubelet/config.yaml": "x\n", "/etc/kubernetes/kubelet.conf": "x\n",
	}, map[string]string{
		"kubeadm": `echo "kubeadm $*" >>"${0%/*}/log"` + "\n",
		"sync":    `echo "sync $*" >>"${0%/*}/log"` + "\n",
	})
	action, _ := upgradeStep(h.goal, Facts{}, "").Action.(Run)
	if printed, exit := h.run(t, action.Script); exit != 0 {
		t.Fatal(exit, printed)
	}
	log, err := os.ReadFile(h.root + "/bin/log")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, want := range []string{
		"kubeadm upgrade node\n",
		"sync -f " + h.root + "/etc/kubernetes " + h.root + "/var/lib/kubelet\n",
		"sync " + h.root + StateFolder + "/op/" + h.goal.Operation() + "/kubeadm-upgrade.new\n",
	} {
		next := strings.Index(string(log)[at:], want)
		if next < 0 {
			t.Fatalf("after %d bytes, there is no %q in\n%s", at, want, log)
		}
		at += next + len(want)
	}
}
