package linuxhost

import (
	"slices"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestLeftOver: an upgrade that nobody saw to its end leaves records. The next one takes a
// snapshot of its own, and keeps the copies of etcd of the one before.
func TestLeftOver(t *testing.T) {
	t.Parallel()
	for next, copies := range map[string][]string{
		"v1.36.4": {"2"}, // It may be the same upgrade, with another goal.
		"v1.37.0": {"1", "2"},
	} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, "/var/lib/etcd/member/wal/0.wal", "x")
			s.write(t, "/kubeadm.does", copiesEtcd+kubeadmSucceeds)
			s.mustReach(t, s.goal(t, "v1.36.3"), "first")
			s.write(t, "/cluster", "v1.36.3\n")
			g := s.goal(t, next)
			s.mustReach(t, g, "second")
			if got := s.copies(t); !slices.Equal(got, copies) {
				t.Errorf("there are the copies %v, want %v", got, copies)
			}
			own := "/" + g.Operation() + ".db\n"
			for _, record := range []string{
				kept + "/etcd-snapshot", StateFolder + "/op/" + g.Operation() + "/etcd-snapshot",
			} {
				if got := s.read(record); !strings.HasSuffix(got, own) {
					t.Errorf("%s has %q, want %q", record, got, own)
				}
			}
		})
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

// TestLeftOverCordon: a record that an upgrade cordoned the node counts for no next minor: by then a
// person may have cordoned it.
func TestLeftOverCordon(t *testing.T) {
	t.Parallel()
	node := &inplace.Node{Exists: true, Ready: true, Unschedulable: true}
	for next, want := range map[string]bool{
		"v1.36.3": false, "v1.36.4": false, "v1.37.0": true, // Whether the upgrade leaves the node cordoned.
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
