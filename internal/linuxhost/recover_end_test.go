package linuxhost

import (
	"path/filepath"
	"testing"
)

// TestManifestsAreSynced: a new manifest is on the disk while kubeadm waits for its pod.
func TestManifestsAreSynced(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, "/stand-in/sync", `#!/bin/bash
cd `+s.root+`
grep -q new .`+etcdPod+` && [ -p synced ] && echo "$*" 1<>synced
exec /bin/sync "$@"
`)
	s.write(t, "/kubeadm.does", "mkfifo synced; exec 5<>synced; echo new: >>."+etcdPod+`
read -t 60 -u 5 -r line || exit 1
echo "$line" >synced.log; `+kubeadmSucceeds)
	s.mustReach(t, s.goal(t, "v1.36.3"), "first")
	want := s.root + etcdPod + " " + s.root + apiServer + " " + filepath.Dir(s.root+etcdPod) + "\n"
	if got := s.read("/synced.log"); got != want {
		t.Errorf("%q was synced, want %q", got, want)
	}
}

// TestKubeadmTakesTooLong: the attempt ends; the next one undoes what kubeadm has done to files.
func TestKubeadmTakesTooLong(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	g := s.goal(t, "v1.36.3")
	s.mustCut(t, g, "first")
	s.job.State, s.job.ExitCode = JobEnded, 124
	if p := s.attempt(t, g, "first"); p.Failure == nil || p.Failure.Reason != StepTimedOut {
		t.Fatalf("%+v", p)
	}
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	s.mustReach(t, g, "second")
}
