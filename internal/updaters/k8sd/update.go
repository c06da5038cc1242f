package k8sd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/recordjson"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// retryAfter is how long a caller should wait until it asks again how a change goes on.
	retryAfter = 5 * time.Second
	// lookFor is how long the kubelet is looked at for a sign of a request whose answer is not known.
	lookFor = 5 * time.Minute
	// recordTimeout bounds a record that is made whether or not the caller still waits.
	recordTimeout = 5 * time.Second
)

// attempt is one UpdateMachine request, and what was read for it.
type attempt struct {
	operation string
	// follows says that nobody wants the operation any longer: nothing may begin.
	follows bool
	option  request.Option
	machine Machine
	record  refresh
}

// CanBegin implements port.Updater: it reads what is recorded, and connects to k8sd without a request.
func (u *Updater) CanBegin(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Readiness {
	return updaters.Readiness(u.answerRequest(ctx, request, u.checkBegin))
}

// UpdateMachine implements port.Updater.
func (u *Updater) UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
	return u.answerRequest(ctx, request, u.serve)
}

// answerRequest answers a request about a machine with what serve returns. No other request about the
// machine is served meanwhile.
func (u *Updater) answerRequest(
	ctx context.Context, request *runtimehooksv1.UpdateMachineRequest,
	serve func(context.Context, attempt) inplace.Answer,
) inplace.Answer {
	if err := ctx.Err(); err != nil {
		return updaters.Unknown("it was not waited for: %v", err)
	}
	desired := &request.Desired.Machine
	a := attempt{operation: desired.Annotations[v1alpha1.OperationIDAnnotation], follows: desired.Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation] == "true"}
	name := types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}
	if a.operation == "" || name.Name == "" || name.Namespace == "" {
		return updaters.Fails("the desired Machine must have a name, a namespace and the annotation %s", v1alpha1.OperationIDAnnotation)
	}
	var err error
	if a.option, err = u.computeOption(desired.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation], desired.Spec.Version); err != nil && !a.follows {
		return updaters.Fails("%v", err)
	}
	unlock, err := u.locks.Lock(ctx, name)
	if err != nil {
		return updaters.Unknown("another request about Machine %s did not end in time: %v", name, err)
	}
	defer unlock()
	if answer, ok := u.readMachine(ctx, name, &a); !ok {
		return answer
	}
	return serve(ctx, a)
}

func (u *Updater) serve(ctx context.Context, a attempt) inplace.Answer {
	if a.follows {
		return u.carryFollow(ctx, a)
	}
	return u.carryOut(ctx, a)
}

// checkBegin returns a failure if only people can make it possible to ask k8sd for a refresh.
func (u *Updater) checkBegin(ctx context.Context, a attempt) inplace.Answer {
	s, err := u.connect(ctx, a.machine)
	if err != nil {
		return connectAnswer(err, a.record)
	}
	s.close()
	return inplace.Answer{Outcome: inplace.InProgress}
}

// readMachine reads the Machine and its record; ok is false where the answer says why not. A record that cannot be read says nothing about what runs.
func (u *Updater) readMachine(ctx context.Context, name types.NamespacedName, a *attempt) (answer inplace.Answer, ok bool) {
	var err error
	a.machine, err = u.options.Machines.Machine(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return updaters.Fails("there is no Machine %s", name), false
	case err != nil:
		return updaters.Unknown("reading Machine %s: %v", name, err), false
	}
	a.record, err = parseRecord(a.machine.Annotations)
	switch {
	case err != nil && a.follows:
		return updaters.Unknown("Machine %s: %v", name, err), false
	case err != nil:
		return updaters.Fails("Machine %s: %v", name, err), false
	}
	return inplace.Answer{}, true
}

// computeOption computes what to refresh to: what an annotation asks for, otherwise the channel of the desired version's minor.
func (u *Updater) computeOption(asked, desired string) (request.Option, error) {
	if asked != "" {
		option, err := request.ParseOption(asked)
		if err != nil {
			return request.Option{}, fmt.Errorf("the annotation %s: %w", v1alpha1.InPlaceUpgradeOptionAnnotation, err)
		}
		exact, ok := option.Exact()
		if !ok {
			return option, nil
		}
		desired = exact.String()
	}
	if u.options.Config.Channel == "" {
		return request.Option{}, errors.New("the updater has no channel for a version; set spec.inProcess.k8sd.channel of the Updater, or ask for a channel=, revision= or localPath=")
	}
	parsed, err := version.Parse(desired)
	if err != nil {
		return request.Option{}, fmt.Errorf("the desired Machine's spec.version: %w", err)
	}
	minor := strings.TrimPrefix(parsed.Minor().String(), "v")
	option, err := request.ParseOption(string(request.Channel) + "=" + strings.ReplaceAll(u.options.Config.Channel, minorVariable, minor))
	if err != nil {
		return request.Option{}, fmt.Errorf("spec.inProcess.k8sd.channel of the Updater: %w", err)
	}
	return option, nil
}

// carryOut takes an operation as far as it goes now.
func (u *Updater) carryOut(ctx context.Context, a attempt) inplace.Answer {
	changeID := a.machine.Annotations[u.changeIDKey()]
	switch computeStep(a.record, changeID, a.operation, a.option) {
	case adopt:
		return u.adopt(ctx, a, changeID)
	case follow:
		return u.follow(ctx, a)
	case outlast:
		return u.outlast(ctx, a)
	case look:
		return u.look(ctx, a)
	case askAgain:
		return u.ask(ctx, a, a.record)
	case report:
		return computeReport(a.record)
	case begin:
	}
	return u.begin(ctx, a)
}

// adopt takes over a change that another controller began.
func (u *Updater) adopt(ctx context.Context, a attempt, changeID string) inplace.Answer {
	adopted := refresh{Operation: a.operation, Requested: u.options.Now().UTC(), ChangeID: changeID, State: running}
	if answer, ok := u.recordFirst(ctx, a, adopted); !ok {
		return answer
	}
	a.record = adopted
	return u.follow(ctx, a)
}

func computeReport(r refresh) inplace.Answer {
	if r.State == failed {
		return updaters.Fails("%s", r.Message)
	}
	return inplace.Answer{Outcome: inplace.Finishes, Message: r.Message}
}

// begin asks for a refresh. The connection is made first, so that hardly anything can keep the request from being made once it is on record.
func (u *Updater) begin(ctx context.Context, a attempt) inplace.Answer {
	intent := refresh{Operation: a.operation, Option: a.option.String(), Requested: u.options.Now().UTC(), State: requesting}
	if a.option.Method == request.LocalPath {
		kubelet, err := u.readKubelet(ctx, a.machine)
		if err != nil {
			return a.certain(updaters.Unknown("nothing was asked for: %v", err))
		}
		intent.Kubelet = kubelet
	}
	return u.ask(ctx, a, intent)
}

// certain notes in an answer by which nothing was asked for whether it is certain that nothing of the operation has begun: neither by it, nor by what is on
// record, which may be of an earlier attempt of the same upgrade.
func (a attempt) certain(answer inplace.Answer) inplace.Answer {
	switch a.record.State {
	case "", notSent:
		answer.NotBegun = true
	case done, failed:
		answer.NotBegun = a.record.Operation != a.operation
	case requesting, running:
	}
	return answer
}

// ask makes the request for a refresh. intent goes on record before it, unless it is there already.
func (u *Updater) ask(ctx context.Context, a attempt, intent refresh) inplace.Answer {
	s, err := u.connect(ctx, a.machine)
	if err != nil {
		return a.certain(connectAnswer(err, a.record))
	}
	defer s.close()
	before := a
	if a.record.Operation != intent.Operation || a.record.State != requesting {
		if answer, ok := u.recordFirst(ctx, a, intent); !ok {
			return a.certain(answer)
		}
		a.record = intent
	}
	var result refreshAnswer
	if err := s.post(ctx, refreshPath, map[string]string{string(a.option.Method): a.option.Value}, &result); err != nil {
		return u.notBegun(ctx, a, before, s, err)
	}
	if result.ChangeID == "" {
		return u.end(ctx, a, done, "nothing to refresh: "+a.option.String()+" is installed")
	}
	begun := intent
	begun.ChangeID, begun.State = string(result.ChangeID), running
	answer := inProgress("refreshing to %s: change %s has begun", a.option, result.ChangeID)
	if err := u.recordAfter(ctx, a, begun); err != nil {
		answer.Message += "; recording it: " + err.Error()
	}
	return answer
}

// connectAnswer is the answer where a node was not reached. What only people can fix fails, where nothing may run on the node.
func connectAnswer(err error, r refresh) inplace.Answer {
	if _, ok := errors.AsType[*setupError](err); ok && r.State != running && r.State != requesting {
		return updaters.Fails("%v", err)
	}
	return updaters.Unknown("%v", err)
}

// notBegun is the answer where k8sd did not say that a refresh has begun. before is the attempt as it was before this request.
func (u *Updater) notBegun(ctx context.Context, a, before attempt, s *session, err error) inplace.Answer {
	var refused *refusedError
	switch {
	case !s.sent():
		return u.retract(ctx, a, before, updaters.Unknown("%v", err))
	case !errors.As(err, &refused) || !refused.isAnswered():
		return updaters.Unknown("%v; whether the refresh has begun is not known", err)
	case refused.isUnavailable():
		return u.retract(ctx, a, before, inProgress("waiting until k8sd is ready: %v", refused))
	case refused.isConflict() && a.option.Method == request.LocalPath:
		// It must not stay open whether this request was accepted: it could not be made again.
		return u.retract(ctx, a, before, busy(refused))
	case refused.isConflict():
		return busy(refused)
	default:
		return u.end(ctx, a, failed, refused.Error()+refused.advice(a.option))
	}
}

// retract records that the request was not made after all. Of one before it, whose answer is not known, it says nothing.
func (u *Updater) retract(ctx context.Context, a, before attempt, answer inplace.Answer) inplace.Answer {
	answer = before.certain(answer)
	retracted := a.record
	retracted.State = notSent
	if before.record.State == requesting {
		retracted = before.record
	}
	if err := u.recordAfter(ctx, a, retracted); err != nil {
		answer.Outcome, answer.RetryAfter = inplace.Unknown, 0
		answer.Message = fmt.Sprintf("%s; recording that nothing was begun: %v", answer.Message, err)
	}
	return answer
}

// changeDone is the status of a change that ended well.
const changeDone = "Done"

// changeStatus is how a change goes on.
type changeStatus struct {
	Status       string `json:"status"`
	Completed    bool   `json:"completed"`
	ErrorMessage string `json:"errorMessage"`
}

// forgotten says that snapd does not know the change: k8sd decodes snapd's error as a change without a status.
func (s changeStatus) forgotten() bool { return s.Status == "" && !s.Completed }

// poll asks how the recorded change goes on. forgotten says that snapd does not know it.
func (u *Updater) poll(ctx context.Context, a attempt) (status changeStatus, forgotten bool, err error) {
	s, err := u.connect(ctx, a.machine)
	if err != nil {
		return changeStatus{}, false, err
	}
	defer s.close()
	err = s.post(ctx, statusPath, map[string]string{"changeId": a.record.ChangeID}, &status)
	status.Status, status.ErrorMessage = s.clean(status.Status), s.clean(status.ErrorMessage)
	return status, err == nil && status.forgotten(), err
}

// follow says how the operation's change goes on.
func (u *Updater) follow(ctx context.Context, a attempt) inplace.Answer {
	id := a.record.ChangeID
	status, forgotten, err := u.poll(ctx, a)
	switch {
	case err != nil:
		return updaters.Unknown("change %s: %v", id, err)
	case forgotten:
		return u.end(ctx, a, failed, fmt.Sprintf("k8sd does not know change %s any more, so nobody knows how it ended; look at `snap changes k8s` and `snap list k8s` on the node", id))
	case !status.Completed:
		return inProgress("change %s is %s", id, status.Status)
	case status.Status == changeDone:
		return u.end(ctx, a, done, "change "+id+" is done")
	default:
		return u.end(ctx, a, failed, fmt.Sprintf("change %s ended as %s: %s", id, status.Status, status.ErrorMessage))
	}
}

// outlast waits for the change of an earlier operation, however that ends, and begins.
func (u *Updater) outlast(ctx context.Context, a attempt) inplace.Answer {
	status, forgotten, err := u.poll(ctx, a)
	switch {
	case err != nil:
		return updaters.Unknown("change %s of an earlier attempt: %v", a.record.ChangeID, err)
	case !forgotten && !status.Completed:
		return inProgress("waiting for change %s of an earlier attempt, which is %s", a.record.ChangeID, status.Status)
	case !forgotten && status.Status == changeDone && a.record.Option == a.option.String():
		return u.end(ctx, a, done, "change "+a.record.ChangeID+" of an earlier attempt is done")
	default:
		return u.begin(ctx, a)
	}
}

// look finds out by the kubelet whether a request to install a file was accepted whose answer is not known: asking again would install it again.
func (u *Updater) look(ctx context.Context, a attempt) inplace.Answer {
	kubelet, err := u.readKubelet(ctx, a.machine)
	now := u.options.Now()
	requested := u.clock.Past(a.machine.Name.Namespace, a.record.Requested, now)
	switch {
	case err != nil:
		return updaters.Unknown("whether the refresh to %s has begun is not known: %v", a.option, err)
	case kubelet != a.record.Kubelet:
		return u.end(ctx, a, done, fmt.Sprintf("the kubelet of node %s was at %s and is at %s", a.machine.Node, a.record.Kubelet, kubelet))
	case record.Left(requested, lookFor, now) > 0:
		return inProgress("whether the refresh to %s has begun is not known; waiting for the kubelet of node %s to change", a.option, a.machine.Node)
	case a.record.Operation != a.operation:
		// Somebody wants it tried again, and enough time has passed for what was asked for before.
		return u.begin(ctx, a)
	default:
		return u.end(ctx, a, failed, fmt.Sprintf(
			"the answer to the request for %s was lost, and the kubelet of node %s is still at %s; look at `snap changes k8s` on the node: if a refresh ended there, all is done; if none was begun, ask for a new attempt",
			a.option, a.machine.Node, kubelet))
	}
}

func (u *Updater) readKubelet(ctx context.Context, m Machine) (string, error) {
	if m.Node == "" {
		return "", fmt.Errorf("the Machine %s has no node yet", m.Name)
	}
	kubelet, err := u.options.Kubelet(ctx, m.cluster(), m.Node)
	if err != nil {
		return "", fmt.Errorf("reading the kubelet version of node %s: %w", m.Node, err)
	}
	return kubelet, nil
}

// end records how an operation ended, and says so. Where that cannot be recorded, it is found out again by the next request.
func (u *Updater) end(ctx context.Context, a attempt, how state, message string) inplace.Answer {
	ended := a.record
	ended.Operation, ended.State, ended.Message = a.operation, how, message
	if !a.follows {
		ended.Option = a.option.String()
	}
	if err := u.recordAfter(ctx, a, ended); err != nil {
		return updaters.Unknown("%s; recording that: %v", message, err)
	}
	return computeReport(ended)
}

func (u *Updater) changeIDKey() string { return u.options.Prefix + v1alpha1.InPlaceUpgradeChangeID }

// recordFirst records what is about to be done, unless the Machine has changed since it was read; ok is false where the answer says why not.
func (u *Updater) recordFirst(ctx context.Context, a attempt, r refresh) (answer inplace.Answer, ok bool) {
	err := u.write(ctx, a.machine, a.machine.ResourceVersion, r)
	switch {
	case apierrors.IsConflict(err):
		return inProgress("the Machine changed meanwhile; nothing was asked for yet"), false
	case err != nil:
		return updaters.Unknown("nothing was asked for: %v", err), false
	}
	return inplace.Answer{}, true
}

// recordAfter records what has happened, whether or not the caller still waits.
func (u *Updater) recordAfter(ctx context.Context, a attempt, r refresh) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return u.write(ctx, a.machine, "", r)
}

// write writes a record, and beside it the change that goes on, as other controllers know it.
func (u *Updater) write(ctx context.Context, machine Machine, resourceVersion string, r refresh) error {
	content, err := recordjson.Encode(r, machine.Annotations[v1alpha1.RefreshAnnotation])
	if err != nil {
		return fmt.Errorf("writing the refresh: %w", err)
	}
	changes := map[string]*string{v1alpha1.RefreshAnnotation: &content, u.changeIDKey(): nil}
	if r.State == running {
		changes[u.changeIDKey()] = &r.ChangeID
	}
	if err := u.options.Machines.Annotate(ctx, machine.Name, resourceVersion, changes); err != nil {
		return fmt.Errorf("annotating Machine %s: %w", machine.Name, err)
	}
	return nil
}

func busy(e *refusedError) inplace.Answer {
	return inProgress("waiting for another change of the snap, which `snap changes` on the node lists: %v", e)
}

func inProgress(format string, args ...any) inplace.Answer {
	return inplace.Answer{Outcome: inplace.InProgress, Message: fmt.Sprintf(format, args...), RetryAfter: retryAfter}
}
