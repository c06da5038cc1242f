package linuxhost

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestLeftOver: an upgrade that nobody saw to its end leaves records. The next one takes a
// snapshot of its own, and one to the next minor keeps the copies of etcd of the one before. Within
// a day, another version of the same minor may be the same upgrade, with another goal.
func TestLeftOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		next   string
		old    bool
		down   bool
		copies []string
		saved  int
	}{
		"another goal":    {next: "v1.36.4", copies: []string{"2"}, saved: 1},
		"another upgrade": {next: "v1.36.4", old: true, copies: []string{"2"}, saved: 2},
		"etcd cannot be saved": {
			next: "v1.36.4", old: true, down: true, copies: []string{"1", "2"}, saved: 1,
		},
		"the next minor":        {next: "v1.37.0", copies: []string{"1", "2"}, saved: 2},
		"the next minor, later": {next: "v1.37.0", old: true, copies: []string{"1", "2"}, saved: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, "/var/lib/etcd/member/wal/0.wal", "x")
			s.write(t, "/kubeadm.does", copiesEtcd+kubeadmSucceeds)
			first, g := s.goal(t, "v1.36.3"), s.goal(t, test.next)
			s.mustReach(t, first, "first")
			s.write(t, "/cluster", "v1.36.3\n")
			if test.old {
				s.age(t, first, 25*time.Hour)
			}
			if test.down {
				s.write(t, "/etcd.down", "")
			}
			s.mustReach(t, g, "second")
			if got := s.copies(t); !slices.Equal(got, test.copies) {
				t.Errorf("there are the copies %v, want %v", got, test.copies)
			}
			if got := strings.Count(s.read("/etcdctl.log"), "x"); got != test.saved {
				t.Errorf("etcd was saved %d times, want %d", got, test.saved)
			}
			counts := "/" + first.Operation() + ".db\n"
			if test.saved == 2 {
				counts = "/" + g.Operation() + ".db\n"
			}
			if got := s.read(kept + "/etcd-snapshot"); !strings.HasSuffix(got, counts) {
				t.Errorf("what is kept has %q, want %q", got, counts)
			}
			if printed, code := s.run(t, g.script("clean")); code != 0 {
				t.Fatal(printed)
			}
			record := StateFolder + "/op/" + g.Operation() + "/etcd-snapshot"
			if got := s.read(record); !strings.HasSuffix(got, counts) {
				t.Errorf("the upgrade's record has %q, want %q", got, counts)
			}
		})
	}
}

// age makes the snapshot of a goal older.
func (s *sandbox) age(t *testing.T, g Goal, age time.Duration) {
	t.Helper()
	saved := time.Now().Add(-age)
	if err := os.Chtimes(s.root+snapshotsFolder+"/"+g.Operation()+".db", saved, saved); err != nil {
		t.Fatal(err)
	}
}

// TestBackToTheFirstGoal: a goal that changes to another patch release and back keeps the snapshot
// from before kubeadm's first change. It stays, too, where it is too old to count.
func TestBackToTheFirstGoal(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	g := s.goal(t, "v1.36.3")
	s.mustCut(t, g, "first")
	file := snapshotsFolder + "/" + g.Operation() + ".db"
	s.write(t, file, "1\n") // As large as the stand-in's.
	s.write(t, "/cluster", "v1.36.3\n")
	forget := func() { // The start of a job forgets other goals.
		t.Helper()
		if err := os.RemoveAll(s.root + StateFolder + "/op"); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	s.mustCut(t, s.goal(t, "v1.36.4"), "second")
	forget()
	s.mustCut(t, g, "third")
	if saved := s.read("/etcdctl.log"); saved != "x\n" {
		t.Errorf("etcd was saved: %q", saved)
	}
	forget()
	s.age(t, g, 25*time.Hour)
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	s.mustReach(t, g, "fourth")
	other := strings.TrimSuffix(file, ".db") + "-1.db"
	for name, want := range map[string]string{file: "1\n", other: "x\n"} {
		if got := s.read(name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// TestSnapshotOfAnOldFailure: kubeadm failed, and the same upgrade continues on another day. The
// snapshot from before kubeadm began stays, but does not count any more, unless etcd is down.
func TestSnapshotOfAnOldFailure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		age   time.Duration
		down  bool
		saved string
	}{
		"the same day":              {age: 23 * time.Hour, saved: "x\n"},
		"another day":               {age: 25 * time.Hour, saved: "x\nx\n"},
		"another day, without etcd": {age: 25 * time.Hour, down: true, saved: "x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			g := s.goal(t, "v1.36.3")
			s.write(t, "/kubeadm.does", "touch etc/kubernetes/manifests; exit 1")
			s.mustFail(t, g, "first")
			file := snapshotsFolder + "/" + g.Operation() + ".db"
			s.write(t, file, "1\n") // As large as the stand-in's.
			s.age(t, g, test.age)
			if test.down {
				s.write(t, "/etcd.down", "")
			}
			s.write(t, "/kubeadm.does", kubeadmSucceeds)
			s.mustReach(t, g, "second")
			if saved := s.read("/etcdctl.log"); saved != test.saved {
				t.Errorf("etcd was saved: %q, want %q", saved, test.saved)
			}
			if first := s.read(file); first != "1\n" {
				t.Errorf("the snapshot from before kubeadm began is %q", first)
			}
		})
	}
}

// TestSnapshotIsTakenAgain: kubeadm fails before it has changed anything. Each attempt saves etcd
// again after an hour, and replaces its own snapshot: those of earlier upgrades stay.
func TestSnapshotIsTakenAgain(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	g := s.goal(t, "v1.36.3")
	s.write(t, "/kubeadm.does", "exit 1")
	for _, attempt := range []string{"first", "second", "third"} {
		s.mustFail(t, g, attempt)
		s.age(t, g, 2*time.Hour)
	}
	if saved := s.read("/etcdctl.log"); saved != "x\nx\nx\n" {
		t.Errorf("etcd was saved: %q", saved)
	}
	if files, err := os.ReadDir(s.root + snapshotsFolder); err != nil || len(files) != 1 {
		t.Errorf("%v; there are the snapshots %v, want one", err, files)
	}
}

// TestLeftOverSnapshot: an old snapshot never stands for a next minor, also if that upgrade saves
// none.
func TestLeftOverSnapshot(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.write(t, "/kubeadm.does", kubeadmSucceeds)
	s.mustReach(t, s.goal(t, "v1.36.3"), "first")
	s.write(t, "/cluster", "v1.36.3\n")
	g := s.goal(t, "v1.37.0")
	g.Snapshot = false
	s.mustReach(t, g, "second")
	if printed, code := s.run(t, g.script("clean")); code != 0 {
		t.Fatal(printed)
	}
	if got := s.read(StateFolder + "/op/" + g.Operation() + "/etcd-snapshot"); got != "" {
		t.Errorf("the snapshot of the upgrade is %q", got)
	}
}

// TestLeftOverCordon: a record that an upgrade cordoned the node counts for no next minor: by then
// a person may have cordoned it.
func TestLeftOverCordon(t *testing.T) {
	t.Parallel()
	node := &inplace.Node{Exists: true, Ready: true, Unschedulable: true}
	for next, want := range map[string]bool{
		// Whether the upgrade leaves the node cordoned.
		"v1.36.3": false, "v1.36.4": false, "v1.37.0": true,
	} {
		h := newFolderHost(t, nil, map[string]string{"systemctl": "echo 0\n"})
		if printed, exit := h.run(t, h.goal.script("cordoned")); exit != 0 {
			t.Fatal(printed)
		}
		h.goal.Version = version.MustParse(next)
		uncordon := []Step{{Name: Uncordon, Action: UncordonNode{}}}
		seen := Seen{Facts: h.readFacts(t), Node: node}
		if got := IsDone(h.goal, uncordon, 0, seen); got != want {
			t.Errorf("to %s: the node stays cordoned: %t, want %t", next, got, want)
		}
	}
}

// mustComeTo takes an attempt to where a step is next.
func (s *sandbox) mustComeTo(t *testing.T, g Goal, attempt string, step Name) {
	t.Helper()
	p := s.next(t, g, attempt)
	for ; p.Step != step && p.Begin != nil; p = s.next(t, g, attempt) {
		s.do(t, g, p, attempt)
	}
	if p.Step != step || p.Failure != nil {
		t.Fatalf("%+v, after %+v, want %s", p, s.job, step)
	}
}
