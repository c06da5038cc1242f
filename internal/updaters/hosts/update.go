package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// requestTimeout bounds one request: who asks must still record the answer.
	requestTimeout = 15 * time.Second
	// stepsFor is how long steps are begun one after another within one request, and lookAgain how soon one that has just begun is looked at.
	stepsFor  = 4 * time.Second
	lookAgain = 300 * time.Millisecond
	// soon and later are when to ask again, while steps follow each other, and while one is waited for.
	soon  = 2 * time.Second
	later = 5 * time.Second
	// maxMessage bounds an answer's message, in bytes.
	maxMessage = 2 << 10
)

// attempt is one UpdateMachine request.
type attempt struct {
	machine   types.NamespacedName
	operation string
	// follows says that nobody wants the operation any longer: nothing may begin but what undoes.
	follows bool
	// ahead says that the update may not begin yet: the machine is prepared for it.
	ahead bool
	to    version.Version
	// bootstrap is the desired bootstrap config, and config the name of the one that the Machine refers
	// to; both are empty for a Machine that has none.
	bootstrap json.RawMessage
	config    string
	// worker is set for a Machine without the label of a control plane.
	worker bool
	// node is the name of the Machine's node. prepare sets it.
	node string
}

// CanBegin implements port.Updater: it looks at the host as UpdateMachine does before it begins, and
// brings what the update needs to the host. The node is as before.
func (u *Updater) CanBegin(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Readiness {
	answer := u.answerRequest(ctx, request, u.checkBegin)
	if answer.Outcome == inplace.InProgress {
		return inplace.Readiness{Preparing: answer.Message, RetryAfter: answer.RetryAfter}
	}
	return updaters.Readiness(answer)
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
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	a, err := parseRequest(request)
	if err != nil {
		return updaters.Fails("%v", err)
	}
	unlock, err := u.locks.Lock(ctx, a.machine)
	if err != nil {
		return updaters.Unknown("another request about Machine %s did not end in time: %v", a.machine, err)
	}
	defer unlock()
	answer := serve(ctx, a)
	answer.Message = text.Bound(linuxhost.Mask(answer.Message), maxMessage)
	return answer
}

func parseRequest(request *runtimehooksv1.UpdateMachineRequest) (attempt, error) {
	desired := &request.Desired.Machine
	a := attempt{
		machine:   types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name},
		operation: desired.Annotations[v1alpha1.OperationIDAnnotation],
		follows:   desired.Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation] == "true",
		ahead:     desired.Annotations[v1alpha1.PrefetchAnnotation] == "true",
	}
	_, controlPlane := desired.Labels[clusterv1.MachineControlPlaneLabel]
	a.worker = !controlPlane
	if a.operation == "" || a.machine.Name == "" || a.machine.Namespace == "" {
		return attempt{}, fmt.Errorf("the desired Machine must have a name, a namespace and the annotation %s", v1alpha1.OperationIDAnnotation)
	}
	if strings.ContainsFunc(a.operation, unicode.IsSpace) {
		return attempt{}, fmt.Errorf("the annotation %s must have no blanks", v1alpha1.OperationIDAnnotation)
	}
	var err error
	if a.to, err = computeVersion(desired.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation], desired.Spec.Version); err != nil {
		return attempt{}, err
	}
	objects, err := updaters.SpecObjects(nil, request.Desired.InfrastructureMachine, request.Desired.BootstrapConfig)
	if err != nil {
		return attempt{}, err
	}
	a.bootstrap, a.config = objects.Bootstrap, desired.Spec.Bootstrap.ConfigRef.Name
	return a, nil
}

// serve takes an operation as far as it goes now.
func (u *Updater) serve(ctx context.Context, a attempt) inplace.Answer {
	upgrade, refused := u.prepare(ctx, &a)
	if refused != nil {
		return *refused
	}
	return u.leave(upgrade.Host, u.carry(ctx, a, upgrade))
}

// checkBegin returns a failure if the operation would be refused. Otherwise it prepares the host; it
// returns Finishes if that is done.
func (u *Updater) checkBegin(ctx context.Context, a attempt) inplace.Answer {
	upgrade, refused := u.prepare(ctx, &a)
	if refused != nil {
		return *refused
	}
	upgrade.Prepare = a.ahead
	failure, err := linuxhost.CanBegin(ctx, upgrade)
	if err != nil {
		return u.leave(upgrade.Host, a.answerError(err))
	}
	if failure != nil {
		return u.leave(upgrade.Host, updaters.Fails("%s", failure))
	}
	upgrade.Prepare = true
	p, err := u.advance(ctx, a, upgrade)
	answer := a.answer(p)
	switch {
	case err != nil:
		answer = a.answerError(err)
	case p.Done && !a.ahead:
		// The Pod that may reach the host is needed soon.
		return u.keep(upgrade.Host, answer)
	}
	return u.leave(upgrade.Host, answer)
}

// keep is leave for a host that is asked again soon, whatever the answer.
func (u *Updater) keep(host port.Host, answer inplace.Answer) inplace.Answer {
	u.leave(host, inplace.Answer{Outcome: inplace.InProgress})
	return answer
}

// leave closes the connection to a host after a request, and returns the request's answer. A Pod stays
// until the update's end: it takes longer to start than most steps take. It ends by itself, too.
func (u *Updater) leave(host port.Host, answer inplace.Answer) inplace.Answer {
	if u.options.Config.Pod == nil || answer.Outcome == inplace.Finishes || answer.Outcome == inplace.Fails {
		_ = host.Close() // The answer is there, whatever becomes of the connection.
	}
	return answer
}

// prepare reads what an operation needs, and connects to the host of its Machine. Nothing is begun. If
// refused is not nil, it is the answer, and the host was left.
func (u *Updater) prepare(
	ctx context.Context, a *attempt,
) (upgrade linuxhost.Upgrade, refused *inplace.Answer) {
	machine, err := u.options.Machine(ctx, a.machine)
	switch {
	case apierrors.IsNotFound(err):
		return upgrade, new(updaters.Fails("there is no Machine %s", a.machine))
	case err != nil:
		return upgrade, new(updaters.Unknown("reading Machine %s: %v", a.machine, err))
	}
	digests, err := u.readDigests(ctx, a.machine.Namespace)
	if err != nil {
		return upgrade, new(a.answerError(err))
	}
	goal, err := u.computeGoal(ctx, *a, digests)
	if err != nil {
		return upgrade, new(a.answerError(err))
	}
	target, err := u.computeTarget(ctx, a.machine, machine)
	if err != nil {
		return upgrade, new(a.answerError(err))
	}
	a.node = target.Node
	claim, wrong, err := u.prove(ctx, target, machine)
	if wrong != nil {
		return upgrade, a.refuse(wrong, nil) // The connection could lead to another machine.
	}
	host, invalid := u.options.Connect(ctx, target)
	switch {
	case invalid != nil:
		return upgrade, new(a.answerError(invalid))
	case err == nil:
		wrong, err = claim.check(ctx, goal, host)
	}
	if refused := a.refuse(wrong, err); refused != nil {
		return upgrade, new(u.leave(host, *refused))
	}
	return linuxhost.Upgrade{
		Goal: goal, Host: host, Attempt: a.operation, Proof: claim.proof, Bundle: u.options.Bundle,
		Node: node{nodes: u.options.Nodes, target: target},
	}, nil
}

// refuse returns the answer for a host that is not known to be the Machine's own; nil for the
// Machine's own.
func (a attempt) refuse(wrong *linuxhost.Failure, err error) *inplace.Answer {
	switch {
	case err != nil:
		return new(a.answerError(err))
	case wrong != nil && a.follows:
		return new(updaters.Unknown("%s", wrong))
	case wrong != nil:
		return new(updaters.Fails("%s", wrong))
	}
	return nil
}

func (u *Updater) carry(ctx context.Context, a attempt, upgrade linuxhost.Upgrade) inplace.Answer {
	if a.follows {
		p, err := linuxhost.Follow(ctx, upgrade)
		if err != nil {
			return a.answerError(err)
		}
		return a.answerFollowed(u.note(ctx, a, p))
	}
	p, err := u.advance(ctx, a, upgrade)
	if err != nil {
		return a.answerError(err)
	}
	return a.answer(p)
}

// advance does one thing after another, until its time or the request's is over, or something has
// to be waited for that was not begun just now.
func (u *Updater) advance(
	ctx context.Context, a attempt, upgrade linuxhost.Upgrade,
) (linuxhost.Progress, error) {
	began := u.options.Now()
	worked := false
	for {
		p, err := u.advanceOnce(ctx, a, upgrade)
		if err != nil {
			return p, err
		}
		over := ctx.Err() != nil || u.options.Now().Sub(began) >= stepsFor
		switch {
		case p.Done || p.Failure != nil || over:
			return p, nil
		case !p.Waits():
			worked = true
		case !worked || p.Job.State != linuxhost.JobRunning:
			return p, nil
		default:
			u.options.Pause(ctx, lookAgain)
		}
	}
}

// advanceOnce does one thing, and notes how far the host is; not, however, that preparing is done.
func (u *Updater) advanceOnce(
	ctx context.Context, a attempt, upgrade linuxhost.Upgrade,
) (linuxhost.Progress, error) {
	p, err := linuxhost.Advance(ctx, upgrade)
	if err != nil || upgrade.Prepare && p.Done {
		return p, err
	}
	return u.note(ctx, a, p), nil
}

// answer says how an upgrade goes on.
func (a attempt) answer(p linuxhost.Progress) inplace.Answer {
	switch {
	case p.Done:
		return inplace.Answer{Outcome: inplace.Finishes, Message: a.describeEnd(p)}
	case p.Failure != nil:
		answer := updaters.Fails("%s", p.Failure)
		answer.NotBegun = a.isNotBegun(p)
		return answer
	case p.Waits():
		return inplace.Answer{Outcome: inplace.InProgress, Message: describe(p), RetryAfter: later}
	}
	return inplace.Answer{Outcome: inplace.InProgress, Message: describe(p), RetryAfter: soon}
}

// describeEnd says what the host is at its end, and what is left to do for a person. Whoever asks for
// the update may have cordoned the node, too, and then makes it schedulable.
func (a attempt) describeEnd(p linuxhost.Progress) string {
	message := fmt.Sprintf("the host is at %s", a.to)
	if p.Cordoned {
		message += fmt.Sprintf("; an earlier run cordoned Node %s. Fix: if it stays cordoned, "+
			"kubectl uncordon %s", a.node, a.node)
	}
	return message
}

// answerFollowed says how an upgrade goes on that nobody wants any longer.
func (a attempt) answerFollowed(p linuxhost.Progress) inplace.Answer {
	if p.Done || p.Failure != nil || p.Waits() {
		return a.answer(p)
	}
	answer := updaters.Fails("nothing more is begun: %d of %d steps are done on the host", p.Finished, p.Total)
	answer.NotBegun = a.isNotBegun(p)
	return answer
}

// isNotBegun reports whether it is certain that nothing of the operation was begun: the host's last job is another one's. Parts of a file that were sent do not
// count: they change nothing but what waits to be put in place.
func (a attempt) isNotBegun(p linuxhost.Progress) bool { return p.Job.Attempt != a.operation }

// describe says where an upgrade is.
func describe(p linuxhost.Progress) string {
	message := p.Message
	if message == "" {
		message = "begun"
	}
	if p.Step == "" {
		return message
	}
	message = strings.TrimPrefix(message, fmt.Sprintf("step %s ", p.Step))
	if p.Total == 0 {
		return fmt.Sprintf("step %s: %s", p.Step, message)
	}
	return fmt.Sprintf("step %d of %d, %s: %s", min(p.Finished+1, p.Total), p.Total, p.Step, message)
}

// answerError is the answer where the host did not say how it goes on. What only a person can fix ends an attempt, but not one that nobody wants any longer:
// what was begun may still run.
func (a attempt) answerError(err error) inplace.Answer {
	reason, lasts, after := "", false, time.Duration(0)
	if failed, ok := errors.AsType[*port.HostError](err); ok {
		reason, lasts, after = string(failed.Reason), failed.Lasts(), failed.RetryAfter
	} else if failed, ok := errors.AsType[*setupError](err); ok {
		reason, lasts = failed.reason, true
	}
	message := err.Error()
	if reason != "" {
		message = reason + ": " + message
	}
	if lasts && !a.follows {
		return updaters.Fails("%s", message)
	}
	// The attempt's time runs on: a host that is not reached has not answered.
	return inplace.Answer{Outcome: inplace.Unknown, Message: message, RetryAfter: after}
}

// node is the node on a host. Whoever asks for an update drains it.
type node struct {
	nodes  Nodes
	target Target
}

// Look implements linuxhost.Node.
func (n node) Look(ctx context.Context) inplace.Node {
	return n.nodes.Node(ctx, n.target.Cluster, n.target.Node)
}

var errNotOurs = errors.New("an updater neither drains nor uncordons")

// Drain implements linuxhost.Node.
func (n node) Drain(context.Context) (port.DrainStatus, error) { return port.DrainStatus{}, errNotOurs }

// Uncordon implements linuxhost.Node.
func (n node) Uncordon(context.Context) error { return errNotOurs }
