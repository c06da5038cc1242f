package handover

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/updaters"
)

const (
	// pollInterval is how long to wait before the marks on the Machine are read again.
	pollInterval = 10 * time.Second
	// maxStarts bounds the memory of operations that were handed over. One that is forgotten is handed over again, which the
	// protocol allows.
	maxStarts = 10_000
)

// UpdateMachine implements port.Updater: it hands the machine over, once for each operation id in the life of this process,
// and then watches the marks on the Machine. How long that may take is the caller's matter.
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
	return u.ensureStarted(ctx, request, operation)
}

// readMarks says what the implementer has marked on the Machine about an operation. Marks of other operations mean nothing.
func readMarks(annotations map[string]string, operation string) (answer inplace.Answer, marked bool) {
	if annotations[v1alpha1.UpdatedAnnotation] == operation {
		return inplace.Answer{Outcome: inplace.Finishes, Message: "marked as updated"}, true
	}
	reason, marked := strings.CutPrefix(annotations[v1alpha1.UpdateFailedAnnotation]+":", operation+":")
	if !marked {
		return inplace.Answer{}, false
	}
	reason = strings.TrimSuffix(reason, ":")
	if reason = updaters.CleanMessage(reason); reason == "" {
		reason = "the updater gave no reason"
	}
	return updaters.Fails("%s", reason), true
}

// ensureStarted hands the machine over, if that has not happened.
func (u *Updater) ensureStarted(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, operation string) inplace.Answer {
	unlock, err := u.sending.Lock(ctx, operation)
	if err != nil {
		return updaters.Unknown("it was not waited for: %v", err)
	}
	defer unlock()
	if _, accepted := u.accepted.Get(operation, time.Time{}); accepted {
		return inplace.Answer{Outcome: inplace.InProgress, Message: "handed over; waiting for the mark on the Machine", RetryAfter: pollInterval}
	}
	message, err := u.makeStart(ctx, request, operation)
	if err != nil {
		return updaters.Unknown("%v", err)
	}
	response, err := u.post(ctx, message)
	switch {
	case err != nil:
		return updaters.Unknown("%v", err)
	case !response.Accepted:
		return updaters.Fails("the updater declines: %s", response.Reason)
	}
	u.accepted.Put(operation, struct{}{}, time.Time{}, keyed.Forever)
	return inplace.Answer{Outcome: inplace.InProgress, Message: "handed over", RetryAfter: pollInterval}
}

func (u *Updater) makeStart(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, operation string) (updatesv1.HandOverRequest, error) {
	m := &request.Desired.Machine
	desired, err := updaters.SpecObjects(m, request.Desired.InfrastructureMachine, request.Desired.BootstrapConfig)
	if err != nil {
		return updatesv1.HandOverRequest{}, fmt.Errorf("the desired objects: %w", err)
	}
	owner, err := u.findOwner(ctx, m)
	if err != nil {
		return updatesv1.HandOverRequest{}, err
	}
	return updatesv1.HandOverRequest{
		Phase: updatesv1.Start, OperationID: operation,
		Cluster: updatesv1.ObjectName{Namespace: m.Namespace, Name: m.Spec.ClusterName}, Owner: owner,
		Machines: []updatesv1.ObjectName{{Namespace: m.Namespace, Name: m.Name}},
		Desired:  objectsOf(desired),
	}, nil
}
