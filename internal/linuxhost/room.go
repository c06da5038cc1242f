package linuxhost

import (
	"cmp"
	"fmt"
	"strings"
)

// copiesFolder is where kubeadm copies etcd's data to.
const copiesFolder = "/etc/kubernetes/tmp"

// leftToBring counts the binaries that are to be brought to a host: all of them, those that are not
// there, and those not in their places.
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
	// A binary of the next version is somewhat larger than the installed one, and the installed
	// ones are about of one size.
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
	if refused := lacksArchiveRoom(steps, s, room*left.fetch+f.KeepKB); refused != nil {
		return refused
	}
	return lacksEtcdRoom(steps, s, room*left.fetch+f.KeepKB)
}

// unpacked returns how much larger the images of an archive are, beside the archive itself.
// Releases of RKE2 and K3s compress the archive, and not what is in it.
func unpacked(archive string) int64 {
	if archive != kubeadmArchive && strings.HasSuffix(archive, ".tar") {
		return 2
	}
	return 4
}

// archiveNeeds are what the archives that are not in their places need, in KiB: to be brought to
// the host, and for their images.
type archiveNeeds struct {
	fetch, images int64
	first         Name
}

// computeArchiveNeeds counts the archives whose size is known: those that wait on the host, that
// are copied there, or that are sent.
func computeArchiveNeeds(steps []Step, s Seen) archiveNeeds {
	var needs archiveNeeds
	for _, step := range steps {
		archive, is := strings.CutPrefix(string(step.Name), FetchPrefix)
		var part, size int64
		if !is || !isArchive(archive) {
			continue
		}
		told := s.Checks[step.Name].Output
		if _, err := fmt.Sscanf(told, "part %d %d", &part, &size); err != nil {
			size = s.Sizes[step.Name]
		}
		needs.images += (size >> 10) * unpacked(archive)
		if !s.Checks[step.Name].Done {
			needs.fetch += max(0, size-part) >> 10
			needs.first = cmp.Or(needs.first, step.Name)
		}
	}
	return needs
}

// lacksArchiveRoom returns why the archives that are left, or their images, would not fit beside
// the binaries: a disk that they fill makes the kubelet evict pods, also before the drain. What the
// server of a download tells of its size is for its step to see.
func lacksArchiveRoom(steps []Step, s Seen, binaries int64) *Failure {
	f, needs := s.Facts, computeArchiveNeeds(steps, s)
	step := cmp.Or(needs.first, InstallImages)
	if f.ImagesFolder == "" || !isLeft(steps, s, InstallImages) && !isLeft(steps, s, PullImages) {
		needs.images = 0
	}
	short := func(folder string, spare, need int64) *Failure {
		if need == 0 || need <= spare {
			return nil
		}
		return newFailure(DiskFull, step, "%s has room for %d MiB, beside what the kubelet keeps "+
			"free, but the archives of images need about %d MiB there. Nothing was changed. Fix: free "+
			"room on that disk", folder, spare>>10, need>>10)
	}
	state := needs.fetch
	if state > 0 {
		state += binaries
	}
	if f.ImagesBesideState {
		return short(StateFolder, f.SpareStateKB, state+needs.images)
	}
	return cmp.Or(short(StateFolder, f.SpareStateKB, state),
		short(f.ImagesFolder, f.SpareImagesKB, needs.images))
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
