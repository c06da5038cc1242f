package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// RetryPeriod is the pause between two attempts of the elector. Attempts are cheap: a Lock calls the API
// server only if there is something to read or to write.
const RetryPeriod = 100 * time.Millisecond

// heldEvery is how often Start looks whether this replica may still act.
const heldEvery = time.Second

// released is the duration that client-go gives a lease that its holder releases, in seconds.
const released = 1

// namespaceFile is where a pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Times of a lease. Duration must be longer than RenewDeadline, and that longer than RenewEvery.
type Times struct {
	// Duration is how long other replicas wait for a silent leader.
	Duration time.Duration
	// RenewDeadline is how long after its last renewal a leader may act. Start returns an error then.
	RenewDeadline time.Duration
	// RenewEvery is how often a leader renews the lease.
	RenewEvery time.Duration
}

// Lock is a resourcelock.Interface on a Lease, and a manager.Runnable. The elector must be its only user,
// with RetryPeriod; Held is safe for concurrent use.
type Lock struct {
	inner  *resourcelock.LeaseLock
	leases coordinationv1client.LeaseInterface
	times  Times

	// record is what the API server returned last. raw is that too, except that record keeps a holder
	// that others removed. observed is when raw changed. watch is open while another replica leads,
	// opened is since when, and unwatch ends its request.
	record   *resourcelock.LeaderElectionRecord
	raw      []byte
	observed time.Time
	watch    watch.Interface
	unwatch  context.CancelFunc
	opened   time.Time

	// failed is when the last request failed, or a watch ended at once; the next one waits. Zero for never.
	failed time.Time
	// led is set once this replica has led. It then never waits for the lease again: its process ends.
	led bool
	// renewed is when the last successful renewal began; nil while this replica does not lead.
	renewed atomic.Pointer[time.Time]
	// lost is closed when another replica holds the lease that this one has held.
	lost chan struct{}
}

// check returns an error for times with which another replica could lead while this one is Held. A Lease
// counts in whole seconds.
func (t Times) check() error {
	late := t.RenewEvery+2*RetryPeriod >= t.RenewDeadline
	if t.RenewEvery <= 0 || late || t.RenewDeadline >= t.Duration.Truncate(time.Second) {
		return fmt.Errorf("the lease has a duration of %s, a renew deadline of %s and a retry period of %s. "+
			"Fix: make each longer than the next", t.Duration, t.RenewDeadline, t.RenewEvery)
	}
	return nil
}

// New returns a Lock on the Lease of a name. An empty namespace means the pod's. The identity of
// this replica is prefix, its host, "_" and a UUID.
func New(config *rest.Config, namespace, name, prefix string, times Times) (*Lock, error) {
	if err := times.check(); err != nil {
		return nil, err
	}
	if namespace == "" {
		content, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, fmt.Errorf("finding the namespace of the lease %s: %w. "+
				"Fix: run the process in a pod, or set --namespace of windlass extension", name, err)
		}
		namespace = strings.TrimSpace(string(content))
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this replica: %w", err)
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	config.Timeout = 0 // It would end watches. Every other request has a timeout of its own.
	client, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	return newLock(client, namespace, name, prefix+host+"_"+string(uuid.NewUUID()), times), nil
}

func newLock(
	client coordinationv1client.LeasesGetter, namespace, name, identity string, times Times,
) *Lock {
	return &Lock{
		inner: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		leases: client.Leases(namespace), times: times, lost: make(chan struct{}),
	}
}

// AddTo adds the lock to a manager that was made with the options of Apply.
func (l *Lock) AddTo(mgr manager.Manager) error {
	if err := mgr.Add(l); err != nil {
		return fmt.Errorf("adding the lease: %w", err)
	}
	return nil
}

// Apply has a manager elect its leader with this lock. Call AddTo, too.
func (l *Lock) Apply(o *manager.Options) {
	o.LeaderElection, o.LeaderElectionResourceLockInterface = true, l
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &l.times.Duration, &l.times.RenewDeadline, new(RetryPeriod)
	// The manager releases the lease once nothing is in progress, so that the next replica leads at once.
	o.LeaderElectionReleaseOnCancel = true
}

// Held returns nil while this replica leads and no other one can. Call it before an answer that counts only
// while this replica leads: a process that was stopped learns only later that another one leads.
func (l *Lock) Held() error {
	renewed := l.renewed.Load()
	if renewed == nil {
		return errors.New("this replica does not lead. Fix: try again; another replica is taking over")
	}
	if age := elapsed(*renewed, time.Now()); age >= l.times.RenewDeadline {
		return fmt.Errorf("this replica has not renewed its lease for %s, so another one may lead. "+
			"Fix: try again", age.Round(time.Second))
	}
	return nil
}

// elapsed is the longer of two measures. The monotonic clock stands still while a machine is suspended, and
// the wall clock can be set back.
func elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// NeedLeaderElection lets Start run on every replica.
func (l *Lock) NeedLeaderElection() bool { return false }

// Start returns an error, which ends the manager, when another replica holds the lease that this one has
// held, or when this one has not renewed it for RenewDeadline. The elector would otherwise try to get the
// lease back for longer, while controllers run.
func (l *Lock) Start(ctx context.Context) error {
	ticker := time.NewTicker(heldEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.lost:
			return fmt.Errorf("another replica holds the lease %s: this one did not renew it in time",
				l.Describe())
		case <-ticker.C:
			if l.renewed.Load() == nil {
				continue
			}
			if err := l.Held(); err != nil && ctx.Err() == nil {
				return fmt.Errorf("holding the lease %s: %w", l.Describe(), err)
			}
		}
	}
}

// Identity implements resourcelock.Interface.
func (l *Lock) Identity() string { return l.inner.Identity() }

// Describe implements resourcelock.Interface.
func (l *Lock) Describe() string { return l.inner.Describe() }

// RecordEvent implements resourcelock.Interface. The log and the Lease have the same facts.
func (l *Lock) RecordEvent(string) {}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.inner.Create)
}

// Update implements resourcelock.Interface. A renewal soon after the last one does nothing.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.pause(ctx); err != nil {
		return err
	}
	renewed := l.renewed.Load()
	young := renewed != nil && elapsed(*renewed, time.Now()) < l.times.RenewEvery
	if young && record.HolderIdentity == l.Identity() {
		return nil
	}
	return l.write(ctx, record, l.inner.Update)
}

// write stores a record. The time of a renewal is that before the request: other replicas see it later, so
// they wait for longer than this one acts.
func (l *Lock) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord,
	do func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if record.HolderIdentity != l.Identity() {
		// The elector also releases the lease after it failed to renew it, while controllers still run.
		if err := l.Held(); err != nil {
			return fmt.Errorf("not releasing the lease %s, which expires by itself: %w", l.Describe(), err)
		}
		l.renewed.Store(nil)
	}
	now := time.Now()
	record.RenewTime = metav1.NewTime(now)
	bounded, cancel := l.bound(ctx)
	defer cancel()
	if err := do(bounded, record); err != nil {
		l.note(err)
		return err //nolint:wrapcheck // The elector tells errors of the API server apart.
	}
	if record.HolderIdentity == l.Identity() {
		l.led = true
		l.close()
		l.renewed.Store(&now)
	}
	return nil
}

// pause waits for a while after a request failed: the elector tries again at once. It returns an error if
// ctx ends.
func (l *Lock) pause(ctx context.Context) error {
	if l.failed.IsZero() {
		return nil
	}
	timer := time.NewTimer(l.times.RenewEvery/2 - time.Since(l.failed))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // The elector ignores it.
	case <-timer.C:
		return nil
	}
}

// note keeps the time of a failure. Another replica's write is none.
func (l *Lock) note(err error) {
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		l.failed = time.Now()
	}
}

// bound keeps one slow answer from costing the lease.
func (l *Lock) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(l.times.RenewDeadline/2, time.Second))
}

// Get implements resourcelock.Interface. While another replica holds the lease, it first waits until the
// Lease changes or expires.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	select {
	case <-l.lost:
		return l.record, l.raw, nil
	default:
	}
	if err := l.delay(ctx); err != nil {
		return nil, nil, err
	}
	bounded, cancel := l.bound(ctx)
	defer cancel()
	record, raw, err := l.inner.Get(bounded)
	if err != nil && !apierrors.IsNotFound(err) {
		l.note(err)
		return nil, nil, err //nolint:wrapcheck // The elector tells errors of the API server apart.
	}
	if waits := l.vacated(record, raw); waits != nil {
		return nil, nil, waits
	}
	if err != nil {
		l.record, l.raw = nil, nil
		return nil, nil, err //nolint:wrapcheck // The elector tells errors of the API server apart.
	}
	l.observe(record, raw)
	return record, raw, nil
}

// delay returns when the Lease is due to be read: after a failure's pause, and unless this replica leads,
// when the Lease changes or expires.
func (l *Lock) delay(ctx context.Context) error {
	if err := l.pause(ctx); err != nil || l.led {
		return err
	}
	return l.await(ctx)
}

// observe keeps what was read. It sets a shorter duration of another holder to that of this replica: a
// person may have changed it, and the holder does not know that yet.
func (l *Lock) observe(record *resourcelock.LeaderElectionRecord, raw []byte) {
	others := record.HolderIdentity != "" && record.HolderIdentity != l.Identity()
	if others {
		record.LeaseDurationSeconds = max(record.LeaseDurationSeconds, int(l.times.Duration/time.Second))
	}
	if !bytes.Equal(raw, l.raw) {
		l.record, l.raw, l.observed = record, raw, time.Now()
	}
	if l.led && others {
		l.renewed.Store(nil)
		close(l.lost)
	}
}

// vacated returns an error while the holder of a Lease may not know yet that somebody else has removed it
// from the Lease, has given the Lease to this replica, or has deleted it. record is nil without a Lease.
// The holder learns it with its next renewal. A holder that releases the Lease no longer acts.
func (l *Lock) vacated(record *resourcelock.LeaderElectionRecord, raw []byte) error {
	vacant := record == nil || record.HolderIdentity == l.Identity() ||
		record.HolderIdentity == "" && record.LeaseDurationSeconds != released
	// An own write after the expiry, whose answer was lost, also gave the Lease to this replica.
	if l.led || !l.isOthers() || !vacant || l.untilExpiry() <= 0 {
		return nil
	}
	if !bytes.Equal(raw, l.raw) {
		l.raw, l.observed = raw, time.Now()
	}
	return fmt.Errorf("the lease %s has lost its holder %s, which did not release it: waiting until it expires",
		l.Describe(), l.record.HolderIdentity)
}

// isOthers reports whether another replica held the Lease when it was last read.
func (l *Lock) isOthers() bool {
	return l.record != nil && l.record.HolderIdentity != "" && l.record.HolderIdentity != l.Identity()
}

// untilExpiry is how long the holder that was last read may still act.
func (l *Lock) untilExpiry() time.Duration {
	return time.Duration(l.record.LeaseDurationSeconds)*time.Second - time.Since(l.observed)
}

// await returns when the Lease may be free or differs from the last one read. It returns an error if ctx
// ends.
func (l *Lock) await(ctx context.Context) error {
	if !l.isOthers() || l.untilExpiry() <= 0 {
		l.close() // It may be broken.
		return nil
	}
	expiry := time.NewTimer(l.untilExpiry())
	defer expiry.Stop()
	if l.watch == nil {
		l.watch, l.opened = l.open(ctx), time.Now()
	}
	for {
		select {
		case <-ctx.Done():
			l.close()
			return ctx.Err() //nolint:wrapcheck // The elector ignores it.
		case <-expiry.C:
			// The watch may be broken: begin a new one, if the lease has not expired.
			l.close()
			return nil
		case event, open := <-l.watch.ResultChan():
			if !open || event.Type == watch.Error {
				if time.Since(l.opened) < l.times.RenewEvery {
					l.failed = time.Now()
				}
				l.close()
				return nil
			}
			if l.differs(event) {
				return nil
			}
		}
	}
}

// open watches the Lease. Without the right to, or while the API server is away, it returns a watch that
// ends when the leader is to renew the lease, so that the Lease is read then. The client waits for an API
// server that does not answer, and for as long as a 429 requests; the lease may expire meanwhile.
func (l *Lock) open(ctx context.Context) watch.Interface {
	ctx, l.unwatch = context.WithCancel(ctx)
	late := time.AfterFunc(l.times.RenewEvery, l.unwatch)
	defer late.Stop()
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, l.inner.LeaseMeta.Name).String()
	opened, err := l.leases.Watch(ctx, metav1.ListOptions{FieldSelector: selector})
	if err == nil {
		return opened
	}
	log.FromContext(ctx).V(1).Info("The lease is not watched", "lease", l.Describe(), "reason", err.Error())
	pause := watch.NewFake()
	time.AfterFunc(l.times.RenewEvery, pause.Stop)
	return pause
}

func (l *Lock) close() {
	if l.watch != nil {
		l.watch.Stop()
		l.unwatch()
		l.watch = nil
	}
}

// differs reports whether an event has another record than the last one read, or none.
func (l *Lock) differs(event watch.Event) bool {
	if event.Type == watch.Deleted {
		return true
	}
	lease, ok := event.Object.(*coordinationv1.Lease)
	if !ok {
		return false
	}
	raw, err := json.Marshal(resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec))
	return err != nil || !bytes.Equal(raw, l.raw)
}
