//go:build linux

package linuxhost_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
)

const snapshots = linuxhost.StateFolder + "/snapshots"

// TestHostWithoutRoomForASnapshot: nothing is brought to a host if the snapshot of its etcd would
// not fit. What is left of a snapshot that was cut short makes room for the next one.
func TestHostWithoutRoomForASnapshot(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.host.MustRun("mkdir -p /var/lib/etcd/member/snap && truncate -s 1T /var/lib/etcd/member/snap/db")
	const want = "DiskFull: step etcd-snapshot: /var/lib/etcd has "
	p := w.until(t, false, nil)
	if p.Failure == nil || !strings.HasPrefix(p.Failure.String(), want) ||
		p.Job.State != linuxhost.NoJob {
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

// TestOldSnapshot: the attempt after one that has changed nothing saves etcd again if the snapshot
// is old.
func TestOldSnapshot(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == linuxhost.Drain })
	w.upgrade.Attempt = "second"
	w.until(t, false, func(p linuxhost.Progress) bool { return p.Step == linuxhost.Drain })
	w.host.MustRun("touch -d '2 hours ago' " + snapshots + "/*.db")
	w.upgrade.Attempt = "third"
	w.mustFinish(t)
	w.mustBeWhole(t)
	w.mustHaveSavedEtcd(t, 2)
	w.host.MustRun("touch -d '2 hours ago' " + snapshots + "/*.db")
	w.upgrade.Attempt = "fourth"
	w.mustFinish(t)
	w.mustHaveSavedEtcd(t, 2)
}

// TestSnapshotBeforeKubeadm: once kubeadm has begun, an upgrade with a corrected configuration
// needs no other snapshot. etcd may not run until kubeadm has run again.
func TestSnapshotBeforeKubeadm(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.failsInKubeadm(t)
	saved := w.host.MustRun("ls " + snapshots)
	w.host.MustRun("mv /usr/bin/etcdctl /opt/etcdctl")
	w.host.Write("/usr/bin/etcdctl", []byte("#!/bin/sh\necho no leader >&2\nexit 1\n"))
	first := w.upgrade.Goal
	w.upgrade.Attempt, w.upgrade.Goal.After = "second", nil
	w.mustFinish(t)
	if now := w.host.MustRun("ls " + snapshots); now != saved {
		t.Errorf("the snapshots are\n%s, want\n%s", now, saved)
	}
	kept := w.host.MustRun("ls " + linuxhost.StateFolder + "/keep")
	if kept != "" {
		t.Errorf("after the upgrade, this is kept: %s", kept)
	}
	w.mustHaveSnapshot(t)
	w.host.MustRun("mv /opt/etcdctl /usr/bin/etcdctl")
	w.upgrade.Attempt, w.upgrade.Goal = "third", first
	w.mustFinish(t)
	w.mustHaveSavedEtcd(t, 2)
}

// TestSnapshotOfAServerElsewhere: a server of RKE2 or K3s has its data in a folder that its command
// line or a drop-in names, and its snapshots in another one. Its etcd is saved before the upgrade,
// in the folder of its snapshots.
func TestSnapshotOfAServerElsewhere(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	for _, d := range []linuxhost.Distribution{linuxhost.RKE2, linuxhost.K3s} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, d, true)
			w.host.MustRun("mkdir -p /srv /opt/snapshots && mv /var/lib/rancher/" + string(d) + " /srv/data")
			drop := "/etc/rancher/" + string(d) + "/config.yaml.d/50-etcd.yaml"
			w.host.Write(drop, []byte("etcd-snapshot-dir: /opt/snapshots\ndata-dir: /srv/data\n"))
			if d == linuxhost.K3s {
				w.host.Write(drop, []byte("etcd-snapshot-dir: /opt/snapshots\n"))
				w.host.Write("/etc/systemd/system/k3s.service.d/data.conf", []byte(
					"[Service]\nExecStart=\nExecStart=/usr/local/bin/k3s server --data-dir /srv/data\n"))
				w.host.MustRun("systemctl daemon-reload && systemctl restart k3s")
			}
			w.mustFinish(t)
			want := "snapshot of " + versions[d][0] + "\n"
			if saved := w.host.MustRun("cat /opt/snapshots/windlass-*"); saved != want {
				t.Errorf("the snapshots are %q, want %q", saved, want)
			}
		})
	}
}
