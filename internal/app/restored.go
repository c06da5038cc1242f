package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// restoredEvery is the pause between two looks at the API server.
	restoredEvery = 10 * time.Second
	// restoredRetry is the pause after a look that failed. After a restart of the API server, few
	// writes can hide an older state until the next look.
	restoredRetry = time.Second
	// failingFor is how long looks fail before that is logged, and they become as rare as others.
	failingFor = time.Minute
	// restoredTimeout bounds one look.
	restoredTimeout = 10 * time.Second

	restoredUnseen = "Cannot read the API server's revision, so a restore of its etcd from a backup is not " +
		"noticed. Fix: let this process list Machines (cluster.x-k8s.io), and look at the API server's " +
		"health; after a restore, start this process again"
	restoredSeen = "The API server's revision can be read again"
)

// restoredWatch ends the process after the API server's etcd was restored from a backup. The caches of
// the process are of the state before, and stay so: a watch continues at its last resourceVersion, and an
// API server whose revision is lower sends nothing until it has reached that. The next process reads all
// objects again. Each look is one request, whose answer has at most one object.
//
// A restore is not noticed if the API server's revision has passed the one of the last look before the
// next look. This takes as many writes as the restore has lost.
type restoredWatch struct {
	// live reads from the API server, without a cache.
	live client.Reader
	// namespace is the one in which Machines may be listed; empty means all.
	namespace string
}

// AddRestoredWatch has a manager end with an error after the API server's etcd was restored from a
// backup, because its caches show the lost state. The manager watches a namespace; empty means all.
func AddRestoredWatch(mgr manager.Manager, namespace string) error {
	if err := mgr.Add(&restoredWatch{live: mgr.GetAPIReader(), namespace: namespace}); err != nil {
		return fmt.Errorf("adding the watch for a restored etcd: %w", err)
	}
	return nil
}

// NeedLeaderElection lets Start run on every replica: one that waits has caches too.
func (*restoredWatch) NeedLeaderElection() bool { return false }

// Start returns an error as soon as the API server has an older state than before, and nil when ctx ends.
// While no look succeeds, a restore is not noticed: Start logs that once after failingFor.
func (r *restoredWatch) Start(ctx context.Context) error {
	last, failing := "", failures{}
	for {
		now, err := r.look(ctx)
		order := 0
		if err == nil {
			order, err = resourceversion.CompareResourceVersion(now, cmp.Or(last, now))
		}
		switch {
		case err == nil && order < 0:
			return fmt.Errorf("the API server is at resourceVersion %s and was at %s, as after a restore "+
				"of its etcd from a backup. This process ends, so that the next one reads all objects "+
				"again", now, last)
		case err == nil:
			last = now
		}
		pause, line := failing.note(err, time.Now())
		switch log := logf.FromContext(ctx); {
		case line == "":
		case err != nil:
			log.Info(line, "reason", err.Error())
		default:
			log.Info(line)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// failures are looks that failed, one after another.
type failures struct {
	// since is when the first of them failed; zero if the last look did not fail.
	since time.Time
	// isLogged says that they have lasted for failingFor.
	isLogged bool
}

// note takes the result of a look. It returns the pause before the next one, and a line for the log,
// which is empty if there is none.
func (f *failures) note(err error, now time.Time) (pause time.Duration, line string) {
	if err == nil {
		if f.isLogged {
			line = restoredSeen
		}
		*f = failures{}
		return restoredEvery, line
	}
	if f.since.IsZero() {
		f.since = now
	}
	switch {
	case f.isLogged:
		return restoredEvery, ""
	case now.Sub(f.since) < failingFor:
		return restoredRetry, ""
	}
	f.isLogged = true
	return restoredEvery, restoredUnseen
}

// look returns the API server's revision. A list that names no resourceVersion is consistent, so a later
// one has no lower revision, whichever API server answers.
func (r *restoredWatch) look(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, restoredTimeout)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
	err := r.live.List(ctx, list, client.InNamespace(r.namespace), client.Limit(1))
	return list.ResourceVersion, err
}
