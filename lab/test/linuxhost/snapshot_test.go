//go:build linux

package linuxhost_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
)

const snapshots = linuxhost.StateFolder + "/snapshots"

// TestHostWithoutRoomForASnapshot: nothing is brought to a host if the snapshot of its etcd would not
// fit. What is left of a snapshot that was cut short makes room for the next one.
func TestHostWithoutRoomForASnapshot(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.host.MustRun("mkdir -p /var/lib/etcd/member/snap && truncate -s 1T /var/lib/etcd/member/snap/db")
	const want = "DiskFull: step etcd-snapshot: /var/lib/etcd has "
	p := w.until(t, false, nil)
	if p.Failure == nil || !strings.HasPrefix(p.Failure.String(), want) || p.Job.State != linuxhost.NoJob {
		t.Fatalf("%+v, want %s, and no job", p, want)
	}
	// Half of the room is taken by what is left, and the snapshot needs three fifths.
	w.host.MustRun(`mkdir -p ` + snapshots + ` && cd ` + snapshots + `
free=$(df -Pk . | awk 'NR==2 {print $4}')
head -c $((free * 1024 / 2)) /dev/zero >v1.35.4-other.db.new.part
truncate -s $((free * 1024 / 2)) /var/lib/etcd/member/snap/db`)
	w.mustFinish(t)
	w.mustBeWhole(t)
	if left := w.host.MustRun("ls " + snapshots); left != w.upgrade.Goal.Operation()+".db\n" {
		t.Errorf("the snapshots are\n%s", left)
	}
}

// TestSnapshotsThatStay: beside the newest ones, the first one for the version stays.
func TestSnapshotsThatStay(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.host.MustRun("mkdir -p " + snapshots + " && cd " + snapshots + ` && age=9
for name in v1.34.8-a v1.36.3-first v1.36.3-b v1.36.3-c v1.35.4-d; do
  touch -d "$age days ago" $name.db
  age=$((age - 1))
done`)
	w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == linuxhost.Drain })
	want := []string{"v1.35.4-d.db", w.upgrade.Goal.Operation() + ".db", "v1.36.3-c.db", "v1.36.3-first.db"}
	got := strings.Fields(w.host.MustRun("ls " + snapshots))
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the snapshots (-want +got):\n%s", diff)
	}
}
