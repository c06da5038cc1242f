package linuxhost

import (
	"cmp"
	"strings"
)

// copiesFolder is where kubeadm copies etcd's data to.
const copiesFolder = "/etc/kubernetes/tmp"

// leftToBring counts the binaries that are to be brought to a host: all of them, those that are not there, and those not in their places.
type leftToBring struct {
	all, fetch, install      int64
	firstFetch, firstInstall Name
}

func computeLeft(steps []Step, checks Checks) leftToBring {
	var left leftToBring
	for _, step := range steps {
		file, isFetch := strings.CutPrefix(string(step.Name), FetchPrefix)
		isFetch = isFetch && !isArchive(file)
		if isFetch {
			left.all++
		}
		switch {
		case checks[step.Name].Done:
		case isFetch:
			left.fetch++
			left.firstFetch = cmp.Or(left.firstFetch, step.Name)
		case step.Installs != "":
			left.install++
			left.firstInstall = cmp.Or(left.firstInstall, step.Name)
		}
	}
	return left
}

// lacksRoom returns why the binaries that are left, or the copies of etcd, would not fit in the
// folders of the host.
func lacksRoom(g Goal, steps []Step, s Seen) *Failure {
	left := computeLeft(steps, s.Checks)
	f := s.Facts
	// A binary of the next version is somewhat larger than the installed one, and the installed ones are about of one size.
	room := f.NeedKB * 6 / 5 / max(left.all, 1)
	switch {
	case left.install > 0 && !f.Writable:
		changed := ". Nothing was changed"
		if f.Begun {
			changed = ""
		}
		return newFailure(FolderReadOnly, left.firstInstall, "no file can be made in %s: %s%s",
			g.folder(), cmp.Or(f.Why, "unknown why"), changed)
	case left.install > 0 && f.FreeKB < room:
		return newFailure(DiskFull, left.firstInstall, "%s has %d MiB left, but a binary needs %d MiB beside the old one",
			g.folder(), f.FreeKB>>10, room>>10)
	case left.fetch > 0 && f.FreeStateKB < room*left.fetch+f.KeepKB:
		return newFailure(DiskFull, left.firstFetch, "%s has %d MiB left, but %d binaries need about %d MiB",
			StateFolder, f.FreeStateKB>>10, left.fetch, (room*left.fetch+f.KeepKB)>>10)
	}
	if refused := lacksArchiveRoom(steps, s); refused != nil {
		return refused
	}
	return lacksEtcdRoom(steps, s, room*left.fetch+f.KeepKB)
}

// unpacked is how much larger the images of an archive are, beside the archive itself.
const unpacked = 4

// lacksArchiveRoom returns why the images of the archives that wait would not fit.
func lacksArchiveRoom(steps []Step, s Seen) *Failure {
	need := s.Facts.ArchiveKB * unpacked
	if need <= s.Facts.FreeDataKB || !isLeft(steps, s, InstallImages) {
		return nil
	}
	return newFailure(DiskFull, InstallImages, "the disk of RKE2's or K3s' data has %d MiB left, but "+
		"the images of the archives need about %d MiB. Nothing was changed",
		s.Facts.FreeDataKB>>10, need>>10)
}

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
