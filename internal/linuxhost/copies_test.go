package linuxhost

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// copies are the copies of etcd's data that kubeadm has left.
func (s *sandbox) copies(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(s.root + "/etc/kubernetes/tmp/kubeadm-backup-etcd-*")
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = strings.TrimPrefix(filepath.Base(found[i]), "kubeadm-backup-etcd-")
	}
	return found
}

// copiesEtcd is what kubeadm does before it compares versions.
const copiesEtcd = `mkdir -p etc/kubernetes/tmp
cp -r var/lib/etcd etc/kubernetes/tmp/kubeadm-backup-etcd-$(grep -c . kubeadm.log)
`

// TestOldCopies: copies of etcd that failed runs of kubeadm have left do not fill the disk. Those
// of other upgrades stay, and so do all as long as etcd may need them.
func TestOldCopies(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	g := s.goal(t, "v1.36.3")
	s.write(t, "/var/lib/etcd/member/wal/0.wal", "x")
	s.write(t, "/etc/kubernetes/tmp/kubeadm-backup-etcd-0/etcd", "x")
	s.write(t, "/kubeadm.does", copiesEtcd+"exit 1")
	s.attempt(t, g, "1")
	s.write(t, "/etcd.down", "")
	s.attempt(t, g, "2")
	if got := s.copies(t); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("without etcd there are the copies %v", got)
	}
	if err := os.Remove(s.root + "/etcd.down"); err != nil {
		t.Fatal(err)
	}
	s.write(t, "/kubeadm.does", copiesEtcd+kubeadmSucceeds)
	s.mustReach(t, s.goal(t, "v1.36.4"), "3")
	if got := s.copies(t); !slices.Equal(got, []string{"0", "3"}) {
		t.Errorf("in the end there are the copies %v", got)
	}
}

// TestRoomForCopy: a host without room for kubeadm's copy of etcd is refused before anything is
// done, and where copies were removed for it, before kubeadm runs.
func TestRoomForCopy(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	g := s.goal(t, "v1.36.3")
	s.write(t, "/var/lib/etcd/member/wal/0.wal", strings.Repeat("x", 4<<20))
	refused := func(attempt string, begun bool) {
		t.Helper()
		s.write(t, "/free.kb", "3000\n")
		p := s.attempt(t, g, attempt)
		if p.Failure == nil || p.Failure.Reason != DiskFull || p.Failure.Step != KubeadmUpgrade {
			t.Fatalf("%+v", p)
		}
		if (s.job.Attempt == attempt) != begun {
			t.Errorf("the last job is %+v", s.job)
		}
	}
	refused("1", false)
	s.write(t, "/free.kb", "9000000\n")
	s.write(t, "/kubeadm.does", "mkdir -p etc/kubernetes/tmp; "+copiesEtcd+"exit 1")
	if p := s.attempt(t, g, "2"); p.Failure == nil || p.Failure.Reason != StepFailed {
		t.Fatalf("%+v", p)
	}
	refused("3", true)
	s.mustLog(t, "v1.36.3 upgrade apply v1.36.3 --yes")
}

// TestRoomForImages: a host also has room for the images that kubeadm pulls before it copies etcd,
// if they are on the same disk and not there yet. Otherwise the container runtime is not asked:
// that is slow, and each look at a host asks.
func TestRoomForImages(t *testing.T) {
	t.Parallel()
	const pulled = "registry.k8s.io/kube-scheduler   v1.36.3   aec12dadf56dd   51.6MB\n"
	for name, test := range map[string]struct {
		folder, images string
		refused        bool
	}{
		"on the same disk":   {folder: "containerd", refused: true},
		"on another disk":    {folder: "containers"},
		"an unknown runtime": {folder: "other"},
		"they are there":     {folder: "containerd", images: pulled},
		"others are there": {
			folder: "containerd", images: strings.Replace(pulled, "36.3", "35.4", 1), refused: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			g := s.goal(t, "v1.36.3")
			s.write(t, "/var/lib/etcd/member/wal/0.wal", "x")
			s.write(t, "/var/lib/"+test.folder+"/x", "x")
			s.write(t, "/images", test.images)
			s.write(t, "/kubeadm.does", copiesEtcd+"exit 1")
			mustFail := func(attempt, free string, reason Reason) {
				t.Helper()
				s.write(t, "/free.kb", free)
				p := s.attempt(t, g, attempt)
				if p.Failure == nil || p.Failure.Reason != reason || p.Step != KubeadmUpgrade {
					t.Fatalf("%+v, want %s", p, reason)
				}
			}
			want := StepFailed // It is that of kubeadm.
			if test.refused {
				want = DiskFull
			}
			mustFail("1", "1000000\n", want)
			if (s.job.Attempt == "1") == test.refused {
				t.Errorf("the last job is %+v", s.job)
			}
			// With copies of a run that has failed, the job itself looks for room.
			mustFail("2", "9000000\n", StepFailed)
			mustFail("3", "1000000\n", want)
			asked := strings.Contains("\n"+s.read("/crictl.log"), "\nimages\n")
			if sameDisk := test.folder == "containerd"; asked != sameDisk {
				t.Errorf("the container runtime was asked: %t", asked)
			}
		})
	}
}

// TestSnapshotAfterAFailure: kubeadm that fails before it changes the host leaves the snapshot of
// etcd with its age. Once it has changed the host, or if etcd cannot be saved, the snapshot counts.
func TestSnapshotAfterAFailure(t *testing.T) {
	t.Parallel()
	const moved = "etc/kubernetes/tmp/*/*"
	for name, test := range map[string]struct {
		does  string
		down  bool
		saved int
	}{
		"nothing was changed": {does: "exit 1", saved: 2},
		"etcd is down":        {does: "exit 1", down: true, saved: 1},
		"a manifest changed":  {does: "echo >>." + etcdPod + "; exit 1", saved: 1},
		"one came back":       {does: "move; mv " + moved + " ." + apiServer + "; exit 1", saved: 1},
		"kubeadm was cut":     {does: "cut", saved: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			g := s.goal(t, "v1.36.3")
			s.write(t, "/kubeadm.does", test.does)
			if p := s.attempt(t, g, "first"); p.Step != KubeadmUpgrade {
				t.Fatalf("%+v", p)
			}
			if test.down {
				s.write(t, "/etcd.down", "")
			}
			s.age(t, g, 2*time.Hour)
			s.write(t, "/kubeadm.does", "cut")
			s.mustCut(t, g, "second")
			if got := strings.Count(s.read("/etcdctl.log"), "x"); got != test.saved {
				t.Errorf("etcd was saved %d times, want %d", got, test.saved)
			}
			// Another patch release begins with the snapshot that the last run of kubeadm began with.
			s.mustComeTo(t, s.goal(t, "v1.36.4"), "third", InstallPrefix+"kubeadm")
			if got := strings.Count(s.read("/etcdctl.log"), "x"); got != test.saved {
				t.Errorf("etcd was saved %d times, want %d", got, test.saved)
			}
		})
	}
}
