package handover

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/updaters"
)

const (
	// pollInterval is how long to wait before the marks on the Machine are read again.
	pollInterval = 5 * time.Second
	// maxStarts bounds the memory of operations that were handed over. One that is forgotten is handed over again, which the
	// protocol allows.
	maxStarts = 10_000
)

// UpdateMachine implements port.Updater: it hands the machine over, once for each operation id in the life of this process,
// and then watches the marks on the Machine. Where the attempt must end it cancels it. How long an attempt may take is the
// caller's matter.
func (u *Updater) UpdateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Answer {
	if err := ctx.Err(); err != nil {
		return updaters.Unknown("it was not waited for: %v", err)
	}
	m := &request.Desired.Machine
	name, operation := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, m.Annotations[v1alpha1.OperationIDAnnotation]
	if name.Name == "" || operation == "" {
		return updaters.Fails("the desired Machine has no name or no annotation %s", v1alpha1.OperationIDAnnotation)
	}
	annotations, err := u.options.MachineAnnotations(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return updaters.Fails("there is no Machine %s", name)
	case err != nil:
		return updaters.Unknown("reading Machine %s: %v", name, err)
	}
	if answer, marked := readMarks(annotations, operation); marked {
		u.accepted.Forget(operation)
		return answer
	}
	if why := m.Annotations[v1alpha1.CancelAnnotation]; why != "" {
		return u.cancel(ctx, request, operation, why)
	}
	message := cmp.Or(readMessage(annotations, operation), "handed over; waiting for the mark on the Machine")
	if m.Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation] == "true" {
		// Nothing may begin. An implementer that has not been handed the machine would begin with a Start.
		return inplace.Answer{Outcome: inplace.InProgress, Message: message, RetryAfter: pollInterval}
	}
	return u.ensureStarted(ctx, request, operation, message)
}

// readMarks says what the implementer has marked on the Machine about an operation. Marks of other operations mean nothing.
func readMarks(annotations map[string]string, operation string) (answer inplace.Answer, marked bool) {
	if annotations[v1alpha1.UpdatedAnnotation] == operation {
		return inplace.Answer{Outcome: inplace.Finishes, Message: "marked as updated"}, true
	}
	reason, marked := readAbout(annotations[v1alpha1.UpdateFailedAnnotation], operation)
	if !marked {
		return inplace.Answer{}, false
	}
	return updaters.Fails("%s", cmp.Or(reason, "the updater gave no reason")), true
}

// readMessage returns what the implementer has written on the Machine about how an operation goes on; empty for nothing.
func readMessage(annotations map[string]string, operation string) string {
	message, _ := readAbout(annotations[v1alpha1.UpdateMessageAnnotation], operation)
	return message
}

// readAbout returns the text of a mark, in one bounded line, if it is about an operation.
func readAbout(mark, operation string) (text string, about bool) {
	text, about = strings.CutPrefix(mark+":", operation+":")
	if !about {
		return "", false
	}
	return updaters.CleanMessage(strings.TrimSuffix(text, ":")), true
}

// cancel tells the implementer that the attempt must end.
func (u *Updater) cancel(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, operation, why string) inplace.Answer {
	message, err := u.aboutMachine(ctx, &request.Desired.Machine)
	if err != nil {
		return updaters.Unknown("%v", err)
	}
	message.Phase, message.OperationID, message.Reason = updatesv1.Cancel, operation, why
	response, err := u.Send(ctx, message)
	switch {
	case err != nil:
		return updaters.Unknown("%v", err)
	case !response.Accepted:
		return inplace.Answer{Outcome: inplace.InProgress, Message: "the updater does not stop: " + response.Reason, RetryAfter: pollInterval}
	}
	u.accepted.Forget(operation)
	return updaters.Fails("%s; the updater was told to stop, and has stopped", why)
}

// ensureStarted hands the machine over, if that has not happened. progress is the answer where it has.
func (u *Updater) ensureStarted(
	ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, operation, progress string,
) inplace.Answer {
	unlock, err := u.sending.Lock(ctx, operation)
	if err != nil {
		return updaters.Unknown("it was not waited for: %v", err)
	}
	defer unlock()
	if _, accepted := u.accepted.Get(operation, time.Time{}); accepted {
		return inplace.Answer{Outcome: inplace.InProgress, Message: progress, RetryAfter: pollInterval}
	}
	message, err := u.makeStart(ctx, request, operation)
	if err != nil {
		return updaters.Unknown("%v", err)
	}
	response, err := u.Send(ctx, message)
	switch {
	case err != nil:
		return updaters.Unknown("%v", err)
	case !response.Accepted:
		return updaters.Fails("the updater declines: %s", response.Reason)
	}
	u.accepted.Put(operation, struct{}{}, time.Time{}, keyed.Forever)
	return inplace.Answer{Outcome: inplace.InProgress, Message: "handed over", RetryAfter: pollInterval}
}

func (u *Updater) makeStart(
	ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, operation string,
) (updatesv1.HandOverRequest, error) {
	m := &request.Desired.Machine
	desired, err := updaters.SpecObjects(m, request.Desired.InfrastructureMachine, request.Desired.BootstrapConfig)
	if err != nil {
		return updatesv1.HandOverRequest{}, fmt.Errorf("the desired objects: %w", err)
	}
	start, err := u.aboutMachine(ctx, m)
	if err != nil {
		return updatesv1.HandOverRequest{}, err
	}
	start.Phase, start.OperationID, start.Desired = updatesv1.Start, operation, new(objectsOf(desired))
	if deadline, err := time.Parse(time.RFC3339, m.Annotations[v1alpha1.DeadlineAnnotation]); err == nil {
		start.Deadline = metav1.NewTime(deadline)
	}
	return start, nil
}

// aboutMachine returns a request about one Machine, without a phase.
func (u *Updater) aboutMachine(ctx context.Context, m *clusterv1.Machine) (updatesv1.HandOverRequest, error) {
	owner, err := u.findOwner(ctx, m)
	return updatesv1.HandOverRequest{
		Cluster: updatesv1.ObjectName{Namespace: m.Namespace, Name: m.Spec.ClusterName}, Owner: owner,
		Machines: []updatesv1.ObjectName{{Namespace: m.Namespace, Name: m.Name}},
	}, err
}
