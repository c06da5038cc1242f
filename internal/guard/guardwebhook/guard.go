package guardwebhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/loglimit"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/policystore"
	"github.com/windlass-dev/windlass/internal/text"
)

// GuardPath is where the guard is served.
const GuardPath = "/guard-machine"

// What a denial may be called in Events and metrics, besides the reasons of internal/guard and v1alpha1.PolicyConflictReason.
const (
	// InvalidPolicyReason: the UpdatePolicy that may count for the group cannot be used.
	InvalidPolicyReason guard.Reason = "InvalidPolicy"
	// ReadFailedReason: what has to be known could not be read.
	ReadFailedReason guard.Reason = "ReadFailed"
	// BadRequestReason: the request cannot be understood.
	BadRequestReason guard.Reason = "BadRequest"
	// BusyReason: the answer depends on other requests that were admitted moments ago. The caller must try again.
	BusyReason guard.Reason = "Busy"
)

// errNoNamespace is the error of a review without a namespace, which no API server sends.
var errNoNamespace = errors.New("cannot decide about a Machine without a namespace: the AdmissionReview names none. " +
	"Fix: have only the API server call the guard")

// errBusy is the error of a request that must be tried again.
var errBusy = errors.New("the list of Machines does not show yet what was admitted moments ago. " +
	"Fix: try again")

// Guard is an admission.Handler for the creation and deletion of Machines, v1beta1 or v1beta2. What it cannot know, it refuses.
//
// It trusts no caller. Whether it allows a request follows from live objects and from the request alone. A request
// whose answer depends on others in flight waits for them (see inFlight), so only one replica may serve them. After
// maxWait the answer is 429. It is safe for concurrent use.
type Guard struct {
	options  GuardOptions
	inFlight *inFlight
}

// GuardOptions is what a Guard needs.
type GuardOptions struct {
	// Policies reads UpdatePolicies, from a cache: a namespace where none keeps machines costs no request.
	Policies policystore.Policies
	// Live reads Clusters, MachineDeployments, MachineSets, control plane objects and the metadata of Machines, not from a cache:
	// two requests in a row must not be decided by the same count.
	Live client.Reader
	// Recorder writes Events.
	Recorder events.EventRecorder
	// Metrics counts denials.
	Metrics *GuardMetrics
	// Now is the clock by which admitted requests are forgotten.
	Now func() time.Time
	// Sleep waits that long, or until the context ends.
	Sleep func(context.Context, time.Duration)
	// Parsed is called once a request has been parsed. Only its Raw objects, and little else, are
	// kept after that.
	Parsed func(context.Context)
}

// Sleep waits that long, or until the context ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

const (
	// maxLines and maxLinesEach bound the lines a minute of a kind: of all, and about one namespace.
	maxLines, maxLinesEach = 30, 5
)

// NewWebhook returns a webhook that serves a Guard. Forged reviews cause a bounded number of lines in
// the log.
func NewWebhook(options GuardOptions) *admission.Webhook {
	webhook := &admission.Webhook{Handler: NewGuard(options)}
	loglimit.New(options.Now, maxLines, maxLinesEach).Webhook(webhook)
	return webhook
}

// NewGuard returns a Guard.
func NewGuard(options GuardOptions) *Guard {
	return &Guard{options: options, inFlight: newInFlight(options.Now)}
}

var _ admission.Handler = (*Guard)(nil)

// Handle implements admission.Handler.
func (g *Guard) Handle(ctx context.Context, request admission.Request) admission.Response {
	operation, ok := operationOf(request.Operation)
	if !ok {
		return admission.Allowed("neither creates nor deletes a Machine")
	}
	if request.Namespace == "" {
		return g.refuseError(ctx, operation, request, BadRequestReason, errNoNamespace)
	}
	policies, err := g.options.Policies.In(ctx, request.Namespace)
	if err != nil {
		return g.refuseError(ctx, operation, request, ReadFailedReason, err)
	}
	if !policies.MayGuard() {
		return admission.Allowed(string(guard.NotGuarded))
	}
	m, err := parseMachine(operation, request)
	if err != nil {
		return g.refuseError(ctx, operation, request, BadRequestReason, err)
	}
	g.options.Parsed(ctx)
	if verdict, ok := guard.DecideAlone(operation, m.facts); ok {
		if !isDryRun(request) && !m.facts.Deleting {
			g.rememberDeletion(ctx, m)
		}
		return admission.Allowed(string(verdict.Reason))
	}
	verdict, found, err := g.decide(ctx, operation, m, policies, isDryRun(request))
	if err != nil {
		return g.refuseUndecided(ctx, operation, request, m, err)
	}
	if verdict.Allowed {
		return admission.Allowed(string(verdict.Reason))
	}
	if !isDryRun(request) {
		g.report(ctx, operation, m, found, verdict)
	}
	return admission.Denied(verdict.Message)
}

// refuseUndecided refuses a request about a Machine that err leaves undecided.
func (g *Guard) refuseUndecided(
	ctx context.Context, operation guard.Operation, request admission.Request, m machine, err error,
) admission.Response {
	reason := ReadFailedReason
	if errors.Is(err, errBusy) {
		reason = BusyReason
	}
	return g.refuseError(ctx, operation, request, reason,
		fmt.Errorf("cannot decide whether Machine %s/%s may be created or deleted: %w", m.namespace, m.facts.Name, err))
}

func operationOf(operation admissionv1.Operation) (guard.Operation, bool) {
	switch operation {
	case admissionv1.Create:
		return guard.Create, true
	case admissionv1.Delete:
		return guard.Delete, true
	case admissionv1.Update, admissionv1.Connect:
		return 0, false
	}
	return 0, false
}

func isDryRun(request admission.Request) bool { return request.DryRun != nil && *request.DryRun }

// decide reads what a request depends on, and answers it. The first thing that allows it ends the reading, so that what is
// gone or broken besides does not matter.
func (g *Guard) decide(
	ctx context.Context, operation guard.Operation, m machine, policies policy.Set, dryRun bool,
) (guard.Verdict, *group, error) {
	request := guard.Request{Operation: operation, Guarded: true, Machine: m.facts}
	var cluster clusterv1.Cluster
	err := g.options.Live.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: m.cluster}, &cluster)
	if client.IgnoreNotFound(err) != nil {
		return guard.Verdict{}, nil, fmt.Errorf("reading Cluster %s: %w", m.cluster, err)
	}
	request.ClusterGone = apierrors.IsNotFound(err) || !cluster.DeletionTimestamp.IsZero()
	if request.ClusterGone {
		return guard.Decide(request), nil, nil
	}
	found, err := g.readGroup(ctx, &cluster, m)
	if err != nil || found == nil {
		return guard.Decide(request), nil, err
	}
	request.Group = found.facts
	if request.Group.Deleting {
		return guard.Decide(request), found, nil
	}
	selected, err := policies.Select(found.selection)
	if err != nil {
		return refusePolicy(err), found, nil
	}
	request.Guarded, request.Policy = selected.Guarded, selected.Name
	if !selected.Guarded {
		g.remember(ctx, operation, found, m, dryRun)
		return guard.Decide(request), found, nil
	}
	if request.Group.Desired, err = found.desired(); err != nil {
		return guard.Verdict{}, found, err
	}
	verdict, err := g.decideByCount(ctx, request, found, m, dryRun)
	return verdict, found, err
}

// firstPause and lastPause are between two lists of one request that waits.
const firstPause, lastPause = 25 * time.Millisecond, 400 * time.Millisecond

// decideByCount answers a request about a group that is guarded.
func (g *Guard) decideByCount(ctx context.Context, request guard.Request, found *group, m machine, dryRun bool) (guard.Verdict, error) {
	owner := found.reference.UID
	if verdict, ok := g.inFlight.decideFar(request, owner, m.uid, dryRun); ok {
		return verdict, nil
	}
	deadline := g.options.Now().Add(maxWait)
	var stop func()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := g.inFlight.begin(owner)
		members, err := readMembers(ctx, g.options.Live, found)
		if err != nil {
			return guard.Verdict{}, err
		}
		if verdict, ok := g.inFlight.decide(request, owner, m.uid, members, began, dryRun); ok {
			return g.explain(ctx, request, found, m, verdict), nil
		}
		if stop == nil {
			stop = g.inFlight.wait(m.namespace, owner)
		}
		if stop == nil || !g.options.Now().Before(deadline) {
			return guard.Verdict{}, fmt.Errorf("%s: %w", found.facts, errBusy)
		}
		g.options.Sleep(ctx, pause)
		if err := ctx.Err(); err != nil {
			return guard.Verdict{}, fmt.Errorf("waiting for other requests about %s: %w", found.facts, err)
		}
	}
}

// remember keeps a request about an existing group that was allowed without a count: under another policy, which may come right
// now, it counts for the next one.
func (g *Guard) remember(ctx context.Context, operation guard.Operation, found *group, m machine, dryRun bool) {
	switch {
	case dryRun:
	case operation == guard.Delete:
		g.rememberDeletion(ctx, m)
	default:
		g.inFlight.remember(operation, found.reference.UID, m.uid)
	}
}

// rememberDeletion keeps a deletion that was allowed without a count, if the Machine exists. An error keeps it from nothing: the next
// request is then decided as if this one had not been made.
func (g *Guard) rememberDeletion(ctx context.Context, m machine) {
	if g.exists(ctx, m) {
		g.inFlight.remember(guard.Delete, "", m.uid)
	}
}

// exists reports whether a Machine of a request is one of the management cluster.
func (g *Guard) exists(ctx context.Context, m machine) bool {
	live := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	err := g.options.Live.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: m.facts.Name}, live)
	return err == nil && live.UID == m.uid
}

// refusePolicy is the verdict where nobody can know which policy was meant.
func refusePolicy(err error) guard.Verdict {
	reason := InvalidPolicyReason
	if _, ok := errors.AsType[*policy.ConflictError](err); ok {
		reason = v1alpha1.PolicyConflictReason
	}
	return guard.Verdict{Reason: reason, Message: fmt.Sprintf("no Machine may be created or deleted while the UpdatePolicy that applies is unknown: %v", err)}
}

// refuseError refuses a request that cannot be decided.
func (g *Guard) refuseError(ctx context.Context, operation guard.Operation, request admission.Request, reason guard.Reason, err error) admission.Response {
	log.FromContext(ctx).Error(err, "Refused to create or delete a Machine", "machine", request.Name, "reason", reason)
	if !isDryRun(request) {
		g.options.Metrics.count(operation, reason)
	}
	if reason == BadRequestReason {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if reason == BusyReason {
		// Without retryAfterSeconds the API server sends no Retry-After. With it, client-go would repeat
		// the request ten times within one call, and a controller's worker would wait for all of them.
		busy := apierrors.NewTooManyRequests(err.Error(), 0)
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &busy.ErrStatus}}
	}
	return admission.Errored(http.StatusInternalServerError, err)
}

const (
	// eventAction is what was going on when an Event happened.
	eventAction = "GuardMachine"
	// maxNote is how many bytes the API server takes as the note of an Event.
	maxNote = 1024
)

// report counts a denial, and writes an Event about it on the owner. Cluster API asks again and again: Events that are equal
// but for their note become one. So a Machine that was to be created is not part of it, whose name is a new one every time.
func (g *Guard) report(ctx context.Context, operation guard.Operation, m machine, found *group, verdict guard.Verdict) {
	g.options.Metrics.count(operation, verdict.Reason)
	log.FromContext(ctx).V(1).Info("Refused to create or delete a Machine", "machine", m.facts.Name, "owner", found.facts.Name, "reason", verdict.Reason)
	var related runtime.Object
	// Events about different Machines do not become one, so a caller must not invent any.
	if operation == guard.Delete && g.exists(ctx, m) {
		related = m.reference()
	}
	note := text.Bound(verdict.Message, maxNote)
	g.options.Recorder.Eventf(&found.reference, related, corev1.EventTypeWarning, string(verdict.Reason), eventAction, "%s", note)
}
