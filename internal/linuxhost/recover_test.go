package linuxhost

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/pkg/version"
)

// sandbox is a control plane host in a folder, with stand-ins for its programs. Scripts run in it
// one after another, with its folders in the place of the host's.
type sandbox struct {
	root string
	job  Job
	env  []string
}

// The files that kubeadm changes.
const (
	apiServer = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	etcdPod   = "/etc/kubernetes/manifests/etcd.yaml"
	serverKey = "/etc/kubernetes/pki/apiserver.key"
	conf      = "/var/lib/kubelet/config.yaml"
	flags     = "/var/lib/kubelet/kubeadm-flags.env"
	instance  = "/var/lib/kubelet/instance-config.yaml"
	kept      = "/var/lib/windlass/keep"
)

// standInKubeadm writes its arguments to a log, fails on a host that is not as it should be, and
// does what the file kubeadm.does has. Of a run that is cut short, one line is left of a manifest,
// and nothing of other files.
const standInKubeadm = `#!/bin/bash
root=%[1]s
[ "$1" = version ] && { echo %[2]s; exit; }
cd $root
if [ "$1 $2 $3" = "config images list" ]; then
  echo 'a warning' >&2
  ! grep -q 'featureGates\|SomeGate' "$5" || { echo 'SomeGate is not a valid feature name' >&2; exit 1; }
  from=$(sed -n 's/^imageRepository: //p' "$5")
  to=$(sed -n 's/^kubernetesVersion: //p' "$5")
  for image in kube-{apiserver,controller-manager,scheduler,proxy}:$to coredns:v1.14.0 pause:3.10 etcd:3.6.0; do
    echo "${from:-registry.example}/$image"
  done
  exit
fi
echo "%[2]s $*" >>kubeadm.log
grep -q key .%[3]s && grep -q 'status: {}' .%[4]s && grep -q endpoint= .%[5]s &&
  grep -q kind: .%[6]s && [ ! -e .%[7]s ] || { echo 'the host is damaged'; exit 1; }
move() {
  mkdir -p etc/kubernetes/tmp/kubeadm-backup-manifests-1
  mv .%[4]s etc/kubernetes/tmp/kubeadm-backup-manifests-1/
}
cut() {
  echo "metadata:" >.%[4]s; : >.%[3]s; : >.%[6]s; echo 'ARGS=""' >.%[5]s; : >.%[7]s
  kill -9 $PPID; exit 1
}
. ./kubeadm.does
`

// newSandbox returns a control plane at v1.35.4, whose cluster has that version too.
func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	needs(t, "bash", "bash")
	s := &sandbox{root: t.TempDir()}
	s.env = append(os.Environ(), "PATH="+s.root+"/stand-in:"+os.Getenv("PATH"))
	for _, v := range []string{"v1.35.4", "v1.36.3", "v1.36.4", "v1.37.0"} {
		folder := "/binaries/" + v + "/linux/" + runtime.GOARCH
		s.write(t, folder+"/kubeadm",
			fmt.Sprintf(standInKubeadm, s.root, v, serverKey, apiServer, flags, conf, instance))
		s.write(t, folder+"/kubelet", "#!/bin/bash\necho Kubernetes "+v+"\n")
	}
	s.write(t, "/bin/kubelet", "#!/bin/bash\necho Kubernetes v1.35.4\n")
	s.write(t, "/bin/kubectl", `#!/bin/bash
cd `+s.root+`
has() { IFS= read -r -d '' all <"$2"; [[ "$all" = *"$1"* ]]; }
has key .`+serverKey+` && has 'status: {}' .`+apiServer+` || exit 1
case "$*" in
  *kubeadm-config*)
    IFS= read -r -d '' all <cluster
    echo 'featureGates:'; echo '  SomeGate: true'; printf %s "kubernetesVersion: $all" ;;
  *whoami*) echo system:node:n ;;
  *"get node"*) echo True ;;
esac
`)
	s.write(t, "/stand-in/systemctl", `#!/bin/bash
[ "$1" != restart ] || echo "$*" >>`+s.root+`/systemctl.log
`)
	s.write(t, "/stand-in/etcdctl", `#!/bin/bash
case "$*" in
  *"snapshot save"*) for to; do :; done; echo x >"$to"; echo x >>`+s.root+`/etcdctl.log ;;
  *health*) [ ! -e `+s.root+`/etcd.down ] ;;
esac
`)
	s.write(t, "/stand-in/sleep", "#!/bin/bash\nexec /bin/sleep 0.05\n")
	s.write(t, "/stand-in/df", `#!/bin/bash
cd `+s.root+`
total=1; [ ! -e total.kb ] || total=$(<total.kb)
echo
for folder in "${@:2}"; do
  at=/; [ "${folder##*/}" != containers ] || at=/other
  echo disk $total 1 $(<free.kb) 1% $at
done
`)
	s.write(t, "/stand-in/crictl", `#!/bin/bash
cd `+s.root+`
while [[ "$1" = --* ]]; do shift 2; done
echo "$*" >>crictl.log
[ ! -e cri.down ] || { cat cri.down >&2; exit 1; }
case "$1" in
  images) [ ! -e images ] || echo "$(<images)" ;;
  inspecti) [ ! -e lacks ] || while read -r image || [ -n "$image" ]; do
      [ "$image" != "$2" ] || exit 1
    done <lacks ;;
  pull)
    [ ! -e registry.error ] || { cat registry.error >&2; exit 1; }
    left=$(grep -vxF -e "$2" lacks); echo "$left" >lacks ;;
esac
`)
	for path, content := range map[string]string{
		"/free.kb": "9000000\n", apiServer: "image: kube-apiserver:v1.35.4\nstatus: {}\n",
		etcdPod:   "kind: Pod\nstatus: {}\n",
		serverKey: "first key\n", conf: "kind: KubeletConfiguration\n", flags: "ARGS=\"--endpoint=x\"\n",
		"/etc/kubernetes/pki/apiserver.crt": "certificate\n",
		"/etc/kubernetes/pki/ca.key":        "key\n", "/etc/kubernetes/pki/etcd/ca.key": "key\n",
		"/etc/kubernetes/kubelet.conf": "server: x\n",
		"/cluster":                     "v1.35.4\n", "/kubeadm.does": "cut",
	} {
		s.write(t, path, content)
	}
	return s
}

func (s *sandbox) write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.root+path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.root+path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

// read returns the content of a file; nothing if it is not there.
func (s *sandbox) read(path string) string {
	content, _ := os.ReadFile(s.root + path)
	return string(content)
}

// goal is an upgrade of the host to a version.
func (s *sandbox) goal(t *testing.T, v string) Goal {
	t.Helper()
	var digests strings.Builder
	for _, name := range []string{"kubeadm", "kubelet"} {
		file := v + "/linux/" + runtime.GOARCH + "/" + name
		sum := sha256.Sum256([]byte(s.read("/binaries/" + file)))
		fmt.Fprintf(&digests, "%s  %s\n", hex.EncodeToString(sum[:]), file)
	}
	manifest, err := ParseManifest(digests.String())
	if err != nil {
		t.Fatal(err)
	}
	return Goal{
		Distribution: Kubeadm, Version: version.MustParse(v), Folder: s.root + "/bin", Digests: manifest,
		Source: Source{HostFolder: s.root + "/binaries"}, Snapshot: true,
	}
}

// run runs a script. It returns what the script printed, and its exit code: -1 if it was killed.
func (s *sandbox) run(t *testing.T, script string) (string, int) {
	t.Helper()
	for _, folder := range []string{
		"/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/containe", StateFolder,
		"/var/lib/rancher", "/etc/rancher", "/sys/fs/cgroup", "/etc/default", "/etc/sysconfig",
	} {
		script = strings.ReplaceAll(script, folder, s.root+folder)
	}
	command := exec.CommandContext(t.Context(), "bash")
	command.Stdin, command.Env = strings.NewReader(script), s.env
	printed, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return string(printed), command.ProcessState.ExitCode()
}

// next looks at the host, and decides.
func (s *sandbox) next(t *testing.T, g Goal, attempt string) Progress {
	t.Helper()
	steps, seen, refused := s.look(t, g, attempt)
	if refused != nil {
		return fails(refused)
	}
	return Decide(g, steps, seen)
}

// look looks at the host.
func (s *sandbox) look(t *testing.T, g Goal, attempt string) ([]Step, Seen, *Failure) {
	t.Helper()
	printed, _ := s.run(t, FactsScript(g))
	facts, err := ParseFacts(printed)
	if err != nil {
		t.Fatal(err, printed)
	}
	facts.Job = s.job
	steps, refused := ComputeSteps(g, facts)
	seen := Seen{Facts: facts, Attempt: attempt}
	printed, _ = s.run(t, ChecksScript(steps))
	if seen.Checks, err = ParseChecks(printed); err != nil {
		t.Fatal(err, printed)
	}
	seen.Checks = ExpireSnapshot(g, seen)
	return steps, seen, refused
}

// do runs the job that was decided. It returns its exit code.
func (s *sandbox) do(t *testing.T, g Goal, p Progress, attempt string) int {
	t.Helper()
	run, ok := p.Begin.(Run)
	if !ok {
		t.Fatalf("%+v", p)
	}
	printed, code := s.run(t, run.Script)
	s.job = Job{
		Operation: g.Operation(), Step: p.Step, Attempt: attempt, Manifest: g.Manifest(),
		State: JobEnded, ExitCode: code, Output: printed,
	}
	if code < 0 {
		s.job.State = JobVanished
	}
	return code
}

// attempt takes an upgrade as far as kubeadm: the restart of the kubelet is next then. It returns
// sooner if a job is killed, or the attempt ends. After a program is fetched or installed, the host is
// not looked at again, which takes most of the time: hosts of the lab show that these steps are seen.
func (s *sandbox) attempt(t *testing.T, g Goal, attempt string) Progress {
	t.Helper()
	steps, seen, refused := s.look(t, g, attempt)
	for range 20 {
		if refused != nil {
			return fails(refused)
		}
		p := Decide(g, steps, seen)
		if p.Begin == nil || p.Step == Restart || s.do(t, g, p, attempt) < 0 {
			return p
		}
		installs := strings.HasPrefix(string(p.Step), InstallPrefix) || strings.HasPrefix(string(p.Step), FetchPrefix)
		if installs && s.job.ExitCode == 0 {
			seen.Facts.Job, seen.Checks[p.Step] = s.job, CheckResult{Done: true}
			continue
		}
		steps, seen, refused = s.look(t, g, attempt)
	}
	t.Fatalf("it does not end: %+v", s.job)
	return Progress{}
}

// mustCut has an attempt end in kubeadm, whose files are torn then.
func (s *sandbox) mustCut(t *testing.T, g Goal, attempt string) {
	t.Helper()
	if p := s.attempt(t, g, attempt); p.Step != KubeadmUpgrade || s.job.State != JobVanished {
		t.Fatalf("kubeadm was not cut short: %+v, %+v", p, s.job)
	}
	if torn := s.read(apiServer); torn != "metadata:\n" {
		t.Fatalf("the manifest is not torn: %q", torn)
	}
}

// mustFail has kubeadm end an attempt with a failure.
func (s *sandbox) mustFail(t *testing.T, g Goal, attempt string) {
	t.Helper()
	if p := s.attempt(t, g, attempt); p.Failure == nil || p.Failure.Step != KubeadmUpgrade {
		t.Fatalf("%+v", p)
	}
}

// mustReach has an attempt reach the restart.
func (s *sandbox) mustReach(t *testing.T, g Goal, attempt string) {
	t.Helper()
	if p := s.attempt(t, g, attempt); p.Step != Restart || p.Failure != nil {
		t.Fatalf("%+v, after %+v", p, s.job)
	}
}

// mustLog compares what kubeadm was run with.
func (s *sandbox) mustLog(t *testing.T, want ...string) {
	t.Helper()
	got := strings.Split(strings.TrimSpace(s.read("/kubeadm.log")), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("kubeadm ran %q, want %q", got, want)
	}
}

const kubeadmSucceeds = `move; echo 'second key' >.` + serverKey + `
tag=$(sed -n '$s/ .*//p' kubeadm.log)
sed "s/:v.*/:$tag/" etc/kubernetes/tmp/*/kube-apiserver.yaml >.` + apiServer

// needsKey has kubeadm fail with another key.
func needsKey(name string) string {
	return "[ \"$(<." + serverKey + ")\" = '" + name + " key' ] || exit 1; "
}

// TestCutThenOtherPatch: kubeadm is cut short, and another patch release is wanted. Whatever
// kubeadm had torn comes back, the snapshot from before it counts, and the machine stays the first.
func TestCutThenOtherPatch(t *testing.T) {
	t.Parallel()
	for _, cluster := range []string{"v1.35.4", "v1.36.3"} {
		s := newSandbox(t)
		s.mustCut(t, s.goal(t, "v1.36.3"), "first")
		s.write(t, "/cluster", cluster)
		s.write(t, "/kubeadm.does", kubeadmSucceeds)
		s.mustReach(t, s.goal(t, "v1.36.4"), "second")
		s.mustLog(t, "v1.36.3 upgrade apply v1.36.3 --yes", "v1.36.4 upgrade apply v1.36.4 --yes")
		if saved := s.read("/etcdctl.log"); saved != "x\n" {
			t.Errorf("etcd was saved: %q", saved)
		}
		if restarts := s.read("/systemctl.log"); restarts != "restart kubelet\n" {
			t.Errorf("the kubelet was restarted: %q", restarts)
		}
		if got := s.read(apiServer); got != "image: kube-apiserver:v1.36.4\nstatus: {}\n" {
			t.Errorf("the manifest is %q", got)
		}
	}
}

// TestCutThenRevert: kubeadm is cut short, and the version before is wanted.
func TestCutThenRevert(t *testing.T) {
	t.Parallel()
	for _, d := range []string{"with its digests", "without"} {
		s := newSandbox(t)
		s.mustCut(t, s.goal(t, "v1.36.3"), "first")
		s.write(t, "/kubeadm.does", kubeadmSucceeds)
		g := s.goal(t, "v1.35.4")
		if d == "without" {
			g.Digests = Manifest{}
			if p := s.attempt(t, g, "second"); p.Failure == nil || p.Failure.Reason != NoDigest {
				t.Errorf("%+v, want %s", p, NoDigest)
			}
			continue
		}
		s.mustReach(t, g, "second")
		s.mustLog(t, "v1.36.3 upgrade apply v1.36.3 --yes", "v1.35.4 upgrade node")
	}
}

// TestCutThenRefused: kubeadm is cut short, and has changed the cluster's configuration. The
// version before is refused; the host is repaired nevertheless, and continues.
func TestCutThenRefused(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.mustCut(t, s.goal(t, "v1.36.3"), "first")
	s.write(t, "/cluster", "v1.36.3")
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	p := s.attempt(t, s.goal(t, "v1.35.4"), "second")
	if p.Failure == nil || p.Failure.Reason != VersionRefused {
		t.Fatalf("%+v", p)
	}
	if key := s.read(serverKey); key != "first key\n" {
		t.Errorf("the key is %q", key)
	}
	s.mustReach(t, s.goal(t, "v1.36.3"), "third")
	s.mustLog(t, "v1.36.3 upgrade apply v1.36.3 --yes", "v1.36.3 upgrade apply v1.36.3 --yes")
}

// TestNoWayBackForTheAPIServer: once the API server has a new minor, the version before is refused,
// although the cluster's configuration has it. Another patch release of the same minor is not.
func TestNoWayBackForTheAPIServer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"failed": "exit 1", "cut": "kill -9 $PPID; exit 1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, "/kubeadm.does", kubeadmSucceeds+"; "+end)
			s.attempt(t, s.goal(t, "v1.36.4"), "first")
			p := s.attempt(t, s.goal(t, "v1.35.4"), "second")
			if p.Failure == nil || p.Failure.Reason != VersionRefused {
				t.Fatalf("%+v", p)
			}
			s.write(t, "/kubeadm.does", kubeadmSucceeds)
			s.mustReach(t, s.goal(t, "v1.36.3"), "third")
			s.mustLog(t, "v1.36.4 upgrade apply v1.36.4 --yes", "v1.36.3 upgrade apply v1.36.3 --yes")
		})
	}
}

// TestRemovalCutShort: a power cut while copies are removed leaves none of which half could come
// back after another one.
func TestRemovalCutShort(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, "/etc/kubernetes/pki/etcd/ca.crt", "first ca\n")
	s.write(t, "/stand-in/rm", `#!/bin/bash
case "$*" in *keep/*)
  ca=$(find `+s.root+kept+` -path '*pki/etcd/ca.crt')
  if [ -n "$ca" ] && [ ! -e `+s.root+`/removed ]; then
    touch `+s.root+`/removed; /bin/rm "$ca"; kill -9 $PPID; exit 1
  fi
esac
exec /bin/rm "$@"
`)
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	g := s.goal(t, "v1.36.3")
	if s.attempt(t, g, "first"); s.read("/removed") != "" || s.job.State != JobVanished {
		t.Fatalf("nothing was removed: %+v", s.job)
	}
	s.write(t, "/kubeadm.does", "cut")
	s.mustCut(t, g, "second")
	s.write(t, "/kubeadm.does", needsKey("second")+kubeadmSucceeds)
	s.mustReach(t, g, "third")
	if printed, code := s.run(t, g.script("clean")); code != 0 {
		t.Fatal(printed)
	}
	if left, err := os.ReadDir(s.root + kept); err != nil || len(left) > 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
}

// TestKubeadmFailsBetweenFiles: kubeadm that cannot write the file to which it moves the endpoint
// of the container runtime leaves the kubelet with its endpoint.
func TestKubeadmFailsBetweenFiles(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	g := s.goal(t, "v1.36.3")
	s.write(t, "/kubeadm.does", "echo 'ARGS=\"\"' >."+flags+"; : >."+instance+"; exit 1")
	s.mustFail(t, g, "first")
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	s.mustReach(t, g, "second")
}

// fillDisk leaves no room to put anything but manifests back, until makeRoom.
func (s *sandbox) fillDisk(t *testing.T) {
	t.Helper()
	s.write(t, "/stand-in/cp", `#!/bin/bash
case "$*" in *manifests/.windlass-new) ;; *.windlass-new)
  [ -e `+s.root+`/has-room ] || { echo 'cp: No space left on device'; exit 1; } ;;
esac
exec /bin/cp "$@"
`)
}

func (s *sandbox) makeRoom(t *testing.T) {
	t.Helper()
	s.write(t, "/has-room", "")
}

// TestKubeadmFailsInCertificates: a kubeadm that fails or is killed while it renews certificates
// leaves those from before, also if the disk is full until the next attempt.
func TestKubeadmFailsInCertificates(t *testing.T) {
	t.Parallel()
	const renew = "echo 'other key' >." + serverKey + "; "
	for name, test := range map[string]struct {
		does string
		full bool
	}{
		"no room for a key":        {does: ": >." + serverKey + "; exit 1"},
		"no room to put it back":   {does: ": >." + serverKey + "; exit 1", full: true},
		"half of a manifest":       {does: renew + "echo metadata: >." + apiServer + "; exit 1"},
		"killed between two files": {does: renew + "kill -9 $$"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			if test.full {
				s.fillDisk(t)
			}
			g := s.goal(t, "v1.36.3")
			s.write(t, "/kubeadm.does", test.does)
			p := s.attempt(t, g, "first")
			if p.Failure == nil || (p.Failure.Reason == DiskFull) != test.full {
				t.Fatalf("%+v", p)
			}
			if key := s.read(serverKey); !test.full && key != "first key\n" {
				t.Errorf("after the failure, the key is %q", key)
			}
			s.makeRoom(t)
			s.write(t, "/kubeadm.does", needsKey("first")+kubeadmSucceeds)
			s.mustReach(t, g, "second")
			if restarts := s.read("/systemctl.log"); restarts != "restart kubelet\n" {
				t.Errorf("the kubelet was restarted: %q", restarts)
			}
		})
	}
}
