package linuxhost

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

func digestOf(content []byte) Digest {
	sum := sha256.Sum256(content)
	return Digest(hex.EncodeToString(sum[:]))
}

// snapshotsFolder has the snapshots of etcd on hosts that kubeadm made.
const snapshotsFolder = StateFolder + "/snapshots"

// etcdSnapshotStep saves etcd. A server of RKE2 or K3s keeps the snapshot among its own.
func etcdSnapshotStep(g Goal) Step {
	step := Step{Name: EtcdSnapshot, Check: g.script("etcd-snapshot-check")}
	if g.Distribution == Kubeadm {
		path := snapshotsFolder + "/" + g.Operation() + ".db"
		step.Summary = "save etcd to " + path
		step.Action = g.run(upgradeLimit, "etcd-snapshot-kubeadm", value{"FILE", path})
		return step
	}
	step.Summary = "save etcd with " + string(g.Distribution) + " etcd-snapshot"
	step.Action = g.run(upgradeLimit, "etcd-snapshot-rancher", value{"SNAPSHOT", "windlass-" + g.Operation()})
	return step
}

// restartStep restarts the service, and sees it run for a while as one process.
func restartStep(g Goal, f Facts, limit time.Duration) Step {
	return Step{
		Name: Restart, Summary: "systemctl daemon-reload, systemctl restart " + f.Service,
		Check:  g.script("restart-check", value{"SERVICE", f.Service}),
		Action: g.run(limit, "restart", value{"SERVICE", f.Service}, g.looks(), hold()),
	}
}
