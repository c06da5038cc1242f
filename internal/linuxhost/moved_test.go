package linuxhost

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCutThenAnotherKubelet: kubeadm is cut short, and a package manager replaces the kubelet. What
// is damaged comes back all the same, and the files of the newer kubelet stay. Nobody can compare a
// kubelet that is not where the goal says.
func TestCutThenAnotherKubelet(t *testing.T) {
	t.Parallel()
	for name, kubelet := range map[string]string{
		"another": "#!/bin/bash\necho Kubernetes v1.36.3\n", "in another folder": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, "/etc/kubernetes/pki/ca.crt", "certificate\n")
			g := s.goal(t, "v1.36.3")
			s.mustCut(t, g, "first")
			s.write(t, conf, "kind: of the package\n")
			want := "kind: of the package\n"
			if kubelet == "" {
				g.Folder, want = s.root+"/opt", "kind: KubeletConfiguration\n"
			} else {
				s.write(t, "/bin/kubelet", kubelet)
			}
			script := g.script("kubeadm-recover")
			if printed, code := s.run(t, script); code != 0 {
				t.Fatal(printed)
			}
			if got := s.read(apiServer); !strings.Contains(got, "status: {}") {
				t.Errorf("the manifest is %q", got)
			}
			if got := s.read(serverKey); got != "first key\n" {
				t.Errorf("the key is %q", got)
			}
			if got := s.read(conf); got != want {
				t.Errorf("the kubelet's configuration is %q, want %q", got, want)
			}
		})
	}
}

// TestCutThenEndedByHand: kubeadm is cut short, and a person ends the upgrade, or makes the host
// anew. A later upgrade puts nothing back: a newer kubelet may not start with older files, and
// older certificates may have expired or be of another cluster.
func TestCutThenEndedByHand(t *testing.T) {
	t.Parallel()
	const authority, kubelet = "/etc/kubernetes/pki/ca.crt", "/bin/kubelet"
	for name, test := range map[string]struct {
		change, to string
		want       string
	}{
		"the same kubelet and authority": {"/hostname", "x\n", "kind: KubeletConfiguration\n"},
		"another kubelet":                {kubelet, "#!/bin/bash\necho Kubernetes v1.36.3\n", "kind: by hand\n"},
		"another authority":              {authority, "another\n", "kind: by hand\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, authority, "certificate\n")
			s.mustCut(t, s.goal(t, "v1.36.3"), "first")
			s.write(t, apiServer, "image: kube-apiserver:v1.36.3\nstatus: {}\n")
			s.write(t, serverKey, "key by hand\n")
			s.write(t, conf, "kind: by hand\n")
			s.write(t, flags, "ARGS=\"--endpoint=x\"\n")
			if err := os.Remove(s.root + instance); err != nil {
				t.Fatal(err)
			}
			s.write(t, "/cluster", "v1.36.3\n")
			s.write(t, test.change, test.to)
			s.write(t, "/kubeadm.does", "cp ."+conf+" seen.conf; "+kubeadmSucceeds)
			s.mustReach(t, s.goal(t, "v1.36.4"), "second")
			if got := s.read("/seen.conf"); got != test.want {
				t.Errorf("kubeadm finds the kubelet's configuration %q, want %q", got, test.want)
			}
			if _, err := os.Stat(s.root + StateFolder + "/keep/before-kubeadm"); err == nil {
				t.Error("the copy is still there")
			}
		})
	}
}

// TestKilledIsNotTooLate: a job of which the kernel kills a process has not taken too long.
func TestKilledIsNotTooLate(t *testing.T) {
	t.Parallel()
	for run, test := range map[string]struct{ limit, exit string }{
		// No machine is so busy that this takes a minute.
		"kill -9 $$\n": {"60", "137\n"},
		"sleep 60\n":   {"1", "124\n"},
		// It ignores what `timeout` sends first.
		"trap '' TERM; echo x >\"$0.began\"; while :; do :; done\n": {"1", "124\n"},
	} {
		h := newFolderHost(t, map[string]string{
			StateFolder + "/job/id": "x\n", StateFolder + "/job/run": run,
		}, nil)
		wrap := render("wrap", value{"STATE", StateFolder}, value{"LIMIT", test.limit})
		wrap = strings.ReplaceAll(wrap, "--kill-after=30", "--kill-after=1")
		if printed, exit := h.run(t, wrap); exit != 0 {
			t.Fatal(exit, printed)
		}
		if got, err := os.ReadFile(h.root + StateFolder + "/job/exit"); string(got) != test.exit {
			t.Errorf("%q: %v; the exit code is %q, want %q", run, err, got, test.exit)
		}
	}
	ended := Job{
		Step: KubeadmUpgrade, Output: "last words\n", Ended: time.Unix(40, 0), Started: time.Unix(0, 0),
	}
	for code, want := range map[int]Failure{
		124: {StepTimedOut, KubeadmUpgrade, "it was ended after 40s: last words"},
		137: {StepFailed, KubeadmUpgrade, "it was killed after 40s: last words. Fix: see whether the " +
			"host ran out of memory (dmesg)"},
	} {
		ended.ExitCode = code
		if got := *FailureOf(ended); got != want {
			t.Errorf("%d: %+v, want %+v", code, got, want)
		}
	}
}

// TestEndpointOfEtcd: etcd that listens on all addresses is asked at one that its certificate has.
func TestEndpointOfEtcd(t *testing.T) {
	t.Parallel()
	for listens, want := range map[string]string{
		"https://0.0.0.0:2379":                        "https://127.0.0.1:2379",
		"https://[::]:2379,https://10.0.0.7:2379":     "https://[::1]:2379",
		"https://127.0.0.1:2379,https://10.0.0.7:237": "https://127.0.0.1:2379",
		"https://10.0.0.7:2379":                       "https://10.0.0.7:2379",
	} {
		h := newFolderHost(t, map[string]string{
			"/etc/kubernetes/manifests/etcd.yaml": "    - --listen-client-urls=" + listens + "\n",
		}, nil)
		got, exit := h.run(t, h.goal.script("lib-etcd")+"echo $endpoint\n")
		if exit != 0 || got != want+"\n" {
			t.Errorf("%s: %d, %q, want %q", listens, exit, got, want)
		}
	}
}

// TestNewSnapshotStays: a snapshot is never the one that goes to make room, also if older ones seem
// to be newer, because the clock was set back.
func TestNewSnapshotStays(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	later := time.Now().Add(time.Hour)
	for _, name := range []string{"a", "b", "c"} {
		file := snapshotsFolder + "/" + name + ".db"
		s.write(t, file, "x\n")
		if err := os.Chtimes(s.root+file, later, later); err != nil {
			t.Fatal(err)
		}
	}
	g := s.goal(t, "v1.36.3")
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	s.mustReach(t, g, "first")
	left, err := os.ReadDir(s.root + snapshotsFolder)
	if err != nil || len(left) != 3 || s.read(snapshotsFolder+"/"+g.Operation()+".db") == "" {
		t.Errorf("%v; left: %v", err, left)
	}
}

// TestHostPatches: kubeadm gets the folder of patches that a person names. If nobody says
// anything, a host with patches is refused: kubeadm would take back what they do.
func TestHostPatches(t *testing.T) {
	t.Parallel()
	const patch = usualPatches + "/etcd0+json.yaml"
	for _, test := range []struct {
		name, file, folder string
		refuse             bool
		want               Reason
		flag               string
	}{
		{name: "nothing said", file: patch, refuse: true, want: FileRefused},
		{name: "nothing said, no patch", file: usualPatches + "/README.yaml", refuse: true},
		{name: "none", file: patch},
		{name: "another folder", file: patch, folder: "/srv/patches", want: FileRefused},
		{name: "the folder", file: patch, folder: usualPatches, flag: usualPatches},
	} {
		s := newSandbox(t)
		s.write(t, test.file, "x\n")
		s.write(t, "/kubeadm.does", kubeadmSucceeds)
		g := s.goal(t, "v1.36.3")
		g.RefusePatches, g.HostPatches = test.refuse, test.folder
		steps, _, refused := s.look(t, g, "first")
		if test.want != "" {
			if refused == nil || refused.Reason != test.want {
				t.Errorf("%s: %+v, want %s", test.name, refused, test.want)
			}
			continue
		}
		command := "run kubeadm upgrade apply v1.36.3 --yes"
		if test.flag != "" {
			command += " --patches '" + test.flag + "'"
		}
		runs := func(step Step) bool { return step.Name == KubeadmUpgrade && step.Summary == command }
		if refused != nil || !slices.ContainsFunc(steps, runs) {
			t.Errorf("%s: no step has %q: %+v", test.name, command, refused)
		}
		if test.flag != "" { // What the step says is what it does.
			s.mustReach(t, g, "first")
			s.mustLog(t, "v1.36.3 upgrade apply v1.36.3 --yes --patches "+s.root+test.flag)
		}
	}
}
