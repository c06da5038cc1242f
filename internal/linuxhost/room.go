package linuxhost

import "cmp"

// copiesFolder is where kubeadm copies etcd's data to.
const copiesFolder = "/etc/kubernetes/tmp"

// lacksEtcdRoom returns why a snapshot of etcd, or the copy of etcd that kubeadm makes after it,
// would not fit. fetched is the size in KiB of the binaries that are brought to the host before
// them.
func lacksEtcdRoom(steps []Step, s Seen, fetched int64) *Failure {
	f := s.Facts
	short := func(step Name, what, folder string, free, need int64) *Failure {
		if free > need {
			return nil
		}
		return newFailure(DiskFull, step, "%s has %d MiB left, but the upgrade needs about "+
			"%d MiB there, with %s. Nothing was changed", folder, free>>10, need>>10, what)
	}
	state := fetched
	if f.SnapshotKB > 0 && isLeft(steps, s, EtcdSnapshot) {
		state += f.SnapshotKB
		const what = "the snapshot of etcd"
		if refused := cmp.Or(short(EtcdSnapshot, what, f.EtcdData, f.FreeEtcdKB, f.SnapshotKB),
			short(EtcdSnapshot, what, StateFolder, f.FreeStateKB, state)); refused != nil {
			return refused
		}
	}
	if f.CopyKB == 0 || !isLeft(steps, s, KubeadmUpgrade) {
		return nil
	}
	need := f.CopyKB
	if f.CopyBesideState {
		need += state
	}
	return short(KubeadmUpgrade, "kubeadm's images and copy of etcd's data. kubeadm keeps old "+
		"copies, kubeadm-backup-etcd-*", copiesFolder, f.FreeCopyKB, need)
}
