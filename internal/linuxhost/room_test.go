package linuxhost_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// TestLackingCopyRoom: kubeadm's copy of etcd must fit, beside the snapshot and the binaries if
// they are on the same disk, before anything is brought to the host.
func TestLackingCopyRoom(t *testing.T) {
	t.Parallel()
	const mib = 1 << 10 // in KiB
	const begins = "start fetch-kubeadm"
	refused := func(left, needs int) string {
		return fmt.Sprintf("fail: DiskFull: step kubeadm-upgrade: /etc/kubernetes/tmp has %d MiB left, but "+
			"the upgrade needs about %d MiB there, with kubeadm's images and copy of etcd's data. "+
			"kubeadm keeps old copies, kubeadm-backup-etcd-*. Nothing was changed", left, needs)
	}
	for name, test := range map[string]struct {
		data, free    int64
		beside, saved bool
		done          linuxhost.Name
		want          string
	}{
		"no data is known": {want: begins},
		"room":             {data: 500 * mib, free: 501 * mib, want: begins},
		"no room":          {data: 500 * mib, free: 500 * mib, want: refused(500, 500)},
		"kubeadm has run":  {data: 500 * mib, done: linuxhost.KubeadmUpgrade, want: begins},
		"room beside all":  {data: 500 * mib, free: 961 * mib, beside: true, want: begins},
		"no room beside the others": {
			data: 500 * mib, free: 960 * mib, beside: true, want: refused(960, 960),
		},
		"room beside binaries alone": {
			data: 500 * mib, free: 861 * mib, beside: true, saved: true, want: begins,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, seen := memberSituation(t, test.saved)
			f := &seen.Facts
			f.SnapshotKB, f.FreeEtcdKB = 100*mib, 200*mib
			f.CopyKB, f.FreeCopyKB, f.CopyBesideState = test.data, test.free, test.beside
			seen.Checks[test.done] = linuxhost.CheckResult{Done: true}
			steps, refused := linuxhost.ComputeSteps(g, *f)
			if refused != nil {
				t.Fatal(refused)
			}
			if diff := cmp.Diff(test.want, wordNext(linuxhost.Decide(g, steps, seen))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// memberSituation is that of a control plane host with a member of etcd, before an upgrade that
// saves etcd. saved says that this was done already.
func memberSituation(t *testing.T, saved bool) (linuxhost.Goal, linuxhost.Seen) {
	t.Helper()
	g, _, seen := situation(t, "")
	g.Snapshot = true
	f := &seen.Facts
	f.ControlPlane, f.Member, f.Kubectl, f.EtcdClient = true, true, true, true
	f.Cluster, f.EtcdData = f.Installed, "/var/lib/etcd"
	seen.Checks = make(linuxhost.Checks)
	seen.Checks[linuxhost.EtcdSnapshot] = linuxhost.CheckResult{Done: saved}
	return g, seen
}

// TestLackingSnapshotRoom: a snapshot of etcd must fit beside etcd, and beside the binaries that
// are still to be fetched, before anything is brought to the host.
func TestLackingSnapshotRoom(t *testing.T) {
	t.Parallel()
	const mib = 1 << 10 // in KiB
	const begins = "start fetch-kubeadm"
	for name, test := range map[string]struct {
		snapshot, etcd, state int64
		saved                 bool
		want                  string
	}{
		"no database is known": {state: 361 * mib, want: begins},
		"room":                 {snapshot: 100 * mib, etcd: 101 * mib, state: 461 * mib, want: begins},
		"not beside etcd": {snapshot: 100 * mib, etcd: 100 * mib, state: 461 * mib,
			want: "fail: DiskFull: step etcd-snapshot: /var/lib/etcd has 100 MiB left, but the upgrade " +
				"needs about 100 MiB there, with the snapshot of etcd. Nothing was changed"},
		"not beside the binaries": {snapshot: 100 * mib, etcd: 101 * mib, state: 460 * mib,
			want: "fail: DiskFull: step etcd-snapshot: /var/lib/windlass has 460 MiB left, but the " +
				"upgrade needs about 460 MiB there, with the snapshot of etcd. Nothing was changed"},
		"saved already": {snapshot: 100 * mib, state: 361 * mib, saved: true, want: begins},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, seen := memberSituation(t, test.saved)
			f := &seen.Facts
			f.SnapshotKB, f.FreeEtcdKB, f.FreeStateKB = test.snapshot, test.etcd, test.state
			steps, refused := linuxhost.ComputeSteps(g, *f)
			if refused != nil {
				t.Fatal(refused)
			}
			if diff := cmp.Diff(test.want, wordNext(linuxhost.Decide(g, steps, seen))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
