package linuxhost

import (
	"maps"
	"strconv"
	"time"
)

// maxSnapshotAge is how old a snapshot of etcd may be when an upgrade begins to change the host. A
// restore loses what was written since.
const maxSnapshotAge = time.Hour

// ExpireSnapshot returns the checks, in which the snapshot of etcd is not done if it is too old: an
// earlier attempt saved it, or the drain after it took long, and nothing was changed since. The age
// of the last job's snapshot counts from the end of the job. The check prints no time of one that
// kubeadm has changed the host after.
func ExpireSnapshot(g Goal, s Seen) Checks {
	isLatest := ranInAttempt(g, EtcdSnapshot, s) && !isOld(s.Facts.Job.Ended, s.Facts)
	firstChange := Name(InstallPrefix + string(g.Distribution))
	if g.Distribution == Kubeadm {
		firstChange = KubeadmUpgrade
	}
	if isLatest || s.Checks[firstChange].Done {
		return s.Checks
	}
	saved, err := strconv.ParseInt(s.Checks[EtcdSnapshot].Output, 10, 64)
	if err != nil || !isOld(time.Unix(saved, 0), s.Facts) {
		return s.Checks
	}
	checks := maps.Clone(s.Checks)
	checks[EtcdSnapshot] = CheckResult{}
	return checks
}

// isOld reports whether a snapshot of a time is too old.
func isOld(saved time.Time, f Facts) bool { return f.Now.Sub(saved) > maxSnapshotAge }
