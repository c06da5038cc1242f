package linuxhost

import (
	"maps"
	"strconv"
	"time"
)

// maxSnapshotAge is how old a snapshot of etcd may be when an upgrade begins to change the host. A
// restore loses what was written since.
const maxSnapshotAge = time.Hour

// ExpireSnapshot returns the checks, in which the snapshot of etcd is not done if it is too old, or of the future: an
// earlier attempt saved it, or the drain took long, and nothing was changed since. The snapshot of
// the job that has just ended counts, however long the drain after it takes. The check prints no
// time of one that kubeadm has changed the host after.
func ExpireSnapshot(g Goal, s Seen) Checks {
	job := s.Facts.Job
	isLatest := job.Step == EtcdSnapshot && job.Attempt == s.Attempt && job.Operation == g.Operation()
	firstChange := Name(InstallPrefix + string(g.Distribution))
	if g.Distribution == Kubeadm {
		firstChange = KubeadmUpgrade
	}
	if isLatest || s.Checks[firstChange].Done {
		return s.Checks
	}
	saved, err := strconv.ParseInt(s.Checks[EtcdSnapshot].Output, 10, 64)
	age := s.Facts.Now.Sub(time.Unix(saved, 0))
	if err != nil || age >= 0 && age <= maxSnapshotAge {
		return s.Checks
	}
	checks := maps.Clone(s.Checks)
	checks[EtcdSnapshot] = CheckResult{}
	return checks
}
